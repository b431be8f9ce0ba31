//! Three servers on three members of etcd: whichever of them is killed, nothing acknowledged is lost, no watcher misses
//! anything, and it goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clients::etcd;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::site::free_port;

pub const PATIENCE: Duration = Duration::from_mins(1);
/// Writes that must succeed while something is down.
const ON_THE_WAY: usize = 20;

pub async fn eventually<F: Future<Output = bool>>(what: &str, holds: impl Fn() -> F) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "never came true: {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Members of etcd with certificates.
pub struct Members {
    directory: PathBuf,
    ports: Vec<(u16, u16)>,
    running: BTreeMap<usize, Child>,
}

impl Members {
    /// Room for one more than are started.
    pub fn start(directory: &Path, count: usize) -> Self {
        let mut members = Self {
            directory: directory.to_owned(),
            ports: (0..=count).map(|_| (free_port(), free_port())).collect(),
            running: BTreeMap::new(),
        };
        make_certificates(directory);
        let all: Vec<usize> = (0..count).collect();
        for at in 0..count {
            members.spawn(at, &all, "new");
        }
        members
    }

    pub fn endpoint(&self, at: usize) -> String {
        format!("https://127.0.0.1:{}", self.ports[at].0)
    }

    pub fn peer(&self, at: usize) -> String {
        format!("http://127.0.0.1:{}", self.ports[at].1)
    }

    pub fn tls(&self) -> etcd::Tls {
        let read = |name: &str| std::fs::read_to_string(self.directory.join(name)).unwrap();
        etcd::Tls {
            ca: read("ca.pem"),
            certificate: read("admin.pem"),
            key: model::Secret::new(read("admin.key")),
            name: None,
        }
    }

    pub fn join(&mut self, at: usize) {
        let all: Vec<usize> = (0..=at).collect();
        self.spawn(at, &all, "existing");
    }

    async fn kill(&mut self, at: usize) {
        self.running.remove(&at).unwrap().kill().await.unwrap();
    }

    fn spawn(&mut self, at: usize, all: &[usize], state: &str) {
        let cluster: Vec<String> = all
            .iter()
            .map(|at| format!("m{at}={}", self.peer(*at)))
            .collect();
        let file = |name: &str| self.directory.join(name);
        let log = file(&format!("etcd{at}.log"));
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(log)
            .unwrap();
        let child = Command::new("etcd")
            .args(["--name", &format!("m{at}")])
            .args(["--listen-client-urls", &self.endpoint(at)])
            .args(["--advertise-client-urls", &self.endpoint(at)])
            .args(["--listen-peer-urls", &self.peer(at)])
            .args(["--initial-advertise-peer-urls", &self.peer(at)])
            .args([
                "--initial-cluster",
                &cluster.join(","),
                "--initial-cluster-state",
                state,
            ])
            .args([
                "--client-cert-auth",
                "--heartbeat-interval",
                "100",
                "--election-timeout",
                "1000",
            ])
            .arg("--data-dir")
            .arg(file(&format!("etcd{at}")))
            .arg("--trusted-ca-file")
            .arg(file("ca.pem"))
            .arg("--cert-file")
            .arg(file("server.pem"))
            .arg("--key-file")
            .arg(file("server.key"))
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("etcd is needed (Debian package etcd-server): {error}"));
        self.running.insert(at, child);
    }
}

/// An authority, a certificate for everything that serves, and one for an administrator.
fn make_certificates(directory: &Path) {
    let write = |name: &str, text: String| std::fs::write(directory.join(name), text).unwrap();
    let ca_key = KeyPair::generate().unwrap();
    let mut ca = CertificateParams::default();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.distinguished_name
        .push(DnType::CommonName, "test authority");
    write("ca.pem", ca.self_signed(&ca_key).unwrap().pem());
    let issuer = Issuer::new(ca, ca_key);
    let make = |name: &str, common: &str, group: &str| {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, common);
        params
            .distinguished_name
            .push(DnType::OrganizationName, group);
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate().unwrap();
        let made = params.signed_by(&key, &issuer).unwrap();
        write(&format!("{name}.pem"), made.pem());
        write(&format!("{name}.key"), key.serialize_pem());
    };
    make("server", "server", "servers");
    make("admin", "admin", "system:masters");
}

/// Names the configuration of a server that this program is to be, when a test starts it anew as one.
const SERVE: &str = "PLINTH_TEST_SERVE";

