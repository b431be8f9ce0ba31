//! Questions answered per second and per processor, beside dnsmasq, unbound and knot. Each server has the first
//! processor to itself, dnsperf the others.

use std::fmt::Write as _;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::daemon::{Daemon, cpu_seconds};
use super::report::{Better, Report, Row, Target};
use super::{Scratch, plinth, say};
use crate::sh;

const ROUNDS: usize = 5;
const TIME: &str = "3";
const NODES: usize = 30;

pub fn run() -> Result<()> {
    let scratch = Scratch::new("dns")?;
    let questions = scratch.write("questions", &questions())?;
    let servers: Vec<Daemon> = Server::ALL
        .into_iter()
        .map(|server| server.start(&scratch))
        .collect::<Result<_>>()?;
    let mut samples: Vec<Vec<Sample>> = servers.iter().map(|_| Vec::new()).collect();
    for round in 1..=ROUNDS {
        for ((server, daemon), samples) in Server::ALL.into_iter().zip(&servers).zip(&mut samples) {
            samples.push(measure(server, daemon, &questions)?);
        }
        say(&format!("round {round} of {ROUNDS}"));
    }
    let ours = samples.pop().context("ours is the last")?;
    let mut report = Report::new(
        "dns",
        format!("DNS over loopback, one processor for the server, {ROUNDS} rounds"),
    );
    for what in What::ALL {
        for (server, theirs) in Server::ALL.into_iter().zip(&samples) {
            let row = what.row().beside(server.name());
            let of = |sample| what.of(sample);
            report.add(row.with(theirs.iter().map(of), ours.iter().map(of)));
        }
    }
    report.finish()
}

struct Sample {
    rate: f64,
    per_core: f64,
    mib: f64,
}

#[derive(Clone, Copy)]
enum What {
    Rate,
    PerCore,
    Memory,
}

impl What {
    const ALL: [Self; 3] = [Self::Rate, Self::PerCore, Self::Memory];

    fn row(self) -> Row {
        match self {
            Self::Rate => Row::new("questions", "1/s", Better::More, Target::None),
            Self::PerCore => Row::new(
                "questions per second of processor",
                "1/s",
                Better::More,
                Target::Times(1.0),
            ),
            Self::Memory => Row::new("memory", "MiB", Better::Less, Target::Under(32.0)),
        }
    }

    fn of(self, sample: &Sample) -> f64 {
        match self {
            Self::Rate => sample.rate,
            Self::PerCore => sample.per_core,
            Self::Memory => sample.mib,
        }
    }
}

fn measure(server: Server, daemon: &Daemon, questions: &Path) -> Result<Sample> {
    let before = cpu_seconds(daemon.pid()).unwrap_or(0.0);
    let last = std::thread::available_parallelism()?.get().max(2) - 1;
    let mut dnsperf = Command::new("taskset");
    dnsperf
        .args([
            "--cpu-list",
            &format!("1-{last}"),
            "dnsperf",
            "-s",
            &server.address().ip().to_string(),
            "-l",
            TIME,
            "-c",
            "8",
            "-q",
            "256",
            "-d",
        ])
        .arg(questions);
    let text = sh::output(&mut dnsperf)?;
    let used = cpu_seconds(daemon.pid()).unwrap_or(0.0) - before;
    let number = |label: &str| -> Result<f64> {
        let line = text
            .lines()
            .find_map(|line| line.trim().strip_prefix(label))
            .with_context(|| format!("dnsperf does not say {label}:\n{text}"))?;
        line.split_whitespace()
            .next()
            .and_then(|word| word.parse().ok())
            .with_context(|| format!("dnsperf: {line}"))
    };
    let completed = number("Queries completed:")?;
    Ok(Sample {
        rate: number("Queries per second:")?,
        per_core: completed / used.max(0.01),
        mib: daemon.memory_mib()?,
    })
}

#[derive(Clone, Copy)]
enum Server {
    Dnsmasq,
    Unbound,
    Knot,
    Ours,
}

impl Server {
    const ALL: [Self; 4] = [Self::Dnsmasq, Self::Unbound, Self::Knot, Self::Ours];

