//! What can go wrong between an object and the world.

use lifecycle::host::Trouble;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{operation} {name}")]
    Kubernetes {
        operation: &'static str,
        name: String,
        #[source]
        source: Box<kube::Error>,
    },
    #[error("ask Ironic")]
    Ironic(#[source] Box<clients::ironic::Error>),
    #[error("the {kind} {name} cannot be understood")]
    NotUnderstood {
        kind: &'static str,
        name: String,
        source: serde_json::Error,
    },
    #[error("{name} took longer than {seconds} s")]
    TooLong { name: String, seconds: u64 },
}

impl From<clients::ironic::Error> for Error {
    fn from(source: clients::ironic::Error) -> Self {
        Self::Ironic(Box::new(source))
    }
}

impl Error {
    pub fn kube(operation: &'static str, name: &str) -> impl FnOnce(kube::Error) -> Self {
        let name = name.to_owned();
        move |source| Self::Kubernetes {
            operation,
            name,
            source: Box::new(source),
        }
    }

    /// The object changed meanwhile, or is there already.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Kubernetes { source, .. } if code(source) == Some(409))
    }
}

/// The code an API server refused with.
pub fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

pub fn from_kube(error: &kube::Error) -> Trouble {
    match error {
        kube::Error::Api(status) if status.code == 409 => Trouble::Busy,
        kube::Error::Api(status) if (400..500).contains(&status.code) && status.code != 429 => {
            Trouble::Refused {
                message: status.message.clone(),
            }
        }
        other => Trouble::Unreachable {
            message: model::chain(other),
        },
    }
}

pub fn from_ironic(error: &clients::ironic::Error) -> Trouble {
    match error.status() {
        Some(409) => Trouble::Busy,
        Some(400..500) => Trouble::Refused {
            message: model::chain(error),
        },
        _ => Trouble::Unreachable {
            message: model::chain(error),
        },
    }
}