/// Not a test by itself: the process of one server, which can be killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_for_the_other_tests() {
    let Some(config) = std::env::var_os(SERVE) else {
        return;
    };
    _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    apiserver::server::run(Path::new(&config)).await.unwrap();
}

struct Server {
    config: PathBuf,
    url: String,
    process: Option<Child>,
}

impl Server {
    /// Each asks another member first.
    fn on_etcd(directory: &Path, at: usize, members: &Members) -> Self {
        let file = |name: &str| directory.join(name).display().to_string();
        let count = members.running.len();
        let endpoints: Vec<String> = (0..count)
            .map(|other| members.endpoint((at + other) % count))
            .collect();
        let store = json!({"etcd": {
            "endpoints": endpoints, "ca": file("ca.pem"), "certificate": file("admin.pem"), "key": file("admin.key"),
        }});
        Self::new(directory, at, &store)
    }

    fn new(directory: &Path, at: usize, store: &Value) -> Self {
        let port = free_port();
        let file = |name: &str| directory.join(name).display().to_string();
        let config = json!({
            "listen": format!("127.0.0.1:{port}"),
            "tls": {"certificate": file("server.pem"), "key": file("server.key"), "client_ca": file("ca.pem")},
            "store": store,
            "service_accounts": {"key": file("accounts.key")},
        });
        let path = directory.join(format!("server{at}.yaml"));
        std::fs::write(&path, config.to_string()).unwrap();
        let mut server = Self {
            config: path,
            url: format!("https://127.0.0.1:{port}"),
            process: None,
        };
        server.start();
        server
    }

    fn start(&mut self) {
        let log = self.config.with_extension("log");
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(log)
            .unwrap();
        let process = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "cluster::a_server_for_the_other_tests",
                "--nocapture",
            ])
            .env(SERVE, &self.config)
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .kill_on_drop(true)
            .spawn();
        self.process = Some(process.unwrap());
    }

    async fn kill(&mut self) {
        self.process.take().unwrap().kill().await.unwrap();
    }
}

/// Asks whichever server answers.
#[derive(Clone)]
struct Anyone {
    client: reqwest::Client,
    urls: Vec<String>,
    at: Arc<AtomicUsize>,
}

impl Anyone {
    fn new(directory: &Path, servers: &[Server]) -> Self {
        let read = |name: &str| std::fs::read(directory.join(name)).unwrap();
        let identity = [read("admin.pem"), read("admin.key")].concat();
        let client = reqwest::Client::builder()
            .tls_certs_only([reqwest::Certificate::from_pem(&read("ca.pem")).unwrap()])
            .identity(reqwest::Identity::from_pem(&identity).unwrap())
            .connect_timeout(Duration::from_secs(2))
            .pool_max_idle_per_host(0)
            .build()
            .unwrap();
        Self {
            client,
            urls: servers.iter().map(|server| server.url.clone()).collect(),
            at: Arc::default(),
        }
    }

    fn url(&self) -> &str {
        &self.urls[self.at.load(Ordering::Relaxed) % self.urls.len()]
    }

    fn next(&self) {
        self.at.fetch_add(1, Ordering::Relaxed);
    }

    async fn ready(&self, at: usize) -> bool {
        let answer = self
            .client
            .get(format!("{}/readyz", self.urls[at]))
            .send()
            .await;
        answer.is_ok_and(|answer| answer.status().is_success())
    }

