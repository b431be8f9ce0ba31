//! The HTTP client of the agent: whom it trusts, and from which address it speaks.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{Certificate, Client, Url};

use crate::resolve::Resolver;

/// How to reach the world.
#[derive(Debug, Clone, Default)]
pub struct Way {
    /// The certificate authorities of Ironic and of image servers, PEM.
    pub authorities: Option<String>,
    /// Take any certificate.
    pub insecure: bool,
    /// Where connections come from; the kernel chooses if not given.
    pub source: Option<IpAddr>,
    /// Ask name servers ourselves, for a static program has no system resolver.
    pub own_resolver: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("read the certificates of the trusted authorities")]
    Authorities(#[source] reqwest::Error),
    #[error("set up the HTTP client")]
    Client(#[source] reqwest::Error),
    #[error("{0:?} is not a URL")]
    Url(String),
    #[error("{0:?} is neither http:// nor https://")]
    Scheme(String),
    #[error(
        "{0} cannot be trusted: no certificate authority was given to check it with; put one in \
         etc/ironic-python-agent/ironic.crt, or set ipa-insecure=1"
    )]
    NoAuthority(String),
}

impl Way {
    pub fn client(&self) -> Result<Client, Error> {
        // Whoever comes first decides; there is one provider in this tree.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let mut builder = Client::builder()
            .user_agent(concat!("plinth-agent/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(Duration::from_secs(10))
            .pool_idle_timeout(Duration::from_secs(5))
            .pool_max_idle_per_host(1)
            .tcp_nodelay(true)
            .no_proxy()
            .local_address(self.source);
        builder = match &self.authorities {
            _ if self.insecure => builder.tls_danger_accept_invalid_certs(true),
            Some(pem) => {
                let certificates =
                    Certificate::from_pem_bundle(pem.as_bytes()).map_err(Error::Authorities)?;
                builder.tls_certs_only(certificates)
            }
            None => builder.tls_certs_only([]),
        };
        if self.own_resolver {
            builder = builder.dns_resolver(Arc::new(Resolver::system()));
        }
        builder.build().map_err(Error::Client)
    }

    /// Whether the URL may be used at all, said before a connection fails in worse words.
    pub fn check(&self, url: &str) -> Result<Url, Error> {
        let parsed: Url = url.parse().map_err(|_| Error::Url(shown(url)))?;
        match parsed.scheme() {
            "http" => Ok(parsed),
            "https" if self.insecure || self.authorities.is_some() => Ok(parsed),
            "https" => Err(Error::NoAuthority(shown(url))),
            _ => Err(Error::Scheme(shown(url))),
        }
    }
}

/// A URL for people: without user, password and query, which may be secrets.
pub fn shown(url: &str) -> String {
    let Ok(mut parsed) = url.parse::<Url>() else {
        return url.chars().take(100).collect();
    };
    let _ = parsed.set_username("");
    let _ = parsed.set_password(None);
    parsed.set_query(None);
    parsed.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn https_needs_an_authority_or_the_word_insecure() {
        let mut way = Way::default();
        assert!(way.check("http://192.0.2.1/x").is_ok());
        let error = way.check("https://192.0.2.1/x").unwrap_err().to_string();
        assert!(error.contains("ipa-insecure"), "{error}");
        way.insecure = true;
        assert!(way.check("https://192.0.2.1/x").is_ok());
        assert!(matches!(way.check("file:///etc"), Err(Error::Scheme(_))));
    }

    #[test]
    fn secrets_in_urls_are_not_shown() {
        let url = "https://user:secret@host/os.raw?token=secret";
        assert_eq!(shown(url), "https://host/os.raw");
    }
}
