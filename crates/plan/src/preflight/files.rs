//! Checks of what is fetched, and of keys and secrets.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use x509_parser::pem::Pem;

use super::targets::Targets;
use super::{Fact, Report, Site};

const DAY: i64 = 24 * 60 * 60;
/// An install takes hours at most; what ends within a week is forgotten.
const SOON: i64 = 7 * DAY;
/// No operating system fits into less.
const SMALLEST: u64 = 16 << 20;

/// Image sources and their checksums.
fn images(site: &Site) -> Vec<(String, Option<String>)> {
    Targets::of(site.plan, site.config)
        .images
        .into_iter()
        .collect()
}

const NO_IMAGES: &str = "nothing is fetched: images come from the cache";

pub fn image_reachable(site: &Site, report: &mut Report) {
    let images = images(site);
    if images.is_empty() {
        report.pass("images", NO_IMAGES);
    }
    for (source, _) in images {
        match site.observed.images.get(&source) {
            Some(Fact::Known(_)) => report.pass(source, "it can be fetched"),
            Some(Fact::Unknown(why)) => report.bad(
                source,
                format!("it cannot be fetched: {why}"),
                "correct the address, or open the way to it; servers fetch it as well",
            ),
            Some(Fact::Unasked) | None => report.unknown(source, "it was not asked for"),
        }
    }
}

pub fn image_size(site: &Site, report: &mut Report) {
    let images = images(site);
    if images.is_empty() {
        report.pass("images", NO_IMAGES);
    }
    for (source, _) in images {
        let fact = site.observed.images.get(&source).unwrap_or(&Fact::Unasked);
        let Some(image) = report.known(&source, fact) else {
            continue;
        };
        match image.size {
            None => report.unknown(source, "the server does not say its size"),
            Some(size) if size >= SMALLEST => {
                report.pass(source, format!("it has {} MiB", size >> 20));
            }
            Some(size) => report.bad(
                source,
                format!("it has {size} bytes, which can be no image"),
                "look at what the address gives: often it is a page that says why not",
            ),
        }
    }
}

pub fn image_checksum(site: &Site, report: &mut Report) {
    let images = images(site);
    if images.is_empty() {
        report.pass("images", NO_IMAGES);
    }
    for (source, planned) in images {
        let fact = site.observed.images.get(&source).unwrap_or(&Fact::Unasked);
        let Some(image) = report.known(&source, fact) else {
            continue;
        };
        match (&image.sha256, planned) {
            (_, None) => report.warn(
                source,
                "no checksum is given: nobody would notice another file",
                "write its sha256",
            ),
            (None, Some(_)) => report.pass(
                source,
                "its checksum is looked at when it is fetched; --verify-image does it now",
            ),
            (Some(is), Some(planned)) if is.eq_ignore_ascii_case(&planned) => {
                report.pass(source, "its checksum is right");
            }
            (Some(is), Some(planned)) => report.bad(
                source,
                format!("its sha256 is {is}, and the file says {planned}"),
                "correct the checksum in install-config.yaml, if the image is the one you mean",
            ),
        }
    }
}

pub fn image_cached(site: &Site, report: &mut Report) {
    let wanted = Targets::of(site.plan, site.config).cached;
    let Some(cached) = report.known("cache", &site.observed.cached) else {
        return;
    };
    for source in wanted {
        if cached.get(&source) == Some(&true) {
            report.pass(source, "it is in the cache");
        } else {
            let name = source.trim_start_matches("cache:");
            report.bad(
                &source,
                "it is not in the cache: the install begins with building it, for minutes, from Debian's packages",
                format!("plinth image build {name}"),
            );
        }
    }
}

