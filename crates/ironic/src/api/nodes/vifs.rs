//! `/v1/nodes/{id}/vifs`: virtual interfaces that somebody else's network attached.

use axum::http::Method;
use serde_json::{Value, json};

use crate::api::Service;
use crate::api::fault::Fault;
use crate::api::request::{Reply, Request};
use crate::api::value::quoted;
use crate::record::Vif;

pub async fn route(
    service: &Service,
    request: &Request,
    ident: &str,
    path: &[&str],
) -> Result<Reply, Fault> {
    match (path, &request.method) {
        ([], &Method::GET) => {
            let node = super::find(service, request, ident)?;
            Ok(Reply::ok(&json!({"vifs": node.vifs})))
        }
        ([], &Method::POST) => attach(service, request, ident).await,
        ([id], &Method::DELETE) => {
            super::change(service, request, ident, |node| {
                let at = node.vifs.iter().position(|vif| vif.id == *id);
                let at = at.ok_or_else(|| {
                    Fault::bad_request(format!("VIF {} is not attached to the node.", quoted(id)))
                })?;
                node.vifs.remove(at);
                Ok(())
            })
            .await?;
            Ok(Reply::no_content())
        }
        ([] | [_], _) => Err(Fault::method_not_allowed()),
        _ => Err(Fault::no_such_path()),
    }
}

async fn attach(service: &Service, request: &Request, ident: &str) -> Result<Reply, Fault> {
    let Value::Object(mut body) = request.json()? else {
        return Err(Fault::bad_request("The body must be a JSON object."));
    };
    let Some(Value::String(id)) = body.remove("id") else {
        return Err(Fault::bad_request("id: must be a text"));
    };
    if id.is_empty() || id.len() > 255 || id.contains('/') {
        return Err(Fault::bad_request(
            "id: must be a text of at most 255 characters without a slash",
        ));
    }
    for key in ["port_uuid", "portgroup_uuid"] {
        if body.contains_key(key) {
            request.version.needs(67, &format!("Property {key:?}"))?;
        }
    }
    if body.contains_key("port_uuid") && body.contains_key("portgroup_uuid") {
        return Err(Fault::bad_request(
            "Either port_uuid or portgroup_uuid can be given, not both.",
        ));
    }
    super::change(service, request, ident, |node| {
        if node.vifs.iter().any(|vif| vif.id == id) {
            return Err(Fault::conflict(format!(
                "VIF {} is attached already.",
                quoted(&id)
            )));
        }
        node.vifs.push(Vif { id, rest: body });
        Ok(())
    })
    .await?;
    Ok(Reply::no_content())
}
