//! Our key and certificate on disk, and the key that waits for its certificate.
//!
//! ```text
//!   identity.pem   certificate and key, replaced as one
//!   request.json   a key and the name of the request for it: written before the request is made, so that whoever is
//!                  killed in between finds its own request again
//! ```

use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use model::Secret;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PublicKeyData as _};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

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

/// A key that waits.
#[derive(Debug, Clone)]
pub struct Request {
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
}

/// The files of one node.
#[derive(Debug, Clone)]
pub struct Files {
    dir: PathBuf,
    node: String,
}

impl Files {
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
        })
    }

    /// The identity, if there is one and it is this node's. What cannot be read counts as none: another is asked for.
    pub fn identity(&self) -> Option<Identity> {
        let text = std::fs::read_to_string(self.dir.join(IDENTITY)).ok()?;
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
        let text = std::fs::read(self.dir.join(REQUEST)).ok()?;
        let kept: Kept = serde_json::from_slice(&text).ok()?;
        if kept.node != self.node {
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
        });
        self.write(REQUEST, &kept.to_string())?;
        Ok(request)
    }

    /// The certificate of the key that waited is the identity from now on.
    pub fn take(&self, request: &Request, certificate: &str) -> Result<Identity, Error> {
        let key = KeyPair::from_pem(request.key.expose()).map_err(Error::MakeRequest)?;
        let identity = self.check(certificate, &key)?;
        let both = Secret::new(format!("{certificate}\n{BETWEEN}{}", identity.key.expose()));
        self.write(IDENTITY, both.expose())?;
        self.forget_request();
        Ok(identity)
    }

    /// The key that waited has its certificate, or will never have one.
    pub fn forget_request(&self) {
        _ = std::fs::remove_file(self.dir.join(REQUEST));
    }

    fn make(&self, since: Timestamp, key: &KeyPair) -> Result<Request, Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::OrganizationName, NODES);
        let name = format!("{NODE_PREFIX}{}", self.node);
        params.distinguished_name.push(DnType::CommonName, name);
        let request = params
            .serialize_request(key)
            .and_then(|request| request.pem());
        let digest = Sha256::digest(key.subject_public_key_info());
        let mut short = [0; 16];
        short.copy_from_slice(&digest[..16]);
        Ok(Request {
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

const IDENTITY: &str = "identity.pem";
const REQUEST: &str = "request.json";
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
        let mode = std::fs::metadata(dir.path().join(IDENTITY))
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
            std::fs::write(dir.path().join(IDENTITY), text).expect("a file");
            std::fs::write(dir.path().join(REQUEST), text).expect("a file");
            assert!(
                files.identity().is_none() && files.request().is_none(),
                "{text:?}"
            );
        }
    }
}
