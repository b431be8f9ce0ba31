//! Where an image is.

use model::Secret;
use reqwest::Url;

/// Where an image is. Prints without the password that it may hold.
#[derive(Debug, Clone)]
pub struct Address {
    /// Without user and password.
    pub(super) url: Url,
    login: Option<(String, Secret<String>)>,
}

#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    #[error("not an address")]
    Parse(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("scheme {0:?} is not supported, http and https are")]
    Scheme(String),
}

impl Address {
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let mut url = Url::parse(text).map_err(|e| AddressError::Parse(Box::new(e)))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(AddressError::Scheme(url.scheme().to_string()));
        }
        let login = (!url.username().is_empty()).then(|| {
            (
                url.username().to_string(),
                Secret::new(url.password().unwrap_or_default().to_string()),
            )
        });
        // Both succeed for http and https, which always have a host.
        _ = url.set_username("");
        _ = url.set_password(None);
        Ok(Self { url, login })
    }

    pub fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// Adds the login that was in the address, if one was.
    pub(in crate::bmc) fn authorize(
        &self,
        request: reqwest::RequestBuilder,
    ) -> reqwest::RequestBuilder {
        match &self.login {
            Some((user, password)) => request.basic_auth(user, Some(password.expose())),
            None => request,
        }
    }

    /// The last part of the path.
    pub fn file_name(&self) -> &str {
        self.url.path().rsplit('/').next().unwrap_or_default()
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.url.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_prints_without_its_password() {
        let address = Address::parse("http://me:hush@h:81/a/b.iso?x=1").unwrap();
        assert_eq!(address.to_string(), "http://h:81/a/b.iso?x=1");
        assert_eq!(address.file_name(), "b.iso");
        assert!(!format!("{address:?}").contains("hush"));
        assert_eq!(address.login.unwrap().0, "me");
    }

    #[test]
    fn other_schemes_and_nonsense_are_refused() {
        for text in ["nfs://h/a.iso", "file:///etc/passwd", "cifs://h/x"] {
            assert!(
                matches!(Address::parse(text), Err(AddressError::Scheme(_))),
                "{text}"
            );
        }
        for text in ["", "a.iso", "http://", "http://[::1"] {
            assert!(
                matches!(Address::parse(text), Err(AddressError::Parse(_))),
                "{text}"
            );
        }
    }
}
