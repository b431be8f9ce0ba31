//! Certificates for those who asked and were approved.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use rcgen::{
    CertificateSigningRequestParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SerialNumber,
};
use rustls::pki_types::CertificateSigningRequestDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use tracing::{info, warn};
use x509_parser::prelude::{FromDer as _, X509CertificationRequest};

use super::work::{Controller, Next};
use super::{Context, meta};
use crate::config;
use crate::local::Refusal;
use crate::store;

/// The authority of the cluster, with its key.
pub struct Signer {
    issuer: Issuer<'static, KeyPair>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not read {path}")]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{certificate} and {key} are not the certificate and key of an authority")]
    Authority {
        certificate: PathBuf,
        key: PathBuf,
        source: rcgen::Error,
    },
}

/// Who may have what: the names Kubernetes gave them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Client,
    KubeletClient,
    KubeletServing,
}

const USUAL_SECONDS: i64 = 365 * 24 * 3600;
const SHORTEST_SECONDS: i64 = 600;
/// For clocks that are behind.
const BACKDATED_SECONDS: i64 = 300;

impl Signer {
    pub fn load(config: &config::Signer) -> Result<Self, Error> {
        let read = |path: &PathBuf| {
            std::fs::read_to_string(path).map_err(|source| Error::Read {
                path: path.clone(),
                source,
            })
        };
        let certificate = read(&config.certificate)?;
        let key = model::Secret::new(read(&config.key)?);
        Self::new(&certificate, key.expose()).map_err(|source| Error::Authority {
            certificate: config.certificate.clone(),
            key: config.key.clone(),
            source,
        })
    }

    pub fn new(certificate: &str, key: &str) -> Result<Self, rcgen::Error> {
        let key = KeyPair::from_pem(key)?;
        let issuer = Issuer::from_ca_cert_pem(certificate, key)?;
        Ok(Self { issuer })
    }

    /// The certificate in PEM, or why there can be none. The signer decides on usages and time, not the request.
    fn sign(
        &self,
        purpose: Purpose,
        request: &str,
        seconds: i64,
        now: Timestamp,
    ) -> Result<String, String> {
        let der = CertificateSigningRequestDer::from_pem_slice(request.as_bytes());
        let der = der.map_err(|_| "spec.request is not a certificate request in PEM")?;
        check_subject(purpose, &der)?;
        // This checks the signature too: whoever asks must have the key.
        let csr = CertificateSigningRequestParams::from_der(&der);
        let mut csr = csr.map_err(|error| format!("spec.request cannot be signed: {error}"))?;
        let params = &mut csr.params;
        if purpose != Purpose::KubeletServing && !params.subject_alt_names.is_empty() {
            return Err("a client's certificate has no alternative names".into());
        }
        params.is_ca = IsCa::NoCa;
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyEncipherment,
        ];
        params.extended_key_usages = vec![match purpose {
            Purpose::Client | Purpose::KubeletClient => ExtendedKeyUsagePurpose::ClientAuth,
            Purpose::KubeletServing => ExtendedKeyUsagePurpose::ServerAuth,
        }];
        params.use_authority_key_identifier_extension = true;
        params.serial_number = Some(SerialNumber::from(serial()));
        let at = |seconds: i64| {
            let time = time::OffsetDateTime::from_unix_timestamp(now.as_second() + seconds);
            time.map_err(|error| error.to_string())
        };
        params.not_before = at(-BACKDATED_SECONDS)?;
        params.not_after = at(seconds.clamp(SHORTEST_SECONDS, USUAL_SECONDS))?;
        let signed = csr
            .signed_by(&self.issuer)
            .map_err(|error| error.to_string())?;
        Ok(signed.pem())
    }
}

/// Positive, as DER's integers are signed.
fn serial() -> Vec<u8> {
    let mut serial: [u8; 16] = rand::random();
    serial[0] = serial[0] & 0x7f | 0x40;
    serial.to_vec()
}

/// What the subject must be for the purpose.
fn check_subject(purpose: Purpose, der: &[u8]) -> Result<(), String> {
    let (_, request) = X509CertificationRequest::from_der(der)
        .map_err(|_| "spec.request is not a certificate request")?;
    let subject = &request.certification_request_info.subject;
    let names: Vec<&str> = subject
        .iter_common_name()
        .filter_map(|name| name.as_str().ok())
        .collect();
    let groups: Vec<&str> = subject
        .iter_organization()
        .filter_map(|name| name.as_str().ok())
        .collect();
    if names.len() != 1 {
        return Err("the subject must have one common name".into());
    }
    // A second one would be lost on the way into the certificate, and with it what the user may do.
    if groups.len() > 1 {
        return Err("the subject may have one organization".into());
    }
    match purpose {
        Purpose::Client if groups.contains(&"system:masters") => {
            Err("masters are not made by certificate requests".into())
        }
        Purpose::Client => Ok(()),
        Purpose::KubeletClient | Purpose::KubeletServing => {
            if groups != ["system:nodes"] || !names[0].starts_with("system:node:") {
                return Err("a node's subject is O=system:nodes, CN=system:node:NAME".into());
            }
            Ok(())
        }
    }
}

pub(super) struct Signing(pub Context, pub Signer);

const GROUP: &str = "certificates.k8s.io";

impl Controller for Signing {
    const NAME: &'static str = "signer";

    fn prefix(&self) -> String {
        store::prefix(GROUP, "certificatesigningrequests", "")
    }

