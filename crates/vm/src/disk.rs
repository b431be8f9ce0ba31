//! Disk images, made with qemu-img.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::Format;

const LIMIT: Duration = Duration::from_mins(1);

/// What went wrong with a disk image.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not make the raw disk {}", path.display())]
    CreateRaw { path: PathBuf, source: io::Error },
    #[error("qemu-img is not installed (Debian package qemu-utils)")]
    NoQemuImg,
    #[error("could not start qemu-img")]
    Start { source: io::Error },
    #[error("qemu-img could not make {}: {stderr}", path.display())]
    Refused { path: PathBuf, stderr: String },
    #[error("qemu-img did not make {} within {} s", path.display(), LIMIT.as_secs())]
    Timeout { path: PathBuf },
}

/// Makes an empty disk, which takes up next to nothing.
pub async fn create(path: &Path, format: Format, size_mib: u64) -> Result<(), Error> {
    match format {
        Format::Raw => {
            let make = async {
                let file = tokio::fs::File::options()
                    .write(true)
                    .create_new(true)
                    .open(path)
                    .await?;
                file.set_len(size_mib << 20).await
            };
            make.await.map_err(|source| Error::CreateRaw {
                path: path.to_owned(),
                source,
            })
        }
        Format::Qcow2 => qemu_img(path, &[], Some(size_mib)).await,
    }
}

/// Makes a qcow2 disk that starts with the contents of another and keeps only the difference.
/// The size is the other's unless given.
pub async fn create_over(
    path: &Path,
    backing: &Path,
    backing_format: Format,
    size_mib: Option<u64>,
) -> Result<(), Error> {
    let backing = backing.display().to_string();
    qemu_img(
        path,
        &["-F", backing_format.as_str(), "-b", &backing],
        size_mib,
    )
    .await
}

async fn qemu_img(path: &Path, options: &[&str], size_mib: Option<u64>) -> Result<(), Error> {
    let mut command = Command::new("qemu-img");
    command
        .args(["create", "-q", "-f", "qcow2"])
        .args(options)
        .arg(path);
    command.args(size_mib.map(|size| format!("{size}M")));
    command.stdin(Stdio::null()).kill_on_drop(true);
    match tokio::time::timeout(LIMIT, command.output()).await {
        Ok(Ok(output)) if output.status.success() => Ok(()),
        Ok(Ok(output)) => {
            let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(Error::Refused {
                path: path.to_owned(),
                stderr,
            })
        }
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => Err(Error::NoQemuImg),
        Ok(Err(source)) => Err(Error::Start { source }),
        Err(_) => Err(Error::Timeout {
            path: path.to_owned(),
        }),
    }
}
