//! `/v1/nodes/{id}/traits`.

use axum::http::Method;
use serde_json::json;

use crate::api::Service;
use crate::api::fault::Fault;
use crate::api::request::{Reply, Request};
use crate::api::value::{quoted, texts};

/// Ironic's limit for one node.
const MOST: usize = 50;

pub async fn route(
    service: &Service,
    request: &Request,
    ident: &str,
    path: &[&str],
) -> Result<Reply, Fault> {
    match (path, &request.method) {
        ([], &Method::GET) => {
            let node = super::find(service, request, ident)?;
            Ok(Reply::ok(&json!({"traits": node.traits})))
        }
        ([], &Method::PUT) => {
            let mut body = request.object(&["traits"])?;
            let list = texts(body.remove("traits").unwrap_or_default(), MOST)
                .map_err(|problem| Fault::bad_request(format!("traits: {problem}")))?;
            set(service, request, ident, |traits| {
                for name in &list {
                    check(name)?;
                }
                *traits = list;
                Ok(())
            })
            .await
        }
        ([name], &Method::PUT) => {
            set(service, request, ident, |traits| {
                check(name)?;
                traits.push((*name).to_owned());
                Ok(())
            })
            .await
        }
        ([], &Method::DELETE) => {
            set(service, request, ident, |traits| {
                traits.clear();
                Ok(())
            })
            .await
        }
        ([name], &Method::DELETE) => {
            set(service, request, ident, |traits| {
                let at = traits.iter().position(|have| have == name);
                let at = at.ok_or_else(|| {
                    Fault::not_found(format!("The node has no trait {}.", quoted(name)))
                })?;
                traits.remove(at);
                Ok(())
            })
            .await
        }
        ([] | [_], _) => Err(Fault::method_not_allowed()),
        _ => Err(Fault::no_such_path()),
    }
}

async fn set(
    service: &Service,
    request: &Request,
    ident: &str,
    change: impl FnOnce(&mut Vec<String>) -> Result<(), Fault>,
) -> Result<Reply, Fault> {
    super::change(service, request, ident, |node| {
        change(&mut node.traits)?;
        node.traits.sort();
        node.traits.dedup();
        if node.traits.len() > MOST {
            return Err(Fault::bad_request(format!(
                "A node has no more than {MOST} traits."
            )));
        }
        Ok(())
    })
    .await?;
    Ok(Reply::no_content())
}

/// Standard traits begin with the kind of thing they are about; a site's own with `CUSTOM_`.
pub fn check(name: &str) -> Result<(), Fault> {
    const STANDARD: [&str; 6] = [
        "HW_",
        "COMPUTE_",
        "MISC_",
        "OWNER_",
        "STORAGE_",
        "HYPERVISOR_",
    ];
    let rest = STANDARD
        .iter()
        .chain(&["CUSTOM_"])
        .find_map(|prefix| name.strip_prefix(prefix));
    let good = rest.is_some_and(|rest| !rest.is_empty())
        && name.len() <= 255
        && name
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
    if good {
        return Ok(());
    }
    Err(Fault::bad_request(format!(
        "{} is not a trait: write CUSTOM_ and capital letters, digits and _",
        quoted(name)
    )))
}
