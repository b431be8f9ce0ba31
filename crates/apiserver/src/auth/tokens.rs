//! Tokens of service accounts: signed here, and good while the account they name is there.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use model::Secret;
use objects::Status;
use objects::access::User;
use rcgen::KeyPair;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::api::TokenWish;
use crate::store::{self, Store};

#[derive(Clone)]
pub struct Tokens(Arc<Keys>);

struct Keys {
    sign: EncodingKey,
    verify: DecodingKey,
    algorithm: Algorithm,
    issuer: String,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not read or make {path}")]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{path} is not a private key in PEM (PKCS #8), EC P-256 or RSA")]
    Key { path: PathBuf },
}

#[derive(Serialize, Deserialize)]
struct Claims {
    iss: String,
    sub: String,
    aud: Vec<String>,
    /// Tokens in Secrets end with their Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    exp: Option<i64>,
    iat: i64,
    nbf: i64,
    jti: Uuid,
    #[serde(rename = "kubernetes.io")]
    bound: Bound,
}

#[derive(Serialize, Deserialize)]
struct Bound {
    namespace: String,
    serviceaccount: Named,
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<Named>,
}

#[derive(Serialize, Deserialize)]
struct Named {
    name: String,
    uid: String,
}

impl Tokens {
    /// Reads the key, or makes one where there is none.
    pub fn load(path: &Path, issuer: &str) -> Result<Self, Error> {
        let pem = read_or_make(path).map_err(|source| Error::File {
            path: path.to_owned(),
            source,
        })?;
        Self::new(&pem, issuer).ok_or_else(|| Error::Key {
            path: path.to_owned(),
        })
    }

    fn new(pem: &Secret<String>, issuer: &str) -> Option<Self> {
        let pem = pem.expose();
        let pair = KeyPair::from_pem(pem).ok()?;
        let public = pair.public_key_pem();
        let (sign, verify, algorithm) = if pair.is_compatible(&rcgen::PKCS_ECDSA_P256_SHA256) {
            (
                EncodingKey::from_ec_pem(pem.as_bytes()).ok()?,
                DecodingKey::from_ec_pem(public.as_bytes()).ok()?,
                Algorithm::ES256,
            )
        } else {
            (
                EncodingKey::from_rsa_pem(pem.as_bytes()).ok()?,
                DecodingKey::from_rsa_pem(public.as_bytes()).ok()?,
                Algorithm::RS256,
            )
        };
        let issuer = issuer.to_owned();
        Some(Self(Arc::new(Keys {
            sign,
            verify,
            algorithm,
            issuer,
        })))
    }

    pub fn issue(
        &self,
        wish: &TokenWish<'_>,
        now: Timestamp,
    ) -> Result<(String, Timestamp), Status> {
        let expires = now + SignedDuration::from_secs(wish.seconds);
        let bound = Bound {
            namespace: wish.namespace.to_owned(),
            serviceaccount: Named {
                name: wish.name.to_owned(),
                uid: wish.uid.to_owned(),
            },
            secret: None,
        };
        let token = self.sign(bound, wish.audiences.clone(), Some(expires), now)?;
        Ok((token, expires))
    }

    /// A token that lives as long as the Secret it is kept in.
    pub fn issue_for_secret(
        &self,
        namespace: &str,
        (account, account_uid): (&str, &str),
        (secret, secret_uid): (&str, &str),
        now: Timestamp,
    ) -> Result<String, Status> {
        let named = |name: &str, uid: &str| Named {
            name: name.to_owned(),
            uid: uid.to_owned(),
        };
        let bound = Bound {
            namespace: namespace.to_owned(),
            serviceaccount: named(account, account_uid),
            secret: Some(named(secret, secret_uid)),
        };
        self.sign(bound, Vec::new(), None, now)
    }

    /// Whose token this is, while it, its account and its Secret are valid.
    pub fn user(
        &self,
        store: &Store,
        token: &str,
        audiences: &[String],
        now: Timestamp,
    ) -> Option<User> {
        let claims = self.verify(token, audiences, now)?;
        let Bound {
            namespace,
            serviceaccount,
            secret,
        } = claims.bound;
        let there = |plural: &str, named: &Named| {
            let kept = store.peek(&store::key("", plural, &namespace, &named.name))?;
            let object: Value = serde_json::from_slice(&kept.value).ok()?;
            let metadata = object.get("metadata")?;
            let same = metadata.get("uid")?.as_str()? == named.uid;
            (same && metadata.get("deletionTimestamp").is_none()).then_some(())
        };
        there("serviceaccounts", &serviceaccount)?;
        if let Some(secret) = &secret {
            there("secrets", secret)?;
        }
        Some(User {
            name: format!("system:serviceaccount:{namespace}:{}", serviceaccount.name),
            uid: serviceaccount.uid,
            groups: account_groups(&namespace),
            extra: [(
                "authentication.kubernetes.io/credential-id".to_owned(),
                vec![format!("JTI={}", claims.jti)],
            )]
            .into(),
        })
    }

    fn sign(
        &self,
        bound: Bound,
        audiences: Vec<String>,
        expires: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<String, Status> {
        let Keys {
            sign,
            algorithm,
            issuer,
            ..
        } = &*self.0;
        let aud = if audiences.is_empty() {
            vec![issuer.clone()]
        } else {
            audiences
        };
        let claims = Claims {
            iss: issuer.clone(),
            sub: format!(
                "system:serviceaccount:{}:{}",
                bound.namespace, bound.serviceaccount.name
            ),
            aud,
            exp: expires.map(Timestamp::as_second),
            iat: now.as_second(),
            nbf: now.as_second(),
            jti: Uuid::new_v4(),
            bound,
        };
        jsonwebtoken::encode(&Header::new(*algorithm), &claims, sign).map_err(Status::internal)
    }

    fn verify(&self, token: &str, audiences: &[String], now: Timestamp) -> Option<Claims> {
        let Keys {
            verify,
            algorithm,
            issuer,
            ..
        } = &*self.0;
        let mut validation = Validation::new(*algorithm);
        validation.set_issuer(&[issuer]);
        // Time is checked below, with our own clock.
        validation.validate_exp = false;
        validation.validate_nbf = false;
        validation.required_spec_claims.clear();
        if audiences.is_empty() {
            validation.set_audience(&[issuer]);
        } else {
            validation.set_audience(audiences);
        }
        let claims = jsonwebtoken::decode::<Claims>(token, verify, &validation)
            .ok()?
            .claims;
        let now = now.as_second();
        let valid =
            claims.exp.is_none_or(|exp| now < exp) && claims.nbf <= now + CLOCK_SKEW_SECONDS;
        (claims.iss == *issuer && valid).then_some(claims)
    }
}

/// Another server's clock may be ahead.
const CLOCK_SKEW_SECONDS: i64 = 60;

/// The groups of every service account in a namespace.
pub fn account_groups(namespace: &str) -> Vec<String> {
    vec![
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{namespace}"),
        super::AUTHENTICATED.to_owned(),
    ]
}

fn read_or_make(path: &Path) -> std::io::Result<Secret<String>> {
    match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        read => return read.map(Secret::new),
    }
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let pair = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256);
    let pem = pair.map_err(std::io::Error::other)?.serialize_pem();
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(pem.as_bytes())?;
    file.sync_all()?;
    Ok(Secret::new(pem))
}
