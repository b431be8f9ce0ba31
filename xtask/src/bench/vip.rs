//! How long a virtual address is away, as a client sees it, beside keepalived configured as OpenShift does.
//!
//! Three nodes with a small API each on one bridge, whose own end is the client: a new connection every few
//! milliseconds, until another node answers steadily.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::backend;
use super::daemon::{Daemon, children, signal};
use super::place::{self, Busy, Node};
use super::probe::{Probes, Seen};
use super::report::{Better, Report, Row, Target};
use super::{Scratch, plinth, say};

const ROUNDS: usize = 3;
/// Ours is quick: more of it shows the worst better.
const OURS_PER_ROUND: usize = 4;
const VIP: &str = "192.0.2.100";
const PATIENCE: Duration = Duration::from_millis(300);
const BUSY_TIME: Duration = Duration::from_secs(10);

pub fn run() -> Result<()> {
    let scratch = Scratch::new("vip")?;
    let rack = Rack::new(&scratch)?;
    let mut report = Report::new(
        "vip",
        format!(
            "Gap of a virtual address over three nodes, {ROUNDS} rounds, ours {OURS_PER_ROUND} times in each"
        ),
    );
    for event in Event::ALL {
        let mut gap = Row::new(
            format!("{}: gap", event.name()),
            "ms",
            Better::Less,
            event.target(),
        )
        .beside("keepalived");
        let failed_target = if let Event::Stop = event {
            Target::NeverOver(0.0)
        } else {
            Target::None
        };
        let mut failed = Row::new(
            format!("{}: failed requests", event.name()),
            "of 200/s",
            Better::Less,
            failed_target,
        )
        .beside("keepalived");
        for _ in 0..ROUNDS {
            for _ in 0..OURS_PER_ROUND {
                let seen = rack.measure(Program::Ours, event)?;
                gap.ours(seen.gap_ms);
                failed.ours(seen.failed as f64);
            }
            let seen = rack.measure(Program::Keepalived, event)?;
            gap.theirs(seen.gap_ms);
            failed.theirs(seen.failed as f64);
        }
        report.add(gap);
        report.add(failed);
        say(event.name());
    }
    let mut flaps = Row::new(
        "all processors busy for 10 s: moves",
        "",
        Better::Less,
        Target::NeverOver(0.0),
    )
    .beside("keepalived");
    for _ in 0..ROUNDS {
        flaps.ours(rack.flaps(Program::Ours)?);
        flaps.theirs(rack.flaps(Program::Keepalived)?);
    }
    report.add(flaps);
    report.finish()
}

#[derive(Clone, Copy)]
enum Event {
    Kill,
    Cut,
    Stop,
    Sick,
}

impl Event {
    const ALL: [Self; 4] = [Self::Kill, Self::Cut, Self::Stop, Self::Sick];

