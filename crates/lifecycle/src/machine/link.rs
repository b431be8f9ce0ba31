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

/// By provider id; else by the Node's first address among those of the Machines.
pub fn link<'a>(node: &NodeSeen, machines: &'a [Machine]) -> Link<'a> {
    let by_id = |machine: &&Machine| {
        !node.provider_id.is_empty() && machine.provider_id == node.provider_id
    };
    let found: Vec<&Machine> = machines.iter().filter(by_id).collect();
    if !found.is_empty() {
        return one(found);
    }
    let Some(ip) = node.internal_ips.first() else {
        return Link::Nobody;
    };
    let has = |machine: &&Machine| {
        let addresses = &machine.status.addresses;
        addresses
            .iter()
            .any(|seen| seen.kind == AddressKind::InternalIp && seen.address == *ip)
    };
    // A Machine that has a Node keeps it.
    let free = |machine: &&Machine| {
        machine
            .status
            .node_ref
            .as_ref()
            .is_none_or(|node_ref| node_ref.name == node.name)
    };
    one(machines.iter().filter(has).filter(free).collect())
}

fn one(mut found: Vec<&Machine>) -> Link<'_> {
    match found.len() {
        0 => Link::Nobody,
        1 => Link::Machine(found.remove(0)),
        _ => Link::Ambiguous(found.iter().map(|machine| machine.name.as_str()).collect()),
    }
}
