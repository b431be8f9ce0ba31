//! `plinth netd` as a process: killed, starved of descriptors, reloaded, and asked.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};

use crate::harness::PLINTH;
use crate::rack::{Rack, wait};

const VIP: &str = "192.0.2.100";
const VIPS: &str = "vips: [{name: api, id: 7, address: 192.0.2.100, listen_ms: 100}]\n";

/// The kernel alone would keep it for most of a second, or more. One quick time of some shows the guard, on a busy
/// machine too.
#[test]
fn a_killed_process_leaves_no_address_behind() {
    const KERNEL: Duration = Duration::from_millis(500);
    let rack = Rack::new(1);
    let mut took = Vec::new();
    while took.len() < 5 && took.iter().all(|took| *took >= KERNEL) {
        let mut daemon = Daemon::new(&rack, VIPS, None);
        wait("the address is there", || rack.holds(0, VIP));
        daemon.child.kill().unwrap();
        let killed = Instant::now();
        wait("the address is gone", || !rack.holds(0, VIP));
        took.push(killed.elapsed());
    }
    eprintln!("kill -9: the address was gone after {took:?}");
    assert!(took.iter().any(|took| *took < KERNEL), "{took:?}");
}

#[test]
fn an_address_that_came_with_a_reload_is_guarded_too() {
    let rack = Rack::new(1);
    let mut daemon = Daemon::new(&rack, "vips: []\n", None);
    wait("it answers", || daemon.ask(&["status"]).status.success());
    std::fs::write(&daemon.config, VIPS).unwrap();
    kill(daemon.pid(), Signal::SIGHUP).unwrap();
    wait("the address is there", || rack.holds(0, VIP));
    let guards = || children(daemon.child.id());
    wait("it has a guard", || guards() == 1);
    daemon.child.kill().unwrap();
    wait("the address is gone", || !rack.holds(0, VIP));
}

/// Of every process, `stat` names the parent after the state; a name before that may hold anything.
fn children(of: u32) -> usize {
    let stats = std::fs::read_dir("/proc").unwrap();
    let stats =
        stats.filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("stat")).ok());
    let parents = stats.filter_map(|stat| {
        let (_, after) = stat.rsplit_once(')')?;
        after.split_whitespace().nth(1)?.parse::<u32>().ok()
    });
    parents.filter(|parent| *parent == of).count()
}

#[test]
fn it_can_be_asked_reloaded_and_told_to_resign() {
    let rack = Rack::new(1);
    let daemon = Daemon::new(&rack, VIPS, None);
    wait("it answers", || daemon.ask(&["status"]).status.success());
    wait("the address is there", || rack.holds(0, VIP));
    let shown = || text(&daemon.ask(&["status"]));
    wait("the table shows it", || shown().contains("active"));
    let more = format!("{VIPS}checks: [{{name: up, file: /}}]\n");
    std::fs::write(&daemon.config, more).unwrap();
    kill(daemon.pid(), Signal::SIGHUP).unwrap();
    wait("the new check passes", || shown().contains("passes"));
    assert!(rack.holds(0, VIP), "the address stayed");
    std::fs::write(&daemon.config, "vips: [{name: api}]\n").unwrap();
    wait("a bad file is noticed and told", || {
        shown().contains("PROBLEM")
    });
    assert!(rack.holds(0, VIP), "and the old one is in use");
    let json = text(&daemon.ask(&["status", "-o", "json"]));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["vips"][0]["role"], "active");
    assert!(!daemon.ask(&["resign", "nobody"]).status.success());
    assert!(
        daemon
            .ask(&["resign", "api", "--for", "1s"])
            .status
            .success()
    );
    wait("it says why it gave it up", || {
        shown().contains("asked to resign")
    });
    let metrics = daemon.get("/metrics");
    assert!(metrics.contains("plinth_netd_vip_active"), "{metrics}");
    assert!(daemon.get("/healthz").starts_with("HTTP/1.0 200"));
}

