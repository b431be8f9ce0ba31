//! The calls the agent makes to Ironic.

use std::time::{Duration, SystemTime};

use model::{Mac, Secret};
use reqwest::header::DATE;
use reqwest::{Client, RequestBuilder, StatusCode};
use serde_json::{Value, json};

use super::life::{Failed, Node};

/// The version from which lookups carry the token, and heartbeats the certificate.
const LOOKUP_VERSION: &str = "1.62";
const HEARTBEAT_VERSION: &str = "1.68";
/// Ironic decides by it what an agent can do: the release of ironic-python-agent whose protocol this is.
const AGENT_VERSION: &str = "11.4.0";
const VERSION: &str = "X-OpenStack-Ironic-API-Version";
/// No answer of Ironic's to us is larger.
const ANSWER: usize = 4 << 20;

#[derive(Debug, Clone)]
pub struct Ironic {
    pub client: Client,
    pub timeout: Duration,
    pub request_id: Option<String>,
}

/// A lookup's answer: for the machine, and the documents as they came.
#[derive(Debug)]
pub struct Found {
    pub node: Node,
    pub document: Value,
    pub config: Value,
}

pub struct Heartbeat<'a> {
    pub callback_url: &'a str,
    pub token: Option<&'a Secret<String>>,
    pub certificate: Option<&'a str>,
}

impl Ironic {
    pub async fn lookup(
        &self,
        api: &str,
        macs: &[Mac],
        node: Option<&str>,
    ) -> Result<Found, Failed> {
        let addresses: Vec<_> = macs.iter().map(Mac::to_string).collect();
        let mut query = vec![("addresses", addresses.join(","))];
        query.extend(node.map(|node| ("node_uuid", node.to_owned())));
        let url = reqwest::Url::parse_with_params(&format!("{api}/v1/lookup"), &query)
            .map_err(|error| Failed::Refused(error.to_string()))?;
        let request = self.client.get(url).header(VERSION, LOOKUP_VERSION);
        let (_, body) = self.send(request).await?;
        read_lookup(&body).ok_or_else(|| {
            Failed::Refused("the answer has no node.uuid or no config.heartbeat_timeout".into())
        })
    }

    pub async fn heartbeat(
        &self,
        api: &str,
        node: &str,
        beat: &Heartbeat<'_>,
    ) -> Result<(), Failed> {
        let mut body = json!({
            "callback_url": beat.callback_url,
            "agent_version": AGENT_VERSION,
        });
        if let Some(token) = beat.token {
            body["agent_token"] = token.expose().clone().into();
        }
        if let Some(certificate) = beat.certificate {
            body["agent_verify_ca"] = certificate.into();
        }
        let request = self
            .client
            .post(format!("{api}/v1/heartbeat/{node}"))
            .header(VERSION, HEARTBEAT_VERSION)
            .json(&body);
        self.send(request).await.map(drop)
    }

    /// Returns the node Ironic took the data for, if it says.
    pub async fn inspect(&self, url: &str, body: &Value) -> Result<Option<String>, Failed> {
        let (_, answer) = self.send(self.client.post(url).json(body)).await?;
        Ok(answer["uuid"].as_str().map(str::to_owned))
    }

    /// What time it is over there; to a second.
    pub async fn time(&self, api: &str) -> Option<SystemTime> {
        let answer = self
            .client
            .get(api)
            .timeout(Duration::from_secs(5))
            .send()
            .await
            .ok()?;
        httpdate::parse_http_date(answer.headers().get(DATE)?.to_str().ok()?).ok()
    }

    async fn send(&self, mut request: RequestBuilder) -> Result<(StatusCode, Value), Failed> {
        if let Some(id) = &self.request_id {
            request = request.header("X-OpenStack-Request-ID", id);
        }
        let lost = |error: reqwest::Error| Failed::Unreachable(model::chain(&error.without_url()));
        let mut answer = request.timeout(self.timeout).send().await.map_err(lost)?;
        let status = answer.status();
        let mut body = vec![];
        while let Some(chunk) = answer.chunk().await.map_err(lost)? {
            if body.len() + chunk.len() > ANSWER {
                return Err(Failed::Refused("the answer is too large".into()));
            }
            body.extend_from_slice(&chunk);
        }
        if status.is_success() {
            let value = serde_json::from_slice(&body).unwrap_or(Value::Null);
            return Ok((status, value));
        }
        let why = format!("Ironic answers {status}{}", reason(&body));
        Err(match status {
            StatusCode::CONFLICT => Failed::Locked(why),
            StatusCode::NOT_FOUND => Failed::NotFound(why),
            other if other.is_server_error() => Failed::Unreachable(why),
            _ => Failed::Refused(why),
        })
    }
}

fn read_lookup(body: &Value) -> Option<Found> {
    let (document, config) = (&body["node"], &body["config"]);
    let node = Node {
        uuid: document["uuid"].as_str()?.to_owned(),
        heartbeat_timeout: Duration::try_from_secs_f64(config["heartbeat_timeout"].as_f64()?)
            .ok()?,
        token: config["agent_token"]
            .as_str()
            .map(|token| Secret::new(token.to_owned())),
        token_required: config["agent_token_required"].as_bool().unwrap_or(false),
    };
    Some(Found {
        node,
        document: document.clone(),
        config: config.clone(),
    })
}

/// Ironic packs its words into JSON within JSON.
fn reason(body: &[u8]) -> String {
    let outer: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
    let inner = match &outer["error_message"] {
        Value::String(text) => {
            serde_json::from_str(text).unwrap_or_else(|_| json!({ "faultstring": text }))
        }
        other => other.clone(),
    };
    match inner["faultstring"].as_str() {
        Some(text) => format!(": {}", text.chars().take(300).collect::<String>()),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ironics_words_are_taken_out_of_their_wrapping() {
        let packed = r#"{"error_message": "{\"faultcode\": \"Client\", \"faultstring\": \"Node x is locked\"}"}"#;
        assert_eq!(reason(packed.as_bytes()), ": Node x is locked");
        let object = r#"{"error_message": {"faultstring": "no"}}"#;
        assert_eq!(reason(object.as_bytes()), ": no");
        assert_eq!(reason(b"<html>"), "");
    }

    #[test]
    fn a_lookup_without_its_two_needed_fields_is_refused() {
        let body = json!({"node": {"uuid": "n"}, "config": {"heartbeat_timeout": 300}});
        let found = read_lookup(&body).unwrap();
        assert_eq!(found.node.heartbeat_timeout, Duration::from_mins(5));
        assert!(read_lookup(&json!({"node": {}, "config": {"heartbeat_timeout": 300}})).is_none());
        assert!(
            read_lookup(&json!({"node": {"uuid": "n"}, "config": {"heartbeat_timeout": -1}}))
                .is_none()
        );
    }
}
