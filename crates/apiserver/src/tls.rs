//! Certificates and keys from files, for the listener and for etcd.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::Secret;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use crate::config::{Config, EtcdTls};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not read {path}")]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{path} is not a PEM file of what it should hold")]
    Pem {
        path: PathBuf,
        source: rustls::pki_types::pem::Error,
    },
    #[error("{path} holds no certificate of an authority")]
    Authority {
        path: PathBuf,
        source: rustls::server::VerifierBuilderError,
    },
    #[error("certificate and key do not make a TLS server")]
    Server(#[source] rustls::Error),
}

/// A listener that takes certificates of clients, and clients without one too.
pub fn server(config: &Config) -> Result<Arc<ServerConfig>, Error> {
    let certificates = certificates(&config.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&config.key).map_err(|source| Error::Pem {
        path: config.key.clone(),
        source,
    })?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(Error::Server)?;
    let builder = match &config.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(self::certificates(path)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider)
                .allow_unauthenticated()
                .build()
                .map_err(|source| Error::Authority {
                    path: path.clone(),
                    source,
                })?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut made = builder
        .with_single_cert(certificates, key)
        .map_err(Error::Server)?;
    made.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(made))
}

/// What service accounts are given to verify this server with; empty if there is nothing.
pub fn account_ca(config: &Config) -> Result<String, Error> {
    config.account_ca.as_deref().map_or(Ok(String::new()), read)
}

pub fn etcd(config: &EtcdTls) -> Result<clients::etcd::Tls, Error> {
    Ok(clients::etcd::Tls {
        ca: read(&config.ca)?,
        certificate: read(&config.certificate)?,
        key: Secret::new(read(&config.key)?),
        name: None,
    })
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    read.map_err(|source| Error::Pem {
        path: path.to_owned(),
        source,
    })
}

fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })
}
