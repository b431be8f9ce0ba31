//! Looks at a site before an install: the probes behind `plan::preflight`, which decides.
//!
//! ```text
//!            ┌─ bmc      every BMC, many at a time ─┐
//! targets ──▶├─ wire ──▶ names                      ├──▶ Observed
//!            ├─ time, images, ports                 │
//!            └─ links, here, sockets                ┘
//! ```
//!
//! All at once, each with a deadline of its own: one dead BMC delays nobody. Nothing is changed anywhere; on bridges a
//! tap is plugged in for a few seconds, as the bootstrap VM will be.

pub(crate) mod bmc;
mod here;
mod images;
mod links;
pub mod names;
mod ports;
mod sockets;
mod time;
mod wire;

use std::collections::BTreeMap;
use std::future::Future;
use std::time::{Duration, SystemTime};

use futures::StreamExt as _;
use plan::cluster::Plan;
use plan::install_config::InstallConfig;
use plan::preflight::{Bmc, Expiry, Fact, Need, Observed, Selection, Targets, Wire};

/// BMCs that are spoken to at a time: a row of racks, and a fraction of the descriptors a process has.
const BMCS_AT_ONCE: usize = 64;

#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Fetch images whole, to see their checksums.
    pub verify_images: bool,
}

/// Finds out what the chosen checks need.
pub async fn observe(
    plan: &Plan,
    config: &InstallConfig,
    certificates: Fact<Vec<Expiry>>,
    selection: &Selection,
    options: Options,
) -> Observed {
    let targets = Targets::of(plan, config);
    let need = |need| selection.needs(need);
    let wires = async {
        let listen = wire::Listen {
            claims: need(Need::Claims),
            vrrp: need(Need::Vrrp),
            dhcp: need(Need::Dhcp),
        };
        let wires = wires(&targets, listen).await;
        let dns = when(need(Need::Dns), async {
            names::ask(&targets, &wires).await
        })
        .await;
        (wires, dns)
    };
    let (bmcs, (wires, dns), ntp, images, links, here, open_ports) = tokio::join!(
        optional(need(Need::Bmcs), bmcs(config)),
        wires,
        optional(need(Need::Ntp), time::ask(&targets.ntp)),
        optional(
            need(Need::Images),
            images::look(&targets.images, options.verify_images)
        ),
        when(need(Need::Links), links::look()),
        when(need(Need::Here), here::look()),
        optional(
            need(Need::Ports),
            ports::look(&targets.bootstrap, &targets.ports)
        ),
    );
    Observed {
        now: seconds(SystemTime::now()),
        bmcs,
        links,
        wires,
        dns,
        ntp,
        images,
        cached: if need(Need::Cache) {
            images::cached(&targets.cached)
        } else {
            Fact::Unasked
        },
        here,
        listening: if need(Need::Ports) {
            sockets::listening()
        } else {
            Fact::Unasked
        },
        open_ports,
        certificates,
    }
}

async fn bmcs(config: &InstallConfig) -> BTreeMap<String, Bmc> {
    let authorities = config.baremetal.bmc_verify_ca.as_deref();
    let looks = config
        .baremetal
        .hosts
        .iter()
        .map(|host| async move { (host.name.clone(), bmc::look(host, authorities).await) });
    futures::stream::iter(looks)
        .buffer_unordered(BMCS_AT_ONCE)
        .collect()
        .await
}

async fn wires(targets: &Targets, listen: wire::Listen) -> BTreeMap<String, Wire> {
    if listen == wire::Listen::default() {
        return BTreeMap::new();
    }
    let heard = targets
        .segments
        .iter()
        .map(|segment| async move { (segment.bridge.clone(), wire::hear(segment, listen).await) });
    futures::future::join_all(heard).await.into_iter().collect()
}

async fn when<T>(wanted: bool, look: impl Future<Output = Fact<T>>) -> Fact<T> {
    if wanted { look.await } else { Fact::Unasked }
}

async fn optional<T: Default>(wanted: bool, look: impl Future<Output = T>) -> T {
    if wanted { look.await } else { T::default() }
}

/// A question with a deadline.
async fn within<T, E: std::error::Error + 'static>(
    limit: Duration,
    question: impl Future<Output = Result<T, E>>,
) -> Fact<T> {
    match tokio::time::timeout(limit, question).await {
        Ok(answer) => Fact::of(answer),
        Err(_) => Fact::Unknown(format!("no answer within {} s", limit.as_secs())),
    }
}

fn seconds(time: SystemTime) -> i64 {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => after.as_secs() as i64,
        Err(before) => -(before.duration().as_secs() as i64),
    }
}
