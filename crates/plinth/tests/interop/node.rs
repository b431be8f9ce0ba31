//! `plinth node` against `plinth apiserver`, with kubectl as the one who approves and looks.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
};
use serde_json::{Value, json};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_mins(2);

/// An API of its own, and a node that knows where it is.
struct Site {
    dir: TempDir,
    api: Option<Process>,
    node: Option<Process>,
    admin: u16,
    port: u16,
}

/// Ends with its guard.
struct Process(Child);

impl Process {
    fn spawn(command: &mut Command, log: &Path) -> Self {
        let mut options = std::fs::OpenOptions::new();
        let log = options.create(true).append(true).open(log).unwrap();
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        Self(child.unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

impl Site {
    fn start(node: &Value) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let write = |name: &str, text: &str| std::fs::write(at(name), text).unwrap();
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let server = rcgen::generate_simple_self_signed(names).unwrap();
        write("server.pem", &server.cert.pem());
        write("server.key", &server.signing_key.serialize_pem());
        let (certificate, key) = authority();
        write("ca.pem", &certificate);
        write("ca.key", &key);
        write(
            "tokens",
            "admin,admin,1,\"system:masters\"\nboot,system:bootstrap:it,2,\"system:bootstrappers\"\n",
        );
        let (port, admin) = (free_port(), free_port());
        let api = json!({
            "listen": format!("127.0.0.1:{port}"),
            "tls": {"certificate": at("server.pem"), "key": at("server.key"), "client_ca": at("ca.pem")},
            "signer": {"certificate": at("ca.pem"), "key": at("ca.key")},
            "store": {"file": at("store")},
            "service_accounts": {"key": at("accounts.key")},
            "tokens": at("tokens"),
        });
        write("apiserver.yaml", &api.to_string());
        for user in ["admin", "boot"] {
            let kubeconfig = json!({
                "apiVersion": "v1", "kind": "Config", "current-context": "x",
                "clusters": [{"name": "c", "cluster": {
                    "server": format!("https://127.0.0.1:{port}"), "certificate-authority": at("server.pem"),
                }}],
                "users": [{"name": "u", "user": {"token": user}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            });
            write(&format!("{user}.kubeconfig"), &kubeconfig.to_string());
        }
        let mut config = json!({
            "kubeconfig": at("boot.kubeconfig"),
            "state": at("state"),
            "admin": format!("127.0.0.1:{admin}"),
        });
        for (field, value) in node.as_object().unwrap() {
            config[field] = value.clone();
        }
        write("node.yaml", &config.to_string());
        let mut site = Self {
            api: None,
            dir,
            node: None,
            admin,
            port,
        };
        site.start_api();
        site
    }

    fn start_api(&mut self) {
        let mut command = plinth();
        command
            .arg("apiserver")
            .arg("--config")
            .arg(self.path("apiserver.yaml"));
        self.api = Some(Process::spawn(&mut command, &self.path("api.log")));
        self.until("the API to answer", || {
            self.kubectl(&["get", "namespace", "kube-node-lease"])
                .status
                .success()
        });
    }

    fn start_node(&mut self) {
        let mut command = plinth();
        command
            .args(["--log", "info,node=debug", "node", "--config"])
            .arg(self.path("node.yaml"));
        self.node = Some(Process::spawn(&mut command, &self.path("node.log")));
    }

    /// At once: dropping a process kills it.
    fn kill_node(&mut self) {
        self.node = None;
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn kubectl(&self, args: &[&str]) -> Output {
        Command::new("kubectl")
            .arg("--kubeconfig")
            .arg(self.path("admin.kubeconfig"))
            .args(["--request-timeout", "20s"])
            .args(args)
            .output()
            .expect("kubectl is installed")
    }

    fn must(&self, args: &[&str]) {
        let output = self.kubectl(args);
        assert!(output.status.success(), "kubectl {args:?}: {output:?}");
    }

    fn get(&self, args: &[&str]) -> Value {
        let output = self.kubectl(&[&["get", "-o", "json"], args].concat());
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    fn node(&self) -> Value {
        self.get(&["node", "n1"])
    }

    fn condition(&self, kind: &str) -> Value {
        let node = self.node();
        let all = node["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        all.into_iter()
            .find(|one| one["type"] == kind)
            .unwrap_or_default()
    }

    /// When the node last gave a sign of life.
    fn renewed(&self) -> Value {
        self.get(&["lease", "n1", "-n", "kube-node-lease"])["spec"]["renewTime"].clone()
    }

    fn requests(&self) -> Vec<Value> {
        self.get(&["csr"])["items"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    }

    fn status(&self) -> Value {
        let output = plinth()
            .args(["node", "status", "-o", "json", "--admin"])
            .arg(format!("127.0.0.1:{}", self.admin))
            .output()
            .unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    /// Until it asks, is told yes, and is a Node.
    fn join(&mut self) {
        self.start_node();
        self.until("a request for a certificate", || {
            !self.requests().is_empty()
        });
        self.until("the node to say what it waits for", || {
            let status = self.status();
            let waits = status["waits_for"].as_str().unwrap_or_default();
            waits.contains("to be approved")
        });
        let requests = self.requests();
        let name = requests[0]["metadata"]["name"].as_str().unwrap();
        self.must(&["certificate", "approve", name]);
        self.until("the Node to be ready", || {
            self.condition("Ready")["status"] == "True"
        });
    }

    fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds() {
            if Instant::now() > deadline {
                let seen = self.kubectl(&["get", "nodes,csr", "-o", "yaml"]);
                let log = std::fs::read_to_string(self.path("node.log")).unwrap_or_default();
                let tail = log.get(log.len().saturating_sub(4000)..).unwrap_or(&log);
                let seen = String::from_utf8_lossy(&seen.stdout).into_owned();
                panic!("waited for {what}\n{seen}\n{tail}");
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

fn plinth() -> Command {
    Command::new(env!("CARGO_BIN_EXE_plinth"))
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

fn authority() -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
        .distinguished_name
        .push(DnType::CommonName, "authority");
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

#[test]
fn a_node_joins_when_it_is_approved_and_mends_what_others_break() {
    let mut site = Site::start(&json!({
        "name": "n1",
        "labels": {"node-role.kubernetes.io/worker": ""},
        "taints": [{"key": "plinth.io/new", "effect": "NoSchedule"}],
        "provider_id": "baremetalhost:///a/b/c",
    }));
    site.join();
    let node = site.node();
    assert_eq!(node["metadata"]["labels"]["kubernetes.io/hostname"], "n1");
    assert_eq!(
        node["metadata"]["labels"]["node-role.kubernetes.io/worker"],
        ""
    );
    assert_eq!(node["spec"]["providerID"], "baremetalhost:///a/b/c");
    assert_eq!(node["spec"]["taints"][0]["key"], "plinth.io/new");
    assert_eq!(node["status"]["nodeInfo"]["operatingSystem"], "linux");
    for resource in ["cpu", "memory", "ephemeral-storage"] {
        assert!(
            node["status"]["capacity"][resource].is_string(),
            "{resource}: {node}"
        );
    }
    // A worker says nothing of a control plane.
    assert_eq!(site.condition("APIServerReady"), Value::Null);
    site.until("the node to be content", || {
        let status = site.status();
        status["registered"] == true && status["waits_for"].is_null()
    });
    let table = plinth()
        .args([
            "node",
            "status",
            "--admin",
            &format!("127.0.0.1:{}", site.admin),
        ])
        .output()
        .unwrap();
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(table.contains("Ready        True"), "{table}");

    // Who waits for the cluster is told what lacks, and then that nothing does.
    let kubeconfig = site.path("admin.kubeconfig");
    let ask = |args: &[&str]| {
        plinth()
            .args(args)
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .output()
            .unwrap()
    };
    let early = ask(&["wait-for", "bootstrap-complete", "--timeout", "1s"]);
    assert_eq!(early.status.code(), Some(6), "{early:?}");
    let told = String::from_utf8_lossy(&early.stdout).into_owned();
    assert!(told.contains("the bootstrap to be complete"), "{told}");
    site.must(&[
        "create",
        "configmap",
        "bootstrap",
        "-n",
        "kube-system",
        "--from-literal=status=complete",
    ]);
    let done = ask(&["wait-for", "install-complete", "--timeout", "30s"]);
    assert!(done.status.success(), "{done:?}");
    let seen = ask(&["status", "-o", "json"]);
    let seen: Value = serde_json::from_slice(&seen.stdout).unwrap();
    assert_eq!(seen["bootstrap_complete"], true);
    assert_eq!(seen["nodes"][0]["ready"]["status"], "True");

    // Gathered, all objects are there, and of a Secret its name alone.
    let secret = "--from-literal=password=hunter2";
    site.must(&["create", "secret", "generic", "bmc", secret]);
    let archive = site.path("gathered.tar.gz");
    let gathered = plinth()
        .args(["gather", "--dir", "/nonexistent", "--kubeconfig"])
        .arg(&kubeconfig)
        .arg("-o")
        .arg(&archive)
        .output()
        .unwrap();
    assert!(gathered.status.success(), "{gathered:?}");
    let part = |name: &str| {
        let output = Command::new("tar")
            .arg("-xzOf")
            .arg(&archive)
            .arg(name)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(part("objects/nodes.json").contains("plinth.io/new"));
    assert!(part("objects/leases.coordination.k8s.io.json").contains("kube-node-lease"));
    assert!(part("cluster.json").contains("\"n1\""));
    let secrets = part("objects/secrets.json");
    assert!(
        secrets.contains("bmc") && !secrets.contains("aHVudGVyMg"),
        "{secrets}"
    );
    let told: Value = serde_json::from_str(&part("gather.json")).unwrap();
    let parts = told["parts"].as_array().unwrap();
    let plan = parts.iter().find(|part| part["part"] == "plan").unwrap();
    assert!(
        plan["problem"].as_str().unwrap().contains("/nonexistent"),
        "{plan}"
    );

    // Killed at once, it is the same node again, without anybody's help.
    let before = site.renewed();
    assert!(before.is_string());
    site.kill_node();
    site.start_node();
    site.until("the Lease to be renewed", || site.renewed() != before);
    assert_eq!(site.requests().len(), 1);

    // So is the API, and the node finds it again.
    let before = site.renewed();
    site.api = None;
    site.until("the node to say what it lacks", || {
        site.status()["waits_for"].is_string()
    });
    site.start_api();
    site.until("the Lease to be renewed again", || site.renewed() != before);
    assert_eq!(site.requests().len(), 1);

    // Labels of ours come back; taints that were taken off stay off.
    site.must(&["taint", "node", "n1", "plinth.io/new-"]);
    site.must(&[
        "label",
        "node",
        "n1",
        "node-role.kubernetes.io/worker-",
        "mine=yes",
    ]);
    site.until("the label to come back", || {
        let labels = site.node()["metadata"]["labels"].clone();
        labels["node-role.kubernetes.io/worker"] == "" && labels["mine"] == "yes"
    });
    assert!(site.node()["spec"]["taints"].is_null());

    // Deleted, it comes back as a new one.
    let uid = site.node()["metadata"]["uid"].clone();
    site.must(&["delete", "node", "n1"]);
    site.until("the Node to come back", || {
        let node = site.node();
        node["metadata"]["uid"].is_string()
            && node["metadata"]["uid"] != uid
            && site.condition("Ready")["status"] == "True"
    });
    let owner = || {
        site.get(&["lease", "n1", "-n", "kube-node-lease"])["metadata"]["ownerReferences"][0]["uid"]
            .clone()
    };
    site.until("the Lease to be the new Node's", || {
        owner() == site.node()["metadata"]["uid"]
    });
}

#[test]
fn a_master_tells_of_its_api_and_etcd_renews_its_certificate_and_is_missed_when_it_is_silent() {
    let (client, peer) = (free_port(), free_port());
    let mut site = Site::start(&json!({"name": "n1", "certificate_s": 3600}));
    // Known only now: the API's port.
    let text = std::fs::read_to_string(site.path("node.yaml")).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    config["control_plane"] = json!({
        "apiserver": format!("https://127.0.0.1:{}/readyz", site.port),
        "etcd": {"endpoint": format!("http://127.0.0.1:{client}")},
    });
    std::fs::write(site.path("node.yaml"), config.to_string()).unwrap();
    site.join();
    assert_eq!(site.condition("APIServerReady")["status"], "True");
    assert_eq!(site.condition("EtcdMemberReady")["status"], "False");
    let mut command = Command::new("etcd");
    let (client_url, peer_url) = (
        format!("http://127.0.0.1:{client}"),
        format!("http://127.0.0.1:{peer}"),
    );
    command
        .arg("--data-dir")
        .arg(site.path("etcd"))
        .args(["--name", "m", "--initial-cluster", &format!("m={peer_url}")])
        .args([
            "--listen-client-urls",
            &client_url,
            "--advertise-client-urls",
            &client_url,
        ])
        .args([
            "--listen-peer-urls",
            &peer_url,
            "--initial-advertise-peer-urls",
            &peer_url,
        ]);
    let etcd = Process::spawn(&mut command, &site.path("etcd.log"));
    site.until("the member to vote", || {
        site.condition("EtcdMemberReady")["status"] == "True"
    });
    drop(etcd);
    site.until("the member to be missed", || {
        site.condition("EtcdMemberReady")["status"] == "False"
    });
    assert_eq!(site.condition("Ready")["status"], "True");

    // A certificate near its end is renewed by the node itself, approved by the role it has.
    site.kill_node();
    let old = age_certificate(&site);
    site.start_node();
    site.until("another certificate", || {
        let now = std::fs::read_to_string(site.path("state/identity.pem")).unwrap();
        now != old
    });
    let requests = site.requests();
    let renewal = requests
        .iter()
        .find(|csr| csr["spec"]["username"] == "system:node:n1");
    let approved = &renewal.expect("the node asked itself")["status"]["conditions"][0];
    assert_eq!(approved["reason"], "AutoApproved");
    site.until("the node to go on with it", || {
        let status = site.status();
        status["counts"]["certificates"] == 1 && status["registered"] == true
    });

    // Silent, it is missed; speaking again, it is ready at once.
    site.kill_node();
    site.until("the silence to be noticed", || {
        site.condition("Ready")["status"] == "Unknown"
    });
    assert_eq!(site.condition("APIServerReady")["status"], "Unknown");
    site.start_node();
    site.until("the Node to be ready again", || {
        site.condition("Ready")["status"] == "True"
    });
}

/// Makes the node's certificate one whose life is nearly over; gives the file as it is then.
fn age_certificate(site: &Site) -> String {
    let path = site.path("state/identity.pem");
    let text = std::fs::read_to_string(&path).unwrap();
    let (_, key) = text.split_once("# key\n").unwrap();
    let read = |name: &str| std::fs::read_to_string(site.path(name)).unwrap();
    let key = KeyPair::from_pem(key).unwrap();
    let authority = KeyPair::from_pem(&read("ca.key")).unwrap();
    let issuer = Issuer::from_ca_cert_pem(&read("ca.pem"), authority).unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::OrganizationName, "system:nodes");
    params
        .distinguished_name
        .push(DnType::CommonName, "system:node:n1");
    let now = time::OffsetDateTime::now_utc();
    params.not_before = now - Duration::from_hours(24);
    params.not_after = now + Duration::from_mins(10);
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    let certificate = params.signed_by(&key, &issuer).unwrap().pem();
    let aged = format!("{certificate}\n# key\n{}", key.serialize_pem());
    std::fs::write(&path, &aged).unwrap();
    aged
}
