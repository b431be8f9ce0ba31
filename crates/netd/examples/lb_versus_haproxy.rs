//! Our balancer beside haproxy: requests, connections and bytes, and what each costs in CPU.
//!
//! ```text
//!   cargo run --release -p netd --example lb_versus_haproxy
//! ```
//!
//! Needs `wrk`, `haproxy` and `taskset`. The balancer has one core, `wrk` and the backends another. Rates of
//! a busy machine say little; the CPU time per unit says most.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement prints, and may fail"
)]

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const BACKENDS: [u16; 3] = [18001, 18002, 18003];
const OURS: u16 = 18100;
const THEIRS: u16 = 18200;
const BULK: usize = 64 << 20;

fn main() {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("backends") => backends(),
        Some("netd") => netd(&arguments.next().unwrap()),
        _ => compare(),
    }
}

fn compare() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let myself = std::env::current_exe().unwrap();
    let _backends = Running::new(Command::new(&myself).arg("backends"), "1");
    let ours = file("netd.yaml", &ours());
    let netd = Running::new(Command::new(&myself).arg("netd").arg(ours), "0");
    let theirs = file("haproxy.cfg", &theirs());
    let haproxy = Running::new(
        Command::new("haproxy").arg("-db").arg("-f").arg(theirs),
        "0",
    );
    let close = file("close.lua", "wrk.headers[\"Connection\"] = \"close\"\n");
    for port in [BACKENDS[0], OURS, THEIRS] {
        wait_for(port);
    }
    println!("who      what          per second          p99    CPU us each");
    for (what, path, script, connections) in [
        ("requests", "/", None, "64"),
        ("connections", "/", Some(&*close), "64"),
        ("MB", "/bulk", None, "8"),
    ] {
        for (who, process, port) in [("netd", &netd, OURS), ("haproxy", &haproxy, THEIRS)] {
            let before = process.cpu();
            let (rate, p99, count) = wrk(port, path, script, connections);
            let cpu = process.cpu().saturating_sub(before).as_secs_f64() * 1e6;
            let unit = if what == "MB" { BULK as f64 / 1e6 } else { 1.0 };
            let (rate, each) = (rate * unit, cpu / (count * unit));
            println!("{who:8} {what:12} {rate:11.0} {p99:>12} {each:14.1}");
        }
    }
}

/// Requests per second, the 99th percentile as wrk writes it, and how many.
fn wrk(port: u16, path: &str, script: Option<&Path>, connections: &str) -> (f64, String, f64) {
    let mut command = Command::new("taskset");
    command.args([
        "-c",
        "1",
        "wrk",
        "-t1",
        "-d5s",
        "--latency",
        "-c",
        connections,
    ]);
    if let Some(script) = script {
        command.arg("-s").arg(script);
    }
    command.arg(format!("http://127.0.0.1:{port}{path}"));
    let output = command.output().expect("taskset and wrk");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let after = |label: &str| {
        let rest = text.split(label).nth(1).unwrap_or_default();
        rest.split_whitespace().next().unwrap_or("0").to_owned()
    };
    let count = text.split(" requests in").next().unwrap_or_default();
    let count = count.split_whitespace().last().unwrap_or("1");
    let rate = after("Requests/sec:").parse().unwrap_or(0.0);
    (rate, after("99%"), count.parse().unwrap_or(1.0))
}

struct Running(Child);

impl Running {
    fn new(command: &mut Command, core: &str) -> Self {
        let mut pinned = Command::new("taskset");
        pinned.args(["-c", core]).arg(command.get_program());
        pinned.args(command.get_args());
        Self(pinned.stdout(Stdio::null()).spawn().unwrap())
    }

    /// User and system time: fields 14 and 15, in hundredths of a second.
    fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        let fields = stat.rsplit(')').next().unwrap().split_whitespace();
        let ticks = fields.skip(11).take(2);
        let ticks: u64 = ticks.map(|field| field.parse::<u64>().unwrap()).sum();
        Duration::from_millis(ticks * 10)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_for(port: u16) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < deadline, "nobody listens on {port}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn ours() -> String {
    let backends = BACKENDS.map(|port| format!("{{name: b{port}, address: '127.0.0.1:{port}'}}"));
    format!(
        "admin: ''\nlb: [{{name: api, listen: ['127.0.0.1:{OURS}'], backends: [{}], \
         check: {{http: /, interval_ms: 100}}}}]\n",
        backends.join(", ")
    )
}

/// As OpenShift writes it, with room for fewer connections.
fn theirs() -> String {
    let mut text = format!(
        "global\n  maxconn 8000\ndefaults\n  mode tcp\n  retries 3\n  timeout connect 10s\n  timeout client 1m\n  \
         timeout server 1m\n  timeout tunnel 5m\nfrontend main\n  bind 127.0.0.1:{THEIRS}\n  \
         default_backend masters\nbackend masters\n  option httpchk GET /\n  balance roundrobin\n"
    );
    for port in BACKENDS {
        let _ = writeln!(
            text,
            "  server b{port} 127.0.0.1:{port} check inter 5s fall 3 rise 1"
        );
    }
    text
}

fn netd(config: &str) {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.install_default().unwrap();
    let config = netd::Config::load(Path::new(config)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let options = netd::Options::default();
        let _netd = netd::Netd::spawn(config, options).await.unwrap();
        std::future::pending::<()>().await;
    });
}

/// Small answers at once, large ones as fast as they are taken; a thread per client.
fn backends() {
    let serve = |port: u16| {
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                std::thread::spawn(move || answer(client));
            }
        })
    };
    for thread in BACKENDS.map(serve) {
        thread.join().unwrap();
    }
}

fn answer(mut client: TcpStream) {
    let mut request = [0; 4096];
    let block = vec![b'x'; 256 * 1024];
    while let Ok(len @ 1..) = client.read(&mut request) {
        let request = &request[..len];
        let length = if request.starts_with(b"GET /bulk") {
            BULK
        } else {
            128
        };
        let close = request.windows(17).any(|at| at == b"Connection: close");
        let mut bytes = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").into_bytes();
        bytes.resize(bytes.len() + length.min(128), b'x');
        let mut sent = client.write_all(&bytes);
        let mut left = length - length.min(128);
        while left > 0 && sent.is_ok() {
            let part = left.min(block.len());
            sent = client.write_all(&block[..part]);
            left -= part;
        }
        if sent.is_err() || close {
            return;
        }
    }
}
