//! The API at 1,000 nodes, and nodes from enrolled to active, beside Ironic from PyPI: one program, SQLite, no
//! authentication, fake hardware. Ours runs with its defaults; both write to the same disk.

use std::net::SocketAddr;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::daemon::Daemon;
use super::http::{self, Connection, Request, Until};
use super::report::{Better, Report, Row, Target};
use super::{Scratch, plinth, say, venv};
use crate::sh;

pub const PACKAGES: &str = "ironic==39.0.0";
const NODES: usize = 1000;
const CYCLED: usize = 100;
const ROUNDS: usize = 5;
/// Bringing 100 nodes up takes the incumbent minutes.
const CYCLE_ROUNDS: usize = 3;
const CONNECTIONS: usize = 4;
/// Long enough for the slower of both to answer several times.
const TIME: Duration = Duration::from_secs(4);
const VERSION: &str = "X-OpenStack-Ironic-API-Version: 1.90\r\n";

pub fn run() -> Result<()> {
    let scratch = Scratch::new("ironic")?;
    let mut report = Report::new(
        "ironic",
        format!("The API with {NODES} nodes over {CONNECTIONS} connections, {ROUNDS} rounds"),
    );
    let mut ours = Service::ours(&scratch, "ours")?;
    let mut theirs = Service::theirs(&scratch, "theirs")?;
    say("enrolling 1,000 nodes in each");
    for service in [&mut ours, &mut theirs] {
        service.enrol(NODES)?;
    }
    let mut rows = Work::ALL
        .map(|work| Row::new(work.name(), "1/s", Better::More, work.target()).beside("Ironic 39"));
    let mut memory = Row::new(
        format!("memory, idle with {NODES} nodes"),
        "MiB",
        Better::Less,
        Target::Under(64.0),
    )
    .beside("Ironic 39");
    memory.ours(ours.daemon.memory_mib()?);
    memory.theirs(theirs.daemon.memory_mib()?);
    let mut loaded = Row::new(
        "memory, after thousands were created and deleted",
        "MiB",
        Better::Less,
        Target::None,
    )
    .beside("Ironic 39");
    for round in 1..=ROUNDS {
        for (work, row) in Work::ALL.into_iter().zip(&mut rows) {
            row.ours(ours.rate(work)?);
            row.theirs(theirs.rate(work)?);
        }
        loaded.ours(ours.daemon.memory_mib()?);
        loaded.theirs(theirs.daemon.memory_mib()?);
        say(&format!("round {round} of {ROUNDS}"));
    }
    drop((ours, theirs));
    for row in rows {
        report.add(row);
    }
    report.add(memory);
    report.add(loaded);
    report.add(cycles(&scratch)?);
    report.finish()
}

/// 100 nodes, each from nothing to active, as fast as the service takes them.
fn cycles(scratch: &Scratch) -> Result<Row> {
    let mut row = Row::new(
        format!("{CYCLED} nodes, enrol to active"),
        "s",
        Better::Less,
        Target::Under(1.0),
    )
    .beside("Ironic 39");
    for round in 1..=CYCLE_ROUNDS {
        row.ours(Service::ours(scratch, &format!("ours-{round}"))?.cycle()?);
        row.theirs(Service::theirs(scratch, &format!("theirs-{round}"))?.cycle()?);
        say(&format!("cycle {round} of {CYCLE_ROUNDS}"));
    }
    Ok(row)
}

/// One kind of request.
#[derive(Clone, Copy)]
enum Work {
    Show,
    Patch,
    Create,
    CreateAlone,
    List,
}

impl Work {
    const ALL: [Self; 5] = [
        Self::Show,
        Self::Patch,
        Self::Create,
        Self::CreateAlone,
        Self::List,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Show => "show",
            Self::Patch => "patch",
            Self::Create => "create",
            Self::CreateAlone => "create, one connection",
            Self::List => "list 1,000",
        }
    }

    fn target(self) -> Target {
        match self {
            Self::Show | Self::Patch | Self::Create | Self::List => Target::Times(100.0),
            // Every node waits for a sync of its own: the disk is measured.
            Self::CreateAlone => Target::None,
        }
    }
}

