//! The certificate the agent shows on its API: made by itself, told to Ironic with every heartbeat.

use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P384_SHA384, SanType,
};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use time::{Duration, OffsetDateTime};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("make a certificate")]
    Make(#[from] rcgen::Error),
    #[error("use a certificate")]
    Use(#[from] rustls::Error),
}

/// A certificate and what serves with it. May be shared by many simulated servers.
#[derive(Debug, Clone)]
pub struct Identity {
    pub pem: String,
    pub tls: Arc<ServerConfig>,
}

impl Identity {
    /// Valid from an hour ago, for clocks differ, and for a month.
    pub fn new(name: &str, addresses: &[IpAddr]) -> Result<Self, Error> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.subject_alt_names = addresses.iter().map(|ip| SanType::IpAddress(*ip)).collect();
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let now = OffsetDateTime::now_utc();
        params.not_before = now - Duration::HOUR;
        params.not_after = now + Duration::days(30);
        let certificate = params.self_signed(&key)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)?;
        // Ironic comes with a new connection for every call; sessions kept for it would only take memory.
        tls.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        tls.send_tls13_tickets = 0;
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            pem: certificate.pem(),
            tls: Arc::new(tls),
        })
    }
}
