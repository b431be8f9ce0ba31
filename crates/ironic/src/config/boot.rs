//! The section `boot`: how servers boot from us.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::{Ipv4Net, Ipv6Net};
use model::Mac;
use serde::Deserialize;

use super::Tls;

/// What boot services there are on which link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boot {
    pub interface: String,
    /// Ours on the interface.
    pub address: Ipv4Addr,
    pub subnet: Ipv4Net,
    pub dhcp: Dhcp,
    pub dhcp6: Option<Dhcp6>,
    pub tftp_port: u16,
    pub http_port: u16,
    pub loaders: PathBuf,
    pub ramdisk: Option<Ramdisk>,
    pub media: Media,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dhcp {
    pub mode: Mode,
    pub ranges: Vec<RangeInclusive<Ipv4Addr>>,
    pub lease: Duration,
    /// Known MAC addresses only are answered.
    pub known_only: bool,
    pub hosts: Vec<Host>,
    pub router: Option<Ipv4Addr>,
    pub dns: Vec<Ipv4Addr>,
    pub ntp: Vec<Ipv4Addr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Server,
    /// Boot files beside another server that gives addresses.
    Proxy,
    Off,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    pub mac: Mac,
    pub address: Option<Ipv4Addr>,
    pub hostname: Option<String>,
}

/// IPv6 beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dhcp6 {
    /// Ours on the interface.
    pub address: Ipv6Addr,
    pub prefix: Ipv6Net,
    pub range: RangeInclusive<Ipv6Addr>,
}

/// The agent's system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ramdisk {
    pub kernel: PathBuf,
    pub initrd: PathBuf,
    /// GRUB for CDs; beside the kernel where it is not said.
    pub uefi_loader: PathBuf,
    pub bios_loader: PathBuf,
    pub append: String,
    /// Directories that a node's own kernel and ramdisk may come from.
    pub directories: Vec<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Media {
    pub port: u16,
    pub by: MediaBy,
    /// Where BMCs find us, if that is not our address on the interface.
    pub url: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MediaBy {
    /// A certificate of our own making.
    OwnTls,
    Tls(Tls),
    Http,
}

/// As written.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Written {
    interface: String,
    address: String,
    dhcp: WrittenDhcp,
    dhcp6: Option<WrittenDhcp6>,
    tftp_port: u16,
    http_port: u16,
    loaders: String,
    ramdisk: Option<WrittenRamdisk>,
    media: WrittenMedia,
}

