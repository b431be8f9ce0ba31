//! `plinth vrid`: which virtual router ids a cluster will use.

use anyhow::{Result, bail};
use clap::Args;
use protocols::vrrp::VirtualRouterId;

/// The two ids follow from the name, so two clusters on one network may want the same one: look before you
/// install.
#[derive(Args)]
pub struct Vrid {
    /// The cluster's name, without its domain
    cluster: String,
}

pub fn run(command: &Vrid) -> Result<()> {
    if command.cluster.is_empty() {
        bail!("the cluster needs a name");
    }
    for purpose in ["api", "ingress"] {
        let id = VirtualRouterId::of_cluster(&command.cluster, purpose);
        println!("{purpose} {id}");
    }
    Ok(())
}
