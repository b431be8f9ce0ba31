//! The API as a node uses it: every call has a deadline, and an error says what was being done.

use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestSpec,
};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{ObjectMeta, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};
use serde_json::json;

use crate::decide::identity::Request;
use crate::decide::{lease, node};
use crate::identity::{self, Identity, Purpose};

const CONNECT: Duration = Duration::from_secs(3);
const ANSWER: Duration = Duration::from_secs(5);
const MANAGER: &str = "plinth-node";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not use the kubeconfig {}", path.display())]
    Kubeconfig {
        path: PathBuf,
        source: kube::config::KubeconfigError,
    },
    #[error("could not make a client of the API")]
    Client(#[source] Box<kube::Error>),
    #[error("could not {what}")]
    Call {
        what: &'static str,
        source: Box<kube::Error>,
    },
    #[error("could not {what}: the API does not answer")]
    Late { what: &'static str },
}

impl Error {
    /// Somebody else wrote first: look again.
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }

    /// As [`Self::is_conflict`], or it is not there any more.
    pub fn is_gone_or_conflict(&self) -> bool {
        matches!(self.code(), Some(404 | 409))
    }

    fn code(&self) -> Option<u16> {
        match self {
            Self::Call { source, .. } => match &**source {
                kube::Error::Api(status) => Some(status.code),
                _ => None,
            },
            Self::Kubeconfig { .. } | Self::Client(_) | Self::Late { .. } => None,
        }
    }
}

/// Who we are there.
#[derive(Clone)]
pub struct Session {
    client: Client,
    /// What the API is verified with, in DER.
    pub authorities: Vec<Vec<u8>>,
}

impl Session {
    /// As whoever the kubeconfig says, or as the node.
    pub async fn open(kubeconfig: &Path, identity: Option<&Identity>) -> Result<Self, Error> {
        let broken = |source| Error::Kubeconfig {
            path: kubeconfig.to_owned(),
            source,
        };
        let read = Kubeconfig::read_from(kubeconfig).map_err(broken)?;
        let options = KubeConfigOptions::default();
        let mut config = kube::Config::from_custom_kubeconfig(read, &options)
            .await
            .map_err(broken)?;
        if let Some(identity) = identity {
            let user = json!({
                "client-certificate-data": STANDARD.encode(&identity.certificate),
                "client-key-data": STANDARD.encode(identity.key.expose()),
            });
            config.auth_info =
                serde_json::from_value(user).expect("these are fields of a kubeconfig's user");
        }
        config.connect_timeout = Some(CONNECT);
        // A virtual address moves and leaves connections behind that nobody answers.
        config.read_timeout = Some(ANSWER);
        config.reset_reader_on_write = true;
        let authorities = config.root_cert.clone().unwrap_or_default();
        let client = Client::try_from(config).map_err(|error| Error::Client(Box::new(error)))?;
        Ok(Self {
            client,
            authorities,
        })
    }

    /// What became of a request for a certificate.
    pub async fn request(&self, request: &identity::Request) -> Request {
        let api: Api<CertificateSigningRequest> = Api::all(self.client.clone());
        let asked = call(
            "look at the certificate request",
            api.get_opt(&request.name),
        )
        .await;
        match asked {
            Ok(Some(object)) => verdict(&object),
            Ok(None) => Request::Absent,
            Err(error) => Request::Unknown {
                why: model::chain(&error),
            },
        }
    }

    pub async fn submit(
        &self,
        request: &identity::Request,
        life: Option<Duration>,
    ) -> Result<(), Error> {
        let api: Api<CertificateSigningRequest> = Api::all(self.client.clone());
        let (signer, usage) = match request.purpose {
            Purpose::Client => ("kubernetes.io/kube-apiserver-client-kubelet", "client auth"),
            Purpose::Server { .. } => ("kubernetes.io/kubelet-serving", "server auth"),
        };
        let object = CertificateSigningRequest {
            metadata: ObjectMeta {
                name: Some(request.name.clone()),
                ..ObjectMeta::default()
            },
            spec: CertificateSigningRequestSpec {
                request: ByteString(request.pem.clone().into_bytes()),
                signer_name: signer.to_owned(),
                usages: Some(["digital signature", usage].map(str::to_owned).into()),
                expiration_seconds: life
                    .map(|life| i32::try_from(life.as_secs()).unwrap_or(i32::MAX)),
                ..CertificateSigningRequestSpec::default()
            },
            status: None,
        };
        let done = call("ask for a certificate", api.create(&post(), &object)).await;
        match done {
            // It was heard the first time.
            Err(error) if error.is_conflict() => Ok(()),
            done => done.map(drop),
        }
    }

