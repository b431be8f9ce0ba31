//! Lists of nodes, and what they can be narrowed by.

use std::str::FromStr as _;
use std::sync::Arc;

use lifecycle::node::State;
use uuid::Uuid;

use super::fields::fault_word;
use crate::api::Service;
use crate::api::collection;
use crate::api::fault::Fault;
use crate::api::request::{Reply, Request};
use crate::api::value::quoted;
use crate::record::Node;

/// Filters, and the version each came with.
const FILTERS: [(&str, u16); 21] = [
    ("instance_uuid", 1),
    ("instance_name", 104),
    ("chassis_uuid", 1),
    ("associated", 1),
    ("maintenance", 1),
    ("retired", 61),
    ("provision_state", 9),
    ("driver", 16),
    ("resource_class", 21),
    ("fault", 42),
    ("conductor_group", 46),
    ("conductor", 49),
    ("owner", 50),
    ("description_contains", 51),
    ("lessee", 65),
    ("project", 65),
    ("shard", 82),
    ("sharded", 82),
    ("include_children", 83),
    ("parent_node", 83),
    ("health", 109),
];

pub fn list(service: &Service, request: &Request, full: bool) -> Result<Reply, Fault> {
    let known: Vec<&str> = collection::PAGING
        .into_iter()
        .chain(FILTERS.map(|(name, _)| name))
        .collect();
    request.query.only(&known)?;
    for (name, since) in FILTERS {
        if request.query.get(name).is_some() {
            request.version.needs(since, &format!("Filter {name:?}"))?;
        }
    }
    let wanted = Wanted::parse(service, request)?;
    let rows: Vec<Arc<Node>> = service
        .store
        .read()
        .nodes
        .all()
        .filter(|node| wanted.has(node))
        .cloned()
        .collect();
    collection::list(
        request,
        &service.scope(request),
        rows,
        service.options.max_limit,
        full,
    )
}

/// The nodes in a chassis.
pub fn of_chassis(service: &Service, request: &Request, chassis: Uuid) -> Result<Reply, Fault> {
    request.query.only(&collection::PAGING)?;
    let rows: Vec<Arc<Node>> = service
        .store
        .read()
        .nodes
        .all()
        .filter(|node| node.chassis_uuid == Some(chassis))
        .cloned()
        .collect();
    collection::list(
        request,
        &service.scope(request),
        rows,
        service.options.max_limit,
        false,
    )
}

type Flag = fn(&Node) -> bool;
type Text = fn(&Node) -> Option<&str>;

/// The filters of a request.
struct Wanted<'a> {
    state: Option<State>,
    flags: [(Option<bool>, Flag); 4],
    texts: Vec<(&'a str, Text)>,
    description: Option<&'a str>,
    project: Option<&'a str>,
    shards: Option<Vec<String>>,
    children: bool,
    parent: Option<Uuid>,
    chassis: Option<Uuid>,
    /// Something no node here can match, such as another conductor.
    nothing: bool,
}

impl<'a> Wanted<'a> {
    fn parse(service: &Service, request: &'a Request) -> Result<Self, Fault> {
        let query = &request.query;
        let state = match query.get("provision_state") {
            None => None,
            Some(text) => {
                Some(State::from_str(text).map_err(|error| Fault::bad_request(error.to_string()))?)
            }
        };
        if let Some(fault) = query.get("fault") {
            let words = [
                "power failure",
                "clean failure",
                "rescue abort failure",
                "service failure",
            ];
            if !words.contains(&fault) {
                return Err(Fault::bad_request(format!(
                    "fault: there are {}",
                    words.join(", ")
                )));
            }
        }
        let parent = match query.get("parent_node") {
            None => None,
            Some(ident) => Some(super::find(service, request, ident)?.uuid),
        };
        let readers: [(&str, Text); 9] = [
            ("instance_uuid", |n| n.instance_uuid.as_deref()),
            ("instance_name", |n| n.instance_name.as_deref()),
            ("driver", |n| Some(&n.driver)),
            ("resource_class", |n| n.resource_class.as_deref()),
            ("fault", |n| n.life.fault.map(fault_word)),
            ("conductor_group", |n| Some(&n.conductor_group)),
            ("owner", |n| n.owner.as_deref()),
            ("lessee", |n| n.lessee.as_deref()),
            ("health", |n| n.hardware.health.as_deref()),
        ];
        let texts = readers
            .into_iter()
            .filter_map(|(name, read)| query.get(name).map(|value| (value, read)))
            .collect();
        let other_conductor = query
            .get("conductor")
            .is_some_and(|host| host != service.conductor.options.host);
        Ok(Self {
            state,
            flags: [
                (query.bool("associated")?, |n| n.instance_uuid.is_some()),
                (query.bool("maintenance")?, |n| n.life.maintenance),
                (query.bool("retired")?, |n| n.retired),
                (query.bool("sharded")?, |n| n.shard.is_some()),
            ],
            texts,
            description: query.get("description_contains"),
            project: query.get("project"),
            shards: query.list("shard"),
            children: query.bool("include_children")?.unwrap_or(false),
            parent,
            chassis: match query.get("chassis_uuid") {
                None => None,
                Some(text) => Some(text.parse().map_err(|_| {
                    Fault::bad_request(format!("chassis_uuid: {} is not a uuid", quoted(text)))
                })?),
            },
            nothing: other_conductor,
        })
    }

    fn has(&self, node: &Node) -> bool {
        let project = |project: &str| {
            [&node.owner, &node.lessee]
                .iter()
                .any(|who| who.as_deref() == Some(project))
        };
        !self.nothing
            && self
                .chassis
                .is_none_or(|chassis| node.chassis_uuid == Some(chassis))
            && self.state.is_none_or(|state| node.life.state == state)
            && self
                .flags
                .iter()
                .all(|(wanted, read)| wanted.is_none_or(|wanted| read(node) == wanted))
            && self
                .texts
                .iter()
                .all(|(wanted, read)| read(node) == Some(wanted))
            && self.description.is_none_or(|part| {
                node.description
                    .as_ref()
                    .is_some_and(|text| text.contains(part))
            })
            && self.project.is_none_or(project)
            && self.shards.as_ref().is_none_or(|shards| {
                node.shard
                    .as_ref()
                    .is_some_and(|shard| shards.contains(shard))
            })
            && match self.parent {
                Some(parent) => node.parent_node == Some(parent),
                None => self.children || node.parent_node.is_none(),
            }
    }
}
