//! What the agent calls: lookup, heartbeat, and the inspection's report. All of them without authentication.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use jiff::Timestamp;
use lifecycle::node::{Heartbeat, State};
use serde_json::{Value, json};
use uuid::Uuid;

use super::cell::{MASK, Stamp};
use super::fault::Fault;
use super::field::{self, View};
use super::request::{Reply, Request};
use super::value::quoted;
use super::{Service, nodes, ports};
use crate::conductor::inspection;
use crate::record::{Node, Object};
use crate::store::{Change, Tables};

const TOKEN: &str = "agent_secret_token";

pub async fn lookup(service: &Service, request: &Request) -> Result<Reply, Fault> {
    if request.method != Method::GET {
        return Err(Fault::method_not_allowed());
    }
    request.query.only(&["addresses", "node_uuid"])?;
    let macs = request
        .query
        .get("addresses")
        .map(ports::parse_macs)
        .unwrap_or_default();
    let uuid = match request.query.get("node_uuid") {
        None => None,
        Some(text) => Some(
            text.parse::<Uuid>()
                .map_err(|_| Fault::bad_request("node_uuid: is not a uuid"))?,
        ),
    };
    if macs.is_empty() && uuid.is_none() {
        return Err(Fault::bad_request(
            "A lookup needs the uuid of a node, or a MAC address of one.",
        ));
    }
    let fast_track = service.conductor.options.defaults.fast_track;
    hand_token(service, request, |tables| {
        let node = by_uuid_or_mac(tables, uuid, &macs).filter(|node| {
            node.life
                .state
                .lookup(fast_track || node.life.settings.fast_track)
        });
        let node = node.ok_or_else(|| Fault::not_found("Node could not be found."))?;
        // A token for an agent whose power is about to be cut would be missed by the next one.
        known_or_unlocked(&node)?;
        Ok(node)
    })
    .await
    .map(|document| Reply::ok(&document))
}

fn by_uuid_or_mac(tables: &Tables, uuid: Option<Uuid>, macs: &[model::Mac]) -> Option<Arc<Node>> {
    if let Some(uuid) = uuid {
        return tables.nodes.get(uuid).cloned();
    }
    let mut owners: Vec<Uuid> = macs
        .iter()
        .filter_map(|mac| tables.ports.named(&mac.to_string()))
        .map(|p| p.node_uuid)
        .collect();
    owners.sort_unstable();
    owners.dedup();
    match owners.as_slice() {
        [one] => tables.nodes.get(*one).cloned(),
        _ => None,
    }
}

/// The answer to a lookup. The token is given out once: whoever asks again gets stars.
async fn hand_token(
    service: &Service,
    request: &Request,
    look: impl FnOnce(&Tables) -> Result<Arc<Node>, Fault>,
) -> Result<Value, Fault> {
    let (node, token) = service
        .store
        .change(|tables| {
            let node = look(tables)?;
            if node.driver_internal_info.contains_key(TOKEN) {
                return Ok((Vec::new(), (node.uuid, MASK.to_owned())));
            }
            let mut node = Node::clone(&node);
            let token = new_token();
            node.driver_internal_info
                .insert(TOKEN.into(), token.clone().into());
            let uuid = node.uuid;
            Ok::<_, Fault>((vec![node.into()], (uuid, token)))
        })
        .await?;
    let node = nodes::find(service, request, &node.to_string())?;
    Ok(document(service, request, &node, &token))
}

pub fn new_token() -> String {
    use base64::Engine as _;
    let bytes: [u8; 32] = rand::random();
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes)
}

fn document(service: &Service, request: &Request, node: &Node, token: &str) -> Value {
    let names = [
        "uuid",
        "properties",
        "instance_info",
        "driver_internal_info",
    ];
    let fields: Vec<_> = names.into_iter().filter_map(field::find::<Node>).collect();
    let scope = service.scope(request);
    let out_of_band = matches!(
        node.interfaces.management.as_str(),
        "redfish" | "idrac-redfish"
    );
    json!({
        "node": View { row: node, fields: &fields, scope: &scope, parts: false },
        "config": {
            "heartbeat_timeout": service.conductor.options.timers.heartbeat.as_secs(),
            "agent_token": token,
            "agent_token_required": true,
            "agent_md5_checksum_enable": true,
            "disable_deep_image_inspection": false,
            "permitted_image_formats": ["raw", "gpt", "qcow2", "iso"],
            "agent_skip_bmc_detect": out_of_band,
            "enable_bios_bootloader_install": false,
            "tls_min_version": "1.3",
            "tls_cipher_suites": null,
            "metrics": {"backend": "noop", "prepend_host": false, "prepend_uuid": false,
                        "prepend_host_reverse": true, "global_prefix": null},
            "metrics_statsd": {"statsd_host": "localhost", "statsd_port": 8125},
            "agent_containers": {"allow_arbitrary_containers": false, "allowed_containers": [],
                                 "container_steps_file": "", "runner": "", "pull_options": "", "run_options": ""},
        },
    })
}

