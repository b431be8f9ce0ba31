//! `plinth serve` in a directory of its own, with kubectl for hands, over either Ironic.

use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::original::Original;
use crate::harness::poll;

pub const NAMESPACE: &str = "openshift-machine-api";
const PATIENCE: Duration = Duration::from_mins(2);

/// Whose Ironic it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    Ours,
    /// The original, a process of its own that asks for a login.
    Original,
}

/// A server on its own, with fake hardware.
pub struct Site {
    server: Child,
    api: u16,
    ironic: u16,
    original: Option<Original>,
    /// Further arguments of `serve`.
    arguments: &'static [&'static str],
    dir: TempDir,
}

impl Site {
    pub fn start(whose: Whose) -> Self {
        Self::start_with(whose, &[])
    }

    pub fn start_with(whose: Whose, arguments: &'static [&'static str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (api, ironic) = (free_port(), free_port());
        let original = match whose {
            Whose::Original => Some(Original::start(dir.path(), ironic)),
            Whose::Ours => {
                let state = dir.path().join("ironic.redb");
                let config = json!({"listen": format!("127.0.0.1:{ironic}"), "state": state});
                std::fs::write(dir.path().join("ironic.yaml"), config.to_string()).unwrap();
                None
            }
        };
        let server = spawn(dir.path(), api, original.as_ref(), arguments);
        let site = Self {
            server,
            api,
            ironic,
            original,
            arguments,
            dir,
        };
        // The last of the kinds to be defined.
        site.until("the API to answer", || {
            site.kubectl(&["get", "machinesets,provisionings"])
                .status
                .success()
        });
        site
    }

    /// Killed at once, and started again.
    pub fn crash(&mut self) {
        self.kill();
        self.server = spawn(
            self.dir.path(),
            self.api,
            self.original.as_ref(),
            self.arguments,
        );
    }

    /// As [`Self::crash`], and Ironic has forgotten everything.
    pub fn crash_without_ironics_memory(&mut self) {
        self.kill();
        match &mut self.original {
            Some(original) => original.forget(),
            None => remove(self.dir.path(), "ironic.redb"),
        }
        self.server = spawn(
            self.dir.path(),
            self.api,
            self.original.as_ref(),
            self.arguments,
        );
    }

    fn kill(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.path().join("kubeconfig")
    }

    /// A file beside what the server keeps.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub fn kubectl(&self, args: &[&str]) -> Output {
        Command::new("kubectl")
            .arg("--kubeconfig")
            .arg(self.dir.path().join("kubeconfig"))
            .args(["--request-timeout", "20s"])
            .args(args)
            .output()
            .expect("kubectl is installed")
    }

    pub fn must(&self, args: &[&str]) -> String {
        let output = self.kubectl(args);
        assert!(
            output.status.success(),
            "kubectl {args:?}: {}",
            said(&output)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn apply(&self, objects: &[Value]) {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
        let mut child = Command::new("kubectl")
            .arg("--kubeconfig")
            .arg(self.dir.path().join("kubeconfig"))
            .args(["apply", "-f", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl is installed");
        child
            .stdin
            .take()
            .unwrap()
            .write_all(list.as_bytes())
            .unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "apply: {}", said(&output));
    }

    pub fn get(&self, what: &str, name: &str) -> Value {
        let output = self.kubectl(&["get", what, name, "-o", "json"]);
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    /// All objects of a kind.
    pub fn list(&self, what: &str) -> Vec<Value> {
        let list: Value = serde_json::from_str(&self.must(&["get", what, "-o", "json"])).unwrap();
        list["items"].as_array().unwrap().clone()
    }

    pub fn state(&self, host: &str) -> String {
        let host = self.get("baremetalhost", host);
        host["status"]["provisioning"]["state"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    pub fn until_state(&self, host: &str, state: &str) {
        self.until(&format!("{host} to be {state}"), || {
            self.state(host) == state
        });
    }

    /// What Ironic says of a node.
    pub fn node(&self, name: &str) -> Value {
        super::original::ask(
            self.ironic,
            "GET",
            &format!("nodes/{NAMESPACE}~{name}"),
            None,
        )
    }

    pub fn until(&self, what: &str, holds: impl Fn() -> bool) {
        if !poll(PATIENCE, holds) {
            let objects = self.kubectl(&["get", "bmh,machines,machinesets,events", "-o", "wide"]);
            let logs = ["log", "ironic.log"].map(|name| tail(&self.dir.path().join(name)));
            panic!("waited for {what}\n{}\n{}", said(&objects), logs.join("\n"));
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        _ = self.server.kill();
        _ = self.server.wait();
    }
}

fn spawn(dir: &Path, api: u16, original: Option<&Original>, arguments: &[&str]) -> Child {
    let log = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(dir.join("log"))
        .unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_plinth"));
    command
        .args(["--log", "info,operator=debug"])
        .args(["serve", "--fake-hardware", "--dir"])
        .arg(dir)
        .args(["--listen", &format!("127.0.0.1:{api}")])
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(log);
    if let Some(original) = original {
        command.args(["--ironic-url", &original.url(), "--ironic-auth"]);
        command.arg(original.login());
    }
    command.spawn().expect("plinth runs")
}

/// Removes the files of which the name begins so.
pub fn remove(dir: &Path, beginning: &str) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with(beginning) {
            std::fs::remove_file(path).unwrap();
        }
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn tail(path: &Path) -> String {
    let log = std::fs::read(path).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    // The played agents ask so often that nothing else would be seen.
    let lines: Vec<&str> = log
        .lines()
        .filter(|line| !line.contains("inspect%20wait"))
        .collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}
