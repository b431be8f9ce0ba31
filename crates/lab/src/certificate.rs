//! The lab's own certificate authority, and a certificate for each BMC.

use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::NoServerSessionStorage;
use rustls::{RootCertStore, ServerConfig};
use time::{Duration, OffsetDateTime};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("make a certificate")]
    Make(#[from] rcgen::Error),
    #[error("use a certificate")]
    Use(#[from] rustls::Error),
}

/// A certificate authority that lives as long as the lab.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    der: CertificateDer<'static>,
}

impl Authority {
    pub fn new(lab: &str) -> Result<Self, Error> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = named(&format!("Plinth lab {lab}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        valid(&mut params);
        let certificate = params.self_signed(&key)?;
        let (pem, der) = (certificate.pem(), certificate.der().clone());
        Ok(Self {
            issuer: Issuer::new(params, key),
            pem,
            der,
        })
    }

    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// For those who believe nobody else.
    pub fn store(&self) -> RootCertStore {
        let mut store = RootCertStore::empty();
        store
            .add(self.der.clone())
            .expect("a certificate we have just made is well-formed");
        store
    }

    /// What a server at this address needs to speak TLS.
    pub fn server(&self, name: &str, address: IpAddr) -> Result<Arc<ServerConfig>, Error> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec![name.to_string()])?;
        params.subject_alt_names.push(SanType::IpAddress(address));
        params.distinguished_name = named(name);
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyEncipherment,
        ];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        valid(&mut params);
        let certificate = params.signed_by(&key, &self.issuer)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)?;
        // Sessions kept for clients that come again would take memory in each of a thousand BMCs.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }
}

fn named(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

/// A year, begun a little in the past for clients whose clock is behind.
fn valid(params: &mut CertificateParams) {
    params.not_before = OffsetDateTime::now_utc() - Duration::hours(1);
    params.not_after = params.not_before + Duration::days(365);
}
