//! Switching a host off by its BMC.

use std::time::Duration;

use clients::{Power, ipmi};
use plan::install_config::Host;

use crate::preflight::bmc;

/// For one host, from the first question until it is seen to be off.
const PATIENCE: Duration = Duration::from_mins(2);

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
