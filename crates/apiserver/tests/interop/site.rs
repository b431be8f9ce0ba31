//! A server with its files, on either store, and kubectl pointed at it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use apiserver::{Config, Running};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};
use tokio::time::Instant;

/// How long any one thing may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_mins(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    InFile,
    InEtcd,
}

/// Runs a story on each store, so that none behaves in a way of its own.
pub async fn on_both_stores(story: impl AsyncFn(&Site)) {
    for kept in [Kept::InFile, Kept::InEtcd] {
        let site = Site::new(kept).await;
        story(&site).await;
        site.running.stop().await;
    }
}

pub struct Site {
    pub running: Running,
    pub directory: tempfile::TempDir,
    _etcd: Option<Child>,
}

impl Site {
    pub async fn new(kept: Kept) -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name).display().to_string();
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        std::fs::write(at("ca.pem"), made.cert.pem()).unwrap();
        std::fs::write(at("key.pem"), made.signing_key.serialize_pem()).unwrap();
        let authority = authority();
        std::fs::write(at("signer.pem"), &authority.0).unwrap();
        std::fs::write(at("signer.key"), &authority.1).unwrap();
        std::fs::write(
            at("tokens"),
            "admin-token,admin,1,\"system:masters\"\njane-token,jane,2,\"people\"\n",
        )
        .unwrap();
        let (store, etcd) = match kept {
            Kept::InFile => (json!({ "file": at("store") }), None),
            Kept::InEtcd => {
                let (endpoint, child) = etcd(directory.path()).await;
                (json!({ "etcd": { "endpoints": [endpoint] } }), Some(child))
            }
        };
        let config = json!({
            "listen": "127.0.0.1:0",
            "tls": { "certificate": at("ca.pem"), "key": at("key.pem"), "client_ca": at("signer.pem") },
            "signer": { "certificate": at("signer.pem"), "key": at("signer.key") },
            "store": store,
            "service_accounts": { "key": at("accounts.key") },
            "tokens": at("tokens"),
            "namespaces": ["metal"],
        });
        std::fs::write(at("apiserver.yaml"), config.to_string()).unwrap();
        let config = Config::load(Path::new(&at("apiserver.yaml"))).unwrap();
        let running = Running::start(config).await.unwrap();
        let site = Self {
            running,
            directory,
            _etcd: etcd,
        };
        for user in ["admin", "jane"] {
            std::fs::write(
                site.kubeconfig(user),
                site.render_kubeconfig(&format!("{user}-token")),
            )
            .unwrap();
        }
        site
    }

    pub fn kubeconfig(&self, user: &str) -> PathBuf {
        self.directory.path().join(format!("{user}.kubeconfig"))
    }

    pub fn url(&self) -> String {
        format!("https://{}", self.running.address())
    }

    pub fn render_kubeconfig(&self, token: &str) -> String {
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "c", "cluster": {
                "server": self.url(), "certificate-authority": self.directory.path().join("ca.pem"),
            } }],
            "users": [{ "name": "u", "user": { "token": token } }],
            "contexts": [{ "name": "x", "context": { "cluster": "c", "user": "u", "namespace": "metal" } }],
            "current-context": "x",
        })
        .to_string()
    }

    /// kubectl as the administrator; `line` is split at blanks.
    pub async fn kubectl(&self, line: &str) -> String {
        self.said(line, "").await.expect_fine(line)
    }

    /// kubectl with a manifest on its standard input.
    pub async fn kubectl_with(&self, line: &str, input: &str) -> String {
        self.said(line, input).await.expect_fine(line)
    }

    /// kubectl is to fail; gives what it complains of.
    pub async fn kubectl_fails(&self, line: &str, input: &str) -> String {
        let said = self.said(line, input).await;
        assert!(
            !said.fine,
            "kubectl {line} should have failed, but said: {}",
            said.out
        );
        said.err
    }

    pub async fn said(&self, line: &str, input: &str) -> Said {
        let mut command = self.command("admin");
        command.args(line.split_whitespace());
        run(command, line, input).await
    }

    /// A kubectl of this user's, with caches of its own.
    pub fn command(&self, user: &str) -> Command {
        let program = std::env::var_os("KUBECTL").unwrap_or_else(|| "kubectl".into());
        let mut command = Command::new(program);
        command
            .env("KUBECONFIG", self.kubeconfig(user))
            .env("HOME", self.directory.path())
            .current_dir(self.directory.path())
            .kill_on_drop(true);
        command
    }

    /// Whether this kubectl is 1.N or later: some commands are younger than the oldest one in use.
    pub async fn kubectl_has(&self, minor: u32) -> bool {
        let version: Value =
            serde_json::from_str(&self.kubectl("version --client -o json").await).unwrap();
        let text = version["clientVersion"]["minor"]
            .as_str()
            .unwrap()
            .trim_end_matches('+');
        text.parse::<u32>().unwrap() >= minor
    }

    /// Writes a file and gives its path.
    pub fn file(&self, name: &str, content: &str) -> String {
        let path = self.directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    }

    pub async fn get(&self, what: &str) -> Value {
        serde_json::from_str(&self.kubectl(&format!("get {what} -o json")).await).unwrap()
    }

    /// Asks until it holds; says what it saw last if it never does.
    pub async fn eventually(&self, line: &str, holds: impl Fn(&Said) -> bool) -> Said {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let said = self.said(line, "").await;
            if holds(&said) {
                return said;
            }
            assert!(Instant::now() < deadline, "kubectl {line}: {said:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// What a run of kubectl came to.
#[derive(Debug)]
pub struct Said {
    pub fine: bool,
    pub out: String,
    pub err: String,
}

impl Said {
    fn expect_fine(self, line: &str) -> String {
        assert!(self.fine, "kubectl {line}\n{}{}", self.out, self.err);
        self.out
    }
}

pub async fn run(mut command: Command, line: &str, input: &str) -> Said {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .unwrap_or_else(|error| panic!("kubectl is needed: {error}"));
    let mut stdin = child.stdin.take().unwrap();
    // Who ends early does not read to the end; what it said tells why.
    let _ = stdin.write_all(input.as_bytes()).await;
    drop(stdin);
    let output = tokio::time::timeout(PATIENCE, child.wait_with_output()).await;
    let output = output
        .unwrap_or_else(|_| panic!("kubectl {line} did not end"))
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said {
        fine: output.status.success(),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

/// Who signs what is approved: a certificate and its key.
fn authority() -> (String, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, "test authority");
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

/// One member of etcd on ports of its own; ends with its handle.
pub async fn etcd(directory: &Path) -> (String, Child) {
    for _ in 0..5 {
        let (client, peer) = (free_port(), free_port());
        let url = format!("http://127.0.0.1:{client}");
        let peers = format!("http://127.0.0.1:{peer}");
        let log = std::fs::File::create(directory.join("etcd.log")).unwrap();
        let mut child = Command::new("etcd")
            .args([
                "--name",
                "one",
                "--listen-client-urls",
                &url,
                "--advertise-client-urls",
                &url,
            ])
            .args([
                "--listen-peer-urls",
                &peers,
                "--initial-advertise-peer-urls",
                &peers,
            ])
            .args(["--initial-cluster", &format!("one={peers}"), "--data-dir"])
            .arg(directory.join("etcd"))
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("etcd is needed (Debian package etcd-server): {error}"));
        let deadline = Instant::now() + PATIENCE;
        while child.try_wait().unwrap().is_none() {
            if healthy(client).await {
                return (url, child);
            }
            assert!(Instant::now() < deadline, "etcd did not come up");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // Somebody else took the port in between: try others.
    }
    panic!(
        "etcd ends at once: {}",
        std::fs::read_to_string(directory.join("etcd.log")).unwrap()
    );
}

async fn healthy(port: u16) -> bool {
    let Ok(answer) = reqwest::get(format!("http://127.0.0.1:{port}/health")).await else {
        return false;
    };
    answer.text().await.is_ok_and(|text| text.contains("true"))
}

pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}
