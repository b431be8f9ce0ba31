//! The verbs: `PUT /v1/nodes/{id}/states/provision`.

use jiff::Timestamp;
use lifecycle::node::{Interface, Request as Asked, Runner, State, StepSpec, Verb, on_verb};
use serde_json::Value;

use crate::api::Service;
use crate::api::cell::MASK;
use crate::api::fault::Fault;
use crate::api::request::{Reply, Request, known};
use crate::api::value::quoted;
use crate::conductor::config_drive_key;
use crate::record::{Node, Object};
use crate::store::{Change, Tables};

const KEYS: [&str; 8] = [
    "target",
    "configdrive",
    "clean_steps",
    "deploy_steps",
    "service_steps",
    "rescue_password",
    "disable_ramdisk",
    "runbook",
];

pub async fn provision(service: &Service, request: &Request, ident: &str) -> Result<Reply, Fault> {
    request.query.only(&[])?;
    let body = request.object(&KEYS)?;
    let verb = verb(&body)?;
    let wish = Wish::parse(request, verb, &body)?;
    let uuid = service
        .store
        .change(|tables| {
            let before = super::in_tables(tables, request, ident)?;
            // Whoever retries on "busy" is to go on retrying, whatever the state is meanwhile.
            super::unlocked(&before)?;
            allowed(service, request, verb, &before, tables)?;
            let now = Timestamp::now();
            let mut node = Node::clone(&before);
            let mut asked = wish.asked;
            assign(service, &node, &mut asked.steps);
            node.life
                .ask(verb, asked, &service.conductor.options.timers, now)
                .map_err(|refused| Fault::bad_request(refused.to_string()))?;
            let mut changes = begun(&mut node, verb, wish.config_drive, wish.rescue_password, now);
            tracing::info!(node = %node.uuid, from = %before.life.state, to = %node.life.state, verb = %verb, "node state");
            service.conductor.settle(&mut node, now);
            let uuid = node.uuid;
            changes.push(node.into());
            Ok::<_, Fault>((changes, uuid))
        })
        .await?;
    service.conductor.poke(uuid);
    Ok(super::states::accepted(request, ident))
}

/// Says who runs the steps that were asked for: those the driver does not have are the agent's, where there can be one.
fn assign(service: &Service, node: &Node, steps: &mut [StepSpec]) {
    let Some(driver) = service.conductor.driver(&node.driver) else {
        return;
    };
    if node.interfaces.deploy == "fake" {
        return;
    }
    let own = driver.steps(node);
    for step in steps.iter_mut().filter(|step| !step.reserved()) {
        let same = |offer: &&StepSpec| offer.interface == step.interface && offer.step == step.step;
        let offer = own.iter().find(same);
        step.by = offer.map_or(Runner::Agent, |offer| offer.by);
        step.requires_ramdisk = offer.is_none_or(|offer| offer.requires_ramdisk);
    }
}

fn verb(body: &Object) -> Result<Verb, Fault> {
    let text = body
        .get("target")
        .and_then(Value::as_str)
        .ok_or_else(|| Fault::bad_request("target: must be a verb"))?;
    text.parse().map_err(|_| {
        let words = Verb::ALL.map(Verb::as_str).join(", ");
        Fault::bad_request(format!(
            "target: {} is not a verb; there are {words}",
            quoted(text)
        ))
    })
}

fn allowed(
    service: &Service,
    request: &Request,
    verb: Verb,
    node: &Node,
    tables: &Tables,
) -> Result<(), Fault> {
    let state = node.life.state;
    request
        .version
        .needs(verb.since(state), &format!("Verb {:?}", verb.as_str()))?;
    let to = on_verb(state, verb).map_err(|refused| {
        Fault::bad_request(format!(
            "The requested action can not be performed on node {}: {refused}",
            node.uuid
        ))
    })?;
    if node.life.maintenance && verb.refused_in_maintenance() {
        return Err(Fault::bad_request(format!(
            "The {verb} operation can not be performed on node {} because it is in maintenance mode.",
            node.uuid
        )));
    }
    if node.protected && matches!(verb.canonical(), Verb::Rebuild | Verb::Deleted) {
        return Err(Fault::forbidden(format!(
            "Node {} is protected and can not be undeployed or rebuilt.",
            node.uuid
        )));
    }
    if node.retired && matches!(verb, Verb::Provide) {
        return Err(Fault::conflict(format!(
            "Node {} is retired and can not be made available.",
            node.uuid
        )));
    }
    if node.interfaces.inspect == "no-inspect" && verb == Verb::Inspect {
        return Err(Fault::bad_request(format!(
            "The inspect interface of node {} is no-inspect.",
            node.uuid
        )));
    }
    let options = &service.conductor.options;
    let (states, most): (&[State], usize) = if to == State::Deploying {
        (
            &[State::Deploying, State::WaitCallBack],
            options.most_deploys,
        )
    } else if matches!(to, State::Cleaning | State::Deleting) {
        (
            &[State::Deleting, State::Cleaning, State::CleanWait],
            options.most_cleans,
        )
    } else {
        return Ok(());
    };
    let busy = tables
        .nodes
        .all()
        .filter(|node| states.contains(&node.life.state))
        .count();
    if busy >= most {
        return Err(Fault::unavailable(format!(
            "{busy} nodes are at it already, and no more than {most} may be; try again later."
        )));
    }
    Ok(())
}

