//! The controllers of firmware: what a host's BIOS is set to, and which firmware it runs.

mod check;
pub mod components;
pub mod settings;

use std::time::Duration;

use clients::ironic::Ironic;
use crd::BareMetalHost;
use crd::host::{OperationalStatus, annotation};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{Api, ResourceExt};

use crate::context::Context;
use crate::error::Error;

/// Between looks at a host's firmware: at rest, while something is to change, while nothing can be asked, and for hosts
/// that are nobody's to ask about.
const REST: Duration = Duration::from_mins(5);
const CHANGING: Duration = Duration::from_mins(1);
const NOT_READY: Duration = Duration::from_secs(30);
const UNMANAGED: Duration = Duration::from_mins(10);

/// Where the firmware of a host can be asked for.
enum Source {
    Node {
        ironic: Ironic,
        node: String,
    },
    /// Not now; ask again after this.
    Later(Duration),
}

/// The node of the host with this name.
async fn source(context: &Context, namespace: &str, name: &str) -> Result<Source, Error> {
    let known = context.cache.get::<BareMetalHost>(namespace, name);
    let mut node = known.as_deref().and_then(node);
    if node.is_none() {
        // Asked for once more, as it may be new to the store; the next look is a long time away.
        let hosts: Api<BareMetalHost> = context.in_namespace(namespace);
        let found = hosts.get_opt(name).await;
        let found = found.map_err(Error::kube("read the host", name))?;
        node = found.as_ref().and_then(self::node);
    }
    let Some(node) = node else {
        return Ok(Source::Later(UNMANAGED));
    };
    match context.ironic.ready().await {
        Some(ironic) => Ok(Source::Node { ironic, node }),
        None => Ok(Source::Later(NOT_READY)),
    }
}

/// The node of a host that is not to be left alone.
fn node(host: &BareMetalHost) -> Option<String> {
    let status = host.status.as_ref()?;
    let left_alone = host.annotations().contains_key(annotation::PAUSED)
        || status.operational_status == OperationalStatus::Detached
        || status.provisioning.id.is_empty();
    (!left_alone).then(|| status.provisioning.id.clone())
}

/// Sets a condition; the time moves only when its status does.
fn set(
    conditions: &mut Vec<Condition>,
    kind: &str,
    holds: bool,
    reason: &str,
    message: &str,
    generation: i64,
) {
    let status = if holds { "True" } else { "False" };
    let since = conditions
        .iter()
        .find(|condition| condition.type_ == kind && condition.status == status)
        .map(|condition| condition.last_transition_time.clone());
    conditions.retain(|condition| condition.type_ != kind);
    conditions.push(Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: Some(generation),
        last_transition_time: since.unwrap_or_else(|| Time(Timestamp::now())),
    });
    conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
}
