//! The user of a client certificate: its common name, and its organizations as groups.

use objects::access::User;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::authenticated;

/// Nothing if it has no common name. The certificate was verified when the connection was made.
pub fn user(der: &[u8]) -> Option<User> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?;
    if name.is_empty() {
        return None;
    }
    let groups = subject
        .iter_organization()
        .filter_map(|group| group.as_str().ok());
    Some(authenticated(User {
        name: name.to_owned(),
        groups: groups.map(str::to_owned).collect(),
        ..User::default()
    }))
}
