//! An OS image from HTTP to a disk, beside `curl | dd`. Ours also unpacks, verifies and keeps the first part for last.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt as _;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};

use super::daemon::Daemon;
use super::report::{Better, Report, Row, Target};
use super::{Scratch, say};
use crate::{build, sh};

const ROUNDS: usize = 5;
const MIB: u64 = 1 << 20;
const SIZE: u64 = 1024 * MIB;

/// Builds the program that writes as the agent does.
pub fn prepare() -> Result<()> {
    sh::run(&mut sh::cargo([
        "build",
        "--release",
        "--package",
        "xtask",
        "--example",
        "write_image",
    ]))
}

pub fn run() -> Result<()> {
    let scratch = Scratch::new("image")?;
    let image = scratch.join("image.raw");
    make_image(&image)?;
    let sum = sh::output(Command::new("sha256sum").arg(&image))?;
    let sum = sum
        .split(' ')
        .next()
        .context("sha256sum prints a sum")?
        .to_string();
    let disk = scratch.join("disk");
    let file = File::create(&disk)?;
    let old = vec![0xaa; MIB as usize];
    for at in (0..SIZE + 64 * MIB).step_by(MIB as usize) {
        file.write_all_at(&old, at)?;
    }
    file.sync_all()?;
    let mut serve = Command::new("python3");
    serve
        .args([
            "-m",
            "http.server",
            "--bind",
            "127.0.0.1",
            "8000",
            "--directory",
        ])
        .arg(&scratch.0);
    let mut server = Daemon::start("http", &scratch.0, &mut serve)?;
    server.wait_port("127.0.0.1:8000".parse()?)?;
    let url = "http://127.0.0.1:8000/image.raw";
    let mut row = Row::new(
        "raw image of 1 GiB, a third of it zeros",
        "MB/s",
        Better::More,
        Target::Times(1.0),
    )
    .beside("curl | dd");
    let mut checked = Row::new(
        "the same, verified by both",
        "MB/s",
        Better::More,
        Target::Times(1.0),
    )
    .beside("curl | tee | dd");
    let dd = format!(
        "dd of={} bs=4M iflag=fullblock oflag=direct conv=notrunc,fsync status=none",
        disk.display()
    );
    let plain = format!("curl -sf {url} | {dd}");
    let verified =
        format!("set -o pipefail; curl -sf {url} | tee >({dd}) | sha256sum | grep -q {sum}; wait");
    for round in 1..=ROUNDS {
        let example = build::target_dir().join("release/examples/write_image");
        let ours = rate(Command::new(example).args([url, &sum]).arg(&disk))?;
        row.ours(ours);
        checked.ours(ours);
        same(&image, &disk)?;
        row.theirs(rate(Command::new("bash").args(["-c", &plain]))?);
        checked.theirs(rate(Command::new("bash").args(["-c", &verified]))?);
        say(&format!("round {round} of {ROUNDS}"));
    }
    let mut report = Report::new(
        "image",
        format!("An image from local HTTP to a file as disk, to the last sync, {ROUNDS} rounds"),
    );
    report.add(row);
    report.add(checked);
    report.finish()
}

/// A partition table, then what does not compress, with a third of zeros.
fn make_image(path: &std::path::Path) -> Result<()> {
    let file = File::create(path)?;
    file.set_len(SIZE)?;
    let mut sfdisk = Command::new("sfdisk")
        .arg("-q")
        .arg(path)
        .stdin(std::process::Stdio::piped())
        .spawn()
        .context("start sfdisk")?;
    sfdisk
        .stdin
        .take()
        .context("it has an input")?
        .write_all(b"label: gpt\nstart=1MiB, size=1000MiB\n")?;
    sfdisk.wait()?;
    let mut seed = 1_u64;
    for at in (2..1000).filter(|at| at % 3 != 0) {
        let noise: Vec<u8> = (0..MIB / 8)
            .flat_map(|_| {
                seed = seed
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                (seed ^ seed >> 29).to_le_bytes()
            })
            .collect();
        file.write_all_at(&noise, at * MIB)?;
    }
    file.sync_all()?;
    Ok(())
}

/// Megabytes of the image per second.
fn rate(command: &mut Command) -> Result<f64> {
    let begin = Instant::now();
    sh::run(command)?;
    Ok(SIZE as f64 / 1e6 / begin.elapsed().as_secs_f64())
}

fn same(image: &std::path::Path, disk: &std::path::Path) -> Result<()> {
    let bytes = fs::metadata(image)?.len().to_string();
    sh::run(
        Command::new("cmp")
            .args(["--bytes", &bytes])
            .arg(image)
            .arg(disk),
    )
    .context("the disk holds the image")
}
