//! BIOS settings and firmware of a node, as far as its driver has read any.

use serde_json::json;

use crate::api::Service;
use crate::api::fault::Fault;
use crate::api::request::{Reply, Request};
use crate::api::value::quoted;

pub fn bios(
    service: &Service,
    request: &Request,
    ident: &str,
    path: &[&str],
) -> Result<Reply, Fault> {
    request.query.only(&["detail", "fields"])?;
    let node = super::find(service, request, ident)?;
    match path {
        [] => Ok(Reply::ok(&json!({"bios": []}))),
        [name] => Err(Fault::not_found(format!(
            "Node {} has no BIOS setting {}.",
            node.uuid,
            quoted(name)
        ))),
        _ => Err(Fault::no_such_path()),
    }
}

pub fn firmware(service: &Service, request: &Request, ident: &str) -> Result<Reply, Fault> {
    super::find(service, request, ident)?;
    Ok(Reply::ok(&json!({"firmware": []})))
}
