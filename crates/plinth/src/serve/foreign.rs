//! An Ironic that is not ours: where it is, and how to log in.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use clients::ironic::{Config, Login};
use clients::redfish::Verify;
use model::Secret;

#[derive(Args)]
pub struct Foreign {
    /// Use the Ironic at this address, and run none
    #[arg(long = "ironic-url", value_name = "URL", conflicts_with = "ironic")]
    url: Option<String>,
    /// The login for that Ironic: a directory with the files username and password
    #[arg(long = "ironic-auth", value_name = "DIR", requires = "url")]
    auth: Option<PathBuf>,
    /// Who signed the certificate of that Ironic, in PEM
    #[arg(long = "ironic-ca", value_name = "FILE", requires = "url")]
    ca: Option<PathBuf>,
}

impl Foreign {
    /// How to reach it, if there is to be one.
    pub fn link(&self) -> Result<Option<Config>> {
        let Some(url) = &self.url else {
            return Ok(None);
        };
        let mut config = Config::new(url);
        if let Some(dir) = &self.auth {
            config.login = Some(Login {
                username: word(&dir.join("username"))?,
                password: Secret::new(word(&dir.join("password"))?),
            });
        }
        if let Some(path) = &self.ca {
            let pem = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
            config.verify = Verify::Pem(pem);
        }
        Ok(Some(config))
    }
}

/// What a file of a mounted Secret says; people write a newline along with it.
fn word(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    match text.trim() {
        "" => bail!("{} is empty", path.display()),
        word => Ok(word.to_owned()),
    }
}