    pub async fn node(&self, name: &str) -> Result<Option<Node>, Error> {
        let api: Api<Node> = Api::all(self.client.clone());
        call("look at the Node", api.get_opt(name)).await
    }

    /// The Node as it is then.
    pub async fn write_node(&self, write: node::Write) -> Result<Node, Error> {
        let api: Api<Node> = Api::all(self.client.clone());
        let name = |node: &Node| node.metadata.name.clone().unwrap_or_default();
        match write {
            node::Write::Create(node) => call("make the Node", api.create(&post(), &node)).await,
            node::Write::Update(node) => {
                call("mend the Node", api.replace(&name(&node), &post(), &node)).await
            }
            node::Write::Status(node) => {
                let name = name(&node);
                let params = post();
                let put = api.replace_status(&name, &params, &node);
                call("write the Node's status", put).await
            }
        }
    }

    pub async fn lease(&self, name: &str) -> Result<Option<Lease>, Error> {
        call("look at the Lease", self.leases().get_opt(name)).await
    }

    /// The Lease as it is then.
    pub async fn write_lease(&self, write: lease::Write) -> Result<Lease, Error> {
        let api = self.leases();
        match write {
            lease::Write::Create(lease) => {
                call("make the Lease", api.create(&post(), &lease)).await
            }
            lease::Write::Update(lease) => {
                let name = lease.metadata.name.clone().unwrap_or_default();
                call("renew the Lease", api.replace(&name, &post(), &lease)).await
            }
        }
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), lease::NAMESPACE)
    }
}

fn post() -> PostParams {
    PostParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PostParams::default()
    }
}

async fn call<T>(
    what: &'static str,
    asked: impl Future<Output = kube::Result<T>>,
) -> Result<T, Error> {
    match tokio::time::timeout(ANSWER, asked).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(Error::Call {
            what,
            source: Box::new(error),
        }),
        Err(_) => Err(Error::Late { what }),
    }
}

fn verdict(object: &CertificateSigningRequest) -> Request {
    let status = object.status.clone().unwrap_or_default();
    let found = |kind: &str| {
        let all = status.conditions.iter().flatten();
        let mut all = all.filter(|condition| condition.status != "False");
        let found = all.find(|condition| condition.type_ == kind)?;
        let message = found.message.clone().or_else(|| found.reason.clone());
        Some(message.unwrap_or_else(|| "no reason is given".to_owned()))
    };
    if let Some(why) = found("Denied") {
        return Request::Denied { why };
    }
    if let Some(why) = found("Failed") {
        return Request::Failed { why };
    }
    let certificate = status.certificate.as_ref().filter(|pem| !pem.0.is_empty());
    match (certificate, found("Approved")) {
        (Some(pem), _) => Request::Signed {
            pem: String::from_utf8_lossy(&pem.0).into_owned(),
        },
        (None, Some(_)) => Request::Approved,
        (None, None) => Request::Undecided,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_as_those_who_decide_on_it_left_it() {
        let read = |status: serde_json::Value| {
            let object = json!({"spec": {"request": "", "signerName": ""}, "metadata": {}, "status": status});
            verdict(&serde_json::from_value(object).expect("it is a request"))
        };
        let said = |kind: &str| json!({"type": kind, "status": "True", "message": "m"});
        let why = || "m".to_owned();
        for (name, status, expected) in [
            ("new", json!({}), Request::Undecided),
            (
                "approved",
                json!({"conditions": [said("Approved")]}),
                Request::Approved,
            ),
            (
                "denied",
                json!({"conditions": [said("Denied")]}),
                Request::Denied { why: why() },
            ),
            (
                "failed",
                json!({"conditions": [said("Approved"), said("Failed")]}),
                Request::Failed { why: why() },
            ),
            (
                "signed",
                json!({"conditions": [said("Approved")], "certificate": STANDARD.encode("pem")}),
                Request::Signed { pem: "pem".into() },
            ),
        ] {
            assert_eq!(read(status), expected, "{name}");
        }
    }
}