pub async fn heartbeat(service: &Service, request: &Request, ident: &str) -> Result<Reply, Fault> {
    if request.method != Method::POST {
        return Err(Fault::method_not_allowed());
    }
    let beat = Beat::parse(request)?;
    let uuid = service
        .store
        .change(|tables| {
            let node = nodes::in_tables(tables, request, ident)?;
            beat.check(&node)?;
            known_or_unlocked(&node)?;
            let mut node = Node::clone(&node);
            let now = Timestamp::now();
            match node.life.heard(&beat.url, now) {
                Heartbeat::Recorded | Heartbeat::Continues => {}
                Heartbeat::Refused => {
                    return Err(Fault::conflict(format!(
                        "Node {} expects no agent in state {}.",
                        node.uuid, node.life.state
                    )));
                }
            }
            beat.keep(&mut node, now);
            if node.reservation.is_none() && service.conductor.busy(&node, now) {
                node.reservation = Some(service.conductor.options.host.clone());
            }
            let uuid = node.uuid;
            Ok::<_, Fault>((vec![node.into()], uuid))
        })
        .await?;
    service.conductor.poke(uuid);
    Ok(Reply::accepted())
}

/// While somebody works on a node, only the agent he works with is listened to; another is to come again.
fn known_or_unlocked(node: &Node) -> Result<(), Fault> {
    if node.driver_internal_info.contains_key("agent_url") {
        return Ok(());
    }
    nodes::unlocked(node)
}

/// One call of an agent.
struct Beat {
    url: String,
    token: String,
    version: Option<String>,
    certificate: Option<String>,
}

impl Beat {
    fn parse(request: &Request) -> Result<Self, Fault> {
        const KEYS: [&str; 6] = [
            "callback_url",
            "agent_token",
            "agent_version",
            "agent_verify_ca",
            "agent_status",
            "agent_status_message",
        ];
        let body = request.object(&KEYS)?;
        for (key, since) in [
            ("agent_version", 36),
            ("agent_token", 62),
            ("agent_verify_ca", 68),
            ("agent_status", 72),
        ] {
            if body.contains_key(key) {
                request.version.needs(since, &format!("Property {key:?}"))?;
            }
        }
        let text = |key: &str| match body.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(Fault::bad_request(format!("{key}: must be a text"))),
        };
        let url =
            text("callback_url")?.ok_or_else(|| Fault::bad_request("callback_url: is required"))?;
        if url.starts_with("http://") {
            return Err(Fault::bad_request(
                "callback_url: TLS is required, so it must begin with https",
            ));
        }
        if !url.starts_with("https://") || url.len() > 1024 {
            return Err(Fault::bad_request(format!(
                "callback_url: {} is not an https address",
                quoted(&url)
            )));
        }
        let version = text("agent_version")?;
        if version.is_none() && text("agent_status")?.is_none() {
            return Err(Fault::bad_request("agent_version: is required"));
        }
        let token = text("agent_token")?.ok_or_else(|| {
            Fault::bad_request("Agent token is required for heartbeat processing.")
        })?;
        Ok(Self {
            url,
            token,
            version,
            certificate: text("agent_verify_ca")?,
        })
    }

    /// Whether it comes from the agent that was given the token.
    fn check(&self, node: &Node) -> Result<(), Fault> {
        let known = |key: &str| node.driver_internal_info.get(key).and_then(Value::as_str);
        let right = known(TOKEN).is_some_and(|token| same(token.as_bytes(), self.token.as_bytes()));
        if !right {
            return Err(Fault::bad_request(format!(
                "Invalid or missing agent token for node {}.",
                node.uuid
            )));
        }
        if known("agent_url").is_some_and(|url| url != self.url) {
            return Err(Fault::bad_request(format!(
                "The agent of node {} cannot change its callback_url.",
                node.uuid
            )));
        }
        if known("agent_verify_ca")
            .is_some_and(|before| Some(before) != self.certificate.as_deref())
        {
            return Err(Fault::bad_request(format!(
                "The agent of node {} cannot change its certificate.",
                node.uuid
            )));
        }
        Ok(())
    }

    fn keep(&self, node: &mut Node, now: Timestamp) {
        let info = &mut node.driver_internal_info;
        info.insert("agent_url".into(), self.url.clone().into());
        info.insert("agent_last_heartbeat".into(), Stamp(now).to_string().into());
        if let Some(version) = &self.version {
            info.insert("agent_version".into(), version.clone().into());
        }
        if let Some(certificate) = &self.certificate {
            info.insert("agent_verify_ca".into(), certificate.clone().into());
        }
    }
}