pub fn pull_secret(site: &Site, report: &mut Report) {
    const FIELD: &str = "pullSecret";
    let Some(secret) = &site.config.pull_secret else {
        report.pass(FIELD, "nothing is pulled from a registry");
        return;
    };
    let auths = serde_json::from_str::<Value>(secret.expose());
    let auths = auths
        .ok()
        .and_then(|value| value.get("auths")?.as_object().cloned());
    let Some(auths) = auths.filter(|auths| !auths.is_empty()) else {
        report.bad(
            FIELD,
            "it has no auths",
            "copy it again from where you got it",
        );
        return;
    };
    let mut good = true;
    for (registry, entry) in &auths {
        let auth = entry.get("auth").and_then(Value::as_str);
        // Never said: what is inside.
        let login = auth.and_then(|auth| STANDARD.decode(auth).ok());
        let pair = login.and_then(|login| String::from_utf8(login).ok());
        if !pair.is_some_and(|pair| {
            pair.split_once(':')
                .is_some_and(|(user, password)| !user.is_empty() && !password.is_empty())
        }) {
            good = false;
            report.bad(
                format!("{FIELD} {registry}"),
                "its auth is not user:password in base64",
                "copy it again; an entry that was cut short lets nobody in",
            );
        }
    }
    if good {
        report.pass(
            FIELD,
            format!(
                "it has a login for {}",
                auths.keys().cloned().collect::<Vec<_>>().join(", ")
            ),
        );
    }
}

/// Kinds that OpenSSH no longer accepts by default, or that are too short.
pub fn ssh_key(site: &Site, report: &mut Report) {
    const FIELD: &str = "sshKey";
    if site.config.ssh_keys.is_empty() {
        report.bad(
            FIELD,
            "there is none: nobody can log in to a node that does not come up",
            "write the public key of an engineer",
        );
    }
    for key in &site.config.ssh_keys {
        let mut words = key.split_whitespace();
        let (kind, data) = (
            words.next().unwrap_or_default(),
            words.next().unwrap_or_default(),
        );
        let name = words.next().unwrap_or(kind);
        let bytes = STANDARD.decode(data).unwrap_or_default();
        // The key begins with its own kind, as a length and a word (RFC 4253, 6.6).
        let inner = bytes
            .split_first_chunk::<4>()
            .and_then(|(length, rest)| rest.get(..u32::from_be_bytes(*length) as usize));
        if inner != Some(kind.as_bytes()) {
            report.bad(
                format!("{FIELD} {name}"),
                format!("it calls itself {kind}, and is something else inside"),
                "copy the whole line of the .pub file",
            );
        } else if kind == "ssh-dss" || (kind == "ssh-rsa" && bytes.len() < 279) {
            report.bad(
                format!("{FIELD} {name}"),
                "OpenSSH of today refuses such a key: DSA, or RSA of less than 2048 bits",
                "make a new one: ssh-keygen -t ed25519",
            );
        } else {
            report.pass(format!("{FIELD} {name}"), format!("it is an {kind} key"));
        }
    }
}

pub fn trust_bundle(site: &Site, report: &mut Report) {
    const FIELD: &str = "additionalTrustBundle";
    let Some(bundle) = &site.config.trust_bundle else {
        report.pass(FIELD, "there is none");
        return;
    };
    for pem in Pem::iter_from_buffer(bundle.pem.as_bytes()).flatten() {
        let Ok(certificate) = pem.parse_x509() else {
            report.bad(
                FIELD,
                "a certificate in it cannot be read",
                "take it out, or copy it again",
            );
            continue;
        };
        let subject = format!("{FIELD} {}", certificate.subject());
        dates(
            site.observed.now,
            report,
            &subject,
            certificate.validity().not_before.timestamp(),
            certificate.validity().not_after.timestamp(),
            "replace it by the one that came after it",
        );
    }
}

pub fn pki(site: &Site, report: &mut Report) {
    let Some(certificates) = report.known("tls", &site.observed.certificates) else {
        return;
    };
    if certificates.is_empty() {
        report.pass("tls", "keys are made when they are first needed");
    }
    for certificate in certificates {
        dates(
            site.observed.now,
            report,
            &format!("tls/{}.crt", certificate.name),
            certificate.not_before,
            certificate.not_after,
            "plinth create ignition-configs makes those anew that have ended; begin soon after",
        );
    }
}

fn dates(
    now: i64,
    report: &mut Report,
    subject: &str,
    not_before: i64,
    not_after: i64,
    remedy: &str,
) {
    let days = (not_after - now) / DAY;
    if now < not_before {
        report.bad(subject, "it is not valid yet", "set this machine's clock");
    } else if now >= not_after {
        report.bad(subject, "it has ended", remedy);
    } else if not_after - now < SOON && not_after - not_before > SOON {
        report.warn(subject, format!("it ends in {days} days"), remedy);
    } else {
        report.pass(subject, format!("it is valid for {days} more days"));
    }
}
