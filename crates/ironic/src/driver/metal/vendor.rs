//! What a BMC can do beyond the API's own words: subscriptions to its events, lights, sensors.

use clients::redfish::{self, Light, NewSubscription, Subscription};
use serde_json::{Map, Value, json};

use super::super::error::Error;
use super::super::lines::Bmc;
use super::{Metal, lacks};
use crate::record::{Hardware, Node};

/// A method of `vendor_passthru`.
pub struct Method {
    pub name: &'static str,
    pub http: &'static str,
    pub description: &'static str,
}

const REDFISH: &[Method] = &[
    Method {
        name: "create_subscription",
        http: "POST",
        description: "Subscribes an address to the BMC's events. Required argument: Destination; optional: Protocol, Context, EventTypes, HttpHeaders.",
    },
    Method {
        name: "delete_subscription",
        http: "DELETE",
        description: "Ends a subscription. Required argument: id.",
    },
    Method {
        name: "get_subscription",
        http: "GET",
        description: "Shows a subscription. Required argument: id.",
    },
    Method {
        name: "get_all_subscriptions",
        http: "GET",
        description: "Lists the ids of all subscriptions.",
    },
    Method {
        name: "eject_vmedia",
        http: "POST",
        description: "Takes virtual media out. Optional argument: boot_device (cdrom, floppy or disk); all without it.",
    },
];

/// Methods the node's vendor interface has.
pub fn methods(node: &Node) -> &'static [Method] {
    match node.interfaces.vendor.as_str() {
        "redfish" | "idrac-redfish" => REDFISH,
        _ => &[],
    }
}

impl Metal {
    /// Calls a method of the node's vendor interface. Nothing is what a method has to say that only does something.
    pub async fn call(
        &self,
        node: &Node,
        method: &str,
        args: &Map<String, Value>,
    ) -> Result<Option<Value>, Error> {
        let text = |key: &str| args.get(key).and_then(Value::as_str).map(ToOwned::to_owned);
        let id = || text("id").ok_or_else(|| wrong("id: is needed"));
        match method {
            "create_subscription" => {
                let new = new_subscription(args)?;
                let made = self
                    .redfish_now(node, async |client| client.subscribe(&new).await)
                    .await?;
                Ok(Some(show(&made)))
            }
            "delete_subscription" => {
                let id = id()?;
                let there = self
                    .redfish_now(node, async |client| client.unsubscribe(&id).await)
                    .await?;
                if there {
                    Ok(None)
                } else {
                    Err(wrong(&format!("there is no subscription {id}")))
                }
            }
            "get_subscription" => {
                let id = id()?;
                let found = self
                    .redfish_now(node, async |client| client.subscription(&id).await)
                    .await?;
                let found =
                    found.ok_or_else(|| wrong(&format!("there is no subscription {id}")))?;
                Ok(Some(show(&found)))
            }
            "get_all_subscriptions" => {
                let all = self
                    .redfish_now(node, async |client| client.subscriptions().await)
                    .await?;
                let ids: Vec<_> = all.into_iter().map(|it| it.id).collect();
                Ok(Some(json!(ids)))
            }
            "eject_vmedia" => {
                let types: Vec<String> = text("boot_device").into_iter().collect();
                self.eject(node, &types).await?;
                Ok(None)
            }
            _ => Err(wrong(&format!("there is no method {method:?}"))),
        }
    }

    /// The light as the API names its states.
    pub async fn light(&self, node: &Node) -> Result<&'static str, Error> {
        let light = self
            .redfish_now(node, async |client| client.light().await)
            .await?;
        Ok(match light {
            Some(Light::Lit) => "ON",
            Some(Light::Off) => "OFF",
            Some(Light::Blinking) => "BLINKING",
            None => "UNKNOWN",
        })
    }

    pub async fn set_light(&self, node: &Node, state: &str) -> Result<Hardware, Error> {
        let light = match state {
            "ON" => Light::Lit,
            "BLINKING" => Light::Blinking,
            _ => Light::Off,
        };
        self.redfish_now(node, async |client| client.set_light(light).await)
            .await?;
        Ok(super::mirror(node))
    }

    async fn redfish_now<T>(
        &self,
        node: &Node,
        act: impl AsyncFnOnce(&redfish::Client) -> Result<T, redfish::Error>,
    ) -> Result<T, Error> {
        self.ask(node, async |bmc| match bmc {
            Bmc::Redfish(client) => Ok(act(client).await?),
            Bmc::Ipmi(_) => Err(lacks("such thing")),
        })
        .await
    }
}

