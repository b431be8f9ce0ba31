//! Where a BMC is and how it is spoken to, as written in `bmc.address`.
//!
//! `scheme[+http|+https]://host[:port][/path][?query]`, or only `host[:port]` for IPMI.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A BMC's address that can be used.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct BmcAddress {
    pub scheme: Scheme,
    /// For Redfish, `false` after `+http`.
    pub tls: bool,
    /// A name, an IPv4 address, or an IPv6 address without brackets.
    pub host: String,
    pub port: Option<u16>,
    /// The system's resource, from the slash on; empty where there is none.
    pub path: String,
    /// `privilegelevel` of IPMI.
    pub privilege: Option<String>,
    written: String,
}

/// How a BMC is driven; the rows of the table in `Scheme::row`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scheme {
    Ipmi,
    Libvirt,
    Redfish,
    Ilo5Redfish,
    IdracRedfish,
    RedfishVirtualMedia,
    Ilo5VirtualMedia,
    IdracVirtualMedia,
    RedfishUefiHttp,
}

struct Row {
    name: &'static str,
    driver: &'static str,
    boot: &'static str,
    /// Boots over the provisioning network.
    network: bool,
    secure_boot: bool,
    redfish: bool,
}

impl Scheme {
    pub const ALL: [Self; 9] = [
        Self::Ipmi,
        Self::Libvirt,
        Self::Redfish,
        Self::Ilo5Redfish,
        Self::IdracRedfish,
        Self::RedfishVirtualMedia,
        Self::Ilo5VirtualMedia,
        Self::IdracVirtualMedia,
        Self::RedfishUefiHttp,
    ];

    #[rustfmt::skip]
    fn row(self) -> Row {
        let row = |name, driver, boot, network, secure_boot, redfish| Row { name, driver, boot, network, secure_boot, redfish };
        match self {
            Self::Ipmi => row("ipmi", "ipmi", "ipxe", true, false, false),
            Self::Libvirt => row("libvirt", "ipmi", "ipxe", true, false, false),
            Self::Redfish => row("redfish", "redfish", "ipxe", true, true, true),
            Self::Ilo5Redfish => row("ilo5-redfish", "redfish", "ipxe", true, true, true),
            Self::IdracRedfish => row("idrac-redfish", "idrac", "ipxe", true, true, true),
            Self::RedfishVirtualMedia => row("redfish-virtualmedia", "redfish", "redfish-virtual-media", false, true, true),
            Self::Ilo5VirtualMedia => row("ilo5-virtualmedia", "redfish", "redfish-virtual-media", false, true, true),
            Self::IdracVirtualMedia => row("idrac-virtualmedia", "idrac", "idrac-redfish-virtual-media", false, true, true),
            Self::RedfishUefiHttp => row("redfish-uefihttp", "redfish", "redfish-https", false, true, true),
        }
    }

    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Ironic's driver (hardware type).
    pub fn driver(self) -> &'static str {
        self.row().driver
    }

    /// Ironic's boot interface.
    pub fn boot_interface(self) -> &'static str {
        self.row().boot
    }

    pub fn needs_provisioning_network(self) -> bool {
        self.row().network
    }

    pub fn can_secure_boot(self) -> bool {
        self.row().secure_boot
    }

    pub fn is_redfish(self) -> bool {
        self.row().redfish
    }

    fn default_port(self, tls: bool) -> u16 {
        match (self.is_redfish(), tls) {
            (true, true) => 443,
            (true, false) => 80,
            (false, _) => 623,
        }
    }
}

/// Schemes that once were, and what to write now.
const GONE: &[(&str, &str)] = &[
    ("idrac", "idrac-virtualmedia or idrac-redfish"),
    ("irmc", "redfish or redfish-virtualmedia"),
    ("ilo4", "ipmi"),
    ("ilo4-virtualmedia", "ipmi"),
    ("ilo5", "ilo5-virtualmedia or ilo5-redfish"),
    ("ibmc", "redfish or redfish-virtualmedia"),
];

