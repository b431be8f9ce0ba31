//! What can go wrong with a BMC.

use std::path::PathBuf;
use std::time::Duration;

use clients::{ipmi, redfish};

use super::Trouble;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}", .0.join("; "))]
    Settings(Vec<String>),
    #[error("BMC {bmc} does not answer: {reason}; next try in {} s", pause.as_secs_f64().ceil())]
    Silent {
        bmc: String,
        reason: String,
        pause: Duration,
    },
    #[error("could not read the certificates in {path}, named by driver_info.redfish_verify_ca")]
    Certificates {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(transparent)]
    Redfish(#[from] redfish::Error),
    #[error(transparent)]
    Ipmi(#[from] ipmi::Error),
    /// The BMC, or the protocol, has no such thing.
    #[error("{0}")]
    Cannot(String),
}

impl Error {
    /// Can another try help, with nothing changed?
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Silent { .. } => true,
            Self::Redfish(error) => error.may_pass(),
            Self::Ipmi(error) => error.may_pass(),
            Self::Settings(_) | Self::Certificates { .. } | Self::Cannot(_) => false,
        }
    }

    pub fn is_silence(&self) -> bool {
        match self {
            Self::Redfish(error) => error.is_silence(),
            Self::Ipmi(error) => error.is_silence(),
            Self::Silent { .. }
            | Self::Settings(_)
            | Self::Certificates { .. }
            | Self::Cannot(_) => false,
        }
    }

    /// Does the BMC lack what was asked for?
    pub fn is_unsupported(&self) -> bool {
        match self {
            Self::Cannot(_) => true,
            Self::Redfish(error) => matches!(error, redfish::Error::Unsupported { .. }),
            Self::Ipmi(_) | Self::Silent { .. } | Self::Settings(_) | Self::Certificates { .. } => {
                false
            }
        }
    }

    /// The innermost cause, which is what a person wants to know of a silent BMC.
    pub fn root(&self) -> String {
        let mut cause: &dyn std::error::Error = self;
        while let Some(source) = cause.source() {
            cause = source;
        }
        cause.to_string()
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self(model::chain(&error))
    }
}
