//! Events: what happens to the server is posted to those who subscribed.
//!
//! ```text
//!   server ──watch──▶ watch() ──▶ one bounded queue per subscription ──▶ deliver() ──POST──▶ destination
//! ```

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tracing::warn;

use super::body::Body;
use super::messages::{self as m, Problem};
use super::path::{Action, Resource};
use super::{Answer, collection, link};
use crate::bmc::media::Address;
use crate::bmc::{Bmc, lock};
use crate::server::{Power, View};

#[derive(Debug, Default)]
pub struct Subscriptions {
    last: u64,
    last_event: u64,
    list: Vec<Subscription>,
}

#[derive(Debug)]
struct Subscription {
    id: u64,
    destination: Address,
    context: Option<String>,
    /// All where empty.
    types: Vec<String>,
    queue: mpsc::Sender<Value>,
}

const MOST: usize = 16;
/// Events that wait for a slow destination; newer ones are lost.
const QUEUE: usize = 64;
const TYPES: [&str; 5] = [
    "StatusChange",
    "ResourceUpdated",
    "ResourceAdded",
    "ResourceRemoved",
    "Alert",
];

/// One thing that happened.
#[derive(Debug)]
struct Happened {
    kind: &'static str,
    id: String,
    text: String,
    args: Vec<String>,
    severity: &'static str,
    origin: Option<String>,
}

/// Watches the server and queues an event for every change that a client may care for. Goes on for ever.
pub async fn watch(bmc: &Bmc) {
    let mut status = bmc.server.watch();
    let mut before = status.borrow_and_update().view.clone();
    while status.changed().await.is_ok() {
        let after = status.borrow_and_update().view.clone();
        for happened in differences(bmc, &before, &after) {
            publish(bmc, &happened);
        }
        before = after;
    }
    std::future::pending::<()>().await;
}

fn differences(bmc: &Bmc, before: &View, after: &View) -> Vec<Happened> {
    let mut all = vec![];
    let changed = |kind, key: &str, text: String, origin: Resource| {
        let origin = origin.path(bmc.personality);
        Happened {
            kind,
            id: format!("ResourceEvent.1.3.{key}"),
            text,
            args: vec![origin.clone()],
            severity: "OK",
            origin: Some(origin),
        }
    };
    if before.reported_power != after.reported_power {
        let (key, text) = match after.reported_power {
            Power::On => ("ResourcePoweredOn", "The server is on."),
            Power::PoweringOn => ("ResourcePoweringOn", "The server is being powered on."),
            Power::Off => ("ResourcePoweredOff", "The server is off."),
            Power::PoweringOff => ("ResourcePoweringOff", "The server is being powered off."),
        };
        all.push(changed("StatusChange", key, text.into(), Resource::System));
    }
    if before.media != after.media {
        let text = match &after.media {
            Some(media) => format!("{} is inserted.", media.url),
            None => "Virtual media is ejected.".into(),
        };
        all.push(changed(
            "ResourceUpdated",
            "ResourceChanged",
            text,
            Resource::Slots,
        ));
    }
    all
}

fn publish(bmc: &Bmc, happened: &Happened) {
    let now = bmc.now().to_string();
    let mut subscriptions = lock(&bmc.subscriptions);
    subscriptions.last_event += 1;
    let number = subscriptions.last_event.to_string();
    for subscription in &subscriptions.list {
        if !subscription.types.is_empty()
            && !subscription.types.iter().any(|kind| kind == happened.kind)
        {
            continue;
        }
        let mut event = json!({
            "EventType": happened.kind,
            "EventId": number,
            "EventTimestamp": now,
            "MemberId": "0",
            "MessageId": happened.id,
            "Message": happened.text,
            "MessageArgs": happened.args,
            "Severity": happened.severity,
            "MessageSeverity": happened.severity,
        });
        if let Some(origin) = &happened.origin {
            event["OriginOfCondition"] = json!({"@odata.id": origin});
        }
        let letter = json!({
            "@odata.type": "#Event.v1_7_0.Event",
            "Id": number,
            "Name": "Event Array",
            "Context": subscription.context,
            "Events": [event],
        });
        if subscription.queue.try_send(letter).is_err() {
            warn!(destination = %subscription.destination, "event lost: the destination is too slow");
        }
    }
}

/// Posts until the subscription is deleted.
async fn deliver(
    client: reqwest::Client,
    destination: Address,
    headers: HeaderMap,
    mut queue: mpsc::Receiver<Value>,
) {
    while let Some(letter) = queue.recv().await {
        for left in (0..=RETRIES).rev() {
            let post = destination
                .authorize(client.post(destination.to_string()))
                .headers(headers.clone())
                .json(&letter);
            let error = match post.timeout(POST_TIME).send().await {
                Ok(answer) if answer.status().is_success() => break,
                Ok(answer) => format!("it answers {}", answer.status()),
                Err(error) => model::chain(&error),
            };
            warn!(%destination, error, left, "event not delivered");
            if left > 0 {
                tokio::time::sleep(RETRY_EVERY).await;
            }
        }
    }
}

const RETRIES: u64 = 3;
const RETRY_EVERY: Duration = Duration::from_secs(1);
const POST_TIME: Duration = Duration::from_secs(5);