const PRIVILEGES: [&str; 4] = ["CALLBACK", "USER", "OPERATOR", "ADMINISTRATOR"];

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BmcAddressError {
    #[error("is empty; write one such as redfish-virtualmedia://192.0.2.10/redfish/v1/Systems/1")]
    Empty,
    #[error("scheme {0:?} is not known; {1}")]
    UnknownScheme(String, Hint),
    #[error("scheme {0:?} is no longer supported; use {1}")]
    Gone(String, &'static str),
    #[error("{0}:// has no http or https variant; write {0}://")]
    NoTransport(&'static str),
    #[error("has no host; write {0}://192.0.2.10 and so on")]
    NoHost(&'static str),
    #[error("{0:?} is neither a name nor an IP address; put an IPv6 address in brackets")]
    BadHost(String),
    #[error("{0:?} is not a port; write a number from 1 to 65535")]
    BadPort(String),
    #[error(
        "{0}:// needs the path of the system's resource, such as {0}://host/redfish/v1/Systems/1"
    )]
    NoPath(&'static str),
    #[error("user and password do not belong into the address; write username and password")]
    Credentials,
    #[error("privilegelevel must be one of CALLBACK, USER, OPERATOR, ADMINISTRATOR, not {0:?}")]
    BadPrivilege(String),
    #[error(
        "the query {0:?} is not known; only ipmi:// takes one, privilegelevel=OPERATOR for example"
    )]
    BadQuery(String),
}

/// The scheme that was probably meant, or all there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hint(Option<&'static str>);

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(name) => write!(f, "did you mean {name:?}?"),
            None => write!(f, "there are {}", Scheme::ALL.map(Scheme::name).join(", ")),
        }
    }
}

impl FromStr for BmcAddress {
    type Err = BmcAddressError;

    fn from_str(text: &str) -> Result<Self, BmcAddressError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(BmcAddressError::Empty);
        }
        let (scheme, tls, rest) = match text.split_once("://") {
            None => (Scheme::Ipmi, false, text),
            Some((scheme, rest)) => {
                let (scheme, tls) = parse_scheme(scheme)?;
                (scheme, tls, rest)
            }
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = match rest.find('/') {
            Some(slash) => rest.split_at(slash),
            None => (rest, ""),
        };
        if authority.contains('@') {
            return Err(BmcAddressError::Credentials);
        }
        let (host, port) = parse_authority(authority, scheme)?;
        let path = path.trim_end_matches('/');
        if scheme.is_redfish() && path.is_empty() {
            return Err(BmcAddressError::NoPath(scheme.name()));
        }
        Ok(Self {
            scheme,
            tls,
            host,
            port,
            path: path.to_owned(),
            privilege: parse_query(query, scheme)?,
            written: text.to_owned(),
        })
    }
}

fn parse_scheme(text: &str) -> Result<(Scheme, bool), BmcAddressError> {
    let lower = text.to_ascii_lowercase();
    let (name, transport) = match lower.split_once('+') {
        Some((name, transport)) => (name, Some(transport)),
        None => (lower.as_str(), None),
    };
    let unknown = || {
        // Close in spelling: the same letters up to the first difference.
        let common = |known: &str| {
            known
                .bytes()
                .zip(name.bytes())
                .take_while(|(a, b)| a == b)
                .count()
        };
        let best = Scheme::ALL
            .map(Scheme::name)
            .into_iter()
            .max_by_key(|known| {
                (
                    common(known),
                    std::cmp::Reverse(known.len().abs_diff(name.len())),
                )
            })
            .filter(|known| common(known) >= 3);
        BmcAddressError::UnknownScheme(text.chars().take(40).collect(), Hint(best))
    };
    if let Some((gone, instead)) = GONE.iter().find(|(gone, _)| *gone == name) {
        return Err(BmcAddressError::Gone((*gone).to_owned(), instead));
    }
    let scheme = Scheme::ALL
        .into_iter()
        .find(|scheme| scheme.name() == name)
        .ok_or_else(unknown)?;
    let tls = match (scheme.is_redfish(), transport) {
        (true, None | Some("https")) => true,
        (true, Some("http")) | (false, None) => false,
        (true, Some(_)) => return Err(unknown()),
        (false, Some(_)) => return Err(BmcAddressError::NoTransport(scheme.name())),
    };
    Ok((scheme, tls))
}

