//! `/v1/nodes/{id}/management`: boot device, NMI, lights.

use axum::http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::api::Service;
use crate::api::fault::Fault;
use crate::api::field::links;
use crate::api::request::{Reply, Request};
use crate::api::value::quoted;
use crate::driver::{Driver, Trouble};
use crate::record::{BootDevice, Hardware, Node};

pub async fn route(
    service: &Service,
    request: &Request,
    ident: &str,
    path: &[&str],
) -> Result<Reply, Fault> {
    let since = |since: u16| {
        if request.version.0 < since {
            Err(Fault::no_such_path())
        } else {
            Ok(())
        }
    };
    match (path, &request.method) {
        (["boot_device"], &Method::GET) => {
            let node = super::find(service, request, ident)?;
            let device = with_patience(service, driver(service, &node)?.boot_device(&node)).await?;
            Ok(Reply::ok(&device))
        }
        (["boot_device"], &Method::PUT) => set_boot_device(service, request, ident).await,
        (["boot_device", "supported"], &Method::GET) => {
            let node = super::find(service, request, ident)?;
            Ok(Reply::ok(
                &json!({"supported_boot_devices": driver(service, &node)?.boot_devices(&node)}),
            ))
        }
        (["inject_nmi"], &Method::PUT) => {
            since(29)?;
            request.object_or_empty(&[])?;
            with_lock(service, request, ident, async |driver, node| {
                driver
                    .inject_nmi(node)
                    .await
                    .map(|()| node.hardware.clone())
            })
            .await
        }
        (["indicators"], &Method::GET) => {
            since(63)?;
            let node = super::find(service, request, ident)?;
            let here = format!("nodes/{ident}/management/indicators/led@system");
            let led = json!({"name": "led@system", "component": "system", "readonly": false,
                             "states": LIGHTS, "links": links(&request.base, &here)});
            let lights: Vec<Value> = driver(service, &node)?
                .has_extras(&node)
                .then_some(led)
                .into_iter()
                .collect();
            Ok(Reply::ok(&json!({"indicators": lights})))
        }
        (["indicators", "led@system"], &(Method::GET | Method::PUT))
            if request.version.0 >= 63 && !has_light(service, request, ident)? =>
        {
            Err(Fault::not_found("There is no indicator \"led@system\"."))
        }
        (["indicators", "led@system"], &Method::GET) => {
            since(63)?;
            let node = super::find(service, request, ident)?;
            let state = with_patience(service, driver(service, &node)?.light(&node)).await?;
            Ok(Reply::ok(&json!({"state": state})))
        }
        (["indicators", "led@system"], &Method::PUT) => {
            since(63)?;
            set_light(service, request, ident).await
        }
        (
            ["boot_device" | "inject_nmi" | "indicators"]
            | ["boot_device", "supported"]
            | ["indicators", "led@system"],
            _,
        ) => Err(Fault::method_not_allowed()),
        (["indicators", name], _) => Err(Fault::not_found(format!(
            "There is no indicator {}.",
            quoted(name)
        ))),
        _ => Err(Fault::no_such_path()),
    }
}

fn has_light(service: &Service, request: &Request, ident: &str) -> Result<bool, Fault> {
    let node = super::find(service, request, ident)?;
    Ok(driver(service, &node)?.has_extras(&node))
}

async fn set_boot_device(
    service: &Service,
    request: &Request,
    ident: &str,
) -> Result<Reply, Fault> {
    let body = request.object(&["boot_device", "persistent"])?;
    let device = body
        .get("boot_device")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let persistent = super::flag(&body, "persistent")?.unwrap_or(false);
    let node = super::find(service, request, ident)?;
    let supported = driver(service, &node)?.boot_devices(&node);
    if !supported.contains(&device.as_str()) {
        return Err(Fault::bad_request(format!(
            "Invalid boot device {} specified; there are {}",
            quoted(&device),
            supported.join(", ")
        )));
    }
    let device = BootDevice {
        boot_device: device,
        persistent,
    };
    with_lock(service, request, ident, async |driver, node| {
        driver.set_boot_device(node, device).await
    })
    .await
}

async fn set_light(service: &Service, request: &Request, ident: &str) -> Result<Reply, Fault> {
    let body = request.object(&["state"])?;
    let state = match body.get("state").and_then(Value::as_str) {
        Some(state) if LIGHTS.contains(&state) => state.to_owned(),
        _ => {
            return Err(Fault::bad_request(format!(
                "state: must be one of {}",
                LIGHTS.join(", ")
            )));
        }
    };
    with_lock(service, request, ident, async |driver, node| {
        driver.set_light(node, &state).await
    })
    .await
}

const LIGHTS: [&str; 3] = ["ON", "OFF", "BLINKING"];

/// What the hardware says, if it says it in time.
pub async fn with_patience<T>(
    service: &Service,
    asking: impl Future<Output = Result<T, Trouble>>,
) -> Result<T, Fault> {
    let patience = service.conductor.options.timers.power_change;
    match tokio::time::timeout(patience, asking).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(trouble)) => Err(Fault::unavailable(trouble.to_string())),
        Err(_) => Err(Fault::unavailable(late(patience))),
    }
}

fn late(patience: std::time::Duration) -> String {
    format!(
        "the hardware did not answer within {} s",
        patience.as_secs()
    )
}

pub fn driver<'a>(service: &'a Service, node: &Node) -> Result<&'a Driver, Fault> {
    service.conductor.driver(&node.driver).ok_or_else(|| {
        Fault::bad_request(format!(
            "No conductor serves the driver {} of node {}.",
            quoted(&node.driver),
            node.uuid
        ))
    })
}

/// Has the driver do something at once, with the node locked meanwhile.
async fn with_lock(
    service: &Service,
    request: &Request,
    ident: &str,
    act: impl AsyncFnOnce(&Driver, &Node) -> Result<Hardware, Trouble>,
) -> Result<Reply, Fault> {
    let host = &service.conductor.options.host;
    let node = service
        .store
        .change(|tables| {
            let mut node = super::free(tables, request, ident)?;
            node.reservation = Some(host.clone());
            Ok::<_, Fault>((vec![node.clone().into()], node))
        })
        .await?;
    let driver = driver(service, &node)?;
    let patience = service.conductor.options.timers.power_change;
    let result = tokio::time::timeout(patience, act(driver, &node)).await;
    let result = result.unwrap_or_else(|_| Err(Trouble(late(patience))));
    service
        .store
        .change(|tables| {
            let Some(node) = tables.nodes.get(node.uuid) else {
                return Ok((Vec::new(), ()));
            };
            let mut node = Node::clone(node);
            if let Ok(hardware) = &result {
                node.hardware = hardware.clone();
            }
            service.conductor.settle(&mut node, Timestamp::now());
            Ok::<_, Fault>((vec![node.into()], ()))
        })
        .await?;
    match result {
        Ok(_) => Ok(Reply::no_content()),
        Err(trouble) => Err(Fault::unavailable(trouble.to_string())),
    }
}
