//! How to reach a BMC, and how patient to be with it.

use std::time::Duration;

use model::Secret;
use reqwest::Url;

use super::Error;

#[derive(Debug, Clone)]
pub struct Config {
    /// Scheme, host and perhaps a port: `https://192.0.2.10`.
    pub address: Url,
    pub username: String,
    pub password: Secret<String>,
    /// The path of the system, where a BMC has several.
    pub system: Option<String>,
    pub verify: Verify,
    pub auth: Auth,
    pub limits: Limits,
}

/// Whose word is taken that the BMC is the one meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verify {
    /// The machine's own authorities.
    System,
    /// These certificates alone, as PEM.
    Pem(Vec<u8>),
    /// Nobody's.
    Nobody,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auth {
    /// A session, or Basic where there are none to be had.
    Auto,
    Session,
    Basic,
    Nobody,
}

/// Limits on everything that is asked of a BMC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    pub connect: Duration,
    /// Requests to one BMC at once, whoever asks.
    pub in_flight: usize,
    /// From the request to the end of the answer; some BMCs take long over a change of the BIOS.
    pub answer: Duration,
    pub body_bytes: usize,
    /// How often a BMC that is not ready is asked.
    pub tries: u32,
    /// No further try begins this long after the first: an absent BMC must not keep its caller for ever.
    pub patience: Duration,
    /// The pause between; it grows by half each time, up to three times itself.
    pub pause: Duration,
    /// How often a server is looked at until it has the power state that was asked for.
    pub poll: Duration,
    pub power_change: Duration,
    pub task: Duration,
    /// The most members of a collection that are read.
    pub members: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(30),
            in_flight: 2,
            answer: Duration::from_mins(1),
            body_bytes: 4 << 20,
            tries: 10,
            patience: Duration::from_mins(3),
            pause: Duration::from_secs(3),
            poll: Duration::from_secs(2),
            power_change: Duration::from_mins(1),
            task: Duration::from_mins(10),
            members: 512,
        }
    }
}

impl Config {
    /// A BMC at an address such as `https://192.0.2.10:8443`, with a login, checked against the machine's authorities.
    pub fn new(address: &str, username: &str, password: Secret<String>) -> Result<Self, Error> {
        let wrong = |why: &str| Error::Address {
            address: shown(address),
            why: why.to_string(),
        };
        let url = Url::parse(address).map_err(|error| wrong(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong("the scheme is neither http nor https"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("a login does not belong into the address"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("it has more than scheme, host and port"));
        }
        Ok(Self {
            address: url,
            username: username.to_string(),
            password,
            system: None,
            verify: Verify::System,
            auth: Auth::Auto,
            limits: Limits::default(),
        })
    }
}

/// The address as it may be shown: without what stands before an `@`.
fn shown(address: &str) -> String {
    let text = address.rsplit('@').next().unwrap_or_default();
    text.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_checked_and_a_login_in_it_is_not_repeated() {
        let new = |address| Config::new(address, "admin", Secret::new("x".into()));
        assert!(new("https://192.0.2.10").is_ok());
        assert!(new("http://[2001:db8::1]:8000/").is_ok());
        for wrong in ["192.0.2.10", "ftp://192.0.2.10", "https://host/?a=b", ""] {
            assert!(new(wrong).is_err(), "{wrong}");
        }
        let error = new("https://admin:hunter2@host").unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }
}
