//! The documents clients look at first: which versions there are, and where things are.

use serde_json::{Value, json};

use super::field::links;
use super::request::{Reply, Request};
use super::version::{NEWEST, OLDEST, Version};

fn version(base: &str) -> Value {
    json!({
        "id": "v1",
        "links": [{"href": format!("{base}/v1/"), "rel": "self"}],
        "status": "CURRENT",
        "min_version": OLDEST.to_string(),
        "version": NEWEST.to_string(),
    })
}

pub fn root(base: &str) -> Reply {
    let version = version(base);
    Reply::ok(&json!({
        "name": "OpenStack Ironic API",
        "description": "Plinth: bare metal provisioning, spoken as Ironic speaks it.",
        "default_version": version,
        "versions": [version],
    }))
}

/// Collections that are shown since a version.
const PLACES: [(&str, u16); 16] = [
    ("chassis", 1),
    ("nodes", 1),
    ("ports", 1),
    ("drivers", 1),
    ("lookup", 22),
    ("heartbeat", 22),
    ("portgroups", 23),
    ("volume", 32),
    ("conductors", 49),
    ("allocations", 52),
    ("events", 54),
    ("deploy_templates", 55),
    ("shards", 82),
    ("continue_inspection", 84),
    ("runbooks", 92),
    ("inspection_rules", 96),
];

pub fn v1(request: &Request) -> Reply {
    let base = &request.base;
    let mut document = json!({
        "id": "v1",
        "links": [
            {"href": format!("{base}/v1/"), "rel": "self"},
            {"href": format!("{base}/v1/"), "rel": "describedby", "type": "text/html"},
        ],
        "media_types": {"base": "application/json", "type": "application/vnd.openstack.ironic.v1+json"},
        "version": version(base),
    });
    let Version(minor) = request.version;
    for (place, _) in PLACES.into_iter().filter(|(_, since)| *since <= minor) {
        document[place] = links(base, place);
    }
    Reply::ok(&document)
}
