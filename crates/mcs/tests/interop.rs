//! curl against the real server, over TLS.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::process::Command;

use mcs::Config;
use mcs::server::Server;
use sha2::{Digest, Sha256};

const PAYLOAD: &[u8] = b"0123456789 the payload that every node installs";

/// The files of a server: certificate, configs, a payload file.
struct Site(tempfile::TempDir);

impl Site {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(at("ca.pem"), made.cert.pem()).unwrap();
        std::fs::write(at("key.pem"), made.signing_key.serialize_pem()).unwrap();
        for name in ["worker", "master", "master-0"] {
            let config = serde_json::json!({
                "ignition": {"version": "3.2.0"},
                "storage": {"files": [{"path": format!("/{name}")}]},
            });
            std::fs::write(at(&format!("{name}.ign")), config.to_string()).unwrap();
        }
        std::fs::create_dir(at("files")).unwrap();
        std::fs::write(at("files").join(hex(PAYLOAD)), PAYLOAD).unwrap();
        let path = |name: &str| at(name).display().to_string();
        let pool = |name: &str| {
            let secret = hex(format!("{name}-secret").as_bytes());
            let config = path(&format!("{name}.ign"));
            serde_json::json!({"name": name, "secret_sha256": secret, "config": config})
        };
        let config = serde_json::json!({
            "listen": "127.0.0.1:22623",
            "tls": {"certificate": path("ca.pem"), "key": path("key.pem")},
            "state": path("state"),
            "files": path("files"),
            "pools": [pool("worker"), pool("master")],
            "hosts": [{"name": "m0", "pool": "master", "token_sha256": hex(b"m0-token"), "config": path("master-0.ign")}],
        });
        std::fs::write(at("mcs.yaml"), config.to_string()).unwrap();
        Self(dir)
    }

    fn config(&self) -> Config {
        Config::load(&self.0.path().join("mcs.yaml")).unwrap()
    }

    /// Runs a server for as long as the client asks.
    fn serve(&self, client: impl FnOnce(&Client) + Send + 'static) {
        let ca = self.0.path().join("ca.pem");
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let server = Server::open(self.config()).unwrap();
            let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
            let asking = tokio::task::spawn_blocking(move || {
                let _stop = stop;
                client(&Client { ca: &ca, port });
            });
            server.serve(listener, async { _ = stopped.await }).await;
            asking.await.unwrap();
        });
    }
}

struct Client<'a> {
    ca: &'a Path,
    port: u16,
}

impl Client<'_> {
    /// Status and body.
    fn curl(&self, path: &str, more: &[&str]) -> (u32, String) {
        let output = Command::new("curl")
            .args([
                "--silent",
                "--show-error",
                "--max-time",
                "20",
                "--path-as-is",
            ])
            .args(["--write-out", "\n%{http_code}", "--cacert"])
            .arg(self.ca)
            .args(more)
            .arg(format!("https://localhost:{}{path}", self.port))
            .output()
            .expect("curl is needed (cargo xtask deps installs it)");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}{complaint}");
        let (body, status) = said.rsplit_once('\n').unwrap();
        (status.parse().unwrap(), body.to_owned())
    }

    fn with(&self, token: &str, path: &str, more: &[&str]) -> (u32, String) {
        let header = format!("Authorization: Bearer {token}");
        self.curl(path, &[&["--header", &header], more].concat())
    }
}

fn hex(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest
        .iter()
        .fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
}

fn payload() -> String {
    format!("/files/{}", hex(PAYLOAD))
}

#[test]
fn a_pools_secret_opens_its_config_in_every_version() {
    Site::new().serve(|client| {
        for minor in 1..=5 {
            let accept = format!(
                "Accept: application/vnd.coreos.ignition+json;version=3.{minor}.0, */*;q=0.1"
            );
            let (status, body) =
                client.with("worker-secret", "/config/worker", &["--header", &accept]);
            assert_eq!(status, 200);
            assert!(
                body.contains(&format!("3.{minor}.0")) && body.contains("/worker"),
                "{body}"
            );
        }
        let old = "Accept: application/vnd.coreos.ignition+json;version=2.2.0";
        assert_eq!(
            client
                .with("worker-secret", "/config/worker", &["--header", old])
                .0,
            400
        );
        assert_eq!(client.curl("/healthz", &[]).0, 200);
        assert_eq!(client.curl("/readyz", &[]).0, 200);
    });
}

#[test]
fn without_the_right_secret_nothing_is_served() {
    Site::new().serve(|client| {
        assert_eq!(client.curl("/config/worker", &[]).0, 401);
        assert_eq!(client.with("guess", "/config/worker", &[]).0, 401);
        assert_eq!(client.with("worker-secret", "/config/master", &[]).0, 403);
        assert_eq!(client.with("worker-secret", "/config/nobody", &[]).0, 404);
        assert_eq!(
            client
                .with("worker-secret", "/config/worker", &["--request", "POST"])
                .0,
            405
        );
        assert_eq!(client.curl(&payload(), &[]).0, 401);
        assert_eq!(
            client
                .with("worker-secret", "/files/..%2f..%2fetc%2fpasswd", &[])
                .0,
            404
        );
        assert_eq!(
            client.with("worker-secret", "/files/../mcs.yaml", &[]).0,
            404
        );
        assert_eq!(client.curl("/", &[]).0, 404);
    });
}

#[test]
fn a_hosts_token_opens_once_and_a_restart_forgets_nothing() {
    let site = Site::new();
    site.serve(|client| {
        // Asking for the head uses nothing up.
        assert_eq!(
            client.with("m0-token", "/config/master", &["--head"]).0,
            200
        );
        let (status, body) = client.with("m0-token", "/config/master", &[]);
        assert!(status == 200 && body.contains("/master-0"), "{body}");
        // The same client may retry, and fetch what the config names.
        assert_eq!(client.with("m0-token", "/config/master", &[]).0, 200);
        assert_eq!(client.with("m0-token", &payload(), &[]).0, 200);
    });
    // A new server and another address: the token is spent.
    site.serve(|client| {
        let other = ["--interface", "127.0.0.2"];
        assert_eq!(client.with("m0-token", "/config/master", &other).0, 403);
        assert_eq!(client.with("m0-token", &payload(), &other).0, 403);
        assert_eq!(
            client.with("master-secret", "/config/master", &other).0,
            200
        );
    });
    let config = site.config();
    let status = mcs::status::read(&config, &config.state).unwrap();
    assert!(status.hosts[0].used.is_some());
    let shown = status.render();
    assert!(
        shown.contains("m0") && shown.contains("config/master"),
        "{shown}"
    );
    assert!(
        !shown.contains("token of") && !shown.contains("m0-token"),
        "{shown}"
    );
}

#[test]
fn files_are_served_whole_and_in_part() {
    Site::new().serve(|client| {
        let (status, body) = client.with("worker-secret", &payload(), &[]);
        assert_eq!((status, body.as_bytes()), (200, PAYLOAD));
        assert_eq!(
            client.with("worker-secret", &payload(), &["--range", "3-6"]),
            (206, "3456".into())
        );
        assert_eq!(
            client
                .with("worker-secret", &payload(), &["--range", "900-"])
                .0,
            416
        );
        let none = format!("/files/{}", "0".repeat(64));
        assert_eq!(client.with("worker-secret", &none, &[]).0, 404);
    });
}