/// What a verb changes about a node besides its state.
fn begun(
    node: &mut Node,
    verb: Verb,
    drive: Option<ConfigDrive>,
    rescue_password: Option<String>,
    now: Timestamp,
) -> Vec<Change> {
    if verb == Verb::Inspect {
        node.inspection_started_at = Some(now);
        node.inspection_finished_at = None;
    }
    if let Some(password) = rescue_password {
        node.instance_info
            .insert("rescue_password".into(), password.into());
    }
    if verb == Verb::Unrescue {
        node.instance_info.remove("rescue_password");
    }
    match drive {
        None => Vec::new(),
        Some(ConfigDrive(value)) => {
            // It may be tens of megabytes: on disk, not in memory.
            node.instance_info.insert("configdrive".into(), MASK.into());
            vec![Change::PutDocument {
                key: config_drive_key(node.uuid),
                value,
            }]
        }
    }
}

/// What came with a verb.
struct Wish {
    asked: Asked,
    config_drive: Option<ConfigDrive>,
    rescue_password: Option<String>,
}

/// As it was sent: a JSON text or object.
struct ConfigDrive(Vec<u8>);

impl Wish {
    fn parse(request: &Request, verb: Verb, body: &Object) -> Result<Self, Fault> {
        let version = request.version;
        let refuse =
            |key: &str| Fault::bad_request(format!("{key} can not be given with the verb {verb}"));
        let verb_is = |verbs: &[Verb]| verbs.contains(&verb.canonical());
        if present(body, "runbook") {
            version.needs(92, "Property \"runbook\"")?;
            return Err(Fault::not_found("There are no runbooks."));
        }
        let mut asked = Asked::default();
        for (key, since, verbs) in [
            ("clean_steps", 15, &[Verb::Clean] as &[Verb]),
            ("deploy_steps", 69, &[Verb::Active, Verb::Rebuild]),
            ("service_steps", 87, &[Verb::Service]),
        ] {
            if present(body, key) {
                version.needs(since, &format!("Property {key:?}"))?;
                if !verb_is(verbs) {
                    return Err(refuse(key));
                }
                asked.steps = steps(key, &body[key])?;
            } else if verb_is(verbs) && key != "deploy_steps" {
                return Err(Fault::bad_request(format!(
                    "{key} is required with the verb {verb}"
                )));
            }
        }
        if present(body, "disable_ramdisk") {
            version.needs(
                if verb_is(&[Verb::Service]) { 108 } else { 70 },
                "Property \"disable_ramdisk\"",
            )?;
            if !verb_is(&[Verb::Clean, Verb::Service]) {
                return Err(refuse("disable_ramdisk"));
            }
            asked.disable_ramdisk = super::flag(body, "disable_ramdisk")?.unwrap_or(false);
        }
        let rescue_password = match body.get("rescue_password") {
            None | Some(Value::Null) if verb_is(&[Verb::Rescue]) => {
                return Err(Fault::bad_request(
                    "rescue_password is required with the verb rescue",
                ));
            }
            None | Some(Value::Null) => None,
            Some(_) if !verb_is(&[Verb::Rescue]) => return Err(refuse("rescue_password")),
            Some(Value::String(text)) if !text.trim().is_empty() => Some(text.clone()),
            Some(_) => {
                return Err(Fault::bad_request(
                    "rescue_password: must be a text, and not an empty one",
                ));
            }
        };
        let config_drive = match body.get("configdrive") {
            None | Some(Value::Null) => None,
            Some(drive) => {
                if !verb_is(&[Verb::Active, Verb::Rebuild]) {
                    return Err(refuse("configdrive"));
                }
                if verb == Verb::Rebuild {
                    version.needs(35, "A config drive with rebuild")?;
                }
                Some(config_drive(request, drive)?)
            }
        };
        Ok(Self {
            asked,
            config_drive,
            rescue_password,
        })
    }
}

