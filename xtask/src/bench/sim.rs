//! 100 simulated servers behind BMCs, beside sushy-tools with its fake driver: the same number of servers, Redfish
//! only and without TLS, in one process too.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::daemon::memory_mib;
use super::report::{Better, Report, Row, Target};
use super::{Scratch, venv};
use crate::sh;

pub const PACKAGES: &str = "sushy-tools==2.2.0";
const SERVERS: usize = 100;
const ROUNDS: usize = 5;

pub fn run() -> Result<()> {
    let emulator = venv(PACKAGES)?.join("bin/sushy-emulator");
    let mut time = Row::new(
        "until all answer",
        "ms",
        Better::Less,
        Target::NeverOver(10_000.0),
    )
    .beside("sushy-tools");
    let mut memory =
        Row::new("memory", "MiB", Better::Less, Target::NeverOver(300.0)).beside("sushy-tools");
    for _ in 0..ROUNDS {
        let (ours, theirs) = (lab_up()?, sushy_tools(&emulator)?);
        time.ours(ours.millis);
        time.theirs(theirs.millis);
        memory.ours(ours.mib);
        memory.theirs(theirs.mib);
    }
    let about = format!(
        "{SERVERS} simulated servers (ours: Redfish with TLS, IPMI, DHCP and DNS; theirs: Redfish), {ROUNDS} rounds"
    );
    let mut report = Report::new("sim", about);
    report.add(time);
    report.add(memory);
    report.finish()
}

struct Sample {
    millis: f64,
    mib: f64,
}

/// From the command to the last BMC's answer.
fn lab_up() -> Result<Sample> {
    let scratch = Scratch::new("lab")?;
    let home = scratch.join("lab");
    let lab = |args: &[&str]| {
        let mut command = super::plinth();
        command
            .arg("lab")
            .args(args)
            .env("PLINTH_LAB_DIR", &home)
            .stdout(Stdio::null());
        command
    };
    let begin = Instant::now();
    sh::run(&mut lab(&[
        "up",
        "--rack-only",
        "--name",
        "bench",
        "--kind",
        "sim",
        "--servers",
        &SERVERS.to_string(),
    ]))?;
    let last = format!("https://10.120.0.{}/redfish/v1/", 10 + SERVERS - 1);
    let answered = sh::run(&mut lab(&[
        "exec",
        "--",
        "curl",
        "-skf",
        "-o",
        "/dev/null",
        &last,
    ]));
    let millis = begin.elapsed().as_secs_f64() * 1000.0;
    let status: Value = serde_json::from_str(&sh::output(
        lab(&["status", "-o", "json"]).stdout(Stdio::piped()),
    )?)?;
    let mib = memory_mib(status["pid"].as_u64().unwrap_or_default() as u32);
    sh::run(&mut lab(&["down"]))?;
    answered?;
    Ok(Sample { millis, mib: mib? })
}

fn sushy_tools(emulator: &Path) -> Result<Sample> {
    let scratch = Scratch::new("sushy")?;
    let mut text = format!(
        "SUSHY_EMULATOR_FAKE_DRIVER = True\nSUSHY_EMULATOR_STATE_DIR = '{}'\nSUSHY_EMULATOR_FAKE_SYSTEMS = [\n",
        scratch.0.display()
    );
    for index in 0..SERVERS {
        writeln!(
            text,
            "{{'uuid': '00000000-0000-0000-0000-{index:012}', 'name': 'server-{index}', 'power_state': 'Off', 'nics': [{{'mac': '52:54:00:00:00:{index:02x}', 'ip': '192.0.2.1'}}]}},"
        )?;
    }
    text += "]\n";
    let config = scratch.write("emulator.conf", &text)?;
    let begin = Instant::now();
    let mut child = Command::new(emulator)
        .args([
            "--fake",
            "--interface",
            "127.0.0.1",
            "--port",
            "18999",
            "--config",
        ])
        .arg(&config)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("start sushy-emulator")?;
    let answered = wait_until_all_answer(&mut child);
    let millis = begin.elapsed().as_secs_f64() * 1000.0;
    let mib = memory_mib(child.id());
    child.kill().ok();
    child.wait().ok();
    answered?;
    Ok(Sample { millis, mib: mib? })
}

fn wait_until_all_answer(child: &mut Child) -> Result<()> {
    let deadline = Instant::now() + Duration::from_mins(1);
    let url = "http://127.0.0.1:18999/redfish/v1/Systems";
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait()? {
            bail!("sushy-emulator ended: {status}");
        }
        let listed = sh::output(Command::new("curl").args(["-sf", url])).unwrap_or_default();
        if listed.matches("@odata.id\"").count() > SERVERS {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    bail!("sushy-emulator did not list {SERVERS} systems within 60 s")
}
