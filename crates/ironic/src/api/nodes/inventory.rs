//! What an inspection found, and what has happened to a node.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::api::Service;
use crate::api::cell::Stamp;
use crate::api::collection;
use crate::api::fault::Fault;
use crate::api::field::links;
use crate::api::request::{Reply, Request};
use crate::conductor::inspection;
use crate::record::Event;

pub fn inventory(service: &Service, request: &Request, ident: &str) -> Result<Reply, Fault> {
    let node = super::find(service, request, ident)?;
    match service.store.document(&inspection::key(node.uuid))? {
        Some(body) => Ok(Reply {
            status: axum::http::StatusCode::OK,
            body: Some(body),
            location: None,
        }),
        None => Err(Fault::not_found(format!(
            "Inspection inventory for node {} could not be found.",
            node.uuid
        ))),
    }
}

pub fn history(
    service: &Service,
    request: &Request,
    ident: &str,
    path: &[&str],
) -> Result<Reply, Fault> {
    request.query.only(&["detail", "limit", "marker"])?;
    let node = super::find(service, request, ident)?;
    let show = |event: &Event, full: bool| {
        let here = format!("nodes/{}/history/{}", node.uuid, event.uuid);
        let mut shown = json!({
            "uuid": event.uuid, "created_at": Stamp(event.created_at).to_string(), "severity": event.severity.as_str(),
            "event": shortened(&event.text), "links": links(&request.base, &here),
        });
        if full {
            shown["event_type"] = json!(event.about);
            shown["conductor"] = json!(event.conductor);
            shown["user"] = Value::Null;
        }
        shown
    };
    match path {
        [] => {
            let full = request.query.bool("detail")?.unwrap_or(false);
            let limit = collection::limit(request, service.options.max_limit)?;
            let start = match request.query.get("marker") {
                None => 0,
                Some(marker) => {
                    let marker = marker.parse::<Uuid>().ok();
                    let at = node
                        .history
                        .iter()
                        .position(|event| Some(event.uuid) == marker);
                    at.ok_or_else(|| Fault::not_found("The marker is no event of this node."))? + 1
                }
            };
            let events: Vec<Value> = node
                .history
                .iter()
                .skip(start)
                .take(limit)
                .map(|event| show(event, full))
                .collect();
            Ok(Reply::ok(&json!({"history": events})))
        }
        [uuid] => {
            let event = uuid
                .parse::<Uuid>()
                .ok()
                .and_then(|uuid| node.history.iter().find(|event| event.uuid == uuid));
            let event = event.ok_or_else(|| Fault::not_found("The node has no such event."))?;
            Ok(Reply::ok(&show(event, true)))
        }
        _ => Err(Fault::no_such_path()),
    }
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= 255 {
        return text.to_owned();
    }
    text.chars().take(252).chain("...".chars()).collect()
}
