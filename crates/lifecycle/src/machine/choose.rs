//! Which host a Machine gets.

use super::provider::ProviderSpec;
use super::view::{HostSeen, Machine};
use crate::host::State;

/// The host a Machine has: by its provider id, or by its annotation.
pub(super) fn owned<'a>(
    machine: &Machine,
    hosts: &'a [HostSeen],
) -> Result<Option<&'a HostSeen>, String> {
    let find = |namespace: &str, name: &str| {
        hosts
            .iter()
            .find(|host| host.namespace == namespace && host.name == name)
    };
    if !machine.provider_id.is_empty() {
        let id = &machine.provider_id;
        let rest = id
            .strip_prefix("baremetalhost:///")
            .ok_or_else(|| format!("providerID {id:?} is not of a bare metal host"))?;
        let parts: Vec<&str> = rest.split('/').collect();
        return match parts.as_slice() {
            [namespace, name] => Ok(find(namespace, name)),
            // A host made anew under the old name is another host.
            [namespace, name, uid] => Ok(find(namespace, name).filter(|host| host.uid == *uid)),
            _ => Err(format!(
                "providerID {id:?} is not of the form baremetalhost:///namespace/name/uid"
            )),
        };
    }
    let named = machine.annotations.get(super::HOST_ANNOTATION);
    let named = named.and_then(|text| text.split_once('/'));
    Ok(named.and_then(|(namespace, name)| find(namespace, name)))
}

/// A host for a Machine that has none. One that already says it is this Machine's wins: the claim was made, and we
/// died before we could write it down.
pub(super) fn choose<'a>(
    machine: &Machine,
    spec: &ProviderSpec,
    hosts: &'a [HostSeen],
) -> Option<&'a HostSeen> {
    let local = || {
        hosts
            .iter()
            .filter(|host| host.namespace == machine.namespace)
    };
    if let Some(mine) = local().find(|host| host.is_used_by(machine)) {
        return Some(mine);
    }
    local()
        .filter(|host| is_free(host))
        .filter(|host| spec.host_selector.matches(&host.labels).unwrap_or(false))
        .min_by_key(|host| spread(&machine.uid, &host.name))
}

/// Ready to be used by anyone.
pub fn is_free(host: &HostSeen) -> bool {
    // DEVIATION: OpenShift's provider would also take hosts that are paused, detached or marked as broken, of which
    // the first two would not move and the third should not be moved.
    let avoided = [
        "baremetalhost.metal3.io/paused",
        "baremetalhost.metal3.io/detached",
        "capm3.metal3.io/unhealthy",
        "capi.metal3.io/unhealthy",
    ];
    host.spec.consumer_ref.is_none()
        && !host.deleting
        && !host.detached
        && host.state == State::Available
        && host.error_message.is_empty()
        && !host.spec.externally_provisioned
        && !avoided
            .iter()
            .any(|key| host.annotations.contains_key(*key))
}

/// Machines that choose at the same time should not all want the same host.
fn spread(machine: &str, host: &str) -> u64 {
    machine
        .bytes()
        .chain([b'/'])
        .chain(host.bytes())
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
}