fn present(body: &Object, key: &str) -> bool {
    body.get(key).is_some_and(|value| !value.is_null())
}

fn config_drive(request: &Request, drive: &Value) -> Result<ConfigDrive, Fault> {
    let problem = |what: &str| Fault::bad_request(format!("configdrive: {what}"));
    match drive {
        Value::String(text) if text.contains("://") => {}
        Value::String(text) => {
            use base64::Engine as _;
            let bare: String = text.split_ascii_whitespace().collect();
            base64::engine::general_purpose::STANDARD
                .decode(bare)
                .map_err(|_| {
                    problem("must be a URL, an object, or base64 of a gzipped ISO image")
                })?;
        }
        Value::Object(object) => {
            request.version.needs(56, "A config drive as an object")?;
            known(
                object,
                &["meta_data", "network_data", "user_data", "vendor_data"],
            )?;
            if object.contains_key("vendor_data") {
                request
                    .version
                    .needs(59, "Property \"vendor_data\" of a config drive")?;
            }
            for key in ["meta_data", "network_data", "vendor_data"] {
                if object
                    .get(key)
                    .is_some_and(|value| !value.is_object() && !value.is_null())
                {
                    return Err(problem(&format!("{key} must be an object")));
                }
            }
            if object
                .get("user_data")
                .is_some_and(|value| !(value.is_object() || value.is_string() || value.is_null()))
            {
                return Err(problem("user_data must be a text or an object"));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            return Err(problem("must be a text or an object"));
        }
    }
    Ok(ConfigDrive(drive.to_string().into_bytes()))
}

/// Steps no client may run: raw bytes to a BMC are beyond what anyone can check.
const DISALLOWED: [&str; 1] = ["vendor.send_raw"];

fn steps(key: &str, value: &Value) -> Result<Vec<StepSpec>, Fault> {
    let Value::Array(items) = value else {
        return Err(Fault::bad_request(format!("{key}: must be a list")));
    };
    if items.is_empty() && key != "deploy_steps" {
        return Err(Fault::bad_request(format!("{key}: must not be empty")));
    }
    items
        .iter()
        .enumerate()
        .map(|(at, item)| {
            step(key, item).map_err(|problem| Fault::bad_request(format!("{key}[{at}]{problem}")))
        })
        .collect()
}

fn step(key: &str, item: &Value) -> Result<StepSpec, String> {
    const KEYS: [&str; 7] = [
        "interface",
        "step",
        "args",
        "priority",
        "order",
        "execute_on_child_nodes",
        "limit_child_node_execution",
    ];
    let Value::Object(item) = item else {
        return Err(": must be an object".into());
    };
    let deploy = key == "deploy_steps";
    if let Some(unknown) = item
        .keys()
        .find(|name| !KEYS.contains(&name.as_str()) || (!deploy && *name == "priority"))
    {
        return Err(format!(": unexpected property {}", quoted(unknown)));
    }
    if let Some(missing) = ["args", "priority"]
        .into_iter()
        .find(|name| deploy && !item.contains_key(*name))
    {
        return Err(format!(": {missing} is required"));
    }
    let interface = match item.get("interface") {
        None => return Err(": interface is required".into()),
        Some(value) => serde_json::from_value::<Interface>(value.clone()).map_err(|_| {
            ".interface: must be one of bios, deploy, firmware, management, power, raid, vendor"
                .to_owned()
        })?,
    };
    let name = item
        .get("step")
        .and_then(Value::as_str)
        .filter(|name| !name.is_empty() && name.len() <= 255);
    let name = name.ok_or(".step: must be a text")?;
    let args = match item.get("args") {
        None => Object::new(),
        Some(Value::Object(args)) => args.clone(),
        Some(_) => return Err(".args: must be an object".into()),
    };
    let priority = match item.get("priority") {
        None => 0,
        Some(value) => value
            .as_u64()
            .and_then(|value| u32::try_from(value).ok())
            .ok_or(".priority: must be a number, at least 0")?,
    };
    let step = StepSpec {
        args,
        abortable: true,
        ..StepSpec::new(interface, name, priority, Runner::Service)
    };
    if DISALLOWED.contains(&step.to_string().as_str()) {
        return Err(format!(": the step {step} is not allowed here"));
    }
    Ok(step)
}
