//! TLS of the node's server: its own certificate, and nobody without one.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use crate::identity::Identity;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not read the node's own certificate and key")]
    Read(#[source] rustls::pki_types::pem::Error),
    #[error("the kubeconfig names no authority that clients could be known by")]
    Authorities(#[source] rustls::server::VerifierBuilderError),
    #[error("the certificate and its key cannot be used")]
    Use(#[source] rustls::Error),
}

/// `authorities` in DER: those of the cluster.
pub fn server(identity: &Identity, authorities: &[Vec<u8>]) -> Result<Arc<ServerConfig>, Error> {
    let certificates = CertificateDer::pem_slice_iter(identity.certificate.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(Error::Read)?;
    let key =
        PrivateKeyDer::from_pem_slice(identity.key.expose().as_bytes()).map_err(Error::Read)?;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(authorities.iter().cloned().map(CertificateDer::from));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(&provider))
        .build()
        .map_err(Error::Authorities)?;
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(Error::Use)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(certificates, key)
        .map_err(Error::Use)?;
    Ok(Arc::new(config))
}
