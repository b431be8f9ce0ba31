//! Which Machine a Node belongs to.

use super::view::{AddressKind, Machine, NodeSeen};

#[derive(Debug, Clone, PartialEq)]
pub enum Link<'a> {
    /// To none that is known.
    Nobody,
    Machine(&'a Machine),
    /// Several claim it; none gets it.
    Ambiguous(Vec<&'a str>),
}

/// By provider id; else by the Node's first address among those of the Machines; else by the name of a host whose
/// addresses nobody has seen, as of masters that were there before any inspection.
pub fn link<'a>(node: &NodeSeen, machines: &'a [Machine]) -> Link<'a> {
    let by_id = |machine: &&Machine| {
        !node.provider_id.is_empty() && machine.provider_id == node.provider_id
    };
    let found: Vec<&Machine> = machines.iter().filter(by_id).collect();
    if !found.is_empty() {
        return one(found);
    }
    // A Machine that has a Node keeps it.
    let free = |machine: &&Machine| {
        machine
            .status
            .node_ref
            .as_ref()
            .is_none_or(|node_ref| node_ref.name == node.name)
    };
    let by_address = |machine: &&Machine| has_address(machine, node);
    let found: Vec<&Machine> = machines.iter().filter(by_address).filter(free).collect();
    if !found.is_empty() {
        return one(found);
    }
    let by_name = |machine: &&Machine| has_only_its_name(machine, node);
    one(machines.iter().filter(by_name).filter(free).collect())
}

/// Whether [`link`] may come to give this Node to this Machine.
pub fn may_be(node: &NodeSeen, machine: &Machine) -> bool {
    let by_id = !node.provider_id.is_empty() && node.provider_id == machine.provider_id;
    by_id || has_address(machine, node) || has_only_its_name(machine, node)
}

fn has_address(machine: &Machine, node: &NodeSeen) -> bool {
    let first = node.internal_ips.first();
    internal(machine).any(|address| Some(address) == first)
}

fn has_only_its_name(machine: &Machine, node: &NodeSeen) -> bool {
    !machine.provider_id.is_empty()
        && internal(machine).next().is_none()
        && names(machine, &node.name)
}

pub(super) fn internal(machine: &Machine) -> impl Iterator<Item = &String> {
    let addresses = machine.status.addresses.iter();
    let internal = addresses.filter(|seen| seen.kind == AddressKind::InternalIp);
    internal.map(|seen| &seen.address)
}

/// By an address of the Machine, or by its host's name, which is what a node calls itself without DHCP's help.
pub(super) fn names(machine: &Machine, name: &str) -> bool {
    let addresses = &machine.status.addresses;
    let by_address = addresses.iter().any(|seen| {
        matches!(
            seen.kind,
            AddressKind::Hostname | AddressKind::InternalDns | AddressKind::ExternalDns
        ) && seen.address == name
    });
    let host = machine.annotations.get(super::HOST_ANNOTATION);
    let by_host = host
        .and_then(|text| text.split_once('/'))
        .is_some_and(|(_, host)| host == name);
    by_address || by_host
}

fn one(mut found: Vec<&Machine>) -> Link<'_> {
    match found.len() {
        0 => Link::Nobody,
        1 => Link::Machine(found.remove(0)),
        _ => Link::Ambiguous(found.iter().map(|machine| machine.name.as_str()).collect()),
    }
}
