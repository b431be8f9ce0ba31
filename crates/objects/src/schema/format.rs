//! Formats of strings that Kubernetes checks; others are only documentation.

use std::net::{Ipv4Addr, Ipv6Addr};

/// A format whose values are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    DateTime,
    Date,
    Duration,
    Ipv4,
    Ipv6,
    Cidr,
    Mac,
    Uuid,
    Uuid3,
    Uuid4,
    Uuid5,
    Uri,
    Email,
    Hostname,
    Byte,
    Int32,
    Int64,
}

impl Format {
    pub(super) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "date-time" | "datetime" => Self::DateTime,
            "date" => Self::Date,
            "duration" => Self::Duration,
            "ipv4" => Self::Ipv4,
            "ipv6" => Self::Ipv6,
            "cidr" => Self::Cidr,
            "mac" => Self::Mac,
            "uuid" => Self::Uuid,
            "uuid3" => Self::Uuid3,
            "uuid4" => Self::Uuid4,
            "uuid5" => Self::Uuid5,
            "uri" => Self::Uri,
            "email" => Self::Email,
            "hostname" => Self::Hostname,
            "byte" => Self::Byte,
            "int32" => Self::Int32,
            "int64" => Self::Int64,
            _ => return None,
        })
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::DateTime => "date-time",
            Self::Date => "date",
            Self::Duration => "duration",
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
            Self::Cidr => "cidr",
            Self::Mac => "mac",
            Self::Uuid => "uuid",
            Self::Uuid3 => "uuid3",
            Self::Uuid4 => "uuid4",
            Self::Uuid5 => "uuid5",
            Self::Uri => "uri",
            Self::Email => "email",
            Self::Hostname => "hostname",
            Self::Byte => "byte",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
        }
    }

    /// Whether this text is of the format. Formats of numbers let every text be: its type is wrong already.
    pub(crate) fn holds(self, text: &str) -> bool {
        match self {
            Self::DateTime => text.parse::<jiff::Timestamp>().is_ok(),
            Self::Date => text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(),
            Self::Duration => is_duration(text),
            Self::Ipv4 => text.parse::<Ipv4Addr>().is_ok(),
            Self::Ipv6 => text.parse::<Ipv6Addr>().is_ok(),
            Self::Cidr => is_cidr(text),
            Self::Mac => is_mac(text),
            Self::Uuid => is_uuid(text, None),
            Self::Uuid3 => is_uuid(text, Some(b'3')),
            Self::Uuid4 => is_uuid(text, Some(b'4')),
            Self::Uuid5 => is_uuid(text, Some(b'5')),
            Self::Uri => is_uri(text),
            Self::Email => {
                matches!(text.split_once('@'), Some((user, host)) if !user.is_empty() && is_hostname(host))
            }
            Self::Hostname => is_hostname(text),
            Self::Byte => is_base64(text),
            Self::Int32 | Self::Int64 => true,
        }
    }
}

/// Go's `time.ParseDuration`: `1h30m`, `-1.5s`, `0`; and whole days and weeks, as in Kubernetes' format.
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        if number.parse::<f64>().is_err() {
            return false;
        }
        let after = after.trim_start_matches(' ');
        let unit = after
            .find(|c: char| c.is_ascii_digit() || c == '.' || c == ' ')
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(unit);
        let units = [
            "ns", "us", "µs", "μs", "ms", "s", "m", "h", "d", "w", "day", "days", "week", "weeks",
            "hour", "hours", "min", "minute", "minutes", "sec", "second", "seconds",
        ];
        if !units.contains(&unit) {
            return false;
        }
        rest = after.trim_start_matches(' ');
    }
    true
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else {
        return false;
    };
    let most = match address.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V4(_)) => 32,
        Ok(std::net::IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    length.parse::<u8>().is_ok_and(|length| length <= most)
}

fn is_mac(text: &str) -> bool {
    let separator = if text.contains('-') { '-' } else { ':' };
    let parts: Vec<_> = text.split(separator).collect();
    [6, 8, 20].contains(&parts.len())
        && parts
            .iter()
            .all(|part| part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit()))
}

fn is_uuid(text: &str, version: Option<u8>) -> bool {
    let hex: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
    hex.len() == 32
        && hex.iter().all(u8::is_ascii_hexdigit)
        && text.len() <= 36
        && version.is_none_or(|version| hex[12] == version)
}

fn is_uri(text: &str) -> bool {
    let clean = !text.bytes().any(|byte| byte <= b' ' || byte == 0x7f);
    let scheme = text.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
    });
    clean && (scheme || text.starts_with('/'))
}

fn is_hostname(text: &str) -> bool {
    text.len() <= 255
        && !text.is_empty()
        && text.trim_end_matches('.').split('.').all(|label| {
            let edge = |byte: Option<u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric());
            label.len() <= 63
                && edge(label.bytes().next())
                && edge(label.bytes().last())
                && label
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b == b'-')
        })
}

/// Base64 with the standard alphabet and padding.
pub(crate) fn is_base64(text: &str) -> bool {
    let text: Vec<u8> = text.bytes().filter(|b| !b"\r\n".contains(b)).collect();
    let body = text
        .iter()
        .position(|byte| *byte == b'=')
        .unwrap_or(text.len());
    let padding = &text[body..];
    text.len().is_multiple_of(4)
        && padding.len() <= 2
        && padding.iter().all(|byte| *byte == b'=')
        && text[..body]
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+/".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_take_what_kubernetes_takes() {
        let table = [
            ("date-time", "2026-11-15T16:00:00Z", "yesterday"),
            ("date-time", "2026-11-15T16:00:00.5+02:00", "2026-11-15"),
            ("date", "2026-11-15", "2026-13-01"),
            ("duration", "1h30m", "1x"),
            ("duration", "-1.5s", ""),
            ("duration", "0", "h"),
            ("ipv4", "10.0.0.1", "10.0.0"),
            ("ipv6", "fd00::1", "10.0.0.1"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("mac", "52:54:00:00:00:01", "52:54:00:00:00"),
            ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123e"),
            (
                "uuid4",
                "123e4567-e89b-42d3-a456-426614174000",
                "123e4567-e89b-12d3-a456-426614174000",
            ),
            ("uri", "redfish://10.0.0.1/redfish/v1", "not a uri"),
            ("email", "a@example.com", "example.com"),
            ("hostname", "node-1.example.com", "-node"),
            ("byte", "aGVsbG8=", "aGVsbG8"),
            ("byte", "", "===="),
        ];
        for (name, good, bad) in table {
            let format = Format::parse(name).unwrap();
            assert!(format.holds(good), "{name}: {good}");
            assert!(!format.holds(bad), "{name}: {bad}");
            assert_eq!(format.name(), name);
        }
        assert_eq!(Format::parse("rhyme"), None);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_a_format_panic(text: String) {
            for name in ["date-time", "date", "duration", "ipv4", "ipv6", "cidr", "mac", "uuid", "uri", "email",
                "hostname", "byte", "int32", "int64"] {
                let _ = Format::parse(name).unwrap().holds(&text);
            }
        }
    }
}
