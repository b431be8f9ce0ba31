//! `/v1/volume`: what a node is told of remote volumes. Nodes here boot from their own disks; the records are kept.

use axum::http::Method;
use serde_json::json;
use uuid::Uuid;

use super::Service;
use super::fault::Fault;
use super::field::links;
use super::kept::{self, connectors, targets};
use super::request::{Reply, Request};

pub async fn route(service: &Service, request: &Request, path: &[&str]) -> Result<Reply, Fault> {
    match path {
        [] => root(request, "volume"),
        ["connectors", rest @ ..] => kept::route(service, request, connectors(), rest).await,
        ["targets", rest @ ..] => kept::route(service, request, targets(), rest).await,
        _ => Err(Fault::no_such_path()),
    }
}

/// `/v1/nodes/{id}/volume`.
pub fn of_node(
    service: &Service,
    request: &Request,
    node: Uuid,
    path: &[&str],
) -> Result<Reply, Fault> {
    match path {
        [] => root(request, &format!("nodes/{node}/volume")),
        ["connectors", rest @ ..] => kept::of_node(service, request, connectors(), node, rest),
        ["targets", rest @ ..] => kept::of_node(service, request, targets(), node, rest),
        _ => Err(Fault::no_such_path()),
    }
}

fn root(request: &Request, here: &str) -> Result<Reply, Fault> {
    if request.method != Method::GET {
        return Err(Fault::method_not_allowed());
    }
    let part = |part: &str| links(&request.base, &format!("{here}/{part}"));
    Ok(Reply::ok(&json!({
        "connectors": part("connectors"), "targets": part("targets"),
        "links": links(&request.base, &format!("{here}/")),
    })))
}
