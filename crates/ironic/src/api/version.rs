//! Microversions: which one a request speaks, and the headers that tell which there are.

use axum::http::{HeaderMap, HeaderName, HeaderValue};

use super::fault::Fault;

/// The minor number of API version 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u16);

pub const OLDEST: Version = Version(1);
pub const NEWEST: Version = Version(110);

const OURS: HeaderName = HeaderName::from_static("x-openstack-ironic-api-version");
const LEAST: HeaderName = HeaderName::from_static("x-openstack-ironic-api-minimum-version");
const MOST: HeaderName = HeaderName::from_static("x-openstack-ironic-api-maximum-version");
const SHARED: HeaderName = HeaderName::from_static("openstack-api-version");

impl Version {
    /// The version a request asks for; the oldest when it does not say.
    pub fn negotiate(headers: &HeaderMap) -> Result<Self, Fault> {
        let asked = match headers.get(&OURS) {
            Some(value) => Some(text(value)?.trim().to_owned()),
            None => shared(headers)?,
        };
        let Some(asked) = asked else {
            return Ok(OLDEST);
        };
        if asked.eq_ignore_ascii_case("latest") {
            return Ok(NEWEST);
        }
        let version = Self::parse(&asked).ok_or_else(|| unacceptable(&asked))?;
        if version < OLDEST || version > NEWEST {
            return Err(unacceptable(&asked));
        }
        Ok(version)
    }

    fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.split_once('.')?;
        let digits = |part: &str| {
            (!part.is_empty() && part.bytes().all(|b| b.is_ascii_digit())).then_some(())
        };
        digits(major).and(digits(minor))?;
        (major == "1").then_some(())?;
        minor.parse().ok().map(Self)
    }

    /// Refuses what this version does not have yet.
    pub fn needs(self, since: u16, what: &str) -> Result<(), Fault> {
        if self.0 >= since {
            return Ok(());
        }
        Err(Fault::not_acceptable(format!(
            "{what} needs API version 1.{since} or later; this request speaks {self}"
        )))
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "1.{}", self.0)
    }
}

/// `OpenStack-API-Version: baremetal 1.N`, perhaps among the versions of other services.
fn shared(headers: &HeaderMap) -> Result<Option<String>, Fault> {
    for value in headers.get_all(&SHARED) {
        for part in text(value)?.split(',') {
            if let Some(("baremetal", version)) = part.trim().split_once(' ') {
                return Ok(Some(version.trim().to_owned()));
            }
        }
    }
    Ok(None)
}

fn text(value: &HeaderValue) -> Result<&str, Fault> {
    value.to_str().map_err(|_| unacceptable("?"))
}

fn unacceptable(asked: &str) -> Fault {
    let asked: String = asked.chars().take(32).collect();
    Fault::not_acceptable(format!(
        "version {asked} is not served here; there are {OLDEST} to {NEWEST}"
    ))
}

/// Tells a client which versions there are, and which one answered it.
pub fn announce(headers: &mut HeaderMap, used: Option<Version>) {
    let value =
        |version: Version| HeaderValue::try_from(version.to_string()).expect("digits and a dot");
    headers.insert(LEAST, value(OLDEST));
    headers.insert(MOST, value(NEWEST));
    if let Some(version) = used {
        headers.insert(OURS, value(version));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(name: &'static str, value: &str) -> Result<Version, Fault> {
        let mut headers = HeaderMap::new();
        headers.insert(HeaderName::from_static(name), value.parse().unwrap());
        Version::negotiate(&headers)
    }

    #[test]
    fn both_headers_choose_and_none_means_the_oldest() {
        assert_eq!(Version::negotiate(&HeaderMap::new()).unwrap(), OLDEST);
        assert_eq!(
            asking("x-openstack-ironic-api-version", "1.58").unwrap(),
            Version(58)
        );
        assert_eq!(
            asking("x-openstack-ironic-api-version", "latest").unwrap(),
            NEWEST
        );
        assert_eq!(
            asking("openstack-api-version", "baremetal 1.81").unwrap(),
            Version(81)
        );
        assert_eq!(
            asking("openstack-api-version", "compute 2.1, baremetal 1.9").unwrap(),
            Version(9)
        );
        assert_eq!(
            asking("openstack-api-version", "compute 2.1").unwrap(),
            OLDEST
        );
    }

    #[test]
    fn what_is_not_a_version_of_ours_is_not_acceptable() {
        for bad in [
            "1.0",
            "1.111",
            "2.1",
            "1",
            "1.",
            ".1",
            "1.+5",
            "one",
            "1.1.1",
            "1.99999999",
            "",
        ] {
            let fault = asking("x-openstack-ironic-api-version", bad).unwrap_err();
            assert_eq!(fault.status().as_u16(), 406, "{bad}");
        }
    }
}
