//! Starting a bootstrap VM: its disc, and the process that keeps it.

use std::path::Path;
use std::process::Command;

use super::{Failed, Images};
use crate::bootstrap::{Home, write_disc};

/// Runs the keeper, this program with the arguments `keeper`, and returns when QEMU runs.
pub(crate) async fn start(
    home: &Home,
    images: &Images,
    binary: &Path,
    dir: &Path,
    keeper: &[String],
) -> Result<(), Failed> {
    let (payload, path) = (images.payload(binary), home.payload());
    home.make()?;
    // Anew each time: the program or an image may have changed since.
    tokio::task::spawn_blocking(move || write_disc(&payload, &path)).await??;
    let mut run = Command::new(std::env::current_exe()?);
    run.args(keeper);
    run.arg("--dir").arg(std::path::absolute(dir)?);
    run.arg("--image").arg(&images.bootstrap_os);
    Ok(home.start(run).await?)
}
