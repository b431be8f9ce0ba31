//! `plinth gather`: everything that helps to understand an install or a cluster, in one archive.
//!
//! Every part is asked for on its own and with an end to its patience. One that cannot be had is named with its reason;
//! nothing stops the rest, at no stage of an install.

mod nodes;
mod objects;
mod parts;
mod redact;
mod tar;
mod whereabouts;

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use jiff::Timestamp;
use serde::Serialize;
use tokio::time::Instant;

#[derive(Args)]
pub struct Gather {
    /// The install directory
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Another way to the API than its virtual address, such as a master's own
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The archive; without it plinth-gather-TIME.tar.gz here
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// A file to take along, such as a log of this machine; may be given again
    #[arg(long, value_name = "FILE")]
    include: Vec<PathBuf>,
}

/// One file of the archive.
pub struct File {
    pub path: String,
    pub bytes: Vec<u8>,
}

impl File {
    pub fn json(path: impl Into<String>, value: &impl Serialize) -> Self {
        let text = serde_json::to_string_pretty(value).unwrap_or_else(|error| error.to_string());
        Self {
            path: path.into(),
            bytes: (text + "\n").into_bytes(),
        }
    }
}

/// What became of a part; `gather.json` is the list of these.
#[derive(Serialize)]
struct Told {
    part: &'static str,
    files: usize,
    seconds: f64,
    /// Why it is not here, or not whole.
    problem: Option<String>,
}

/// For one part.
const PATIENCE: Duration = Duration::from_mins(2);

pub fn run(command: &Gather) -> Result<()> {
    let now = Timestamp::now();
    let output = command.output.clone().unwrap_or_else(|| {
        let stamp = now.strftime("%Y%m%dT%H%M%SZ");
        PathBuf::from(format!("plinth-gather-{stamp}.tar.gz"))
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("start the runtime")?;
    let (files, told) = runtime.block_on(collect(command, now));
    // A resolver that hangs must not hold us up at the end.
    runtime.shutdown_background();
    write(&output, &files, now).with_context(|| format!("write {}", output.display()))?;
    for part in &told {
        match &part.problem {
            None => println!("{:18} {} files", part.part, part.files),
            Some(problem) => println!("{:18} {} files; {problem}", part.part, part.files),
        }
    }
    println!("wrote {}", output.display());
    Ok(())
}

async fn collect(command: &Gather, now: Timestamp) -> (Vec<File>, Vec<Told>) {
    let dir = command.dir.as_path();
    let site = parts::Site::open(dir, command.kubeconfig.as_deref()).await;
    let mut files = Vec::new();
    let mut told = Vec::new();
    let mut take = |name: &'static str, (part, took): (parts::Part, Duration)| {
        told.push(Told {
            part: name,
            files: part.files.len(),
            seconds: (took.as_secs_f64() * 10.0).round() / 10.0,
            problem: (!part.problems.is_empty()).then(|| part.problems.join("; ")),
        });
        files.extend(part.files);
    };
    // Files of this machine take no time.
    for (name, part) in [
        ("install", parts::install(dir)),
        ("plan", parts::plan(&site)),
        ("bootstrap", parts::bootstrap(dir)),
        ("consoles", parts::consoles(dir)),
        ("included", parts::included(&command.include)),
    ] {
        take(name, (part, Duration::ZERO));
    }
    // Those that must be asked are asked at once.
    let (bmcs, bootstrap, metal3, cluster, objects, nodes) = tokio::join!(
        in_time(parts::bmcs(&site, dir)),
        in_time(parts::ironic(&site, dir, "bootstrap", "bootstrap-user")),
        in_time(parts::ironic(&site, dir, "metal3", "metal3")),
        in_time(parts::cluster(&site)),
        in_time(objects::all(&site)),
        in_time(nodes::all(&site)),
    );
    take("bmcs", bmcs);
    take("ironic-bootstrap", bootstrap);
    take("ironic-metal3", metal3);
    take("cluster", cluster);
    take("objects", objects);
    take("nodes", nodes);
    let summary = serde_json::json!({
        "gathered": now,
        "plinth": env!("CARGO_PKG_VERSION"),
        "parts": told,
    });
    files.push(File::json("gather.json", &summary));
    (files, told)
}

async fn in_time(part: impl Future<Output = parts::Part>) -> (parts::Part, Duration) {
    let begun = Instant::now();
    let part = tokio::time::timeout(PATIENCE, part).await;
    let late = |_| parts::Part::missing(format!("it took longer than {} s", PATIENCE.as_secs()));
    (part.unwrap_or_else(late), begun.elapsed())
}

/// For its owner only: what was gathered is nobody else's business.
fn write(path: &Path, files: &[File], now: Timestamp) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    let mut gzip = flate2::write::GzEncoder::new(file, flate2::Compression::default());
    tar::write(&mut gzip, files, now)?;
    gzip.finish()?.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_without_an_install_gives_an_archive_that_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let command = Gather {
            dir: dir.path().join("nothing"),
            kubeconfig: None,
            output: Some(dir.path().join("out.tar.gz")),
            include: vec![dir.path().join("none")],
        };
        run(&command).unwrap();
        let listed = std::process::Command::new("tar")
            .args([
                "-xzOf",
                dir.path().join("out.tar.gz").to_str().unwrap(),
                "gather.json",
            ])
            .output()
            .unwrap();
        let told: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
        let parts = told["parts"].as_array().unwrap();
        assert_eq!(parts.len(), 11);
        for part in parts {
            assert!(part["problem"].is_string(), "{part}");
        }
    }

    #[test]
    fn an_archive_is_never_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tar.gz");
        write(&path, &[], Timestamp::UNIX_EPOCH).unwrap();
        assert!(write(&path, &[], Timestamp::UNIX_EPOCH).is_err());
    }
}
