//! `/v1/nodes/{id}/vendor_passthru`: what a driver can do beyond the API's own words.

use axum::http::Method;
use serde_json::{Value, json};

use super::management;
use crate::api::Service;
use crate::api::fault::Fault;
use crate::api::request::{Reply, Request};
use crate::api::value::quoted;
use crate::driver::{Refusal, Trouble};
use crate::record::{Node, Object};

pub async fn route(
    service: &Service,
    request: &Request,
    ident: &str,
    path: &[&str],
) -> Result<Reply, Fault> {
    let node = super::find(service, request, ident)?;
    match path {
        ["methods"] if request.method == Method::GET => methods(service, &node),
        [] | [_] => {
            let name = path
                .first()
                .copied()
                .or_else(|| request.query.get("method"))
                .unwrap_or_default();
            call(service, request, &node, name).await
        }
        _ => Err(Fault::no_such_path()),
    }
}

fn methods(service: &Service, node: &Node) -> Result<Reply, Fault> {
    let driver = management::driver(service, node)?;
    let methods: Object = driver
        .methods(node)
        .iter()
        .map(|method| {
            let shown = json!({
                "async": false, "attach": false, "description": method.description,
                "http_methods": [method.http], "require_exclusive_lock": method.http != "GET",
            });
            (method.name.to_owned(), shown)
        })
        .collect();
    Ok(Reply::ok(&methods))
}

async fn call(
    service: &Service,
    request: &Request,
    node: &Node,
    name: &str,
) -> Result<Reply, Fault> {
    let driver = management::driver(service, node)?;
    let known = driver
        .methods(node)
        .iter()
        .find(|method| method.name == name);
    let method = known.ok_or_else(|| {
        Fault::bad_request(format!(
            "Driver {} does not support the method {}.",
            node.driver,
            quoted(name)
        ))
    })?;
    if request.method.as_str() != method.http {
        return Err(Fault::bad_request(format!(
            "The method {name} is called with {}, not {}.",
            method.http, request.method
        )));
    }
    if method.http != "GET" {
        super::unlocked(node)?;
    }
    let mut args = if request.body.is_empty() {
        Object::new()
    } else {
        match request.json()? {
            Value::Object(args) => args,
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => {
                return Err(Fault::bad_request("The body must be a JSON object."));
            }
        }
    };
    for (key, value) in request.query.pairs().filter(|(key, _)| *key != "method") {
        args.insert(key.to_owned(), json!(value));
    }
    let asking = async {
        match driver.call(node, name, &args).await {
            Err(Refusal::Hardware(trouble)) => Err(trouble),
            Err(Refusal::Call(what)) => Ok(Err(what)),
            Ok(answer) => Ok::<_, Trouble>(Ok(answer)),
        }
    };
    match management::with_patience(service, asking).await? {
        Ok(Some(answer)) => Ok(Reply::ok(&answer)),
        // Ironic's clients read a body even where a method has nothing to say.
        Ok(None) => Ok(Reply::ok(&Value::Null)),
        Err(what) => Err(Fault::bad_request(what)),
    }
}
