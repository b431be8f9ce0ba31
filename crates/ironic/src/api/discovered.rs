//! `/plinth/v1/discovered`: machines that boot from us and are nobody's, shown, adopted or forgotten.

use axum::http::Method;
use jiff::Timestamp;
use model::Mac;
use serde_json::json;
use uuid::Uuid;

use super::cell::Stamp;
use super::fault::Fault;
use super::request::{Query, Reply, Request};
use super::value::quoted;
use super::{Service, field, nodes, version};
use crate::boot::notebook::Machine;
use crate::record::Port;

pub async fn route(service: &Service, request: &Request, path: &[&str]) -> Result<Reply, Fault> {
    match (path, &request.method) {
        ([], &Method::GET) => Ok(list(service)),
        ([mac], &Method::GET) => find(service, mac).map(|machine| Reply::ok(&show(&machine))),
        ([mac], &Method::DELETE) => {
            let machine = find(service, mac)?;
            service.options.notebook.forget(machine.mac);
            Ok(Reply::no_content())
        }
        ([mac, "enroll"], &Method::POST) => enroll(service, request, mac).await,
        ([] | [_] | [_, "enroll"], _) => Err(Fault::method_not_allowed()),
        _ => Err(Fault::no_such_path()),
    }
}

fn list(service: &Service) -> Reply {
    let notebook = &service.options.notebook;
    let machines: Vec<_> = notebook.machines().iter().map(show).collect();
    let servers: Vec<_> = notebook
        .other_servers()
        .into_iter()
        .map(|(address, at)| json!({"address": address, "last_heard": Stamp(at).to_string()}))
        .collect();
    Reply::ok(&json!({"machines": machines, "other_dhcp_servers": servers}))
}

fn show(machine: &Machine) -> serde_json::Value {
    json!({
        "mac": machine.mac,
        "address": machine.address,
        "architecture": machine.architecture,
        "uuid": machine.uuid,
        "seen": machine.seen,
        "first_seen": Stamp(machine.first_seen).to_string(),
        "last_seen": Stamp(machine.last_seen).to_string(),
    })
}

fn parse(text: &str) -> Result<Mac, Fault> {
    text.replace('-', ":")
        .parse()
        .map_err(|_| Fault::bad_request(format!("{} is not a MAC address.", quoted(text))))
}

fn find(service: &Service, text: &str) -> Result<Machine, Fault> {
    let mac = parse(text)?;
    let found = service.options.notebook.machine(mac);
    found.ok_or_else(|| Fault::not_found(format!("No machine {mac} was seen.")))
}

/// A node with this card, in one step. The body is that of a new node; one that was not seen yet may be enrolled too.
async fn enroll(service: &Service, request: &Request, text: &str) -> Result<Reply, Fault> {
    let mac = parse(text)?;
    let serde_json::Value::Object(body) = request.json()? else {
        return Err(Fault::bad_request("The body must be a JSON object."));
    };
    // Not a call of Ironic's: a client that names no version means the newest.
    let request = &Request {
        method: request.method.clone(),
        path: request.path.clone(),
        query: Query::default(),
        version: version::NEWEST,
        base: request.base.clone(),
        body: request.body.clone(),
    };
    let node = nodes::parse_new(request, &body)?;
    let uuid = node.uuid;
    service
        .store
        .change(|tables| {
            if tables.ports.named(&mac.to_string()).is_some() {
                return Err(Fault::conflict(format!(
                    "A port with MAC address {mac} already exists."
                )));
            }
            let mut node = node;
            nodes::check_new(tables, &node)?;
            let now = Timestamp::now();
            service.conductor.settle(&mut node, now);
            let port = Port::new(Uuid::new_v4(), mac, uuid, now);
            Ok((vec![node.into(), port.into()], ()))
        })
        .await?;
    service.options.notebook.forget(mac);
    service.conductor.poke(uuid);
    let node = nodes::find(service, request, &uuid.to_string())?;
    let location = format!("{}/v1/nodes/{uuid}", request.base);
    Ok(Reply::created(
        &field::whole(&*node, &service.scope(request)),
        location,
    ))
}
