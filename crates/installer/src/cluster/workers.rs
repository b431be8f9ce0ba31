//! Workers on their way: a Machine, the host it has taken, the Node that comes of it.

use crd::host::BareMetalHostStatus;
use crd::{BareMetalHost, Machine};
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use lifecycle::host::Waiting;
use lifecycle::machine::HOST_ANNOTATION;
use plan::install::{Far, Worker};

use super::Failed;
use super::api::{METAL3_NAMESPACE, condition};

const ROLE: &str = "machine.openshift.io/cluster-api-machine-role=worker";

pub(super) async fn look(client: &Client, nodes: &[Node]) -> Result<Vec<Worker>, Failed> {
    let machines: Api<Machine> = Api::namespaced(client.clone(), METAL3_NAMESPACE);
    let hosts: Api<BareMetalHost> = Api::namespaced(client.clone(), METAL3_NAMESPACE);
    let at_hand = ListParams::default().match_any();
    let machines = machines.list(&at_hand.clone().labels(ROLE)).await?;
    let hosts = hosts.list(&at_hand).await?;
    let seen = machines.iter().map(|machine| {
        let host = machine.annotations().get(HOST_ANNOTATION);
        let host = host.and_then(|path| path.rsplit('/').next());
        let host = host.and_then(|name| hosts.iter().find(|host| host.name_any() == name));
        worker(machine, host, nodes)
    });
    Ok(seen.collect())
}

fn worker(machine: &Machine, host: Option<&BareMetalHost>, nodes: &[Node]) -> Worker {
    let status = machine.status.as_ref();
    let linked = status.and_then(|status| status.node_ref.as_ref()?.name.clone());
    let node = nodes.iter().find(|node| Some(node.name_any()) == linked);
    let name = host.map_or_else(|| machine.name_any(), ResourceExt::name_any);
    let waits = |doing: String, percent: Option<u8>| Worker {
        name: name.clone(),
        joined: false,
        doing,
        far: percent.map(|percent| Far {
            percent,
            mb_per_s: None,
        }),
    };
    if let Some(node) = node {
        return match condition(node, "Ready") {
            Ok(()) => Worker {
                joined: true,
                ..waits(String::new(), None)
            },
            Err(why) => waits(why, None),
        };
    }
    if let Some(why) = status.and_then(|status| status.error_message.clone()) {
        return waits(why, None);
    }
    let Some(status) = host.and_then(|host| host.status.as_ref()) else {
        return waits("a host to be free for it".into(), None);
    };
    let (doing, percent) = doing(status);
    waits(doing, percent)
}

/// What a host is at, for people, and how far.
pub(crate) fn doing(status: &BareMetalHostStatus) -> (String, Option<u8>) {
    if !status.error_message.is_empty() {
        return (status.error_message.clone(), None);
    }
    let mut progress = status
        .conditions
        .iter()
        .filter(|it| it.type_ == "Progressing");
    let told = progress.next().map(|told| Waiting::parse(&told.message));
    let state = status.provisioning.state.clone();
    let told = told.unwrap_or_default();
    let doing = match told.what.as_str() {
        "" if state == "provisioned" => "its node to join".to_owned(),
        "" => format!("it is {state}"),
        what => format!("{state}: {what}"),
    };
    (doing, told.percent)
}
