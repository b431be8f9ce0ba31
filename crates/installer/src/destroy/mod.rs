//! The end of a cluster: every host off, so that no old node holds an address or answers in its name; and, if asked
//! for, every host cleaned.

mod clean;
mod power;

use std::path::Path;

use futures::future::join_all;
use plan::install_config::Facts;

use crate::bootstrap::Home;
use crate::dir::Dir;

pub use clean::{Options, clean};
pub(crate) use power::off_in_time;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Dir(#[from] crate::dir::Error),
    #[error(transparent)]
    Bootstrap(#[from] crate::bootstrap::Error),
    #[error(
        "{} of {all} hosts could not be switched off: {}; switch them off by hand, or mend the BMC and run this again",
        left.len(), left.join("; ")
    )]
    StillOn { left: Vec<String>, all: usize },
    #[error(transparent)]
    Stuck(#[from] plan::destroy::Stuck),
    #[error("interrupted; the same command goes on from here")]
    Interrupted,
}

/// Ends the bootstrap VM and switches every host off. `tell` hears of each host.
pub async fn cluster(dir: &Path, facts: &Facts, tell: impl Fn(&str)) -> Result<(), Error> {
    let (config, _) = Dir::new(dir).config(facts)?;
    bootstrap(dir).await?;
    let authorities = config
        .trust_bundle
        .as_ref()
        .map(|bundle| bundle.pem.as_str());
    let hosts = &config.baremetal.hosts;
    let ended = join_all(hosts.iter().map(async |host| {
        let ended = off_in_time(host, authorities).await;
        match &ended {
            Ok(()) => tell(&format!("{}: off", host.name)),
            Err(why) => tell(&format!("{}: {why}", host.name)),
        }
        ended.map_err(|why| format!("{}: {why}", host.name))
    }))
    .await;
    let left: Vec<String> = ended.into_iter().filter_map(Result::err).collect();
    if left.is_empty() {
        return Ok(());
    }
    Err(Error::StillOn {
        left,
        all: hosts.len(),
    })
}

/// Ends the bootstrap VM, whether it installs or cleans, and removes it.
pub async fn bootstrap(dir: &Path) -> Result<(), Error> {
    for home in [Home::new(dir), Home::cleaner(dir)] {
        home.destroy().await?;
    }
    Ok(())
}