    async fn look(&mut self, _: &str, object: Option<Value>) -> Result<Next, Refusal> {
        let Some((csr, purpose)) = object.and_then(|csr| {
            let purpose = due(&csr)?;
            Some((csr, purpose))
        }) else {
            return Ok(Next::Done);
        };
        let name = meta(&csr, "name");
        let request = csr["spec"]["request"].as_str().unwrap_or_default();
        let request = STANDARD.decode(request).unwrap_or_default();
        let request = String::from_utf8_lossy(&request);
        let seconds = csr["spec"]["expirationSeconds"]
            .as_i64()
            .unwrap_or(USUAL_SECONDS);
        let now = Timestamp::now();
        let version = meta(&csr, "resourceVersion");
        let status = match self.1.sign(purpose, &request, seconds, now) {
            Ok(certificate) => {
                info!(
                    csr = name,
                    user = csr["spec"]["username"].as_str(),
                    "certificate signed"
                );
                json!({"certificate": STANDARD.encode(certificate)})
            }
            Err(problem) => {
                warn!(csr = name, problem, "certificate refused");
                let mut conditions = csr["status"]["conditions"]
                    .as_array()
                    .cloned()
                    .unwrap_or_default();
                let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
                conditions.push(json!({
                    "type": "Failed", "status": "True", "reason": "SignerValidationFailure", "message": problem,
                    "lastUpdateTime": now, "lastTransitionTime": now,
                }));
                json!({"conditions": conditions})
            }
        };
        let patch = json!({"metadata": {"resourceVersion": version}, "status": status});
        let path = format!("/apis/{GROUP}/v1/certificatesigningrequests/{name}/status");
        self.0.local.merge(&path, &patch).await?;
        Ok(Next::Done)
    }
}

/// What is to be signed: approved, not denied, not failed, not signed yet, and for a signer that we are.
fn due(csr: &Value) -> Option<Purpose> {
    let has = |kind: &str| {
        let conditions = csr["status"]["conditions"].as_array().into_iter().flatten();
        let mut conditions = conditions.filter(|condition| condition["status"] != json!("False"));
        conditions.any(|condition| condition["type"] == kind)
    };
    let signed = csr["status"]["certificate"]
        .as_str()
        .is_some_and(|pem| !pem.is_empty());
    if signed || !has("Approved") || has("Denied") || has("Failed") {
        return None;
    }
    match csr["spec"]["signerName"].as_str()? {
        "kubernetes.io/kube-apiserver-client" => Some(Purpose::Client),
        "kubernetes.io/kube-apiserver-client-kubelet" => Some(Purpose::KubeletClient),
        "kubernetes.io/kubelet-serving" => Some(Purpose::KubeletServing),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, DnType};

    fn signer() -> Signer {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        Signer::new(&certificate.pem(), &key.serialize_pem()).unwrap()
    }

    fn request(name: &str, group: &str, names: &[&str]) -> String {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::OrganizationName, group);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        params.serialize_request(&key).unwrap().pem().unwrap()
    }

    #[test]
    fn a_node_gets_a_certificate_for_its_own_name_and_nothing_more() {
        let signer = signer();
        let now = Timestamp::now();
        let pem = request("system:node:n1", "system:nodes", &[]);
        let signed = signer
            .sign(Purpose::KubeletClient, &pem, 3600, now)
            .unwrap();
        let der = rustls::pki_types::CertificateDer::from_pem_slice(signed.as_bytes()).unwrap();
        let user = crate::auth::user_of_certificate(&der).unwrap();
        assert_eq!(user.name, "system:node:n1");
        assert_eq!(user.groups, ["system:nodes", "system:authenticated"]);
        let (_, certificate) = x509_parser::parse_x509_certificate(&der).unwrap();
        assert!(!certificate.is_ca());
        let life = certificate.validity().not_after.timestamp() - now.as_second();
        assert_eq!(life, 3600);
    }

    #[test]
    fn what_is_wrong_with_a_request_is_said() {
        let signer = signer();
        let node = ("system:node:n1", "system:nodes");
        let table = [
            (
                Purpose::KubeletClient,
                request("jane", "system:nodes", &[]),
                "subject",
            ),
            (
                Purpose::KubeletClient,
                request(node.0, "system:masters", &[]),
                "subject",
            ),
            (
                Purpose::KubeletClient,
                request(node.0, node.1, &["n1"]),
                "alternative names",
            ),
            (
                Purpose::Client,
                request("jane", "system:masters", &[]),
                "masters",
            ),
            (Purpose::Client, "hello".to_owned(), "PEM"),
        ];
        for (purpose, pem, word) in table {
            let problem = signer
                .sign(purpose, &pem, 3600, Timestamp::now())
                .unwrap_err();
            assert!(problem.contains(word), "{problem}");
        }
        let serving = request(node.0, node.1, &["n1"]);
        assert!(
            signer
                .sign(Purpose::KubeletServing, &serving, 3600, Timestamp::now())
                .is_ok()
        );
    }

    #[test]
    fn only_what_is_approved_is_due() {
        let csr = |conditions: &[&str], signer: &str| {
            let conditions: Vec<Value> = conditions
                .iter()
                .map(|kind| json!({"type": kind, "status": "True"}))
                .collect();
            json!({"spec": {"signerName": signer}, "status": {"conditions": conditions}})
        };
        let ours = "kubernetes.io/kube-apiserver-client";
        assert_eq!(due(&csr(&["Approved"], ours)), Some(Purpose::Client));
        for conditions in [
            &[][..],
            &["Denied"],
            &["Approved", "Denied"],
            &["Approved", "Failed"],
        ] {
            assert_eq!(due(&csr(conditions, ours)), None);
        }
        assert_eq!(due(&csr(&["Approved"], "example.com/other")), None);
    }
}
