//! Connections, requests and bytes through the balancer, and what clients see when a backend dies, beside haproxy
//! configured as OpenShift does. The balancer has one processor.

use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::backend;
use super::daemon::{Daemon, cpu_seconds};
use super::place::{self, Node};
use super::probe::Probes;
use super::report::{Better, Report, Row, Target, percentile};
use super::{Scratch, plinth, say};
use crate::sh;

const ROUNDS: usize = 11;
/// A dead backend keeps the incumbent busy for half a minute.
const FAULT_ROUNDS: usize = 3;
const TIME: Duration = Duration::from_secs(2);
const CONNECTIONS: usize = 16;
/// After a fault, in which the share of failed connections is taken.
const COUNTED: Duration = Duration::from_secs(10);
const BULK: usize = 1 << 32;
/// Of recv(2); for TCP it means: do not copy (tcp(7)).
const MSG_TRUNC: i32 = 0x20;

pub fn run() -> Result<()> {
    let scratch = Scratch::new("lb")?;
    let nodes: Vec<Node> = (0..3)
        .map(|at| Node::new(&format!("node{at}"), "br0", &format!("192.0.2.1{at}/24")))
        .collect::<Result<_>>()?;
    place::ip("addr add 192.0.2.1/24 dev br0")?;
    let mut report = Report::new(
        "lb",
        format!(
            "TCP balancing over three backends, the balancer on one processor, {ROUNDS} rounds"
        ),
    );
    throughput(&scratch, &mut report)?;
    for fault in [Fault::Killed, Fault::Unplugged] {
        let mut time = Row::new(
            format!("backend {}: last failed connection after", fault.name()),
            "s",
            Better::Less,
            fault.target(),
        )
        .beside("haproxy");
        let mut share = Row::new(
            format!("backend {}: failed of new connections", fault.name()),
            "%",
            Better::Less,
            Target::NeverOver(0.5),
        )
        .beside("haproxy");
        for _ in 0..FAULT_ROUNDS {
            for program in [Program::Ours, Program::Haproxy] {
                let (last, failed) = program.fault(&scratch, &nodes, fault)?;
                match program {
                    Program::Ours => {
                        time.ours(last);
                        share.ours(failed);
                    }
                    Program::Haproxy => {
                        time.theirs(last);
                        share.theirs(failed);
                    }
                }
            }
        }
        report.add(time);
        report.add(share);
        say(fault.name());
    }
    report.finish()
}

/// Over loopback, so that nothing but the balancer is slow.
fn throughput(scratch: &Scratch, report: &mut Report) -> Result<()> {
    let well = scratch.join("never");
    let backends = (1..=3).map(|at| {
        let mut command = backend::command(&at.to_string(), &format!("127.0.1.{at}:6443"), &well)?;
        Daemon::start(&format!("backend{at}"), &scratch.0, &mut command)
    });
    let backends: Vec<Daemon> = backends.collect::<Result<_>>()?;
    let servers: Vec<String> = (1..=3).map(|at| format!("127.0.1.{at}:6443")).collect();
    let ours = Program::Ours.start(scratch, &servers, 0)?;
    let theirs = Program::Haproxy.start(scratch, &servers, 0)?;
    for work in Work::ALL {
        let mut rows = work.rows();
        for _ in 0..ROUNDS {
            for (value, row) in work
                .measure(Program::Ours.address(), &ours)?
                .into_iter()
                .zip(&mut rows)
            {
                row.ours(value);
            }
            for (value, row) in work
                .measure(Program::Haproxy.address(), &theirs)?
                .into_iter()
                .zip(&mut rows)
            {
                row.theirs(value);
            }
        }
        say(work.name());
        for row in rows {
            report.add(row);
        }
    }
    let mut memory = Row::new("memory", "MiB", Better::Less, Target::Under(32.0)).beside("haproxy");
    memory.ours(ours.memory_mib()?);
    memory.theirs(theirs.memory_mib()?);
    report.add(memory);
    drop(backends);
    Ok(())
}

#[derive(Clone, Copy)]
enum Work {
    Connections,
    Requests,
    Bulk,
}

impl Work {
    const ALL: [Self; 3] = [Self::Connections, Self::Requests, Self::Bulk];

    fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Requests => "requests",
            Self::Bulk => "bulk",
        }
    }

    fn rows(self) -> Vec<Row> {
        let equal = Target::Times(1.0);
        let rows = match self {
            Self::Connections => vec![
                Row::new("new connections", "1/s", Better::More, equal),
                Row::new("new connections, p99", "ms", Better::Less, equal),
                Row::new(
                    "new connections per second of processor",
                    "1/s",
                    Better::More,
                    equal,
                ),
            ],
            Self::Requests => vec![
                Row::new(
                    "requests on kept connections, by wrk",
                    "1/s",
                    Better::More,
                    equal,
                ),
                Row::new(
                    "requests on kept connections, p99",
                    "ms",
                    Better::Less,
                    equal,
                ),
                Row::new(
                    "requests per second of processor",
                    "1/s",
                    Better::More,
                    equal,
                ),
            ],
            Self::Bulk => vec![
                Row::new("bulk", "GB/s", Better::More, Target::Times(2.0)),
                Row::new(
                    "bulk per second of processor",
                    "GB/s",
                    Better::More,
                    Target::Times(2.0),
                ),
            ],
        };
        rows.into_iter().map(|row| row.beside("haproxy")).collect()
    }

    fn measure(self, address: SocketAddr, balancer: &Daemon) -> Result<Vec<f64>> {
        let before = cpu_seconds(balancer.pid()).unwrap_or(0.0);
        let (count, mut values) = match self {
            Self::Connections => connect(address)?,
            Self::Requests => wrk(address)?,
            Self::Bulk => bulk(address)?,
        };
        let used = cpu_seconds(balancer.pid()).unwrap_or(0.0) - before;
        values.push(count / used.max(0.01));
        Ok(values)
    }
}

/// One request on each connection. How many, per second, and p99.
fn connect(address: SocketAddr) -> Result<(f64, Vec<f64>)> {
    let begin = Instant::now();
    let work = || -> Result<Vec<f64>> {
        let mut latencies = Vec::new();
        let mut buffer = [0; 512];
        while begin.elapsed() < TIME {
            let start = Instant::now();
            let mut stream = TcpStream::connect(address)?;
            stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
            let mut got = 0;
            loop {
                match stream.read(&mut buffer)? {
                    0 => break,
                    length => got += length,
                }
            }
            if got == 0 {
                bail!("the balancer closed a connection without an answer");
            }
            latencies.push(start.elapsed().as_secs_f64() * 1000.0);
        }
        Ok(latencies)
    };
    let results: Result<Vec<Vec<f64>>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().expect("a worker does not panic"))
            .collect()
    });
    let elapsed = begin.elapsed().as_secs_f64();
    let latencies = results?.concat();
    let count = latencies.len() as f64;
    Ok((
        count,
        vec![
            count / elapsed,
            percentile(&latencies, 0.99).context("some connections were made")?,
        ],
    ))
}

fn wrk(address: SocketAddr) -> Result<(f64, Vec<f64>)> {
    let text = sh::output(Command::new("wrk").args([
        "--threads",
        "1",
        "--connections",
        &CONNECTIONS.to_string(),
        "--duration",
        &format!("{}s", TIME.as_secs()),
        "--latency",
        &format!("http://{address}/"),
    ]))?;
    let word = |label: &str, at: usize| {
        text.lines()
            .find_map(|line| line.trim().strip_prefix(label)?.split_whitespace().nth(at))
            .with_context(|| format!("wrk does not say {label}:\n{text}"))
    };
    let rate: f64 = word("Requests/sec:", 0)?.parse()?;
    let latency = word("99%", 0)?;
    let (digits, unit) = latency.split_at(
        latency
            .find(|letter: char| letter.is_alphabetic())
            .unwrap_or(latency.len()),
    );
    let scale = match unit {
        "us" => 0.001,
        "ms" => 1.0,
        "s" => 1000.0,
        other => bail!("wrk counts in {other}"),
    };
    Ok((
        rate * TIME.as_secs_f64(),
        vec![rate, digits.parse::<f64>()? * scale],
    ))
}

fn bulk(address: SocketAddr) -> Result<(f64, Vec<f64>)> {
    let begin = Instant::now();
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(format!("GET /bytes/{BULK} HTTP/1.0\r\n\r\n").as_bytes())?;
    // Bytes are counted and thrown away in the kernel: a copy here would be slower than a balancer without one.
    let stream = socket2::Socket::from(stream);
    let mut buffer = vec![MaybeUninit::uninit(); 1 << 20];
    let mut got = 0;
    loop {
        match stream.recv_with_flags(&mut buffer, MSG_TRUNC)? {
            0 => break,
            length => got += length,
        }
    }
    if got < BULK {
        bail!("{got} of {BULK} bytes came");
    }
    let size = got as f64 / 1e9;
    Ok((size, vec![size / begin.elapsed().as_secs_f64()]))
}

#[derive(Clone, Copy)]
enum Fault {
    Killed,
    Unplugged,
}