impl Default for Written {
    fn default() -> Self {
        Self {
            interface: String::new(),
            address: String::new(),
            dhcp: WrittenDhcp::default(),
            dhcp6: None,
            tftp_port: 69,
            http_port: 6180,
            loaders: "/usr/lib/ipxe".into(),
            ramdisk: None,
            media: WrittenMedia::default(),
        }
    }
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct WrittenDhcp {
    mode: String,
    ranges: Vec<String>,
    lease: u32,
    allow: String,
    hosts: Vec<WrittenHost>,
    router: Option<String>,
    dns: Vec<String>,
    ntp: Vec<String>,
}

impl Default for WrittenDhcp {
    fn default() -> Self {
        Self {
            mode: "server".into(),
            ranges: Vec::new(),
            lease: 3600,
            allow: "all".into(),
            hosts: Vec::new(),
            router: None,
            dns: Vec::new(),
            ntp: Vec::new(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenHost {
    mac: String,
    #[serde(default)]
    address: Option<String>,
    #[serde(default)]
    hostname: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenDhcp6 {
    address: String,
    range: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRamdisk {
    kernel: String,
    initrd: String,
    #[serde(default)]
    uefi_loader: Option<String>,
    #[serde(default)]
    bios_loader: Option<String>,
    #[serde(default)]
    append: Option<String>,
    #[serde(default)]
    directories: Vec<String>,
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct WrittenMedia {
    port: u16,
    tls: Option<WrittenTls>,
    http: bool,
    url: Option<String>,
}

impl Default for WrittenMedia {
    fn default() -> Self {
        Self {
            port: 6183,
            tls: None,
            http: false,
            url: None,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenTls {
    certificate: String,
    key: String,
}

/// What a kernel of ours is told if nothing else is said: consoles for people, and an end to a panic.
pub const APPEND: &str = "console=tty0 console=ttyS0,115200 quiet panic=30 mitigations=off";

/// Every problem goes to `problems`, with its path.
pub fn resolve(written: Written, problems: &mut Vec<String>) -> Option<Boot> {
    let before = problems.len();
    let mut check = Check { problems };
    if !is_link(&written.interface) {
        check.tell(
            "interface",
            "must be the name of the network interface to serve",
        );
    }
    let net: Option<Ipv4Net> = check.parse(
        "address",
        &written.address,
        "an address with its prefix, such as 172.22.0.3/24",
    );
    let dhcp = check.dhcp(written.dhcp, net);
    let dhcp6 = written.dhcp6.and_then(|dhcp6| check.dhcp6(&dhcp6));
    for (key, port) in [
        ("tftp_port", written.tftp_port),
        ("http_port", written.http_port),
        ("media.port", written.media.port),
    ] {
        if port == 0 {
            check.tell(key, "must be a port, from 1 to 65535");
        }
    }
    if written.http_port == written.media.port {
        check.tell("media.port", "must differ from http_port");
    }
    let ramdisk = written.ramdisk.map(|ramdisk| check.ramdisk(ramdisk));
    let media = check.media(written.media);
    if check.problems.len() > before {
        return None;
    }
    let net = net?;
    Some(Boot {
        interface: written.interface,
        address: net.addr(),
        subnet: net.trunc(),
        dhcp: dhcp?,
        dhcp6,
        tftp_port: written.tftp_port,
        http_port: written.http_port,
        loaders: written.loaders.into(),
        ramdisk,
        media,
    })
}

struct Check<'a> {
    problems: &'a mut Vec<String>,
}

impl Check<'_> {
    fn tell(&mut self, key: &str, problem: &str) {
        self.problems.push(format!("boot.{key}: {problem}"));
    }

    fn parse<T: std::str::FromStr>(&mut self, key: &str, text: &str, what: &str) -> Option<T> {
        let parsed = text.trim().parse().ok();
        if parsed.is_none() {
            self.tell(key, &format!("{text:?} must be {what}"));
        }
        parsed
    }

    fn range<T: std::str::FromStr + Ord>(
        &mut self,
        key: &str,
        text: &str,
        example: &str,
    ) -> Option<RangeInclusive<T>> {
        // dnsmasq writes a comma, people a dash; what follows a second comma (prefix, time) is said elsewhere here.
        let mut ends = text.split([',', '-']).map(str::trim);
        let range = ends.next().zip(ends.next()).and_then(|(first, last)| {
            let (first, last) = (first.parse::<T>().ok()?, last.parse::<T>().ok()?);
            (first <= last).then_some(first..=last)
        });
        if range.is_none() {
            self.tell(
                key,
                &format!("{text:?} must be two addresses, the lower first: {example}"),
            );
        }
        range
    }

    fn dhcp(&mut self, written: WrittenDhcp, net: Option<Ipv4Net>) -> Option<Dhcp> {
        let mode = match written.mode.as_str() {
            "server" => Mode::Server,
            "proxy" => Mode::Proxy,
            "off" => Mode::Off,
            other => {
                self.tell(
                    "dhcp.mode",
                    &format!("{other:?} is not known; write server, proxy or off"),
                );
                return None;
            }
        };
        let known_only = match written.allow.as_str() {
            "all" => false,
            "known" => true,
            other => {
                self.tell(
                    "dhcp.allow",
                    &format!("{other:?} is not known; write all or known"),
                );
                return None;
            }
        };
        let what = "an IPv4 address";
        let mut ranges = Vec::new();
        for (index, text) in written.ranges.iter().enumerate() {
            let key = format!("dhcp.ranges[{index}]");
            ranges.extend(self.range(&key, text, "172.22.0.10-172.22.0.254"));
        }
        let mut hosts = Vec::new();
        for (index, host) in written.hosts.into_iter().enumerate() {
            let key = |name: &str| format!("dhcp.hosts[{index}].{name}");
            let mac = self.parse(&key("mac"), &host.mac, "a MAC address");
            let address = host
                .address
                .and_then(|address| self.parse(&key("address"), &address, what));
            hosts.extend(mac.map(|mac| Host {
                mac,
                address,
                hostname: host.hostname,
            }));
        }
        let router = written
            .router
            .and_then(|router| self.parse("dhcp.router", &router, what));
        let mut several = |key: &str, texts: &[String]| -> Vec<Ipv4Addr> {
            let parse = |(index, text): (usize, &String)| {
                self.parse(&format!("dhcp.{key}[{index}]"), text, what)
            };
            texts.iter().enumerate().filter_map(parse).collect()
        };
        let (dns, ntp) = (several("dns", &written.dns), several("ntp", &written.ntp));
        if written.lease < 60 {
            self.tell("dhcp.lease", "must be at least 60 seconds");
        }
        if mode == Mode::Server && written.ranges.is_empty() && hosts.is_empty() {
            self.tell(
                "dhcp.ranges",
                "there is no address to give; name a range, or hosts, or set mode to proxy or off",
            );
        }
        let dhcp = Dhcp {
            mode,
            ranges,
            lease: Duration::from_secs(written.lease.into()),
            known_only,
            hosts,
            router,
            dns,
            ntp,
        };
        // What the server itself would refuse, before it is started.
        if let Some(net) = net
            && mode == Mode::Server
            && written.lease >= 60
            && let Err(error) =
                crate::boot::dhcp::decisions(&dhcp, net.addr(), net.trunc(), None, &[]).check()
        {
            for problem in error.problems {
                self.tell("dhcp", &problem);
            }
        }
        Some(dhcp)
    }

    fn dhcp6(&mut self, written: &WrittenDhcp6) -> Option<Dhcp6> {
        let net: Option<Ipv6Net> = self.parse(
            "dhcp6.address",
            &written.address,
            "an address with its prefix, such as fd00:1101::3/64",
        );
        let range: Option<RangeInclusive<Ipv6Addr>> = self.range(
            "dhcp6.range",
            &written.range,
            "fd00:1101::10-fd00:1101::ffff",
        );
        let (net, range) = (net?, range?);
        if !net.contains(range.start()) || !net.contains(range.end()) {
            self.tell("dhcp6.range", &format!("is not in {}", net.trunc()));
            return None;
        }
        if range.contains(&net.addr()) {
            self.tell("dhcp6.range", "must not hold our own address");
            return None;
        }
        Some(Dhcp6 {
            address: net.addr(),
            prefix: net.trunc(),
            range,
        })
    }

    fn ramdisk(&mut self, written: WrittenRamdisk) -> Ramdisk {
        for (key, value) in [
            ("ramdisk.kernel", &written.kernel),
            ("ramdisk.initrd", &written.initrd),
        ] {
            if value.is_empty() {
                self.tell(key, "must be the path of a file");
            }
        }
        let append = written.append.unwrap_or_else(|| APPEND.to_owned());
        if let Err(problem) = crate::boot::arguments::words(&append) {
            self.tell("ramdisk.append", &problem);
        }
        let kernel = PathBuf::from(written.kernel);
        let beside = |name: &str| kernel.with_file_name(name);
        Ramdisk {
            uefi_loader: written
                .uefi_loader
                .map_or_else(|| beside("grubx64.efi"), PathBuf::from),
            bios_loader: written
                .bios_loader
                .map_or_else(|| beside("eltorito.img"), PathBuf::from),
            kernel,
            initrd: written.initrd.into(),
            append,
            directories: written.directories.into_iter().map(PathBuf::from).collect(),
        }
    }

    fn media(&mut self, written: WrittenMedia) -> Media {
        if written.http && written.tls.is_some() {
            self.tell("media", "http and tls cannot both be set");
        }
        if let Some(url) = &written.url
            && !["http://", "https://"]
                .iter()
                .any(|scheme| url.starts_with(scheme))
        {
            self.tell("media.url", "must begin with http:// or https://");
        }
        let by = match written.tls {
            Some(tls) => MediaBy::Tls(Tls {
                certificate: tls.certificate.into(),
                key: tls.key.into(),
                ca: None,
            }),
            None if written.http => MediaBy::Http,
            None => MediaBy::OwnTls,
        };
        Media {
            port: written.port,
            by,
            url: written.url.map(|url| url.trim_end_matches('/').to_owned()),
        }
    }
}

/// What the kernel takes for a name.
fn is_link(name: &str) -> bool {
    (1..16).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'/' && byte != b':')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Error};

    fn parse(section: &str) -> Result<Boot, Vec<String>> {
        match Config::parse(&format!("boot:\n{section}"), std::path::Path::new("x")) {
            Ok(config) => Ok(config.boot.unwrap()),
            Err(Error::Problems { problems, .. }) => Err(problems),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn the_least_that_can_be_written_is_enough() {
        let boot = parse("  interface: eth1\n  address: 172.22.0.3/24\n  dhcp: {ranges: [172.22.0.10-172.22.0.20]}\n  ramdisk: {kernel: /r/vmlinuz, initrd: /r/initrd}\n").unwrap();
        assert_eq!(boot.subnet.to_string(), "172.22.0.0/24");
        assert_eq!((boot.http_port, boot.media.port), (6180, 6183));
        assert_eq!(boot.media.by, MediaBy::OwnTls);
        assert!(!boot.dhcp.known_only);
        let ramdisk = boot.ramdisk.unwrap();
        assert_eq!(ramdisk.uefi_loader, PathBuf::from("/r/grubx64.efi"));
    }

    #[test]
    fn every_problem_is_told_at_once_with_its_path() {
        let problems = parse("  interface: ''\n  address: 172.22.0.3\n  http_port: 6183\n  dhcp: {ranges: [b], hosts: [{mac: zz}], dns: [x], lease: 1}\n  ramdisk: {kernel: '', initrd: a, append: 'a;b'}\n  media: {http: true, tls: {certificate: a, key: b}}\n").unwrap_err();
        for path in [
            "boot.interface:",
            "boot.address:",
            "boot.dhcp.ranges[0]:",
            "boot.dhcp.hosts[0].mac:",
            "boot.dhcp.dns[0]:",
            "boot.dhcp.lease:",
            "boot.media.port:",
            "boot.ramdisk.kernel:",
            "boot.ramdisk.append:",
            "boot.media:",
        ] {
            assert!(
                problems.iter().any(|problem| problem.starts_with(path)),
                "{path} is not in {problems:?}"
            );
        }
        let outside = parse(
            "  interface: eth1\n  address: 172.22.0.3/24\n  dhcp: {ranges: [10.0.0.1-10.0.0.9]}\n",
        )
        .unwrap_err();
        assert!(
            outside[0].contains("is not in 172.22.0.0/24"),
            "{outside:?}"
        );
        let none = parse("  interface: eth1\n  address: 172.22.0.3/24\n").unwrap_err();
        assert!(none[0].contains("there is no address to give"), "{none:?}");
    }
}