    fn name(self) -> &'static str {
        match self {
            Self::Dnsmasq => "dnsmasq",
            Self::Unbound => "unbound",
            Self::Knot => "knot",
            Self::Ours => "ours",
        }
    }

    fn address(self) -> SocketAddr {
        let last = match self {
            Self::Dnsmasq => 1,
            Self::Unbound => 2,
            Self::Knot => 3,
            Self::Ours => 4,
        };
        ([127, 0, 0, last], 53).into()
    }

    fn start(self, scratch: &Scratch) -> Result<Daemon> {
        let ip = self.address().ip().to_string();
        let dir = scratch.0.display().to_string();
        let inner = match self {
            Self::Dnsmasq => {
                let mut command = Command::new("dnsmasq");
                command.args([
                    "--no-daemon",
                    "--conf-file=/dev/null",
                    "--no-resolv",
                    "--no-hosts",
                    "--user=root",
                    "--bind-interfaces",
                    "--cache-size=1000",
                ]);
                command.arg(format!("--listen-address={ip}"));
                command.arg("--address=/apps.c.example/192.0.2.101");
                for (name, address) in names() {
                    command.arg(format!("--host-record={name},{address}"));
                }
                command
            }
            Self::Unbound => {
                let config = scratch.write("unbound.conf", &unbound(&ip, &dir))?;
                let mut command = Command::new("unbound");
                command.arg("-d").arg("-c").arg(config);
                command
            }
            Self::Knot => {
                scratch.write("c.example.zone", &zone())?;
                let config = scratch.write("knot.conf", &knot(&ip, &dir))?;
                let mut command = Command::new("knotd");
                command.arg("-c").arg(config);
                command
            }
            Self::Ours => {
                let config = scratch.write("netd.yaml", &netd(&ip))?;
                let mut command = plinth();
                command.args(["netd", "--config"]).arg(config);
                command
            }
        };
        let mut command = Command::new("taskset");
        command
            .args(["--cpu-list", "0"])
            .arg(inner.get_program())
            .args(inner.get_args());
        let mut daemon = Daemon::start(self.name(), &scratch.0, &mut command)?;
        daemon.wait("it answers", || self.answers().is_ok_and(|right| right))?;
        Ok(daemon)
    }

    /// Asks for api.c.example and looks for its address in the answer.
    fn answers(self) -> std::io::Result<bool> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.set_read_timeout(Some(Duration::from_millis(200)))?;
        let mut question = vec![1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in ["api", "c", "example", ""] {
            question.push(label.len() as u8);
            question.extend(label.as_bytes());
        }
        question.extend([0, 1, 0, 1]);
        socket.send_to(&question, self.address())?;
        let mut answer = [0; 512];
        let length = socket.recv(&mut answer)?;
        Ok(answer[..length].ends_with(&[192, 0, 2, 100]))
    }
}

/// Names of the cluster, but for the wildcard.
fn names() -> Vec<(String, String)> {
    let mut names = vec![
        ("api.c.example".to_string(), "192.0.2.100".to_string()),
        ("api-int.c.example".to_string(), "192.0.2.100".to_string()),
    ];
    names.extend((0..NODES).map(|at| {
        (
            format!("node-{at}.c.example"),
            format!("192.0.2.{}", 10 + at),
        )
    }));
    names
}

/// As pods and kubelets ask: both families, mostly the API and applications.
fn questions() -> String {
    let mut text = String::new();
    for (name, _) in names() {
        for _ in 0..3 {
            _ = writeln!(
                text,
                "api-int.c.example A\napi-int.c.example AAAA\n{name} A"
            );
        }
        _ = writeln!(
            text,
            "console.apps.c.example A\noauth.apps.c.example A\n{name} AAAA"
        );
    }
    text
}

fn unbound(ip: &str, dir: &str) -> String {
    let mut text = format!(
        "server:\n  interface: {ip}\n  directory: \"{dir}\"\n  username: \"\"\n  chroot: \"\"\n  pidfile: \"\"\n  do-daemonize: no\n  use-syslog: no\n  num-threads: 1\n  access-control: 127.0.0.0/8 allow\n  module-config: \"iterator\"\n  local-zone: \"c.example.\" static\n  local-zone: \"apps.c.example.\" redirect\n  local-data: \"apps.c.example. 30 IN A 192.0.2.101\"\n"
    );
    for (name, address) in names() {
        _ = writeln!(text, "  local-data: \"{name}. 30 IN A {address}\"");
    }
    text += "remote-control:\n  control-enable: no\n";
    text
}

fn knot(ip: &str, dir: &str) -> String {
    format!(
        "server:\n    rundir: \"{dir}\"\n    listen: {ip}@53\n    udp-workers: 1\n    tcp-workers: 1\n    background-workers: 1\ndatabase:\n    storage: \"{dir}\"\nlog:\n  - target: stderr\n    any: warning\ntemplate:\n  - id: default\n    storage: \"{dir}\"\n    file: \"%s.zone\"\nzone:\n  - domain: c.example\n"
    )
}

fn zone() -> String {
    let mut text = "$ORIGIN c.example.\n@ 30 IN SOA ns1 admin 1 3600 600 86400 30\n@ 30 IN NS ns1\nns1 30 IN A 127.0.0.3\n*.apps 30 IN A 192.0.2.101\n".to_string();
    for (name, address) in names() {
        _ = writeln!(text, "{name}. 30 IN A {address}");
    }
    text
}

fn netd(ip: &str) -> String {
    let members: Vec<String> = (0..NODES)
        .map(|at| format!("{{name: node-{at}, addresses: [192.0.2.{}]}}", 10 + at))
        .collect();
    format!(
        "admin: ''
dns: {{listen: [{ip}], domain: c.example, api: [192.0.2.100], ingress: [192.0.2.101], upstreams: [127.0.0.9], authoritative: true}}
members: {{static: [{}]}}
",
        members.join(", ")
    )
}