impl Fault {
    fn name(self) -> &'static str {
        match self {
            Self::Killed => "killed",
            Self::Unplugged => "unplugged",
        }
    }

    fn target(self) -> Target {
        Target::NeverOver(match self {
            Self::Killed => 0.3,
            Self::Unplugged => 1.0,
        })
    }

    /// How long the incumbent may need to notice.
    fn watch(self, program: Program) -> Duration {
        match (self, program) {
            (_, Program::Ours) => COUNTED,
            (Self::Killed, Program::Haproxy) => Duration::from_secs(15),
            (Self::Unplugged, Program::Haproxy) => Duration::from_secs(30),
        }
    }
}

#[derive(Clone, Copy)]
enum Program {
    Haproxy,
    Ours,
}

impl Program {
    fn address(self) -> SocketAddr {
        match self {
            Self::Haproxy => ([127, 0, 0, 1], 9445).into(),
            Self::Ours => ([127, 0, 0, 2], 9445).into(),
        }
    }

    fn start(self, scratch: &Scratch, servers: &[String], round: usize) -> Result<Daemon> {
        let (name, inner) = match self {
            Self::Haproxy => {
                let config = scratch.write("haproxy.cfg", &haproxy(self.address(), servers))?;
                let mut command = Command::new("haproxy");
                command.arg("-db").arg("-f").arg(config);
                (format!("haproxy{round}"), command)
            }
            Self::Ours => {
                let config = scratch.write("netd.yaml", &netd(self.address(), servers))?;
                let mut command = plinth();
                command.args(["netd", "--config"]).arg(config);
                (format!("netd{round}"), command)
            }
        };
        let mut command = Command::new("taskset");
        command
            .args(["--cpu-list", "0"])
            .arg(inner.get_program())
            .args(inner.get_args());
        let mut daemon = Daemon::start(&name, &scratch.0, &mut command)?;
        daemon.wait("it passes connections on", || {
            let asked = TcpStream::connect_timeout(&self.address(), Duration::from_secs(1))
                .and_then(|mut stream| {
                    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
                    stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
                    stream.read(&mut [0; 512])
                });
            asked.is_ok_and(|length| length > 0)
        })?;
        Ok(daemon)
    }

    /// Seconds until the last connection that failed, and percent of all in the first 10 s.
    fn fault(self, scratch: &Scratch, nodes: &[Node], fault: Fault) -> Result<(f64, f64)> {
        let well: &Path = &scratch.join("never");
        let backends = nodes.iter().map(|node| {
            let serve = backend::command(&node.name, "0.0.0.0:6443", well)?;
            Daemon::start(&node.name, &scratch.0, &mut node.wrap(&serve))
        });
        let mut backends: Vec<Daemon> = backends.collect::<Result<_>>()?;
        let servers: Vec<String> = (0..3).map(|at| format!("192.0.2.1{at}:6443")).collect();
        let balancer = self.start(scratch, &servers, 1)?;
        let probes = Probes::start(self.address(), Duration::from_secs(1));
        probes.wait("all is well", |seen| seen.steady(|_| true))?;
        let moment = Instant::now();
        match fault {
            Fault::Killed => backends[1].kill(),
            Fault::Unplugged => nodes[1].set_cable(false)?,
        }
        thread::sleep(fault.watch(self));
        let seen = probes.stop();
        nodes[1].set_cable(true)?;
        drop((balancer, backends));
        let (last, _) = seen.failures(moment, fault.watch(self));
        let (_, share) = seen.failures(moment, COUNTED);
        Ok((last.as_secs_f64(), share * 100.0))
    }
}

/// As the machine-config operator renders it, but without TLS in the health check, with one thread, and with a tenth of
/// the connections, which every limit of descriptors allows.
fn haproxy(address: SocketAddr, servers: &[String]) -> String {
    let servers: Vec<String> = servers
        .iter()
        .enumerate()
        .map(|(at, server)| {
            format!("  server master-{at} {server} weight 1 check inter 5s fall 3 rise 1")
        })
        .collect();
    let servers = servers.join(
        "
",
    );
    format!(
        "global
  nbthread 1
  maxconn 4000
defaults
  mode tcp
  maxconn 4000
  retries 3
  timeout http-request 30s
  timeout queue 1m
  timeout connect 10s
  timeout client 1m
  timeout server 1m
  timeout tunnel 5m
  timeout client-fin 1s
  timeout server-fin 1s
  timeout check 10s
frontend main
  bind {address}
  default_backend masters
backend masters
  option httpchk GET /readyz HTTP/1.0
  balance roundrobin
{servers}
"
    )
}

/// All defaults, but for what it must be told.
fn netd(address: SocketAddr, servers: &[String]) -> String {
    let backends: Vec<String> = servers
        .iter()
        .enumerate()
        .map(|(at, server)| format!("{{name: master-{at}, address: '{server}'}}"))
        .collect();
    format!(
        "admin: ''
lb: [{{name: api, listen: ['{address}'], check: {{http: /readyz}}, backends: [{}]}}]
",
        backends.join(", ")
    )
}