/// Compares in a time that does not tell how much was right.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

pub async fn continue_inspection(service: &Service, request: &Request) -> Result<Reply, Fault> {
    if request.method != Method::POST {
        return Err(Fault::method_not_allowed());
    }
    request.query.only(&["node_uuid"])?;
    let asked = match request.query.get("node_uuid") {
        None => None,
        Some(_) if request.version.0 < 84 => {
            return Err(Fault::not_acceptable(
                "Argument \"node_uuid\" needs API version 1.84 or later",
            ));
        }
        Some(text) => Some(
            text.parse::<Uuid>()
                .map_err(|_| Fault::bad_request("node_uuid: is not a uuid"))?,
        ),
    };
    let Value::Object(body) = request.json()? else {
        return Err(Fault::bad_request(
            "The inspection data must be a JSON object.",
        ));
    };
    let macs = reported(&body)?;
    let uuid = service
        .store
        .change(|tables| {
            let node = by_uuid_or_mac(tables, asked, &macs).or_else(|| by_bmc(tables, &body));
            // A fast host can be here before its BMC has said that it is on: it is to come again.
            if let Some(node) = node
                .as_ref()
                .filter(|node| node.life.state == State::Inspecting)
            {
                nodes::unlocked(node)?;
            }
            let node = node
                .filter(|node| node.life.state == State::InspectWait)
                .ok_or_else(|| {
                    Fault::not_found("Node could not be found, or is not being inspected.")
                })?;
            let mut node = Node::clone(&node);
            let now = Timestamp::now();
            node.life.inventory_at = Some(now);
            if node.reservation.is_none() && service.conductor.busy(&node, now) {
                node.reservation = Some(service.conductor.options.host.clone());
            }
            let uuid = node.uuid;
            let sent = Change::PutDocument {
                key: inspection::sent_key(uuid),
                value: request.body.to_vec(),
            };
            Ok::<_, Fault>((vec![sent, node.into()], uuid))
        })
        .await?;
    let reply = if request.version.0 >= 84 {
        let look = |tables: &Tables| {
            tables
                .nodes
                .get(uuid)
                .cloned()
                .ok_or_else(|| Fault::not_found("Node could not be found."))
        };
        hand_token(service, request, look).await?
    } else {
        json!({"uuid": uuid})
    };
    service.conductor.poke(uuid);
    Ok(Reply::json(StatusCode::ACCEPTED, &reply))
}

fn reported(body: &Object) -> Result<Vec<model::Mac>, Fault> {
    let inventory = body
        .get("inventory")
        .filter(|inventory| inventory.is_object());
    let inventory = inventory.ok_or_else(|| Fault::bad_request("inventory: is required"))?;
    let interfaces = inspection::interfaces(inventory);
    if interfaces.is_empty() {
        return Err(Fault::bad_request(
            "inventory.interfaces: must have at least one interface with a mac_address",
        ));
    }
    Ok(interfaces.into_iter().map(|(_, mac)| mac).collect())
}

/// A host without a known port may be known by the address of its BMC.
fn by_bmc(tables: &Tables, body: &Object) -> Option<Arc<Node>> {
    let inventory = body.get("inventory")?;
    let addresses: Vec<&str> = ["bmc_address", "bmc_v6address"]
        .into_iter()
        .filter_map(|key| inventory.get(key).and_then(Value::as_str))
        .filter(|address| !address.is_empty() && *address != "0.0.0.0" && *address != "::/0")
        .collect();
    let mut found = tables.nodes.all().filter(|node| {
        node.life.state == State::InspectWait
            && ["ipmi_address", "redfish_address"].into_iter().any(|key| {
                let known = node
                    .driver_info
                    .get(key)
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                let host = known
                    .split_once("://")
                    .map_or(known, |(_, rest)| rest)
                    .split('/')
                    .next()
                    .unwrap_or_default();
                addresses.iter().any(|address| {
                    host == *address
                        || host
                            .strip_prefix('[')
                            .is_some_and(|h| h.starts_with(address))
                })
            })
    });
    let first = found.next().cloned();
    if found.next().is_some() { None } else { first }
}
