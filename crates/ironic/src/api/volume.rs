//! Collections that exist so that clients find them, and hold nothing here.

use axum::http::Method;
use serde_json::{Value, json};

use super::Service;
use super::fault::Fault;
use super::field::links;
use super::request::{Reply, Request};
use super::value::quoted;

/// `/v1/volume`: nodes here boot from their own disks.
pub fn list(request: &Request, path: &[&str]) -> Result<Reply, Fault> {
    match path {
        [] => {
            let here = |part: &str| links(&request.base, &format!("volume/{part}"));
            Ok(Reply::ok(&json!({
                "connectors": here("connectors"), "targets": here("targets"), "links": links(&request.base, "volume/"),
            })))
        }
        [kind @ ("connectors" | "targets"), rest @ ..] => empty(request, kind, rest),
        _ => Err(Fault::no_such_path()),
    }
}

/// A collection without members, which none can be added to.
pub fn empty(request: &Request, kind: &str, path: &[&str]) -> Result<Reply, Fault> {
    let kind = &kind.to_owned();
    match (path, &request.method) {
        ([] | ["detail"], &Method::GET) => Ok(Reply::ok(&json!({kind: Value::Array(Vec::new())}))),
        ([], &Method::POST) => Err(Fault::new(
            axum::http::StatusCode::NOT_IMPLEMENTED,
            format!("This service keeps no {}.", kind.replace('_', " ")),
        )),
        ([name], _) => Err(Fault::not_found(format!(
            "There is no {} among the {kind}.",
            quoted(name)
        ))),
        _ => Err(Fault::method_not_allowed()),
    }
}

/// `/v1/shards`: how many nodes each has.
pub fn shards(service: &Service) -> Reply {
    let mut counts = std::collections::BTreeMap::<String, usize>::new();
    for shard in service
        .store
        .read()
        .nodes
        .all()
        .filter_map(|node| node.shard.clone())
    {
        *counts.entry(shard).or_default() += 1;
    }
    let shards: Vec<Value> = counts
        .into_iter()
        .map(|(name, count)| json!({"name": name, "count": count}))
        .collect();
    Reply::ok(&json!({"shards": shards}))
}
