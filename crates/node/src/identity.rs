//! Our keys and certificates on disk, and the keys that wait for theirs: one to speak to the API with, one to serve with.
//!
//! ```text
//!   identity.pem   certificate and key, replaced as one          serving.pem
//!   request.json   a key and the name of the request for it:     serving-request.json
//!                  written before the request is made, so that
//!                  whoever is killed in between finds its own
//!                  request again
//! ```

use std::io::Write as _;
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use model::Secret;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PublicKeyData as _, SanType};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use x509_parser::extensions::GeneralName;

use crate::decide::identity::Validity;

pub const NODES: &str = "system:nodes";
const NODE_PREFIX: &str = "system:node:";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not make {}", path.display())]
    MakeDirectory {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("could not write {}", path.display())]
    Write {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("could not make a key or a request for its certificate")]
    MakeRequest(#[source] rcgen::Error),
    #[error("the certificate that was signed is not one of ours: {0}")]
    Strange(&'static str),
}

/// Who we are, good for TLS.
#[derive(Debug, Clone)]
pub struct Identity {
    pub certificate: String,
    pub key: Secret<String>,
    pub validity: Validity,
    /// From 0 to 1, the same for the same certificate.
    pub spread: f64,
}

/// What a certificate is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To speak to the API as the node.
    Client,
    /// To answer under the node's name, and at this address if it is known.
    Server { address: Option<IpAddr> },
}

/// A key that waits.
#[derive(Debug, Clone)]
pub struct Request {
    pub purpose: Purpose,
    /// The name of the CertificateSigningRequest, which follows from the key.
    pub name: String,
    pub since: Timestamp,
    pub pem: String,
    key: Secret<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    node: String,
    since: Timestamp,
    key: Secret<String>,
    #[serde(default)]
    address: Option<IpAddr>,
}

/// The files of one node, for one purpose.
#[derive(Debug, Clone)]
pub struct Files {
    dir: PathBuf,
    node: String,
    purpose: Purpose,
}

impl Purpose {
    /// The certificate's file, and that of the key that waits for one.
    fn files(self) -> (&'static str, &'static str) {
        match self {
            Self::Client => ("identity.pem", "request.json"),
            Self::Server { .. } => ("serving.pem", "serving-request.json"),
        }
    }

    fn address(self) -> Option<IpAddr> {
        match self {
            Self::Client => None,
            Self::Server { address } => address,
        }
    }
}