    fn name(self) -> &'static str {
        match self {
            Self::Kill => "holder and its API killed -9",
            Self::Cut => "holder's link cut",
            Self::Stop => "holder stopped",
            Self::Sick => "holder's API sick",
        }
    }

    fn target(self) -> Target {
        Target::NeverOver(match self {
            Self::Kill | Self::Cut => 250.0,
            Self::Stop => 20.0,
            Self::Sick => 500.0,
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Program {
    Keepalived,
    Ours,
}

struct Rack<'a> {
    scratch: &'a Scratch,
    nodes: Vec<Node>,
}

impl<'a> Rack<'a> {
    fn new(scratch: &'a Scratch) -> Result<Self> {
        let nodes = (0..3)
            .map(|at| Node::new(&format!("node{at}"), "br0", &format!("192.0.2.1{at}/24")))
            .collect::<Result<_>>()?;
        place::ip("addr add 192.0.2.1/24 dev br0")?;
        Ok(Self { scratch, nodes })
    }

    /// Starts everything, lets it settle, does it to the holder, and watches.
    fn measure(&self, program: Program, event: Event) -> Result<Seen> {
        let mut members = self.start(program)?;
        let holder = self.settled(&mut members)?;
        let probes = Probes::start(
            SocketAddr::from((VIP.parse::<std::net::Ipv4Addr>()?, 6443)),
            PATIENCE,
        );
        probes.wait("the holder answers", |seen| {
            seen.steady(|name| name == holder.to_string())
        })?;
        let before = Instant::now();
        match event {
            Event::Kill => {
                members[holder].api.kill();
                members[holder].kill_router();
            }
            Event::Cut => self.nodes[holder].set_cable(false)?,
            Event::Stop => members[holder].ask_router_to_stop(),
            Event::Sick => backend::set_sick(&members[holder].sick, true)?,
        }
        let moved = probes.wait("another node answers", |seen| {
            seen.steady(|name| name != holder.to_string())
        });
        let seen = probes.stop();
        self.nodes[holder].set_cable(true)?;
        for member in &members {
            backend::set_sick(&member.sick, false)?;
        }
        moved.with_context(|| {
            format!(
                "{}; {}",
                event.name(),
                members[(holder + 1) % 3].router.last_words()
            )
        })?;
        drop(members);
        self.clear()?;
        Ok(seen.around(before))
    }

    /// How often the address moves while every processor has more to do than it can.
    fn flaps(&self, program: Program) -> Result<f64> {
        let mut members = self.start(program)?;
        let holder = self.settled(&mut members)?;
        let cores = thread::available_parallelism()?.get();
        let busy = Busy::new(2 * cores)?;
        let probes = Probes::start(
            SocketAddr::from((VIP.parse::<std::net::Ipv4Addr>()?, 6443)),
            PATIENCE,
        );
        thread::sleep(BUSY_TIME);
        let seen = probes.stop();
        drop(busy);
        drop(members);
        self.clear()?;
        let mut last = holder.to_string();
        let mut moves = 0;
        for name in seen.0.into_iter().filter_map(|probe| probe.name) {
            moves += usize::from(name != last);
            last = name;
        }
        Ok(moves as f64)
    }

    fn start(&self, program: Program) -> Result<Vec<Member>> {
        (0..self.nodes.len())
            .map(|at| self.member(program, at))
            .collect()
    }

    fn member(&self, program: Program, at: usize) -> Result<Member> {
        let node = &self.nodes[at];
        let sick = self.scratch.join(&format!("sick{at}"));
        let serve = backend::command(&at.to_string(), "0.0.0.0:6443", &sick)?;
        let api = Daemon::start(&format!("api{at}"), &self.scratch.0, &mut node.wrap(&serve))?;
        let command = match program {
            Program::Ours => {
                let config = self.scratch.write(&format!("netd{at}.yaml"), &netd(at))?;
                let mut inner = plinth();
                inner.args(["netd", "--config"]).arg(config);
                inner
            }
            Program::Keepalived => {
                let config = self
                    .scratch
                    .write(&format!("keepalived{at}.conf"), &keepalived(at))?;
                let file = |name: &str| self.scratch.join(&format!("{name}{at}.pid"));
                // Left by one that was killed, and perhaps the number of another process by now.
                for name in ["keepalived", "vrrp"] {
                    std::fs::remove_file(file(name)).ok();
                }
                let mut inner = std::process::Command::new("keepalived");
                inner
                    .args(["--dont-fork", "--log-console", "--vrrp", "--use-file"])
                    .arg(config);
                inner
                    .arg("--pid")
                    .arg(file("keepalived"))
                    .arg("--vrrp_pid")
                    .arg(file("vrrp"));
                inner
            }
        };
        let router = Daemon::start(
            &format!("router{at}"),
            &self.scratch.0,
            &mut node.wrap(&command),
        )?;
        Ok(Member { router, api, sick })
    }

    /// Waits until one node alone has held the address for a while.
    fn settled(&self, members: &mut [Member]) -> Result<usize> {
        let mut since = (usize::MAX, Instant::now());
        let holding = || -> Vec<usize> { (0..3).filter(|at| self.nodes[*at].holds(VIP)).collect() };
        let steady = Duration::from_millis(1500);
        members[0]
            .router
            .wait("one node holds the address", || match holding()[..] {
                [holder] if holder == since.0 => since.1.elapsed() > steady,
                [holder] => {
                    since = (holder, Instant::now());
                    false
                }
                _ => false,
            })?;
        Ok(since.0)
    }

    /// No address of a program that was killed stays behind.
    fn clear(&self) -> Result<()> {
        for node in &self.nodes {
            // Ours goes by itself soon after its holder.
            _ = place::ip(&format!("-n {} addr del {VIP}/32 dev eth0", node.name));
        }
        // The client, too, begins without knowing.
        place::ip("neigh flush dev br0")
    }
}

struct Member {
    router: Daemon,
    api: Daemon,
    sick: PathBuf,
}

impl Member {
    fn kill_router(&mut self) {
        self.router.kill();
    }

    fn ask_router_to_stop(&self) {
        signal("TERM", self.router.pid());
        // `ip netns exec` becomes the program it runs; keepalived's workers hear it from their parent.
        debug_assert!(children(self.router.pid()).len() < 3);
    }
}

/// All defaults, but for what every node must be told.
fn netd(at: usize) -> String {
    format!(
        "checks: [{{name: api, http: {{url: 'http://127.0.0.1:6443/readyz'}}}}]
vips: [{{name: api, id: 7, address: {VIP}, priority: {}, checks: [{{check: api, weight: 25}}]}}]
",
        40 + at
    )
}

/// As the machine-config operator renders it: unicast, adverts every second, no real-time scheduling, checks by script.
fn keepalived(at: usize) -> String {
    let peers: Vec<String> = (0..3)
        .filter(|peer| *peer != at)
        .map(|peer| format!("192.0.2.1{peer}"))
        .collect();
    let peers = peers.join(
        "
    ",
    );
    format!(
        "global_defs {{
  enable_script_security
  script_user root
  max_auto_priority -1
  vrrp_garp_master_refresh 60
}}
vrrp_script chk_ocp_both {{
  script \"/usr/bin/timeout 1.9 /usr/bin/curl -o /dev/null -kLfs http://localhost:6443/readyz\"
  interval 2
  weight 25
  rise 3
  fall 3
}}
vrrp_instance bench_API_0 {{
  state BACKUP
  interface eth0
  virtual_router_id 7
  priority 40
  advert_int 1
  unicast_src_ip 192.0.2.1{at}
  unicast_peer {{
    {peers}
  }}
  authentication {{
    auth_type PASS
    auth_pass bench_ap
  }}
  virtual_ipaddress {{
    {VIP}/32 label vip
  }}
  track_script {{
    chk_ocp_both
  }}
}}
"
    )
}
