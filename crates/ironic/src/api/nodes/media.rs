//! `/v1/nodes/{id}/vmedia`: images in virtual drives.

use axum::http::Method;
use serde_json::{Value, json};

use super::management;
use crate::api::Service;
use crate::api::fault::Fault;
use crate::api::request::{Reply, Request};
use crate::api::value::quoted;
use crate::record::{Errand, Medium};

const TYPES: [&str; 3] = ["cdrom", "disk", "floppy"];

pub async fn route(service: &Service, request: &Request, ident: &str) -> Result<Reply, Fault> {
    let node = super::find(service, request, ident)?;
    if !management::driver(service, &node)?.has_extras(&node) {
        return Err(Fault::bad_request(format!(
            "Driver {} has no virtual media.",
            node.driver
        )));
    }
    match request.method {
        Method::GET if request.version.0 < 93 => Err(Fault::method_not_allowed()),
        Method::GET => {
            let driver = management::driver(service, &node)?;
            let drives = management::with_patience(service, driver.drives(&node)).await?;
            let media: Vec<Value> = drives
                .into_iter()
                .map(|drive| {
                    json!({"media_types": drive.media_types, "inserted": drive.inserted, "image": drive.image})
                })
                .collect();
            Ok(Reply::ok(&media))
        }
        Method::POST => insert(service, request, ident).await,
        Method::DELETE => eject(service, request, ident).await,
        _ => Err(Fault::method_not_allowed()),
    }
}

async fn insert(service: &Service, request: &Request, ident: &str) -> Result<Reply, Fault> {
    let body = request.object(&["device_type", "image_url", "image_download_source"])?;
    let text = |key: &str| {
        body.get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let (device_type, image_url) = (text("device_type"), text("image_url"));
    check(&device_type)?;
    let scheme = image_url.split_once("://").map_or("", |(scheme, _)| scheme);
    if !["http", "https", "nfs", "cifs", "smb"].contains(&scheme) {
        return Err(Fault::bad_request(
            "image_url: must begin with http, https, nfs, cifs or smb",
        ));
    }
    match body.get("image_download_source") {
        None | Some(Value::Null) => {}
        Some(Value::String(source)) if ["http", "local", "swift"].contains(&source.as_str()) => {}
        Some(_) => {
            return Err(Fault::bad_request(
                "image_download_source: must be http, local or swift",
            ));
        }
    }
    let errand = Errand::Insert(Medium {
        device_type,
        image_url,
    });
    super::change(service, request, ident, |node| {
        node.errand = Some(errand);
        Ok(())
    })
    .await?;
    Ok(Reply::no_content())
}

async fn eject(service: &Service, request: &Request, ident: &str) -> Result<Reply, Fault> {
    request.query.only(&["device_types"])?;
    let device_types = request.query.list("device_types").unwrap_or_default();
    device_types.iter().try_for_each(|kind| check(kind))?;
    let errand = Errand::Eject { device_types };
    super::change(service, request, ident, |node| {
        node.errand = Some(errand);
        Ok(())
    })
    .await?;
    Ok(Reply::no_content())
}

fn check(kind: &str) -> Result<(), Fault> {
    if TYPES.contains(&kind) {
        return Ok(());
    }
    Err(Fault::bad_request(format!(
        "Device type {} is not known; there are {}",
        quoted(kind),
        TYPES.join(", ")
    )))
}