impl Files {
    /// Those of the node as a client.
    pub fn open(dir: &Path, node: &str) -> Result<Self, Error> {
        let made = std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir);
        made.map_err(|source| Error::MakeDirectory {
            path: dir.to_owned(),
            source,
        })?;
        Ok(Self {
            dir: dir.to_owned(),
            node: node.to_owned(),
            purpose: Purpose::Client,
        })
    }

    /// Those of the node as a server, beside the others.
    pub fn for_server(&self, address: Option<IpAddr>) -> Self {
        Self {
            purpose: Purpose::Server { address },
            ..self.clone()
        }
    }

    /// The identity, if there is one and it is this node's. What cannot be read counts as none: another is asked for.
    pub fn identity(&self) -> Option<Identity> {
        let text = std::fs::read_to_string(self.path()).ok()?;
        let (certificate, key) = text.split_once(BETWEEN)?;
        let key = KeyPair::from_pem(key).ok()?;
        match self.check(certificate, &key) {
            Ok(identity) => Some(identity),
            Err(error) => {
                tracing::warn!(
                    error = model::chain(&error),
                    "the certificate on disk is not used"
                );
                None
            }
        }
    }

    pub fn request(&self) -> Option<Request> {
        let text = std::fs::read(self.waiting_path()).ok()?;
        let kept: Kept = serde_json::from_slice(&text).ok()?;
        if kept.node != self.node || kept.address != self.purpose.address() {
            return None;
        }
        self.make(kept.since, &KeyPair::from_pem(kept.key.expose()).ok()?)
            .ok()
    }

    /// A new key, on disk before anybody hears of it.
    pub fn draw(&self, now: Timestamp) -> Result<Request, Error> {
        let key = KeyPair::generate().map_err(Error::MakeRequest)?;
        let request = self.make(now, &key)?;
        let kept = serde_json::json!({
            "node": self.node, "since": now, "key": request.key.expose(),
            "address": self.purpose.address(),
        });
        self.write(self.purpose.files().1, &kept.to_string())?;
        Ok(request)
    }

    /// The certificate of the key that waited is the identity from now on.
    pub fn take(&self, request: &Request, certificate: &str) -> Result<Identity, Error> {
        let key = KeyPair::from_pem(request.key.expose()).map_err(Error::MakeRequest)?;
        let identity = self.check(certificate, &key)?;
        let both = Secret::new(format!("{certificate}\n{BETWEEN}{}", identity.key.expose()));
        self.write(self.purpose.files().0, both.expose())?;
        self.forget_request();
        Ok(identity)
    }

    /// The key that waited has its certificate, or will never have one.
    pub fn forget_request(&self) {
        _ = std::fs::remove_file(self.waiting_path());
    }

    fn path(&self) -> PathBuf {
        self.dir.join(self.purpose.files().0)
    }

    fn waiting_path(&self) -> PathBuf {
        self.dir.join(self.purpose.files().1)
    }

    fn make(&self, since: Timestamp, key: &KeyPair) -> Result<Request, Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::OrganizationName, NODES);
        let name = format!("{NODE_PREFIX}{}", self.node);
        params.distinguished_name.push(DnType::CommonName, name);
        if let Purpose::Server { address } = self.purpose {
            let name = self.node.clone().try_into().map_err(Error::MakeRequest)?;
            let names = [
                Some(SanType::DnsName(name)),
                address.map(SanType::IpAddress),
            ];
            params.subject_alt_names = names.into_iter().flatten().collect();
        }
        let request = params
            .serialize_request(key)
            .and_then(|request| request.pem());
        let digest = Sha256::digest(key.subject_public_key_info());
        let mut short = [0; 16];
        short.copy_from_slice(&digest[..16]);
        Ok(Request {
            purpose: self.purpose,
            name: format!("node-csr-{:032x}", u128::from_be_bytes(short)),
            since,
            pem: request.map_err(Error::MakeRequest)?,
            key: Secret::new(key.serialize_pem()),
        })
    }

    fn check(&self, pem: &str, key: &KeyPair) -> Result<Identity, Error> {
        let der = CertificateDer::from_pem_slice(pem.as_bytes());
        let der = der.map_err(|_| Error::Strange("it is not a certificate in PEM"))?;
        let (_, parsed) = x509_parser::parse_x509_certificate(&der)
            .map_err(|_| Error::Strange("it cannot be read"))?;
        if parsed.public_key().raw != key.subject_public_key_info() {
            return Err(Error::Strange("it is of another key"));
        }
        let name = format!("{NODE_PREFIX}{}", self.node);
        let mut names = parsed.subject().iter_common_name();
        if !names.any(|found| found.as_str() == Ok(&name)) {
            return Err(Error::Strange("it is of another node"));
        }
        if let Purpose::Server { address } = self.purpose {
            self.check_names(&parsed, address)?;
        }
        let time = |time: x509_parser::time::ASN1Time| {
            Timestamp::from_second(time.timestamp()).map_err(|_| Error::Strange("its time"))
        };
        let digest = Sha256::digest(&der);
        Ok(Identity {
            certificate: pem.to_owned(),
            key: Secret::new(key.serialize_pem()),
            validity: Validity {
                not_before: time(parsed.validity().not_before)?,
                not_after: time(parsed.validity().not_after)?,
            },
            spread: f64::from(u16::from_be_bytes([digest[0], digest[1]])) / f64::from(u16::MAX),
        })
    }

    /// A server's certificate has the node's name, and the address if one is asked for.
    fn check_names(
        &self,
        parsed: &x509_parser::certificate::X509Certificate,
        address: Option<IpAddr>,
    ) -> Result<(), Error> {
        let names = parsed.subject_alternative_name().ok().flatten();
        let has = |wanted: &GeneralName| {
            names
                .as_ref()
                .is_some_and(|names| names.value.general_names.contains(wanted))
        };
        if !has(&GeneralName::DNSName(&self.node)) {
            return Err(Error::Strange("it does not have the node's name"));
        }
        let there = match address {
            None => true,
            Some(IpAddr::V4(ip)) => has(&GeneralName::IPAddress(&ip.octets())),
            Some(IpAddr::V6(ip)) => has(&GeneralName::IPAddress(&ip.octets())),
        };
        if !there {
            return Err(Error::Strange("it does not have the node's address"));
        }
        Ok(())
    }

    /// All or nothing, for us only.
    fn write(&self, name: &str, text: &str) -> Result<(), Error> {
        let path = self.dir.join(name);
        let beside = self.dir.join(format!(".{name}.new"));
        let write = || {
            let mut options = std::fs::OpenOptions::new();
            let mut file = options
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&beside)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&beside, &path)?;
            std::fs::File::open(&self.dir)?.sync_all()
        };
        write().map_err(|source| Error::Write {
            path: path.clone(),
            source,
        })
    }
}

