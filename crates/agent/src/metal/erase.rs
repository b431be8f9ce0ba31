//! Erasing a disk: by the disk itself where it can, else by us.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agent::disk::erase::{self, erase_metadata};
use agent::disk::guard::Uses;
use agent::disk::overwrite::overwrite;
use agent::disk::{Target, target, writer};
use agent::ipa::{Erase, Job, Thorough};
use linux::{ata, nvme};
use model::inventory::Disk;

use crate::console::say;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Metadata(#[from] erase::Error),
    #[error("{} did not erase itself", path.display())]
    Itself { path: PathBuf, source: io::Error },
    #[error(
        "{} is protected by a password that is not ours; unlock it first", path.display()
    )]
    Locked { path: PathBuf },
    #[error(transparent)]
    Open(#[from] target::Error),
    #[error("write over {}", path.display())]
    Overwrite {
        path: PathBuf,
        source: writer::Error,
    },
}

/// Formatting is a matter of seconds for a key, of hours for data.
const NVME: Duration = Duration::from_hours(4);

pub fn run(disk: &Disk, how: Erase, job: &Job<'_>) -> Result<String, Error> {
    let path = Path::new(&disk.name);
    let uses = Uses::look(Path::new("/"), &BTreeSet::new());
    // In every case first: it refuses disks in use or shared, and leaves nothing that boots if the rest is cut short.
    let gone = erase_metadata(path, &uses)?;
    let metadata = format!("metadata of {} partitions", gone.len());
    let only_nvme = Thorough {
        ata: false,
        overwrite_after_failure: true,
        ..Thorough::default()
    };
    match how {
        Erase::Metadata => Ok(metadata),
        Erase::Express => Ok(by_itself(path, only_nvme)?.map_or(metadata, str::to_owned)),
        Erase::Whole(thorough) => match by_itself(path, thorough)? {
            Some(done) => Ok(done.to_owned()),
            None => by_us(path, thorough, job),
        },
    }
}

/// Nothing if the disk cannot, or may not.
fn by_itself(path: &Path, thorough: Thorough) -> Result<Option<&'static str>, Error> {
    let open = File::options().read(true).write(true).open(path);
    let file = open.map_err(|source| Error::Itself {
        path: path.to_owned(),
        source,
    })?;
    let tried = if path.to_string_lossy().contains("/nvme") {
        thorough.nvme.then(|| by_nvme(&file))
    } else {
        thorough.ata.then(|| by_ata(&file, path))
    };
    match tried {
        None => Ok(None),
        Some(Ok(done)) => Ok(done),
        Some(Err(Error::Itself { source, .. })) if thorough.overwrite_after_failure => {
            say(&format!(
                "{}: did not erase itself: {source}",
                path.display()
            ));
            Ok(None)
        }
        Some(Err(Error::Itself { source, .. })) => Err(Error::Itself {
            path: path.to_owned(),
            source,
        }),
        Some(Err(error)) => Err(error),
    }
}

fn by_nvme(file: &File) -> Result<Option<&'static str>, Error> {
    let failed = |source| Error::Itself {
        path: PathBuf::new(),
        source,
    };
    let Some(how) = nvme::best_erase(file).map_err(failed)? else {
        return Ok(None);
    };
    nvme::erase(file, how, NVME).map_err(failed)?;
    Ok(Some(match how {
        nvme::Erase::Crypto => "all of it, by throwing its key away",
        nvme::Erase::UserData => "all of it, by formatting",
    }))
}

fn by_ata(file: &File, path: &Path) -> Result<Option<&'static str>, Error> {
    // Virtual and SAS disks do not understand the question.
    let Ok(security) = ata::security(file) else {
        return Ok(None);
    };
    if security.locked || security.enabled {
        return Err(Error::Locked {
            path: path.to_owned(),
        });
    }
    if !security.supported {
        return Ok(None);
    }
    let failed = |source| Error::Itself {
        path: path.to_owned(),
        source,
    };
    if security.frozen {
        return Err(failed(io::Error::other(
            "the firmware froze its security features",
        )));
    }
    ata::erase(file, security).map_err(failed)?;
    Ok(Some("all of it, by ATA secure erase"))
}

fn by_us(path: &Path, thorough: Thorough, job: &Job<'_>) -> Result<String, Error> {
    let mut target = Target::open(path)?;
    let seed = uuid::Uuid::new_v4().as_u64_pair().0;
    let mut show = |progress: agent::disk::Progress| (job.show)(progress.into());
    overwrite(
        &mut target,
        thorough.passes,
        thorough.zeros,
        seed,
        &mut show,
    )
    .map_err(|source| Error::Overwrite {
        path: path.to_owned(),
        source,
    })?;
    Ok(format!(
        "all of it, by {} random passes and zeros",
        thorough.passes
    ))
}
