//! Connections, requests and bytes through the balancer, and what clients see when a backend dies, beside haproxy
//! configured as OpenShift does. The balancer has one processor.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::backend;
use super::daemon::{Daemon, cpu_seconds};
use super::load::{self, Ask, Done};
use super::place::{self, Node};
use super::probe::Probes;
use super::report::{Better, Report, Row, Target, percentile};
use super::{Scratch, plinth, say};

const ROUNDS: usize = 11;
/// A dead backend keeps the incumbent busy for half a minute.
const FAULT_ROUNDS: usize = 3;
/// Of what haproxy can do at most; at this rate both are asked how long they need.
const PACE: f64 = 0.3;
/// After a fault, in which the share of failed connections is taken.
const COUNTED: Duration = Duration::from_secs(10);

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
                program.note(last, &mut time);
                program.note(failed, &mut share);
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
    let both = [(Program::Ours, &ours), (Program::Haproxy, &theirs)];
    for work in Work::ALL {
        let mut rows = work.rows();
        for _ in 0..ROUNDS {
            for (program, daemon) in both {
                let values = work.measure(program.address(), daemon)?;
                for (value, row) in values.into_iter().zip(&mut rows) {
                    program.note(value, row);
                }
            }
        }
        let most = rows[0].their_median().context("haproxy was measured")?;
        for row in rows {
            report.add(row);
        }
        if let Some(ask) = work.ask() {
            report.add(latency(ask, (most * PACE).round())?);
        }
        say(work.name());
    }
    let mut memory = Row::new("memory", "MiB", Better::Less, Target::Under(32.0)).beside("haproxy");
    memory.ours(ours.memory_mib()?);
    memory.theirs(theirs.memory_mib()?);
    report.add(memory);
    drop(backends);
    Ok(())
}

/// At a rate that both can do: with as many clients as there can be, the faster balancer would have the busier machine,
/// and the tail would be of clients and backends that wait for a processor. Both are asked at the same time: a tail is
/// made by what else the machine does at the moment, and of that each has its share.
fn latency(ask: Ask, rate: f64) -> Result<Row> {
    let what = match ask {
        Ask::NewConnection => "a new connection",
        Ask::KeptConnection => "a request on a kept connection",
    };
    let what = format!("{what}, p99 at {rate:.0}/s");
    let mut row = Row::new(what, "ms", Better::Less, Target::Times(1.0)).beside("haproxy");
    for _ in 0..ROUNDS {
        let programs = [Program::Ours, Program::Haproxy];
        let asked = load::paced(programs.map(Program::address), ask, rate)?;
        for (program, latencies) in programs.into_iter().zip(asked) {
            let p99 = percentile(&latencies, 0.99).context("some were answered")?;
            program.note(p99, &mut row);
        }
    }
    Ok(row)
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

    /// As much as goes through, and that per second of the balancer's processor. Twice as many bytes are asked for of the
    /// latter alone: with half of its processor to spare ours waits for client and backends, who share the other one.
    fn rows(self) -> [Row; 2] {
        let (what, unit, of_processor) = match self {
            Self::Connections => ("new connections", "1/s", 1.0),
            Self::Requests => ("requests on kept connections, by wrk", "1/s", 1.0),
            Self::Bulk => ("bulk", "GB/s", 2.0),
        };
        let costs = format!("{} per second of processor", self.name());
        [(what.to_owned(), 1.0), (costs, of_processor)].map(|(what, times)| {
            Row::new(what, unit, Better::More, Target::Times(times)).beside("haproxy")
        })
    }

    /// What a client does that wants to know how long it takes.
    fn ask(self) -> Option<Ask> {
        match self {
            Self::Connections => Some(Ask::NewConnection),
            Self::Requests => Some(Ask::KeptConnection),
            Self::Bulk => None,
        }
    }

    /// The values of its rows.
    fn measure(self, address: SocketAddr, balancer: &Daemon) -> Result<[f64; 2]> {
        let before = cpu_seconds(balancer.pid()).unwrap_or(0.0);
        let Done { count, seconds } = match self {
            Self::Connections => load::connections(address)?,
            Self::Requests => load::wrk(address)?,
            Self::Bulk => load::bulk(address)?,
        };
        let used = cpu_seconds(balancer.pid()).unwrap_or(0.0) - before;
        Ok([count / seconds, count / used.max(0.01)])
    }
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

    fn note(self, value: f64, row: &mut Row) {
        match self {
            Self::Haproxy => row.theirs(value),
            Self::Ours => row.ours(value),
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
