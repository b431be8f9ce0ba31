//! Checks of names and time.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::observed::{Answer, Resolver};
use super::targets::Names;
use super::{Report, Site};

/// Certificates are backdated by an hour, but elections of etcd and tokens are not.
const SKEW_MS: u64 = 2_000;
/// 2026-01-01: this program is not older.
const SANE_FROM: i64 = 1_767_225_600;
/// 2100-01-01: a clock beyond is a wrong one.
const SANE_UNTIL: i64 = 4_102_444_800;

pub fn upstream(site: &Site, report: &mut Report) {
    let Some(resolvers) = report.known("DNS", &site.observed.dns) else {
        return;
    };
    if resolvers.is_empty() {
        report.bad(
            "DNS",
            "there is no name server",
            "name one in /etc/resolv.conf, or in bootstrapExternalStaticDNS",
        );
    }
    for resolver in resolvers {
        let silent = |answer: &Answer| match answer {
            Answer::Silent(why) => Some(why.clone()),
            Answer::Addresses(_) | Answer::Nothing => None,
        };
        let reasons: Vec<String> = resolver.answers.values().filter_map(silent).collect();
        if reasons.len() < resolver.answers.len() {
            report.pass(resolver.server, "it answers");
        } else {
            report.bad(
                resolver.server,
                format!(
                    "it does not answer: {}",
                    reasons.first().map_or("", String::as_str)
                ),
                "correct its address, or start it; nodes wait for it at every name",
            );
        }
    }
}

pub fn api(site: &Site, report: &mut Report) {
    let name = Names::of(&site.plan.cluster.domain).api;
    points_at(site, report, &name, &site.plan.api_vips(), Absent::IsBad);
}

pub fn apps(site: &Site, report: &mut Report) {
    let name = Names::of(&site.plan.cluster.domain).apps;
    points_at(
        site,
        report,
        &name,
        &site.plan.ingress_vips(),
        Absent::IsBad,
    );
}

pub fn api_int(site: &Site, report: &mut Report) {
    let name = Names::of(&site.plan.cluster.domain).api_int;
    // The nodes answer this one themselves, unless the site does.
    let absent = if site.plan.cluster.internal_dns_records {
        Absent::IsFine
    } else {
        Absent::IsBad
    };
    points_at(site, report, &name, &site.plan.api_vips(), absent);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Absent {
    IsBad,
    IsFine,
}

fn points_at(site: &Site, report: &mut Report, name: &str, vips: &[IpAddr], absent: Absent) {
    let Some(resolvers) = report.known(name, &site.observed.dns) else {
        return;
    };
    let wanted: BTreeSet<IpAddr> = vips.iter().copied().collect();
    let shown = shown(&wanted);
    let mut answered = false;
    for Resolver { server, answers } in resolvers {
        match answers.get(name) {
            None | Some(Answer::Silent(_)) => continue,
            Some(Answer::Nothing) if absent == Absent::IsFine => {
                report.pass(name, format!("{server} does not know it; the nodes do"));
            }
            // Where the nodes know the name, the install does not need the site to.
            Some(Answer::Nothing) if site.plan.cluster.internal_dns_records => report.warn(
                name,
                format!("{server} does not know it"),
                format!("add a record with {shown}, for those who use the cluster from outside"),
            ),
            Some(Answer::Nothing) => report.bad(
                name,
                format!("{server} does not know it, and the records are the site's (External)"),
                format!("add a record with {shown}"),
            ),
            Some(Answer::Addresses(has)) => {
                let has: BTreeSet<IpAddr> = has.iter().copied().collect();
                if has == wanted {
                    report.pass(name, format!("{server} says {shown}"));
                } else {
                    report.bad(
                        name,
                        format!("{server} says {}, and the plan {shown}", self::shown(&has)),
                        "correct the record, or the VIPs",
                    );
                }
            }
        }
        answered = true;
    }
    if !answered {
        report.unknown(name, "no name server answers");
    }
}

fn shown(addresses: &BTreeSet<IpAddr>) -> String {
    addresses
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(" and ")
}

pub fn no_catch_all(site: &Site, report: &mut Report) {
    let domain = &site.plan.cluster.domain;
    let name = Names::of(domain).nobody;
    let Some(resolvers) = report.known(&name, &site.observed.dns) else {
        return;
    };
    let mut answered = false;
    for resolver in resolvers {
        match resolver.answers.get(&name) {
            None | Some(Answer::Silent(_)) => continue,
            Some(Answer::Nothing) => {
                report.pass(domain, format!("{} invents no names", resolver.server));
            }
            Some(Answer::Addresses(has)) => report.bad(
                domain,
                format!(
                    "{} answers for any name of the domain, with {}",
                    resolver.server,
                    shown(&has.iter().copied().collect())
                ),
                format!(
                    "make the record *.apps.{domain}, not *.{domain}: node names would lead astray"
                ),
            ),
        }
        answered = true;
    }
    if !answered {
        report.unknown(domain, "no name server answers");
    }
}

pub fn ntp(site: &Site, report: &mut Report) {
    let servers = &site.plan.cluster.ntp_servers;
    if servers.is_empty() {
        report.pass("NTP", "none is named: nodes use those of their image");
    }
    for server in servers {
        match site.observed.ntp.get(server) {
            Some(super::Fact::Known(_)) => report.pass(server, "it answers"),
            Some(super::Fact::Unknown(why)) => report.bad(
                server,
                format!("it does not answer: {why}"),
                "correct additionalNTPServers, or open UDP 123",
            ),
            Some(super::Fact::Unasked) | None => report.unknown(server, "it was not asked"),
        }
    }
}

pub fn skew(site: &Site, report: &mut Report) {
    let servers = &site.plan.cluster.ntp_servers;
    if servers.is_empty() {
        report.pass("NTP", "there is none to compare this machine's clock with");
    }
    for server in servers {
        let fact = site
            .observed
            .ntp
            .get(server)
            .unwrap_or(&super::Fact::Unasked);
        let Some(ahead) = report.known(server, fact) else {
            continue;
        };
        if ahead.unsigned_abs() <= SKEW_MS {
            report.pass(
                server,
                format!("this machine's clock is within {} ms", ahead.unsigned_abs()),
            );
        } else {
            report.bad(
                server,
                format!("this machine's clock differs by {ahead} ms"),
                "let this machine's clock be set by NTP: certificates are made by it",
            );
        }
    }
}

pub fn clock(site: &Site, report: &mut Report) {
    let now = site.observed.now;
    if (SANE_FROM..SANE_UNTIL).contains(&now) {
        report.pass("this machine", "its clock is in the years it should be");
    } else {
        report.bad(
            "this machine",
            format!("its clock says {now} s since 1970, which cannot be"),
            "set the clock: certificates made now would be worthless",
        );
    }
}
