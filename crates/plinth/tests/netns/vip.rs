//! `plinth netd` as three processes: however the holder goes, the address moves, and a client sees it.
//!
//! The gap is printed; how short it must be is the benchmark's business, not this test's.

use std::net::SocketAddr;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use linux::netns::Host;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use tokio::net::UdpSocket;

use crate::harness::PLINTH;
use crate::rack::{Rack, wait};

const VIP: &str = "192.0.2.100";
const NODES: usize = 3;
const CLIENT: usize = 3;
/// Nothing here should take this long even on a loaded machine.
const GENEROUS: Duration = Duration::from_secs(5);

#[test]
fn a_killed_holder_loses_the_address_and_another_takes_it() {
    let mut cluster = Cluster::up();
    let gap = cluster.gap_while(|cluster| {
        let holder = &mut cluster.daemons[2];
        holder.kill().unwrap();
        holder.wait().unwrap();
        cluster.held_by(1);
    });
    // held_by also says that the kernel of the dead one has dropped it by itself.
    told("kill -9", gap);
}

#[test]
fn a_cut_link_moves_the_address() {
    let mut cluster = Cluster::up();
    let gap = cluster.gap_while(|cluster| {
        cluster.rack.set_cable(2, false);
        cluster.held_by(1);
    });
    told("link cut", gap);
}

#[test]
fn a_stopped_holder_hands_the_address_over() {
    let mut cluster = Cluster::up();
    let gap = cluster.gap_while(|cluster| {
        cluster.terminate(2);
        cluster.held_by(1);
    });
    told("graceful stop", gap);
}

#[test]
fn a_failing_check_moves_the_address_and_its_recovery_brings_it_back() {
    let mut cluster = Cluster::up();
    let well = cluster.folder.path().join("well2");
    let gap = cluster.gap_while(|cluster| {
        std::fs::remove_file(&well).unwrap();
        cluster.held_by(1);
    });
    told("failed check", gap);
    std::fs::write(&well, "").unwrap();
    cluster.held_by(2);
}

#[test]
fn problems_of_the_file_are_all_told_and_nothing_starts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("netd.yaml");
    std::fs::write(
        &file,
        "vips: [{name: api, address: nowhere, priority: 0}]\n",
    )
    .unwrap();
    let output = std::process::Command::new(PLINTH)
        .args(["netd", "--config"])
        .arg(&file)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    for field in ["vips[0].address", "vips[0].id", "vips[0].priority"] {
        assert!(said.contains(field), "{said}");
    }
}

fn told(what: &str, gap: Duration) {
    eprintln!("{what}: the client saw a gap of {} ms", gap.as_millis());
    assert!(gap < GENEROUS, "{what}: {gap:?}");
}

/// Three daemons and a client; node 2 is the best and holds the address.
struct Cluster {
    rack: Rack,
    daemons: Vec<Child>,
    folder: TempDir,
}

impl Cluster {
    fn up() -> Self {
        let rack = Rack::new(NODES + 1);
        let folder = tempfile::tempdir().unwrap();
        let daemons = (0..NODES)
            .map(|at| {
                answer(&rack.hosts[at]);
                let well = folder.path().join(format!("well{at}"));
                std::fs::write(&well, "").unwrap();
                let config = folder.path().join(format!("netd{at}.yaml"));
                let text = format!(
                    "checks: [{{name: well, file: {}, interval_ms: 50}}]\n\
                     vips: [{{name: api, id: 7, address: {VIP}, priority: {}, listen_ms: 200, \
                     checks: [{{check: well, weight: 50}}]}}]\n",
                    well.display(),
                    100 + at
                );
                std::fs::write(&config, text).unwrap();
                let log = folder.path().join(format!("log{at}"));
                rack.hosts[at]
                    .command(PLINTH)
                    .args(["--log", "info", "netd", "--config"])
                    .arg(&config)
                    .stdin(Stdio::null())
                    .stderr(std::fs::File::create(log).unwrap())
                    .spawn()
                    .unwrap()
            })
            .collect();
        let cluster = Self {
            rack,
            daemons,
            folder,
        };
        cluster.held_by(2);
        cluster
    }

    fn held_by(&self, holder: usize) {
        wait(&format!("only node {holder} holds {VIP}"), || {
            (0..NODES).all(|at| self.rack.holds(at, VIP) == (at == holder))
        });
    }

    fn terminate(&mut self, at: usize) {
        let pid = Pid::from_raw(self.daemons[at].id() as i32);
        kill(pid, Signal::SIGTERM).unwrap();
        let status = self.daemons[at].wait().unwrap();
        assert!(status.success(), "{status}");
    }

    /// The longest time without an answer that a client sees meanwhile.
    fn gap_while(&mut self, work: impl FnOnce(&mut Self)) -> Duration {
        let done = Arc::new(AtomicBool::new(false));
        let client = Arc::clone(&self.rack.hosts[CLIENT]);
        let until = Arc::clone(&done);
        let (ready, first) = std::sync::mpsc::channel();
        let probing = std::thread::spawn(move || {
            client.run(move || probe(until, move || ready.send(()).unwrap()))
        });
        first
            .recv_timeout(GENEROUS)
            .expect("the client gets its first answer");
        work(self);
        done.store(true, Ordering::Relaxed);
        probing.join().unwrap()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        if std::thread::panicking() {
            for at in 0..NODES {
                let log = std::fs::read_to_string(self.folder.path().join(format!("log{at}")));
                eprintln!("node {at}:\n{}", log.unwrap_or_default());
            }
        }
    }
}

const PORT: u16 = 9000;

/// Sends back whatever comes.
fn answer(host: &Host) {
    host.run(|| async {
        let socket = UdpSocket::bind(("0.0.0.0", PORT)).await.unwrap();
        tokio::task::spawn_local(async move {
            let mut buffer = [0; 16];
            while let Ok((len, from)) = socket.recv_from(&mut buffer).await {
                let _ = socket.send_to(&buffer[..len], from).await;
            }
        });
    });
}

/// Asks every 2 ms; goes on until `done` and one more answer.
async fn probe(done: Arc<AtomicBool>, mut ready: impl FnMut() + 'static) -> Duration {
    let socket = UdpSocket::bind(("0.0.0.0", 0)).await.unwrap();
    let target: SocketAddr = format!("{VIP}:{PORT}").parse().unwrap();
    let mut beat = tokio::time::interval(Duration::from_millis(2));
    let (mut last, mut longest) = (None::<Instant>, Duration::ZERO);
    let mut buffer = [0; 16];
    loop {
        tokio::select! {
            _ = beat.tick() => {
                let _ = socket.send_to(b"there?", target).await;
            }
            Ok(_) = socket.recv_from(&mut buffer) => {
                let now = Instant::now();
                match last {
                    Some(last) => longest = longest.max(now - last),
                    None => ready(),
                }
                last = Some(now);
                if done.load(Ordering::Relaxed) {
                    return longest;
                }
            }
        }
    }
}