fn wrong(what: &str) -> Error {
    Error::Settings(vec![what.to_owned()])
}

fn new_subscription(args: &Map<String, Value>) -> Result<NewSubscription, Error> {
    const KEYS: [&str; 5] = [
        "Destination",
        "Protocol",
        "Context",
        "EventTypes",
        "HttpHeaders",
    ];
    let mut problems = Vec::new();
    for key in args.keys().filter(|key| !KEYS.contains(&key.as_str())) {
        problems.push(format!(
            "{key}: is not known; there are {}",
            KEYS.join(", ")
        ));
    }
    let mut text = |key: &str, default: Option<&str>| match (args.get(key), default) {
        (Some(Value::String(text)), _) => text.clone(),
        (None | Some(Value::Null), Some(default)) => default.to_owned(),
        (None | Some(_), _) => {
            problems.push(format!("{key}: must be a text"));
            String::new()
        }
    };
    let destination = text("Destination", None);
    let protocol = text("Protocol", Some("Redfish"));
    let context = text("Context", Some(""));
    let is_url = ["http://", "https://"]
        .iter()
        .any(|scheme| destination.starts_with(scheme));
    if !destination.is_empty() && !is_url {
        problems.push("Destination: must begin with http:// or https://".into());
    }
    let event_types = match args.get("EventTypes") {
        None | Some(Value::Null) => vec!["Alert".to_owned()],
        Some(Value::Array(list)) if list.iter().all(Value::is_string) => list
            .iter()
            .filter_map(Value::as_str)
            .map(ToOwned::to_owned)
            .collect(),
        Some(_) => {
            problems.push("EventTypes: must be a list of texts".into());
            Vec::new()
        }
    };
    let headers = match args.get("HttpHeaders") {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::Array(list)) => list.iter().map(header).collect::<Option<Vec<_>>>(),
        Some(_) => None,
    };
    if headers.is_none() {
        problems.push("HttpHeaders: must be a list of objects with one text each".into());
    }
    match headers {
        Some(headers) if problems.is_empty() => Ok(NewSubscription {
            destination,
            protocol,
            context,
            event_types,
            headers,
        }),
        _ => Err(Error::Settings(problems)),
    }
}

/// `{"Name": "value"}`.
fn header(value: &Value) -> Option<(String, String)> {
    let (name, value) = value.as_object()?.iter().next()?;
    Some((name.clone(), value.as_str()?.to_owned()))
}

fn show(subscription: &Subscription) -> Value {
    json!({
        "Id": subscription.id, "Context": subscription.context, "Destination": subscription.destination,
        "EventTypes": subscription.event_types, "Protocol": subscription.protocol,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscription_has_the_defaults_ironic_gives_it() {
        let args = json!({"Destination": "https://192.0.2.1/events"});
        let new = new_subscription(args.as_object().unwrap()).unwrap();
        assert_eq!(
            (new.protocol.as_str(), new.context.as_str()),
            ("Redfish", "")
        );
        assert_eq!(new.event_types, ["Alert"]);
    }

    #[test]
    fn all_that_is_wrong_with_a_subscription_is_told() {
        let args = json!({"Destination": "192.0.2.1", "EventTypes": "Alert", "HttpHeaders": ["x"], "Odd": 1});
        let error = new_subscription(args.as_object().unwrap()).unwrap_err();
        let Error::Settings(problems) = error else {
            panic!("they are settings")
        };
        assert_eq!(problems.len(), 4, "{problems:?}");
    }
}
