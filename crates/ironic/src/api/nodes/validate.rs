//! Whether a node has what its interfaces need.

use serde_json::json;

use crate::api::Service;
use crate::api::fault::Fault;
use crate::api::request::{Reply, Request};
use crate::driver::catalog;
use crate::record::Object;

/// Interfaces whose settings are looked at, and the version that shows each.
const CHECKED: [(&str, u16); 12] = [
    ("boot", 1),
    ("console", 1),
    ("deploy", 1),
    ("inspect", 1),
    ("management", 1),
    ("network", 1),
    ("power", 1),
    ("raid", 1),
    ("rescue", 38),
    ("storage", 1),
    ("bios", 40),
    ("firmware", 86),
];

pub fn by_query(service: &Service, request: &Request) -> Result<Reply, Fault> {
    request.query.only(&["node_uuid", "node"])?;
    let ident = request
        .query
        .get("node_uuid")
        .or_else(|| request.query.get("node"));
    let ident =
        ident.ok_or_else(|| Fault::bad_request("The argument node or node_uuid is needed."))?;
    validate(service, request, ident)
}

pub fn validate(service: &Service, request: &Request, ident: &str) -> Result<Reply, Fault> {
    let node = super::find(service, request, ident)?;
    let hardware = catalog::find(&node.driver);
    let driver = service.conductor.driver(&node.driver);
    let chosen = node.interfaces.by_name();
    let mut results = Object::new();
    for (interface, since) in CHECKED {
        if request.version.0 < since {
            continue;
        }
        let name = chosen
            .iter()
            .find(|(kind, _)| *kind == interface)
            .map_or("", |(_, name)| name);
        let enabled = hardware.is_some_and(|hardware| hardware.enabled(interface).contains(&name));
        let result = if name.starts_with("no-") {
            json!({"result": null, "reason": format!("not supported: the interface is {name}")})
        } else if enabled {
            let mut problems =
                driver.map_or_else(Vec::new, |driver| driver.problems(&node, interface));
            if interface == "deploy" && name != "fake" {
                problems.extend(service.conductor.deploy_problems(&node));
            }
            if problems.is_empty() {
                json!({"result": true})
            } else {
                json!({"result": false, "reason": problems.join("; ")})
            }
        } else {
            json!({"result": false, "reason": format!("{interface} interface {name:?} is not enabled for driver {}", node.driver)})
        };
        results.insert(interface.to_owned(), result);
    }
    Ok(Reply::ok(&results))
}