struct Service {
    daemon: Daemon,
    address: SocketAddr,
    nodes: Vec<String>,
    created: usize,
}

impl Service {
    fn ours(scratch: &Scratch, name: &str) -> Result<Self> {
        let address: SocketAddr = "127.0.0.1:6385".parse()?;
        let state = scratch.join(&format!("{name}.redb"));
        let text = format!("listen: '{address}'\nstate: '{}'\n", state.display());
        let config = scratch.write(&format!("{name}.yaml"), &text)?;
        let mut daemon = Daemon::start(
            name,
            &scratch.0,
            plinth().args(["ironic", "--config"]).arg(config),
        )?;
        daemon.wait_port(address)?;
        Ok(Self::new(daemon, address))
    }

    fn theirs(scratch: &Scratch, name: &str) -> Result<Self> {
        let address: SocketAddr = "127.0.0.1:16385".parse()?;
        let bin = venv(PACKAGES)?.join("bin");
        let dir = scratch.join(name);
        std::fs::create_dir_all(&dir)?;
        let config = scratch.write(
            &format!("{name}.conf"),
            &IRONIC_CONF.replace("DIR", &dir.display().to_string()),
        )?;
        let mut sync = Command::new(bin.join("ironic-dbsync"));
        sh::output(sync.arg("--config-file").arg(&config).arg("create_schema"))?;
        let mut command = Command::new(bin.join("ironic"));
        let mut daemon =
            Daemon::start(name, &scratch.0, command.arg("--config-file").arg(&config))?;
        daemon.wait("its conductor is there", || {
            let asked = Connection::new(address, VERSION).ask(&Request::get("/v1/drivers"));
            asked.is_ok_and(|body| String::from_utf8_lossy(&body).contains("fake-hardware"))
        })?;
        Ok(Self::new(daemon, address))
    }

    fn new(daemon: Daemon, address: SocketAddr) -> Self {
        Self {
            daemon,
            address,
            nodes: Vec::new(),
            created: 0,
        }
    }

    fn connection(&self) -> Connection {
        Connection::new(self.address, VERSION)
    }

    fn enrol(&mut self, count: usize) -> Result<()> {
        http::load(
            self.address,
            VERSION,
            CONNECTIONS,
            Until::Requests(count),
            |number| create(&format!("node-{number}")),
        )?;
        self.nodes = self.states()?.into_iter().map(|(uuid, _)| uuid).collect();
        if self.nodes.len() != count {
            bail!("{} nodes are listed, not {count}", self.nodes.len());
        }
        Ok(())
    }

    /// Requests per second of one kind.
    fn rate(&mut self, work: Work) -> Result<f64> {
        let nodes = &self.nodes;
        let first = self.created;
        let load = |connections, request: &(dyn Fn(usize) -> Request + Sync)| {
            http::load(
                self.address,
                VERSION,
                connections,
                Until::Time(TIME),
                request,
            )
        };
        let outcome = match work {
            Work::Show => load(CONNECTIONS, &|number| {
                Request::get(format!("/v1/nodes/{}", nodes[number * 7 % nodes.len()]))
            })?,
            Work::Patch => load(CONNECTIONS, &|number| {
                let change = json!([{"op": "add", "path": "/extra/turn", "value": number}]);
                Request::new(
                    "PATCH",
                    format!("/v1/nodes/{}", nodes[number * 7 % nodes.len()]),
                    &change,
                )
            })?,
            Work::Create => load(CONNECTIONS, &|number| {
                create(&format!("new-{}", first + number))
            })?,
            Work::CreateAlone => load(1, &|number| create(&format!("new-{}", first + number)))?,
            Work::List => load(CONNECTIONS, &|_| Request::get("/v1/nodes?limit=1000"))?,
        };
        if let Work::Create | Work::CreateAlone = work {
            // Every round begins with the same number of nodes.
            let count = outcome.requests;
            http::load(
                self.address,
                VERSION,
                CONNECTIONS,
                Until::Requests(count),
                |number| Request {
                    method: "DELETE",
                    path: format!("/v1/nodes/new-{}", first + number),
                    body: None,
                },
            )?;
            self.created += count + CONNECTIONS;
        }
        Ok(outcome.per_second())
    }