/// Between certificate and key: text that PEM readers skip.
const BETWEEN: &str = "# key\n";

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use rcgen::{BasicConstraints, CertificateSigningRequestParams, IsCa, Issuer};

    use super::*;

    fn sign(request: &str) -> String {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = Issuer::new(params, key);
        let csr = CertificateSigningRequestParams::from_pem(request).expect("a request");
        csr.signed_by(&issuer).expect("a certificate").pem()
    }

    #[test]
    fn whoever_is_killed_finds_its_request_and_then_its_certificate_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let files = Files::open(dir.path(), "n").expect("it opens");
        assert!(files.identity().is_none() && files.request().is_none());
        let drawn = files.draw(Timestamp::UNIX_EPOCH).expect("a key");
        let again = files.request().expect("it is kept");
        assert_eq!(
            (drawn.name.as_str(), drawn.since),
            (again.name.as_str(), again.since)
        );
        let certificate = sign(&again.pem);
        let taken = files.take(&again, &certificate).expect("it is ours");
        assert!(files.request().is_none());
        let kept = files.identity().expect("it is kept");
        assert_eq!(kept.key.expose(), taken.key.expose());
        assert_eq!(kept.validity, taken.validity);
        let mode = std::fs::metadata(files.path())
            .expect("a file")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn what_is_of_another_key_or_node_is_not_taken() {
        let dir = tempfile::tempdir().expect("a directory");
        let files = Files::open(dir.path(), "n").expect("it opens");
        let first = files.draw(Timestamp::UNIX_EPOCH).expect("a key");
        let second = files.draw(Timestamp::UNIX_EPOCH).expect("a key");
        assert_ne!(first.name, second.name);
        let error = files
            .take(&second, &sign(&first.pem))
            .expect_err("another key");
        assert!(error.to_string().contains("another key"), "{error}");
        assert!(files.take(&second, "nonsense").is_err());
        let others = Files::open(dir.path(), "other").expect("it opens");
        assert!(others.request().is_none());
        files.take(&second, &sign(&second.pem)).expect("it is ours");
        assert!(others.identity().is_none());
    }

    #[test]
    fn files_that_are_broken_count_as_none() {
        let dir = tempfile::tempdir().expect("a directory");
        let files = Files::open(dir.path(), "n").expect("it opens");
        for text in ["", "{}", "nonsense", "# key\n"] {
            std::fs::write(files.path(), text).expect("a file");
            std::fs::write(files.waiting_path(), text).expect("a file");
            assert!(
                files.identity().is_none() && files.request().is_none(),
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_certificate_to_serve_with_has_the_nodes_name_and_its_address() {
        let dir = tempfile::tempdir().expect("a directory");
        let client = Files::open(dir.path(), "n").expect("it opens");
        let address = |text: &str| Some(text.parse().expect("an address"));
        let files = client.for_server(address("192.0.2.7"));
        let drawn = files.draw(Timestamp::UNIX_EPOCH).expect("a key");
        assert!(client.request().is_none(), "the two are apart");
        files.take(&drawn, &sign(&drawn.pem)).expect("it is ours");
        assert!(client.identity().is_none() && files.identity().is_some());
        // At its start a node may not know its address.
        assert!(client.for_server(None).identity().is_some());
        let moved = client.for_server(address("2001:db8::7"));
        assert!(moved.identity().is_none());
        let drawn = moved.draw(Timestamp::UNIX_EPOCH).expect("a key");
        assert!(
            files.request().is_none(),
            "a request for one address is none for another"
        );
        moved.take(&drawn, &sign(&drawn.pem)).expect("it is ours");
        let as_client = client.draw(Timestamp::UNIX_EPOCH).expect("a key");
        let error = files.take(&as_client, &sign(&as_client.pem));
        let error = error.expect_err("it has no name").to_string();
        assert!(error.contains("name"), "{error}");
    }
}
