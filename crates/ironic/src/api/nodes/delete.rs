//! Forgetting a node, with all that belongs to it.

use std::sync::Arc;

use crate::api::Service;
use crate::api::fault::Fault;
use crate::api::request::{Reply, Request};
use crate::conductor::{config_drive_key, inspection};
use crate::driver::facts_key;
use crate::record::{Node, Record};
use crate::store::Change;

pub async fn delete(service: &Service, request: &Request, ident: &str) -> Result<Reply, Fault> {
    request.query.only(&[])?;
    let uuid = service
        .store
        .change(|tables| {
            let node = super::in_tables(tables, request, ident)?;
            super::unlocked(&node)?;
            allowed(&node)?;
            if tables.nodes.of(node.uuid).next().is_some() {
                return Err(Fault::conflict(format!(
                    "Node {} has children; delete them first.",
                    node.uuid
                )));
            }
            let uuid = node.uuid;
            let mut changes: Vec<Change> = Vec::new();
            changes.extend(
                tables
                    .ports
                    .of(uuid)
                    .map(|port| Change::Remove(Record::Port(Arc::clone(port)))),
            );
            changes.extend(
                tables
                    .portgroups
                    .of(uuid)
                    .map(|group| Change::Remove(Record::Portgroup(Arc::clone(group)))),
            );
            changes.extend(
                tables
                    .allocations
                    .of(uuid)
                    .map(|it| Change::Remove(Record::Allocation(Arc::clone(it)))),
            );
            changes.extend(
                tables
                    .kept
                    .of(uuid)
                    .map(|kept| Change::Remove(Record::Kept(Arc::clone(kept)))),
            );
            for prefix in [
                config_drive_key(uuid),
                inspection::key(uuid),
                inspection::sent_key(uuid),
                facts_key(uuid),
            ] {
                changes.push(Change::RemoveDocuments { prefix });
            }
            changes.push(Change::Remove(Record::Node(node)));
            Ok::<_, Fault>((changes, uuid))
        })
        .await?;
    service.conductor.forget(uuid);
    Ok(Reply::no_content())
}

fn allowed(node: &Node) -> Result<(), Fault> {
    let (uuid, state, maintenance) = (node.uuid, node.life.state, node.life.maintenance);
    if node.protected {
        return Err(Fault::forbidden(format!(
            "Node {uuid} is protected and can not be deleted."
        )));
    }
    if node.instance_uuid.is_some() && !maintenance {
        return Err(Fault::conflict(format!(
            "Node {uuid} is associated with an instance and can not be deleted."
        )));
    }
    if !state.may_delete_node(maintenance) {
        return Err(Fault::conflict(format!(
            "Can not delete node {uuid} while it is in provision state {state}. Make it manageable, or put it into maintenance."
        )));
    }
    Ok(())
}
