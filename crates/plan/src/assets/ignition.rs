//! Ignition configs, spec 3.2: what Debian's Ignition, Fedora CoreOS and RHCOS all read.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::Secret;
use serde_json::{Value, json};

use super::Inputs;

/// Nothing newer is used, so that `mcs` can answer every version from 3.1 on.
pub const VERSION: &str = "3.2.0";

/// A config being put together.
#[derive(Default)]
pub struct Config {
    files: Vec<Value>,
    units: Vec<Value>,
    users: Vec<Value>,
    authorities: Vec<Value>,
}

impl Config {
    pub fn file(&mut self, path: &str, mode: u32, text: impl AsRef<[u8]>) -> &mut Self {
        let contents = json!({"source": data_url(text.as_ref())});
        self.put(path, mode, &contents)
    }

    /// A path stands once: the last word counts.
    fn put(&mut self, path: &str, mode: u32, contents: &Value) -> &mut Self {
        self.files.retain(|file| file["path"] != path);
        self.files
            .push(json!({"path": path, "mode": mode, "overwrite": true, "contents": contents}));
        self
    }

    /// A file that is fetched and must have this checksum.
    pub fn remote(
        &mut self,
        path: &str,
        mode: u32,
        url: &str,
        sha256: &str,
        token: Option<&Secret<String>>,
    ) -> &mut Self {
        let mut contents =
            json!({"source": url, "verification": {"hash": format!("sha256-{sha256}")}});
        if let Some(token) = token {
            contents["httpHeaders"] = headers(token);
        }
        self.put(path, mode, &contents)
    }

    pub fn unit(&mut self, name: &str, text: &str) -> &mut Self {
        self.units
            .push(json!({"name": name, "enabled": true, "contents": text}));
        self
    }

    pub fn user(&mut self, name: &str, ssh_keys: &[String]) -> &mut Self {
        if !ssh_keys.is_empty() {
            self.users
                .push(json!({"name": name, "sshAuthorizedKeys": ssh_keys}));
        }
        self
    }

    pub fn authority(&mut self, pem: &str) -> &mut Self {
        self.authorities
            .push(json!({"source": data_url(pem.as_bytes())}));
        self
    }

    pub fn render(&self) -> String {
        let mut config = json!({"ignition": {"version": VERSION}});
        if !self.authorities.is_empty() {
            config["ignition"]["security"] =
                json!({"tls": {"certificateAuthorities": self.authorities}});
        }
        if !self.users.is_empty() {
            config["passwd"] = json!({"users": self.users});
        }
        if !self.files.is_empty() {
            config["storage"] = json!({"files": self.files});
        }
        if !self.units.is_empty() {
            config["systemd"] = json!({"units": self.units});
        }
        config.to_string()
    }
}

/// What goes on the config drive: where the rest is, who signs for it, and the secret that opens it.
pub fn pointer(inputs: &Inputs, pool: &str, token: &Secret<String>) -> String {
    json!({
        "ignition": {
            "version": VERSION,
            "config": {"merge": [{
                "source": format!("{}/config/{pool}", inputs.mcs_url()),
                "httpHeaders": headers(token),
            }]},
            "security": {"tls": {"certificateAuthorities": [
                {"source": data_url(inputs.certificate("root-ca").as_bytes())},
            ]}},
        },
    })
    .to_string()
}

fn headers(token: &Secret<String>) -> Value {
    json!([{"name": "Authorization", "value": format!("Bearer {}", token.expose())}])
}

fn data_url(bytes: &[u8]) -> String {
    format!("data:;base64,{}", STANDARD.encode(bytes))
}
