//! The end of a cluster: every host off, so that no old node holds an address or answers in its name.

use std::path::Path;
use std::time::Duration;

use clients::{Power, ipmi};
use futures::future::join_all;
use plan::install_config::{Facts, Host};

use crate::bootstrap::Home;
use crate::dir::Dir;
use crate::preflight::bmc;

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
}

/// For one host, from the first question until it is seen to be off.
const PATIENCE: Duration = Duration::from_mins(2);

/// Ends the bootstrap VM and switches every host off. `tell` hears of each host.
pub async fn cluster(dir: &Path, facts: &Facts, tell: impl Fn(&str)) -> Result<(), Error> {
    let (config, _) = Dir::new(dir).config(facts)?;
    Home::new(dir).destroy().await?;
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

/// Switches a host off, and gives up on a BMC that takes too long.
pub(crate) async fn off_in_time(host: &Host, authorities: Option<&str>) -> Result<(), String> {
    let ended = tokio::time::timeout(PATIENCE, off(host, authorities)).await;
    ended.unwrap_or_else(|_| Err(format!("not off within {} s", PATIENCE.as_secs())))
}

/// Waits until it is seen to be off.
async fn off(host: &Host, authorities: Option<&str>) -> Result<(), String> {
    if host.bmc.scheme.is_redfish() {
        let client = bmc::client(host, authorities).map_err(|error| model::chain(&error))?;
        let ended = client.set_power(Power::Off).await;
        client.close().await;
        return ended.map_err(|error| model::chain(&error));
    }
    let client = bmc::ipmi_client(host)
        .await
        .map_err(|error: ipmi::Error| model::chain(&error))?;
    let ended = client.set_power(Power::Off).await;
    client.close().await;
    ended.map_err(|error| model::chain(&error))
}