fn parse_authority(text: &str, scheme: Scheme) -> Result<(String, Option<u16>), BmcAddressError> {
    let bad = || BmcAddressError::BadHost(text.chars().take(80).collect());
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or_else(bad)?;
        host.parse::<Ipv6Addr>().map_err(|_| bad())?;
        match rest {
            "" => (host, None),
            _ => (host, Some(rest.strip_prefix(':').ok_or_else(bad)?)),
        }
    } else {
        match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        }
    };
    if host.is_empty() {
        return Err(BmcAddressError::NoHost(scheme.name()));
    }
    let named = |host: &str| {
        host.len() <= 253
            && host
                .split('.')
                .all(|label| !label.is_empty() && label.len() <= 63)
            && host
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
    };
    let numeric = host
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    let ok = host.parse::<std::net::IpAddr>().is_ok() || (named(host) && !numeric);
    if !ok {
        return Err(bad());
    }
    let port = port
        .map(|port| {
            let digits = port.bytes().all(|byte| byte.is_ascii_digit());
            let parsed = port.parse().ok().filter(|port| *port != 0 && digits);
            parsed.ok_or_else(|| BmcAddressError::BadPort(port.chars().take(20).collect()))
        })
        .transpose()?;
    Ok((host.to_owned(), port))
}

fn parse_query(text: &str, scheme: Scheme) -> Result<Option<String>, BmcAddressError> {
    if text.is_empty() {
        return Ok(None);
    }
    match text.split_once('=') {
        Some((key, value))
            if key.eq_ignore_ascii_case("privilegelevel") && !scheme.is_redfish() =>
        {
            let level = value.to_ascii_uppercase();
            if PRIVILEGES.contains(&level.as_str()) {
                Ok(Some(level))
            } else {
                Err(BmcAddressError::BadPrivilege(
                    value.chars().take(40).collect(),
                ))
            }
        }
        _ => Err(BmcAddressError::BadQuery(text.chars().take(40).collect())),
    }
}

impl BmcAddress {
    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.written
    }

    pub fn port_or_default(&self) -> u16 {
        self.port.unwrap_or(self.scheme.default_port(self.tls))
    }

    /// The host as it stands in a URL.
    fn url_host(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        }
    }

    /// What two hosts must not share: host, port and, where one BMC has several systems, the path.
    pub fn endpoint(&self) -> String {
        let host = self.url_host().to_ascii_lowercase();
        format!("{host}:{}{}", self.port_or_default(), self.path)
    }

    /// Ironic's `driver_info` without the credentials.
    pub fn driver_info(&self, verify: bool) -> Vec<(&'static str, serde_json::Value)> {
        if !self.scheme.is_redfish() {
            let level = self.privilege.as_deref().unwrap_or("ADMINISTRATOR");
            return vec![
                ("ipmi_address", self.host.clone().into()),
                ("ipmi_port", self.port_or_default().into()),
                ("ipmi_priv_level", level.into()),
            ];
        }
        let transport = if self.tls { "https" } else { "http" };
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        let mut info = vec![
            (
                "redfish_address",
                format!("{transport}://{}{port}", self.url_host()).into(),
            ),
            ("redfish_system_id", self.path.clone().into()),
        ];
        if !verify {
            info.push(("redfish_verify_ca", false.into()));
        }
        info
    }
}

impl fmt::Display for BmcAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

impl From<BmcAddress> for String {
    fn from(address: BmcAddress) -> Self {
        address.written
    }
}

impl TryFrom<String> for BmcAddress {
    type Error = BmcAddressError;

