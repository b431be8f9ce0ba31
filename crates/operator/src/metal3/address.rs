//! The provisioning address, on this node for as long as metal3 is active here.

use std::time::Duration;

use linux::addr::Want;
use linux::netlink::Netlink;
use tracing::{info, warn};

use super::settings::Settings;

/// The kernel takes the address away after so long, should we die.
const LIFETIME: Duration = Duration::from_secs(12);
const REFRESH: Duration = Duration::from_secs(3);

/// Puts the address on its link and keeps it there until `until`.
pub async fn hold(netlink: &Netlink, settings: &Settings, until: impl Future<Output = ()>) {
    let Some((link, net)) = &settings.address else {
        return until.await;
    };
    let refresh = async {
        let mut there = false;
        loop {
            let want = Want {
                lifetime: Some(LIFETIME),
                nodad: true,
                ..Want::new(*net)
            };
            let done = match netlink.set_up(link).await {
                Ok(()) => netlink.ensure_address(link, want).await,
                Err(error) => Err(error),
            };
            match done {
                Ok(()) if !there => info!(link, address = %net, "provisioning address taken"),
                Ok(()) => {}
                Err(error) => {
                    warn!(link, address = %net, error = model::chain(&error), "provisioning address");
                }
            }
            there = true;
            tokio::time::sleep(REFRESH).await;
        }
    };
    tokio::select! {
        () = refresh => {}
        () = until => {}
    }
    if let Err(error) = netlink.remove_address(link, *net).await {
        warn!(link, address = %net, error = model::chain(&error), "provisioning address stays until its time is over");
    }
}
