//! Objects written, read and watched through the API server, on its own file and on etcd. There is no other API server to
//! install; etcd itself, asked for the same values over the same time, is the yardstick. Ours does more for each: TLS,
//! authentication, authorization, admission, validation.

use std::net::SocketAddr;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::daemon::Daemon;
use super::report::{Better, Report, Row, Target};
use super::{Scratch, plinth, say};
use crate::{build, sh};

const ROUNDS: usize = 3;
/// Of each kind of request, in each round.
const SECONDS: &str = "4";
const WATCHERS: &str = "100";
const WRITES: &str = "200";
const TOKEN: &str = "bench-token";

/// What is measured, and how it is named.
const KINDS: [(&str, &str, &str, Better); 6] = [
    ("create", "create, 16 at once", "1/s", Better::More),
    ("update", "update, 16 at once", "1/s", Better::More),
    ("read", "read one, 16 at once", "1/s", Better::More),
    ("list", "list 500, 16 at once", "1/s", Better::More),
    (
        "watch_p50",
        "write to all of 100 watchers, median",
        "ms",
        Better::Less,
    ),
    (
        "watch_p99",
        "write to all of 100 watchers, 99 %",
        "ms",
        Better::Less,
    ),
];

/// Builds the program that makes the load.
pub fn prepare() -> Result<()> {
    sh::run(&mut sh::cargo([
        "build",
        "--release",
        "--package",
        "xtask",
        "--example",
        "api_load",
    ]))
}

pub fn run() -> Result<()> {
    let scratch = Scratch::new("api")?;
    sh::run(load().arg("certificate").arg(&scratch.0))?;
    scratch.write("tokens", &format!("{TOKEN},bench,1,\"system:masters\"\n"))?;
    let mut report = Report::new(
        "api",
        format!("Objects of 1 kB: {ROUNDS} rounds of {SECONDS} s each, on one disk"),
    );
    let rows = |kept: &str| {
        KINDS.map(|(_, what, unit, better)| {
            Row::new(format!("{what}, {kept}"), unit, better, Target::None).beside("etcd alone")
        })
    };
    let (mut on_file, mut on_etcd) = (rows("on a file"), rows("on etcd"));
    let mut memory = [
        Row::new(
            "memory after it, on a file",
            "MiB",
            Better::Less,
            Target::None,
        )
        .beside("etcd alone"),
        Row::new(
            "memory after it, on etcd",
            "MiB",
            Better::Less,
            Target::None,
        )
        .beside("etcd alone"),
    ];
    for round in 1..=ROUNDS {
        let etcd = etcd(&scratch, &format!("alone-{round}"), 12379)?;
        let theirs = measure(&["etcd", "http://127.0.0.1:12379"])?;
        let used = etcd.memory_mib()?;
        drop(etcd);
        for (number, rows) in [&mut on_file, &mut on_etcd].into_iter().enumerate() {
            let kept = if number == 0 { Kept::File } else { Kept::Etcd };
            let site = Site::start(&scratch, kept, round)?;
            let url = format!("https://{}", site.address);
            let certificate = scratch.join("server.crt");
            let ca = certificate.to_str().context("the path is text")?;
            let ours = measure(&["api", &url, ca, TOKEN])?;
            for ((key, ..), row) in KINDS.iter().zip(rows) {
                row.theirs(theirs[key].as_f64().unwrap_or(f64::NAN));
                row.ours(ours[key].as_f64().unwrap_or(f64::NAN));
            }
            memory[number].theirs(used);
            memory[number].ours(site.server.memory_mib()?);
        }
        say(&format!("round {round} of {ROUNDS}"));
    }
    for row in on_file.into_iter().chain(on_etcd).chain(memory) {
        report.add(row);
    }
    report.finish()
}

fn load() -> Command {
    Command::new(build::target_dir().join("release/examples/api_load"))
}

fn measure(target: &[&str]) -> Result<Value> {
    let text = sh::output(load().args(target).args([SECONDS, WATCHERS, WRITES]))?;
    serde_json::from_str(&text).context("the measured is JSON")
}

fn etcd(scratch: &Scratch, name: &str, port: u16) -> Result<Daemon> {
    let (client, peer) = (
        format!("http://127.0.0.1:{port}"),
        format!("http://127.0.0.1:{}", port + 1),
    );
    let mut command = Command::new("etcd");
    command.arg("--data-dir").arg(scratch.join(name));
    for (flag, url) in [
        ("--listen-client-urls", &client),
        ("--advertise-client-urls", &client),
        ("--listen-peer-urls", &peer),
        ("--initial-advertise-peer-urls", &peer),
    ] {
        command.args([flag, url]);
    }
    command.args(["--initial-cluster", &format!("default={peer}")]);
    // What is written in a run fits.
    command.args(["--quota-backend-bytes", "8589934592"]);
    let mut daemon = Daemon::start(name, &scratch.0, &mut command)?;
    daemon.wait_port(SocketAddr::from(([127, 0, 0, 1], port)))?;
    Ok(daemon)
}

#[derive(Clone, Copy)]
enum Kept {
    File,
    Etcd,
}

struct Site {
    server: Daemon,
    address: SocketAddr,
    /// Ends after the server.
    _etcd: Option<Daemon>,
}

impl Site {
    fn start(scratch: &Scratch, kept: Kept, round: usize) -> Result<Self> {
        let address = SocketAddr::from(([127, 0, 0, 1], 16443));
        let (name, store, etcd) = match kept {
            Kept::File => {
                let name = format!("file-{round}");
                let store = json!({"file": scratch.join(&format!("{name}.store"))});
                (name, store, None)
            }
            Kept::Etcd => {
                let etcd = etcd(scratch, &format!("under-{round}"), 12389)?;
                let store = json!({"etcd": {"endpoints": ["http://127.0.0.1:12389"]}});
                (format!("etcd-{round}"), store, Some(etcd))
            }
        };
        let config = json!({
            "listen": address,
            "tls": {"certificate": scratch.join("server.crt"), "key": scratch.join("server.key")},
            "store": store,
            "service_accounts": {"key": scratch.join("accounts.key")},
            "tokens": scratch.join("tokens"),
            "namespaces": ["metal"],
        });
        let config = scratch.write(&format!("{name}.yaml"), &config.to_string())?;
        let mut command = plinth();
        command.args(["apiserver", "--config"]).arg(&config);
        let mut server = Daemon::start(&name, &scratch.0, &mut command)?;
        server.wait("it is ready", || {
            let mut asking = Command::new("curl");
            asking.args(["-skf", "-H", &format!("Authorization: Bearer {TOKEN}")]);
            asking.arg(format!("https://{address}/api/v1/namespaces/metal"));
            sh::output(&mut asking).is_ok()
        })?;
        Ok(Self {
            server,
            address,
            _etcd: etcd,
        })
    }
}
