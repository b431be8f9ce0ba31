//! `cargo xtask bench NAME`: numbers, side by side with the incumbent in the same run, as ratios.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde_json::Value;

use crate::{build, deps, sh};

#[derive(Clone, Copy, ValueEnum)]
pub enum Name {
    /// 100 simulated servers behind BMCs: time until all answer, and memory
    Sim,
}

pub fn run(name: Name) -> Result<()> {
    deps::install()?;
    match name {
        Name::Sim => sim(),
    }
}

const SERVERS: usize = 100;
const RUNS: usize = 5;

/// Beside sushy-tools with its fake driver: the same number of servers, Redfish only, in one process too.
fn sim() -> Result<()> {
    let plinth = build::plinth()?;
    let emulator = venv("sushy-tools==2.2.0")?.join("bin/sushy-emulator");
    let (mut ours, mut theirs) = (vec![], vec![]);
    for _ in 0..RUNS {
        ours.push(lab_up(&plinth)?);
        theirs.push(sushy_tools(&emulator)?);
    }
    println!("{SERVERS} simulated servers, {RUNS} runs each: median (least to most)\n");
    println!(
        "{:44} {:>28} {:>28}",
        "", "until all answer, ms", "memory, MiB"
    );
    print_row("plinth lab (Redfish, IPMI, DHCP, DNS, TLS)", &ours);
    print_row("sushy-tools, fake driver (Redfish, no TLS)", &theirs);
    let ratio = |of: fn(&Sample) -> f64| median(&theirs, of) / median(&ours, of);
    println!(
        "\nsushy-tools takes {:.1} times as long and {:.1} times the memory",
        ratio(|s| s.millis),
        ratio(|s| s.mib)
    );
    let worst = |of: fn(&Sample) -> f64| ours.iter().map(of).fold(0.0, f64::max);
    if worst(|s| s.millis) > 10_000.0 || worst(|s| s.mib) > 300.0 {
        bail!("the target is 10 s and 300 MiB");
    }
    Ok(())
}

struct Sample {
    millis: f64,
    mib: f64,
}

fn print_row(name: &str, samples: &[Sample]) {
    let cell = |of: fn(&Sample) -> f64| {
        let mut values: Vec<f64> = samples.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        format!(
            "{:.0} ({:.0} to {:.0})",
            values[values.len() / 2],
            values[0],
            values[values.len() - 1]
        )
    };
    println!(
        "{name:44} {:>28} {:>28}",
        cell(|s| s.millis),
        cell(|s| s.mib)
    );
}

fn median(samples: &[Sample], of: fn(&Sample) -> f64) -> f64 {
    let mut values: Vec<f64> = samples.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// From the command to the last BMC's answer.
fn lab_up(plinth: &Path) -> Result<Sample> {
    let dir = scratch("lab")?;
    let home = dir.join("lab");
    let lab = |args: &[&str]| {
        let mut command = Command::new(plinth);
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
    let mib = memory_mib(status["pid"].as_u64().unwrap_or_default());
    sh::run(&mut lab(&["down"]))?;
    answered?;
    fs::remove_dir_all(&dir).ok();
    Ok(Sample { millis, mib: mib? })
}

fn sushy_tools(emulator: &Path) -> Result<Sample> {
    let dir = scratch("sushy")?;
    let config = dir.join("emulator.conf");
    let mut text = format!(
        "SUSHY_EMULATOR_FAKE_DRIVER = True\nSUSHY_EMULATOR_STATE_DIR = '{}'\nSUSHY_EMULATOR_FAKE_SYSTEMS = [\n",
        dir.display()
    );
    for index in 0..SERVERS {
        writeln!(
            text,
            "{{'uuid': '00000000-0000-0000-0000-{index:012}', 'name': 'server-{index}', 'power_state': 'Off', 'nics': [{{'mac': '52:54:00:00:00:{index:02x}', 'ip': '192.0.2.1'}}]}},"
        )?;
    }
    text += "]\n";
    fs::write(&config, text).context("write the emulator's configuration")?;
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
    let mib = memory_mib(u64::from(child.id()));
    child.kill().ok();
    child.wait().ok();
    fs::remove_dir_all(&dir).ok();
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

fn memory_mib(pid: u64) -> Result<f64> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .context("VmRSS is there")?;
    let kib: f64 = line
        .trim()
        .trim_end_matches(" kB")
        .trim()
        .parse()
        .context("VmRSS is a number")?;
    Ok(kib / 1024.0)
}

/// A Python environment with these packages, made once.
fn venv(packages: &str) -> Result<PathBuf> {
    let home = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home =
        home.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
    let dir = home
        .context("neither XDG_CACHE_HOME nor HOME is set")?
        .join("plinth/venv")
        .join(packages.replace(['=', ' '], "-"));
    let ready = dir.join("ready");
    if !ready.exists() {
        sh::run(
            Command::new("python3")
                .args(["-m", "venv", "--clear"])
                .arg(&dir),
        )?;
        sh::run(
            Command::new(dir.join("bin/pip"))
                .args(["install", "--quiet"])
                .args(packages.split(' ')),
        )?;
        fs::write(&ready, packages)?;
    }
    Ok(dir)
}

fn scratch(name: &str) -> Result<PathBuf> {
    let dir = std::env::temp_dir().join(format!("plinth-bench-{name}-{}", std::process::id()));
    fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
    Ok(dir)
}
