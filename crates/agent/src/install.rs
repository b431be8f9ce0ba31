//! An image from its URL to a disk: fetched, verified, written, with the host's first configuration beside it.

use std::fs::{self, File};
use std::path::Path;

use uuid::Uuid;

use crate::disk::{self, Source, Spool, Target, config_drive, table};
use crate::fetch;
use crate::ipa::{Failure, Image, Job};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("fetch image {name}")]
    Fetch { name: String, source: fetch::Error },
    #[error(transparent)]
    Open(#[from] disk::target::Error),
    #[error("write image {name} to {disk}")]
    Write {
        name: String,
        disk: String,
        source: disk::Error,
    },
    #[error("put the config drive on {disk}")]
    ConfigDrive {
        disk: String,
        source: config_drive::Error,
    },
    #[error("settle the partitions of {disk}")]
    Table { disk: String, source: table::Error },
}

/// Writes image and config drive; says in words what is on the disk now.
pub fn install(disk: &Path, image: &Image, job: &Job<'_>) -> Result<String, Error> {
    let name = || image.name.clone();
    let shown = || disk.display().to_string();
    // Before anything else: a disk that is in use must not cost a download.
    let mut target = Target::open(disk)?;
    let mut stream = image
        .download
        .open(job.runtime)
        .map_err(|source| Error::Fetch {
            name: name(),
            source,
        })?;
    let options = disk::Options {
        length: stream.length,
        ..image.options.clone()
    };
    let mut progress = |progress: disk::Progress| (job.show)(progress.into());
    let source = Source::Stream(&mut stream);
    let written = disk::write_image(source, &mut target, &options, spool(), &mut progress)
        .map_err(|source| Error::Write {
            name: name(),
            disk: shown(),
            source,
        })?;
    let drive = if let Some(volume) = &image.config_drive {
        let place = config_drive::place(&target, volume, Uuid::new_v4());
        let partition = place.map_err(|source| Error::ConfigDrive {
            disk: shown(),
            source,
        })?;
        format!(", its config drive in partition {}", partition.number)
    } else {
        table::settle(&target).map_err(|source| Error::Table {
            disk: shown(),
            source,
        })?;
        String::new()
    };
    Ok(format!(
        "image ({}) of {} bytes written to device {}{drive}, in {} s",
        image.name,
        written.bytes,
        shown(),
        written.elapsed.as_secs()
    ))
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::Fetch { .. } => "ImageDownloadError",
            Error::Write { source, .. } => match source {
                disk::Error::Checksum { .. } => "ImageChecksumError",
                disk::Error::Transfer(_) => "ImageDownloadError",
                disk::Error::Format(_) => "InvalidImage",
                disk::Error::Decompress { .. }
                | disk::Error::Spool(_)
                | disk::Error::NoSpool
                | disk::Error::Qcow2(_)
                | disk::Error::ReadFile(_)
                | disk::Error::Write(_)
                | disk::Error::Wipe { .. } => "ImageWriteError",
            },
            Error::Open(_) => "ImageWriteError",
            Error::ConfigDrive { .. } => "ConfigDriveError",
            Error::Table { .. } => "InvalidImage",
        };
        Self::of(kind, &error)
    }
}

/// For images that must be read at many places: a file in memory, as large as memory allows.
fn spool() -> Option<Spool> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let available = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?
        .split_whitespace()
        .next()?
        .parse::<u64>()
        .ok()?;
    let dir = std::env::temp_dir();
    let path = dir.join(format!("plinth-spool-{}", Uuid::new_v4()));
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .ok()?;
    // It lives as long as it is open.
    fs::remove_file(&path).ok()?;
    Some(Spool {
        file,
        limit: available * 1024 / 5 * 4,
    })
}
