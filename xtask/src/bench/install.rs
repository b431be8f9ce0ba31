//! `plinth lab up`: from powered-off servers to a cluster of three masters and a worker, phase by phase. Nothing else
//! does this on one machine without hardware, so there is no incumbent beside it.

use std::process::Stdio;

use anyhow::{Context, Result, bail};

use super::Scratch;
use super::report::{Better, Report, Row, Target};
use crate::{build, sh};

/// The whole default lab, with the images already built.
const LONGEST: f64 = 360.0;
const ROUNDS: usize = 3;
const PHASES: [&str; 12] = [
    "preflight",
    "assets",
    "images",
    "bootstrap-vm",
    "bootstrap-services",
    "control-plane-deploy",
    "control-plane-ready",
    "manifests",
    "hand-over",
    "bootstrap-destroy",
    "workers",
    "in all",
];

pub fn prepare() -> Result<()> {
    build::agent()?;
    // The first run builds what later ones find in the cache.
    for image in ["os", "ramdisk"] {
        let mut make = super::plinth();
        make.args(["image", "build", image]);
        if image == "ramdisk" {
            make.arg("--agent").arg(build::agent_binary());
        }
        sh::run(make.stdout(Stdio::null()))?;
    }
    Ok(())
}

pub fn run() -> Result<()> {
    let scratch = Scratch::new("install")?;
    let rounds: Vec<_> = (0..ROUNDS)
        .map(|_| install(&scratch))
        .collect::<Result<_>>()?;
    let mut report = Report::new(
        "install",
        format!("plinth lab up: 3 masters and a worker, {ROUNDS} times"),
    );
    for phase in PHASES {
        let target = if phase == "in all" {
            Target::NeverOver(LONGEST)
        } else {
            Target::None
        };
        let mut row = Row::new(phase, "s", Better::Less, target);
        let seconds = rounds.iter().flatten().filter(|(name, _)| *name == phase);
        seconds.for_each(|(_, seconds)| row.ours(*seconds));
        report.add(row);
    }
    report.finish()
}

/// How long each phase took.
fn install(scratch: &Scratch) -> Result<Vec<(&'static str, f64)>> {
    let home = scratch.join("lab");
    let lab = |args: &[&str]| {
        let mut command = super::plinth();
        command
            .arg("lab")
            .args(args)
            .env("PLINTH_LAB_DIR", &home)
            .env("PLINTH_AGENT", build::agent_binary());
        command
    };
    let output = lab(&["up", "--name", "bench"])
        .stderr(Stdio::inherit())
        .output()
        .context("run plinth lab up")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    sh::run(lab(&["down"]).stdout(Stdio::null()))?;
    if !output.status.success() {
        bail!("plinth lab up: {}\n{said}", output.status);
    }
    let phases = phases(&said);
    if !phases.iter().any(|(name, _)| *name == "in all") {
        bail!("plinth lab up does not say how long it took:\n{said}");
    }
    super::say(&format!("installed: {phases:?}"));
    Ok(phases)
}

/// The table at the end of an install.
fn phases(said: &str) -> Vec<(&'static str, f64)> {
    let (_, table) = said.split_once("\ndone\n").unwrap_or_default();
    let row = |line: &str| {
        let (name, rest) = PHASES
            .iter()
            .find_map(|name| Some((*name, line.trim().strip_prefix(name)?)))?;
        let seconds = rest.trim().strip_suffix(" s")?.trim().parse().ok()?;
        Some((name, seconds))
    };
    table.lines().filter_map(row).collect()
}

#[test]
fn the_table_is_read() {
    let said = "workers: done in 5.0 s\ndone\n  assets                    2.1 s\n  hand-over                73.6 s\n  in all                  412.0 s\n\nThe cluster is up.\n";
    assert_eq!(
        phases(said),
        [("assets", 2.1), ("hand-over", 73.6), ("in all", 412.0)]
    );
    assert!(phases("nothing").is_empty());
}
