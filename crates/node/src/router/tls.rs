//! The certificate of the stand-in: given, or made for this run.

use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not read a certificate from {}", path.display())]
    ReadCertificate {
        path: PathBuf,
        source: rustls::pki_types::pem::Error,
    },
    #[error("could not read a key from {}", path.display())]
    ReadKey {
        path: PathBuf,
        source: rustls::pki_types::pem::Error,
    },
    #[error("could not make a certificate")]
    Make(#[source] rcgen::Error),
    #[error("the certificate and its key cannot be used")]
    Use(#[source] rustls::Error),
}

pub fn server(given: Option<&(PathBuf, PathBuf)>) -> Result<Arc<ServerConfig>, Error> {
    let (certificates, key) = match given {
        Some((certificate, key)) => read(certificate, key)?,
        None => make()?,
    };
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(certificates, key);
    Ok(Arc::new(config.map_err(Error::Use)?))
}

type Pair = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn read(certificate: &PathBuf, key: &PathBuf) -> Result<Pair, Error> {
    let certificates = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .map_err(|source| Error::ReadCertificate {
            path: certificate.clone(),
            source,
        })?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(|source| Error::ReadKey {
        path: key.clone(),
        source,
    })?;
    Ok((certificates, key))
}

/// Nobody trusts it, and nobody should: it says what it is.
fn make() -> Result<Pair, Error> {
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, "Plinth's stand-in for a router");
    let key = KeyPair::generate().map_err(Error::Make)?;
    let certificate = params.self_signed(&key).map_err(Error::Make)?;
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("rcgen writes PKCS#8");
    Ok((vec![certificate.der().clone()], key))
}