    /// Creates until somebody says that it is there.
    async fn create(&self, name: &str) {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let deadline = Instant::now() + PATIENCE;
        loop {
            let path = format!("{}/api/v1/namespaces/default/configmaps", self.url());
            let request = self
                .client
                .post(path)
                .json(&object)
                .timeout(Duration::from_secs(15));
            let last = match request.send().await {
                // 409: an earlier try was heard after all.
                Ok(answer) if answer.status().is_success() || answer.status() == 409 => return,
                Ok(answer) => answer.text().await.unwrap_or_default(),
                Err(error) => error.to_string(),
            };
            assert!(
                Instant::now() < deadline,
                "{name} cannot be written: {last}"
            );
            self.next();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn list(&self, at: usize) -> (BTreeSet<String>, String) {
        let path = format!("{}/api/v1/namespaces/default/configmaps", self.urls[at]);
        let answer = self.client.get(path).send().await.unwrap();
        let list: Value = answer.json().await.unwrap();
        let names = list["items"].as_array().unwrap().iter();
        let names = names.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned());
        (
            names.collect(),
            list["metadata"]["resourceVersion"]
                .as_str()
                .unwrap()
                .to_owned(),
        )
    }

    /// Notes everything that is added, and goes on where it was when a server goes away.
    async fn watch(self, mut version: String, seen: Arc<Mutex<Vec<String>>>) {
        loop {
            let path = format!(
                "{}/api/v1/namespaces/default/configmaps?watch=1&allowWatchBookmarks=true&resourceVersion={version}",
                self.url()
            );
            if let Ok(mut answer) = self.client.get(path).send().await
                && answer.status().is_success()
            {
                let mut text = Vec::new();
                while let Ok(Some(piece)) = answer.chunk().await {
                    text.extend(piece);
                    while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
                        let line: Vec<u8> = text.drain(..=end).collect();
                        let event: Value = serde_json::from_slice(&line).unwrap();
                        assert_ne!(event["type"], "ERROR", "{event}");
                        let metadata = &event["object"]["metadata"];
                        version = metadata["resourceVersion"].as_str().unwrap().to_owned();
                        if event["type"] == "ADDED" {
                            seen.lock()
                                .await
                                .push(metadata["name"].as_str().unwrap().to_owned());
                        }
                    }
                }
            }
            self.next();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// So many servers on the members, all of them ready.
async fn start_servers(directory: &Path, count: usize, members: &Members) -> Vec<Server> {
    let mut servers: Vec<Server> = Vec::new();
    // One after the other: the first makes the key that they share.
    for at in 0..count {
        servers.push(Server::on_etcd(directory, at, members));
        let anyone = Anyone::new(directory, &servers);
        // A server gives up when etcd is not there yet; whoever runs it starts it again.
        let deadline = Instant::now() + PATIENCE;
        while !anyone.ready(at).await {
            assert!(Instant::now() < deadline, "{}", log(&servers[at]));
            let process = servers[at].process.as_mut().unwrap();
            if process.try_wait().unwrap().is_some() {
                servers[at].start();
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
    servers
}

/// How often two servers change one object in turn.
const TURNS: usize = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_by_one_server_is_never_undone_or_overlooked_by_another() {
    _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let directory = tempfile::tempdir().unwrap();
    let members = Members::start(directory.path(), 1);
    let servers = start_servers(directory.path(), 2, &members).await;
    let anyone = Anyone::new(directory.path(), &servers);
    anyone.create("both").await;
    let url = |at: usize| {
        let server = &servers[at].url;
        format!("{server}/api/v1/namespaces/default/configmaps/both")
    };
    let read = |at: usize| {
        let asked = anyone.client.get(url(at)).send();
        async move { asked.await.unwrap().json::<Value>().await.unwrap() }
    };
    let merge = |at: usize, patch: Value| {
        let request = anyone.client.patch(url(at));
        // Before the body, which has a type of its own otherwise.
        let request = request.header("content-type", "application/merge-patch+json");
        let asked = request.json(&patch).send();
        async move { asked.await.unwrap() }
    };
    // Each says at once what it has seen last, or adds a word of its own: neither may go by what it remembers alone.
    for turn in 0..TURNS {
        let (one, other) = (turn % 2, (turn + 1) % 2);
        let before = read(one).await;
        let own = format!("turn-{turn}");
        let said = merge(one, json!({"data": {"last": "one", own: "here"}})).await;
        assert_eq!(said.status(), 200, "turn {turn}");
        // What the other had at hand may still say so: it is not so.
        let said = merge(other, json!({"data": {"last": "other"}})).await;
        let after: Value = said.json().await.unwrap();
        assert_eq!(after["data"]["last"], "other", "turn {turn}: {after}");
        assert_eq!(after["data"][format!("turn-{turn}")], "here", "{after}");
        let old = anyone
            .client
            .put(url(other))
            .json(&before)
            .send()
            .await
            .unwrap();
        assert_eq!(old.status(), 409, "turn {turn}");
        let now = read(one).await;
        assert_eq!(now["data"].as_object().unwrap().len(), turn + 2, "{now}");
        assert_eq!(now["data"]["last"], "other", "turn {turn}: {now}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_each_is_killed_in_turn_and_nothing_acknowledged_is_lost() {
    _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let directory = tempfile::tempdir().unwrap();
    let mut members = Members::start(directory.path(), 3);
    let mut servers = start_servers(directory.path(), 3, &members).await;
    let anyone = Anyone::new(directory.path(), &servers);
    let (before, version) = anyone.list(0).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let watching = Anyone::new(directory.path(), &servers).watch(version, Arc::clone(&seen));
    let watching = tokio::spawn(watching);
    let written = Arc::new(AtomicUsize::new(0));
    let (writer, count) = (anyone.clone(), Arc::clone(&written));
    let writing = tokio::spawn(async move {
        loop {
            let number = count.load(Ordering::SeqCst);
            writer.create(&format!("n{number:05}")).await;
            count.store(number + 1, Ordering::SeqCst);
        }
    });
    let goes_on = |what: String| {
        let from = written.load(Ordering::SeqCst);
        let written = &written;
        async move {
            eventually(&what, || async {
                written.load(Ordering::SeqCst) >= from + ON_THE_WAY
            })
            .await;
        }
    };
    for (at, server) in servers.iter_mut().enumerate() {
        members.kill(at).await;
        goes_on(format!("writes without member {at}")).await;
        members.spawn(at, &[0, 1, 2], "existing");
        server.kill().await;
        goes_on(format!("writes without server {at}")).await;
        server.start();
        eventually("the server is back", || anyone.ready(at)).await;
    }
    assert!(!writing.is_finished() && !watching.is_finished());
    writing.abort();
    let count = written.load(Ordering::SeqCst);
    let acknowledged: BTreeSet<String> = (0..count).map(|number| format!("n{number:05}")).collect();
    for at in 0..3 {
        let (found, _) = anyone.list(at).await;
        let lost: Vec<_> = acknowledged.difference(&found).collect();
        assert!(lost.is_empty(), "server {at} has lost {lost:?}");
    }
    eventually("the watcher has seen all", || async {
        let seen = seen.lock().await;
        acknowledged.iter().all(|name| seen.contains(name))
    })
    .await;
    let seen = seen.lock().await.clone();
    let once: BTreeSet<&String> = seen.iter().collect();
    assert_eq!(once.len(), seen.len(), "nothing is told twice");
    assert!(before.iter().all(|name| !seen.contains(name)));
}

/// Writers at work at once.
const WRITERS: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_on_a_file_is_killed_under_load_and_nothing_acknowledged_is_lost() {
    _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let directory = tempfile::tempdir().unwrap();
    make_certificates(directory.path());
    let store = json!({"file": directory.path().join("registry.redb")});
    let mut servers = vec![Server::new(directory.path(), 0, &store)];
    let anyone = Anyone::new(directory.path(), &servers);
    eventually("the server is there", || anyone.ready(0)).await;
    let (_, version) = anyone.list(0).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let watching = tokio::spawn(anyone.clone().watch(version, Arc::clone(&seen)));
    let acknowledged = Arc::new(Mutex::new(BTreeSet::new()));
    let mut writing = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let (anyone, acknowledged) = (anyone.clone(), Arc::clone(&acknowledged));
        writing.spawn(async move {
            for number in 0.. {
                let name = format!("w{writer}-{number:05}");
                anyone.create(&name).await;
                acknowledged.lock().await.insert(name);
            }
        });
    }
    for _ in 0..4 {
        let before = acknowledged.lock().await.len();
        eventually("writes go on", || async {
            acknowledged.lock().await.len() > before + 5 * ON_THE_WAY
        })
        .await;
        servers[0].kill().await;
        servers[0].start();
        eventually("the server is back", || anyone.ready(0)).await;
    }
    writing.shutdown().await;
    assert!(!watching.is_finished());
    let acknowledged = acknowledged.lock().await.clone();
    let (found, _) = anyone.list(0).await;
    let lost: Vec<_> = acknowledged.difference(&found).collect();
    assert!(lost.is_empty(), "{lost:?}");
    eventually("the watcher has seen all", || async {
        let seen: BTreeSet<String> = seen.lock().await.iter().cloned().collect();
        acknowledged.is_subset(&seen)
    })
    .await;
    let seen = seen.lock().await.clone();
    let once: BTreeSet<&String> = seen.iter().collect();
    assert_eq!(once.len(), seen.len(), "nothing is told twice");
}

fn log(server: &Server) -> String {
    std::fs::read_to_string(server.config.with_extension("log")).unwrap_or_default()
}
