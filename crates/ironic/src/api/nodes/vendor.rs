//! `/v1/nodes/{id}/vendor_passthru`: none of our drivers has methods beyond the API's own yet.

use axum::http::Method;
use serde_json::json;

use crate::api::Service;
use crate::api::fault::Fault;
use crate::api::request::{Reply, Request};
use crate::api::value::quoted;

pub fn route(
    service: &Service,
    request: &Request,
    ident: &str,
    path: &[&str],
) -> Result<Reply, Fault> {
    let node = super::find(service, request, ident)?;
    match path {
        ["methods"] if request.method == Method::GET => Ok(Reply::ok(&json!({}))),
        [] | [_] => {
            let name = path
                .first()
                .copied()
                .or_else(|| request.query.get("method"))
                .unwrap_or_default();
            Err(Fault::bad_request(format!(
                "Driver {} does not support the method {}.",
                node.driver,
                quoted(name)
            )))
        }
        _ => Err(Fault::no_such_path()),
    }
}
