//! One request to an agent and its answer.

use futures::StreamExt as _;
use reqwest::Method;
use serde_json::Value;
use tracing::debug;

use super::client::Client;
use super::error::Error;
use super::pin;

/// A request, but for the token.
pub struct Ask<'a> {
    /// For messages: the command, or what is read.
    pub operation: &'a str,
    pub method: Method,
    pub path: &'a str,
    pub wait: Option<bool>,
    pub body: Option<&'a Value>,
    /// How often it is sent where nobody answers. What may not be done twice is sent once.
    pub tries: u32,
}

impl Client {
    pub(super) async fn ask(&self, ask: &Ask<'_>) -> Result<Value, Error> {
        let mut tried = 0;
        loop {
            tried += 1;
            let error = match self.once(ask, tried).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            if tried >= ask.tries || !matches!(error, Error::Unreachable { .. }) {
                return Err(error);
            }
            debug!(
                agent = self.address,
                operation = ask.operation,
                tried,
                "no answer yet"
            );
            tokio::time::sleep(self.limits.pause).await;
        }
    }

    async fn once(&self, ask: &Ask<'_>, tries: u32) -> Result<Value, Error> {
        // The URL has the token in it: it never reaches an error.
        let failed = |source: reqwest::Error| {
            let (operation, address) = (ask.operation.to_string(), self.address.clone());
            if pin::is_stranger(&source) {
                return Error::Stranger { operation, address };
            }
            Error::Unreachable {
                operation,
                address,
                tries,
                source: source.without_url(),
            }
        };
        let mut url = self.url.clone();
        url.set_path(ask.path);
        url.query_pairs_mut()
            .append_pair("agent_token", self.token.expose());
        if let Some(wait) = ask.wait {
            let wait = if wait { "true" } else { "false" };
            url.query_pairs_mut().append_pair("wait", wait);
        }
        let mut request = self.http.request(ask.method.clone(), url);
        if ask.wait == Some(true) {
            request = request.timeout(self.limits.command);
        }
        if let Some(body) = ask.body {
            request = request.json(body);
        }
        let answer = request.send().await.map_err(failed)?;
        let status = answer.status().as_u16();
        let limit = self.limits.body_bytes;
        let mut bytes = Vec::new();
        let mut stream = answer.bytes_stream();
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(failed)?;
            if bytes.len() + chunk.len() > limit {
                return Err(Error::TooLarge {
                    operation: ask.operation.into(),
                    address: self.address.clone(),
                    limit,
                });
            }
            bytes.extend_from_slice(&chunk);
        }
        if status >= 300 {
            return Err(self.refused(ask.operation, status, &bytes));
        }
        serde_json::from_slice(&bytes).map_err(|source| Error::Nonsense {
            operation: ask.operation.into(),
            address: self.address.clone(),
            source,
        })
    }

    fn refused(&self, operation: &str, status: u16, body: &[u8]) -> Error {
        let said: Value = serde_json::from_slice(body).unwrap_or_default();
        let message = said.get("faultstring").and_then(Value::as_str);
        let message = message.map_or_else(
            || String::from_utf8_lossy(&body[..body.len().min(500)]).into_owned(),
            |text| text.chars().take(500).collect(),
        );
        let (operation, address) = (operation.to_string(), self.address.clone());
        if status == 409 || message.to_lowercase().contains("agent is busy") {
            return Error::Busy {
                operation,
                address,
                message,
            };
        }
        Error::Refused {
            operation,
            address,
            status,
            message,
        }
    }
}
