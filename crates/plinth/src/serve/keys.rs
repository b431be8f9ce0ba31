//! The certificates of a server on its own, kept in its directory.

use std::collections::BTreeMap;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use ::plan::assets::KeyPair;
use ::plan::cluster::{Certificate, Issuer, Usage};
use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use installer::pki::{Made, certificates};
use model::Secret;
use serde_json::json;

pub struct Keys {
    dir: PathBuf,
}

const CA: &str = "ca";
const DECADE: u32 = 3650;

impl Keys {
    /// The authority is made once and kept; what it signs is made anew at every start.
    pub fn ensure(dir: &Path, names: &[String]) -> Result<Self> {
        let keys = Self {
            dir: dir.join("pki"),
        };
        std::fs::create_dir_all(&keys.dir)
            .with_context(|| format!("create {}", keys.dir.display()))?;
        let planned = planned(names);
        let existing = keys.authority(&planned[0])?;
        let made = certificates(&planned, &existing, time::OffsetDateTime::now_utc())?;
        for (name, made) in &made {
            keys.write(&format!("{name}.crt"), &made.pair.public, 0o644)?;
            keys.write(&format!("{name}.key"), made.pair.private.expose(), 0o600)?;
        }
        Ok(keys)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// For whoever may do anything.
    pub fn write_kubeconfig(&self, dir: &Path, server: &str) -> Result<()> {
        let encoded = |name: &str| -> Result<String> {
            let path = self.path(name);
            let text = std::fs::read(&path).with_context(|| format!("read {}", path.display()))?;
            Ok(STANDARD.encode(text))
        };
        let config = json!({
            "apiVersion": "v1", "kind": "Config",
            "clusters": [{"name": "plinth", "cluster": {
                "server": server, "certificate-authority-data": encoded("ca.crt")?,
            }}],
            "users": [{"name": "admin", "user": {
                "client-certificate-data": encoded("admin.crt")?, "client-key-data": encoded("admin.key")?,
            }}],
            "contexts": [{"name": "admin", "context": {
                "cluster": "plinth", "user": "admin", "namespace": super::NAMESPACE,
            }}],
            "current-context": "admin",
        });
        let text = serde_json::to_string_pretty(&config)?;
        private(&dir.join("kubeconfig"), &text, 0o600)
    }

    fn authority(&self, spec: &Certificate) -> Result<BTreeMap<String, Made>> {
        let read = |name: &str| match std::fs::read_to_string(self.path(name)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("read {}", self.path(name).display())),
        };
        let (Some(public), Some(private)) = (read("ca.crt")?, read("ca.key")?) else {
            return Ok(BTreeMap::new());
        };
        let made = Made {
            pair: KeyPair {
                public,
                private: Secret::new(private),
            },
            spec: spec.clone(),
            made: 0,
        };
        Ok(BTreeMap::from([(CA.to_owned(), made)]))
    }

    fn write(&self, name: &str, text: &str, mode: u32) -> Result<()> {
        private(&self.path(name), text, mode)
    }
}

fn planned(names: &[String]) -> [Certificate; 3] {
    let authority = Certificate {
        name: CA.to_owned(),
        issuer: Issuer::Itself,
        common_name: "plinth".to_owned(),
        organization: None,
        usage: Usage::Authority,
        names: Vec::new(),
        days: DECADE,
    };
    let server = Certificate {
        name: "server".to_owned(),
        issuer: Issuer::Ca(CA.to_owned()),
        common_name: "plinth-apiserver".to_owned(),
        usage: Usage::Server,
        names: names.to_vec(),
        days: 825,
        ..authority.clone()
    };
    let admin = Certificate {
        name: "admin".to_owned(),
        common_name: "system:admin".to_owned(),
        organization: Some("system:masters".to_owned()),
        usage: Usage::Client,
        names: Vec::new(),
        days: DECADE,
        ..server.clone()
    };
    [authority, server, admin]
}

/// Written whole or not at all.
fn private(path: &Path, text: &str, mode: u32) -> Result<()> {
    use std::io::Write as _;
    let draft = path.with_extension("new");
    let written = || -> std::io::Result<()> {
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(mode)
            .open(&draft)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&draft, path)
    };
    written().with_context(|| format!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_authority_outlives_restarts() {
        let dir = tempfile::tempdir().expect("a directory");
        let names = ["localhost".to_owned()];
        let keys = Keys::ensure(dir.path(), &names).expect("made");
        let read = |name: &str| std::fs::read_to_string(keys.path(name)).expect("there");
        let (ca, server) = (read("ca.crt"), read("server.crt"));
        Keys::ensure(dir.path(), &names).expect("made again");
        assert_eq!(read("ca.crt"), ca);
        assert_ne!(read("server.crt"), server);
        keys.write_kubeconfig(dir.path(), "https://127.0.0.1:1")
            .expect("written");
        let text = std::fs::read_to_string(dir.path().join("kubeconfig")).expect("there");
        assert!(text.contains("https://127.0.0.1:1"));
    }
}