#[test]
fn without_descriptors_clients_are_refused_and_the_others_are_served() {
    const CLIENTS: usize = 200;
    let rack = Rack::new(2);
    rack.hosts[1].run(|| async {
        let listener = TcpListener::bind("192.0.2.11:80").await.unwrap();
        tokio::task::spawn_local(async move {
            let mut clients = Vec::new();
            while let Ok((client, _)) = listener.accept().await {
                client.try_write(b"x").unwrap();
                clients.push(client);
            }
        });
    });
    let config = "lb: [{name: api, listen: ['192.0.2.10:80'], backends: [{name: b, address: '192.0.2.11:80'}]}]\n";
    let daemon = Daemon::new(&rack, config, Some(320));
    wait("it listens", || {
        text(&daemon.ask(&["status"])).contains(" listening")
    });
    let served = rack.hosts[1].run(|| async {
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            let Ok(client) = TcpStream::connect("192.0.2.10:80").await else {
                continue;
            };
            if client.readable().await.is_ok() && matches!(client.try_read(&mut [0]), Ok(1)) {
                clients.push(client);
            }
        }
        clients.len()
    });
    assert!(
        served > 50 && served < CLIENTS,
        "{served} of {CLIENTS} were served"
    );
    let log = || std::fs::read_to_string(daemon.folder.path().join("log")).unwrap();
    wait("it says so", || log().contains("connection refused"));
    assert!(
        text(&daemon.ask(&["status"])).contains(" listening"),
        "it goes on"
    );
}

/// As on a bootstrap node: it says nothing of itself, and its programs find the others by name.
#[test]
fn a_node_that_speaks_on_the_link_is_known_by_name_elsewhere() {
    let rack = Rack::new(2);
    let _one = Daemon::on(
        &rack,
        0,
        "cluster: c1\nmdns: {host: master-0, etcd: true}\n",
        None,
    );
    let looks = "cluster: c1\nmdns: {publish: false, networks: [192.0.2.0/24]}\n\
        dns: {listen: [127.0.0.1], domain: c1.test, api: [192.0.2.100], etcd_minimum: 1, authoritative: true}\n";
    let _other = Daemon::on(&rack, 1, looks, None);
    wait("its name is answered", || {
        let mut dig = rack.hosts[1].command("dig");
        dig.args([
            "+short",
            "+time=1",
            "+tries=1",
            "@127.0.0.1",
            "master-0.c1.test",
        ]);
        text(&dig.output().unwrap()).trim() == "192.0.2.10"
    });
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

struct Daemon<'a> {
    rack: &'a Rack,
    child: Child,
    config: PathBuf,
    folder: TempDir,
}

impl<'a> Daemon<'a> {
    /// On node 0, perhaps with few file descriptors.
    fn new(rack: &'a Rack, text: &str, descriptors: Option<usize>) -> Self {
        Self::on(rack, 0, text, descriptors)
    }

    fn on(rack: &'a Rack, node: usize, text: &str, descriptors: Option<usize>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("netd.yaml");
        std::fs::write(&config, text).unwrap();
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let mut command = match descriptors {
            None => rack.hosts[node].command(PLINTH),
            Some(count) => {
                let mut limited = rack.hosts[node].command("prlimit");
                limited.arg(format!("--nofile={count}:{count}")).arg(PLINTH);
                limited
            }
        };
        let child = command
            .args(["--log", "info", "netd", "--config"])
            .arg(&config)
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Self {
            rack,
            child,
            config,
            folder,
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    fn ask(&self, arguments: &[&str]) -> Output {
        let mut command = self.rack.hosts[0].command(PLINTH);
        command.arg("netd").args(arguments).output().unwrap()
    }

    fn get(&self, path: &'static str) -> String {
        self.rack.hosts[0].run(move || async move {
            let mut stream = std::net::TcpStream::connect("127.0.0.1:29445").unwrap();
            write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        })
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.folder.path().join("log"));
            eprintln!("{}", log.unwrap_or_default());
        }
    }
}