    fn try_from(text: String) -> Result<Self, BmcAddressError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_scheme_is_read_and_says_what_it_can() {
        for scheme in Scheme::ALL {
            let text = format!("{}://192.0.2.10/redfish/v1/Systems/1", scheme.name());
            let address: BmcAddress = text.parse().unwrap();
            assert_eq!(address.scheme, scheme);
            assert_eq!(address.to_string(), text);
            assert_eq!(
                scheme.needs_provisioning_network(),
                scheme.boot_interface() == "ipxe"
            );
        }
    }

    #[test]
    fn addresses_become_what_ironic_is_told() {
        for (text, info) in [
            (
                "192.0.2.1",
                r#"[["ipmi_address","192.0.2.1"],["ipmi_port",623],["ipmi_priv_level","ADMINISTRATOR"]]"#,
            ),
            (
                "ipmi://bmc-1.lab:6230?privilegelevel=operator",
                r#"[["ipmi_address","bmc-1.lab"],["ipmi_port",6230],["ipmi_priv_level","OPERATOR"]]"#,
            ),
            (
                "libvirt://[2001:db8::1]:6230/",
                r#"[["ipmi_address","2001:db8::1"],["ipmi_port",6230],["ipmi_priv_level","ADMINISTRATOR"]]"#,
            ),
            (
                "redfish://192.0.2.1/redfish/v1/Systems/1",
                r#"[["redfish_address","https://192.0.2.1"],["redfish_system_id","/redfish/v1/Systems/1"]]"#,
            ),
            (
                "redfish-virtualmedia+http://[2001:db8::1]:8000/redfish/v1/Systems/a",
                r#"[["redfish_address","http://[2001:db8::1]:8000"],["redfish_system_id","/redfish/v1/Systems/a"]]"#,
            ),
        ] {
            let address: BmcAddress = text.parse().unwrap();
            assert_eq!(
                serde_json::to_string(&address.driver_info(true)).unwrap(),
                info
            );
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_what_would_be_right() {
        for (text, said) in [
            ("", "is empty"),
            (
                "redfish-vmedia://h/x",
                "did you mean \"redfish-virtualmedia\"?",
            ),
            (
                "banana://h",
                "scheme \"banana\" is not known; there are ipmi",
            ),
            ("idrac://h/x", "no longer supported; use idrac-virtualmedia"),
            ("ilo4://h", "no longer supported; use ipmi"),
            ("ipmi+http://h", "has no http or https variant"),
            ("redfish+ftp://h/x", "is not known"),
            ("ipmi://", "has no host"),
            ("redfish://h", "needs the path"),
            ("ipmi://h:0", "is not a port"),
            ("ipmi://h:x", "is not a port"),
            ("ipmi://1.2.3.400", "neither a name nor an IP address"),
            ("ipmi://2001:db8::1", "put an IPv6 address in brackets"),
            ("ipmi://[::1", "put an IPv6 address in brackets"),
            ("ipmi://admin:hunter2@h", "do not belong into the address"),
            ("ipmi://h?privilegelevel=ROOT", "must be one of CALLBACK"),
            ("redfish://h/x?y=1", "only ipmi:// takes one"),
        ] {
            let error = text.parse::<BmcAddress>().unwrap_err().to_string();
            assert!(
                error.contains(said) && !error.contains("hunter2"),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn one_bmc_written_in_two_ways_is_one_endpoint() {
        let same = [
            "redfish://H.lab/x/1",
            "redfish+https://h.lab:443/x/1/",
            "redfish-virtualmedia://h.lab/x/1",
        ];
        let points = same.map(|text| text.parse::<BmcAddress>().unwrap().endpoint());
        assert!(
            points.iter().all(|point| point == "h.lab:443/x/1"),
            "{points:?}"
        );
    }

    proptest! {
        #[test]
        fn any_text_gives_an_address_or_an_error(text in "\\PC{0,60}") {
            if let Ok(address) = text.parse::<BmcAddress>() {
                prop_assert_eq!(address.to_string().parse::<BmcAddress>().unwrap(), address);
            }
        }
    }
}
