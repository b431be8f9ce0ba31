//! A server with its files, for tests from inside.

use std::path::Path;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use serde_json::Value;
use tokio::time::Instant;

use crate::config::{Config, ISSUER, Signer, Store};
use crate::{Local, Refusal, Running};

pub const PATIENCE: Duration = Duration::from_secs(30);

pub struct Site {
    pub running: Running,
    pub local: Local,
    pub directory: tempfile::TempDir,
}

impl Site {
    pub async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        make_files(directory.path());
        let running = Running::start(config(directory.path())).await.unwrap();
        Self {
            local: running.local(),
            running,
            directory,
        }
    }

    /// Asks until it holds; says what it saw last if it never does.
    pub async fn eventually(
        &self,
        path: &str,
        holds: impl Fn(&Result<Value, Refusal>) -> bool,
    ) -> Result<Value, Refusal> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let seen = self.local.get(path).await;
            if holds(&seen) {
                return seen;
            }
            assert!(Instant::now() < deadline, "{path}: {seen:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub async fn gone(&self, path: &str) {
        let seen = self.eventually(path, |seen| {
            seen.as_ref().is_err_and(|refusal| refusal.code == 404)
        });
        seen.await.unwrap_err();
    }

    /// A client that trusts the server, as whoever this certificate says.
    pub fn client(&self, identity: Option<&str>) -> reqwest::Client {
        _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let read = |name: &str| std::fs::read(self.directory.path().join(name)).unwrap();
        let ca = reqwest::Certificate::from_pem(&read("ca.pem")).unwrap();
        let mut builder = reqwest::Client::builder().tls_certs_only([ca]);
        if let Some(name) = identity {
            let pem = [read(&format!("{name}.pem")), read(&format!("{name}.key"))].concat();
            builder = builder.identity(reqwest::Identity::from_pem(&pem).unwrap());
        }
        builder.build().unwrap()
    }

    pub fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.running.address())
    }
}

pub fn config(directory: &Path) -> Config {
    let file = |name: &str| directory.join(name);
    Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        certificate: file("server.pem"),
        key: file("server.key"),
        client_ca: Some(file("ca.pem")),
        store: Store::File(file("registry.redb")),
        account_key: file("accounts.key"),
        account_ca: Some(file("ca.pem")),
        issuer: ISSUER.to_owned(),
        signer: Some(Signer {
            certificate: file("ca.pem"),
            key: file("ca.key"),
        }),
        tokens: Some(file("tokens")),
        audit: Some(file("audit.log")),
        namespaces: vec!["metal".to_owned()],
    }
}

/// An authority, certificates of a server, a master and an ordinary person, and a file of tokens.
pub fn make_files(directory: &Path) {
    let write = |name: &str, text: String| std::fs::write(directory.join(name), text).unwrap();
    let ca_key = KeyPair::generate().unwrap();
    let mut ca = CertificateParams::default();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    write("ca.pem", ca.self_signed(&ca_key).unwrap().pem());
    write("ca.key", ca_key.serialize_pem());
    let issuer = Issuer::new(ca, ca_key);
    for (name, group) in [
        ("server", "servers"),
        ("admin", "system:masters"),
        ("jane", "people"),
    ] {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params
            .distinguished_name
            .push(DnType::OrganizationName, group);
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate().unwrap();
        write(
            &format!("{name}.pem"),
            params.signed_by(&key, &issuer).unwrap().pem(),
        );
        write(&format!("{name}.key"), key.serialize_pem());
    }
    write(
        "tokens",
        "admin-token,admin,1,\"system:masters\"\n".to_owned(),
    );
}