    /// Seconds from the first request until all are active.
    fn cycle(&mut self) -> Result<f64> {
        let begin = Instant::now();
        self.enrol(CYCLED)?;
        for (verb, goal) in [
            ("manage", "manageable"),
            ("provide", "available"),
            ("active", "active"),
        ] {
            let nodes = &self.nodes;
            http::load(
                self.address,
                VERSION,
                CONNECTIONS,
                Until::Requests(CYCLED),
                |number| {
                    let body = json!({"target": verb});
                    Request::new(
                        "PUT",
                        format!("/v1/nodes/{}/states/provision", nodes[number]),
                        &body,
                    )
                },
            )?;
            self.wait_all(goal)?;
        }
        Ok(begin.elapsed().as_secs_f64())
    }

    fn wait_all(&self, goal: &str) -> Result<()> {
        let deadline = Instant::now() + Duration::from_mins(10);
        let mut pause = Duration::from_millis(2);
        loop {
            let states = self.states()?;
            if let Some((node, state)) = states
                .iter()
                .find(|(_, state)| state.ends_with("failed") || state == "error")
            {
                bail!(
                    "node {node} is in state {state} on its way to {goal}: {}",
                    self.daemon.last_words()
                );
            }
            if states.iter().all(|(_, state)| state == goal) {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("not all nodes are {goal} within 10 min: {states:?}");
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(500));
        }
    }

    /// Uuid and provision state of every node.
    fn states(&self) -> Result<Vec<(String, String)>> {
        let body = self.connection().ask(&Request::get(
            "/v1/nodes?limit=1000&fields=uuid,provision_state",
        ))?;
        let list: Value = serde_json::from_slice(&body).context("the list is JSON")?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
        let nodes = list["nodes"].as_array().context("the list has nodes")?;
        Ok(nodes
            .iter()
            .map(|node| (text(&node["uuid"]), text(&node["provision_state"])))
            .collect())
    }
}

fn create(name: &str) -> Request {
    let node = json!({
        "name": name,
        "driver": "fake-hardware",
        "properties": {"cpus": 4, "memory_mb": 8192, "local_gb": 100, "cpu_arch": "x86_64"},
        "driver_info": {"address": "192.0.2.1", "username": "admin", "password": "secret"},
        "resource_class": "baremetal",
    });
    Request::new("POST", "/v1/nodes", &node)
}

const IRONIC_CONF: &str = "\
[DEFAULT]
auth_strategy = noauth
enabled_hardware_types = fake-hardware
enabled_bios_interfaces = fake,no-bios
enabled_boot_interfaces = fake
enabled_console_interfaces = fake,no-console
enabled_deploy_interfaces = fake
enabled_firmware_interfaces = fake,no-firmware
enabled_inspect_interfaces = fake
enabled_management_interfaces = fake
enabled_network_interfaces = noop
enabled_power_interfaces = fake
enabled_raid_interfaces = fake,no-raid
enabled_rescue_interfaces = fake,no-rescue
enabled_storage_interfaces = fake,noop
enabled_vendor_interfaces = fake,no-vendor
host = localhost
rpc_transport = none
tempdir = DIR
state_path = DIR
[api]
host_ip = 127.0.0.1
port = 16385
[database]
connection = sqlite:///DIR/ironic.sqlite
[oslo_messaging_notifications]
driver = noop
";