pub fn render_service(bmc: &Bmc) -> Value {
    json!({
        "@odata.type": "#EventService.v1_10_1.EventService",
        "Id": "EventService",
        "Name": "Event Service",
        "ServiceEnabled": true,
        "Status": {"State": "Enabled", "Health": "OK"},
        "DeliveryRetryAttempts": RETRIES,
        "DeliveryRetryIntervalSeconds": RETRY_EVERY.as_secs(),
        "EventTypesForSubscription": TYPES,
        "Subscriptions": link(bmc, &Resource::Subscriptions),
        "Actions": {
            "#EventService.SubmitTestEvent": {"target": Resource::Action(Action::TestEvent).path(bmc.personality)},
        },
    })
}

pub fn render_all(bmc: &Bmc) -> Value {
    let members: Vec<_> = lock(&bmc.subscriptions)
        .list
        .iter()
        .map(|s| Resource::Subscription(s.id))
        .collect();
    collection(
        bmc,
        "EventDestinationCollection",
        "Event Subscriptions",
        &members,
    )
}

pub fn render(bmc: &Bmc, id: u64) -> Option<Value> {
    let subscriptions = lock(&bmc.subscriptions);
    let subscription = subscriptions
        .list
        .iter()
        .find(|subscription| subscription.id == id)?;
    Some(json!({
        "@odata.type": "#EventDestination.v1_14_1.EventDestination",
        "Id": id.to_string(),
        "Name": "Event Subscription",
        "Destination": subscription.destination.to_string(),
        "Context": subscription.context,
        "Protocol": "Redfish",
        "SubscriptionType": "RedfishEvent",
        "EventTypes": if subscription.types.is_empty() { json!(TYPES) } else { json!(subscription.types) },
        // May hold a password: never shown.
        "HttpHeaders": [],
    }))
}

pub fn create(bmc: &Bmc, mut body: Body) -> Result<Answer, Problem> {
    body.require("Destination");
    body.require("Protocol");
    body.one_of("Protocol", &["Redfish"]);
    body.one_of("SubscriptionType", &["RedfishEvent"]);
    let context = body.nullable_text("Context").text().map(String::from);
    let types = body.texts("EventTypes").unwrap_or_default();
    for kind in types.iter().filter(|kind| !TYPES.contains(&kind.as_str())) {
        body.not_in_list("EventTypes", kind, &TYPES);
    }
    let headers = read_headers(&mut body);
    let destination = body.text("Destination").and_then(|text| {
        Address::parse(&text)
            .map_err(|error| body.malformed("Destination", &text, &error.to_string()))
            .ok()
    });
    body.finish(&Value::Null)?;
    let Some(destination) = destination else {
        return Err(Problem::new(&m::PROPERTY_MISSING, &["Destination"]));
    };
    let (queue, letters) = mpsc::channel(QUEUE);
    let id = {
        let mut subscriptions = lock(&bmc.subscriptions);
        if subscriptions.list.len() >= MOST {
            return Err(Problem::new(&m::LIMIT_REACHED, &[]));
        }
        subscriptions.last += 1;
        let id = subscriptions.last;
        subscriptions.list.push(Subscription {
            id,
            destination: destination.clone(),
            context,
            types,
            queue,
        });
        id
    };
    bmc.begin(deliver(
        bmc.fetcher.client().clone(),
        destination,
        headers,
        letters,
    ));
    let mut answer = Answer::new(StatusCode::CREATED, render(bmc, id));
    let path = Resource::Subscription(id).path(bmc.personality);
    if let Some(body) = &mut answer.body {
        body["@odata.id"] = path.clone().into();
    }
    answer.headers.push(("location", path));
    Ok(answer)
}

/// `HttpHeaders`: a list of objects, name to value.
fn read_headers(body: &mut Body) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for object in body.objects("HttpHeaders").unwrap_or_default() {
        for (name, value) in object {
            let parsed = HeaderName::try_from(&name)
                .ok()
                .zip(value.as_str().and_then(|v| HeaderValue::from_str(v).ok()));
            match parsed {
                Some((name, mut value)) => {
                    value.set_sensitive(true);
                    headers.insert(name, value);
                }
                None => body.malformed("HttpHeaders", &name, "It is not a header with a text"),
            }
        }
    }
    headers
}

pub fn delete(bmc: &Bmc, id: u64) -> bool {
    let mut subscriptions = lock(&bmc.subscriptions);
    let before = subscriptions.list.len();
    subscriptions
        .list
        .retain(|subscription| subscription.id != id);
    subscriptions.list.len() < before
}

pub fn submit_test(bmc: &Bmc, mut body: Body) -> Result<Answer, Problem> {
    body.require("MessageId");
    let kind = body.one_of("EventType", &TYPES);
    let kind = kind
        .and_then(|kind| TYPES.into_iter().find(|known| *known == kind))
        .unwrap_or("Alert");
    let id = body.text("MessageId").unwrap_or_default();
    let text = body.text("Message").unwrap_or_else(|| "A test.".into());
    let args = body.texts("MessageArgs").unwrap_or_default();
    let severity = body.one_of("Severity", &["OK", "Warning", "Critical"]);
    let severity = ["OK", "Warning", "Critical"]
        .into_iter()
        .find(|s| severity.as_deref() == Some(s))
        .unwrap_or("OK");
    let origin = body.text("OriginOfCondition");
    for ignored in ["EventId", "EventTimestamp"] {
        _ = body.text(ignored);
    }
    body.finish(&Value::Null)?;
    publish(
        bmc,
        &Happened {
            kind,
            id,
            text,
            args,
            severity,
            origin,
        },
    );
    Ok(Answer::no_content())
}
