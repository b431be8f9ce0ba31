//! Makes the key material that the plan names. What exists and still says what the plan says is kept.

use std::collections::BTreeMap;

use model::Secret;
use plan::assets::KeyPair;
use plan::cluster::{Certificate, Issuer as Signer, Usage};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair as Key, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use time::{Duration, OffsetDateTime};

/// A certificate, and what it was made for.
#[derive(Debug, Clone)]
pub struct Made {
    pub pair: KeyPair,
    /// The plan's words; another plan makes another certificate, but never another authority.
    pub spec: Certificate,
    /// Seconds since 1970.
    pub made: i64,
}

impl Made {
    /// Still what is wanted. An authority is for good: everything that it signed hangs on it.
    fn serves(&self, planned: &Certificate, now: OffsetDateTime) -> bool {
        let age = Duration::seconds(now.unix_timestamp() - self.made);
        let alive = age < Duration::days(i64::from(self.spec.days));
        self.spec.usage == Usage::Authority || (self.spec == *planned && alive)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not make the certificate {name}")]
    Sign { name: String, source: rcgen::Error },
    #[error("the certificate {name} is to be signed by {issuer}, which there is none of")]
    NoIssuer { name: String, issuer: String },
}

/// Clocks of servers that were long in a box go wrong by minutes.
const BACKDATED: Duration = Duration::hours(1);

/// Every certificate of the plan, by name; authorities first in the plan.
pub fn certificates(
    planned: &[Certificate],
    existing: &BTreeMap<String, Made>,
    now: OffsetDateTime,
) -> Result<BTreeMap<String, Made>, Error> {
    let mut made: BTreeMap<String, Made> = BTreeMap::new();
    for certificate in planned {
        let old = existing.get(&certificate.name);
        if let Some(old) = old.filter(|old| old.serves(certificate, now)) {
            made.insert(certificate.name.clone(), old.clone());
            continue;
        }
        let pair = match &certificate.issuer {
            Signer::Itself => sign(certificate, None, now)?,
            Signer::Ca(issuer) => {
                let authority = made.get(issuer).ok_or_else(|| Error::NoIssuer {
                    name: certificate.name.clone(),
                    issuer: issuer.clone(),
                })?;
                sign(
                    certificate,
                    Some((&authority.spec, &authority.pair.private)),
                    now,
                )?
            }
        };
        let spec = certificate.clone();
        let new = Made {
            pair,
            spec,
            made: now.unix_timestamp(),
        };
        made.insert(certificate.name.clone(), new);
    }
    Ok(made)
}

fn sign(
    certificate: &Certificate,
    authority: Option<(&Certificate, &Secret<String>)>,
    now: OffsetDateTime,
) -> Result<KeyPair, Error> {
    let error = |source| Error::Sign {
        name: certificate.name.clone(),
        source,
    };
    let key = Key::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(error)?;
    let params = params(certificate, now).map_err(error)?;
    let signed = match authority {
        None => params.self_signed(&key).map_err(error)?,
        Some((authority, authority_key)) => {
            let authority_key = Key::from_pem(authority_key.expose()).map_err(error)?;
            // An issuer is its name and its key.
            let issuer = Issuer::new(self::params(authority, now).map_err(error)?, authority_key);
            params.signed_by(&key, &issuer).map_err(error)?
        }
    };
    Ok(KeyPair {
        public: signed.pem(),
        private: Secret::new(key.serialize_pem()),
    })
}

fn params(
    certificate: &Certificate,
    now: OffsetDateTime,
) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(certificate.names.clone())?;
    let mut name = DistinguishedName::new();
    if let Some(organization) = &certificate.organization {
        name.push(DnType::OrganizationName, organization);
    }
    name.push(DnType::CommonName, &certificate.common_name);
    params.distinguished_name = name;
    params.not_before = now - BACKDATED;
    params.not_after = now + Duration::days(i64::from(certificate.days));
    params.use_authority_key_identifier_extension = true;
    let usages = match certificate.usage {
        Usage::Authority => {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.key_usages = vec![
                KeyUsagePurpose::KeyCertSign,
                KeyUsagePurpose::CrlSign,
                KeyUsagePurpose::DigitalSignature,
            ];
            return Ok(params);
        }
        Usage::Server => vec![ExtendedKeyUsagePurpose::ServerAuth],
        Usage::Client => vec![ExtendedKeyUsagePurpose::ClientAuth],
        Usage::Both => vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ],
    };
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyEncipherment,
    ];
    params.extended_key_usages = usages;
    Ok(params)
}

/// The key that signs service account tokens, and its public half.
pub fn service_account() -> Result<KeyPair, Error> {
    let error = |source| Error::Sign {
        name: "service-account".into(),
        source,
    };
    let key = Key::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(error)?;
    Ok(KeyPair {
        public: key.public_key_pem(),
        private: Secret::new(key.serialize_pem()),
    })
}

/// 256 random bits, in hexadecimal.
pub fn token() -> Secret<String> {
    let bytes: [u8; 32] = rand::random();
    Secret::new(
        bytes
            .iter()
            .fold(String::new(), |hex, byte| format!("{hex}{byte:02x}")),
    )
}
