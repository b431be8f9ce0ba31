//! Subscriptions to what a BMC has to say.

use reqwest::Method;
use serde_json::{Value, json};

use super::Error;
use super::json::{Resource, list};
use super::talk::{Ask, Client};

/// Who is told, and of what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    pub id: String,
    pub destination: String,
    pub protocol: String,
    pub context: String,
    pub event_types: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSubscription {
    pub destination: String,
    pub protocol: String,
    pub context: String,
    pub event_types: Vec<String>,
    /// Sent with every event.
    pub headers: Vec<(String, String)>,
}

impl Subscription {
    fn read(resource: &Resource) -> Self {
        let text = |pointer: &str| resource.text_at(pointer).unwrap_or_default().to_string();
        Self {
            id: text("/Id"),
            destination: text("/Destination"),
            protocol: text("/Protocol"),
            context: text("/Context"),
            event_types: list(&resource.body, "/EventTypes")
                .iter()
                .filter_map(Value::as_str)
                .map(ToString::to_string)
                .collect(),
        }
    }
}

impl Client {
    pub async fn subscriptions(&self) -> Result<Vec<Subscription>, Error> {
        let operation = "read the subscriptions";
        let path = self.subscriptions_path(operation).await?;
        let members = self.members(operation, &path).await?;
        Ok(members.iter().map(Subscription::read).collect())
    }

    /// `None` where there is none of this id.
    pub async fn subscription(&self, id: &str) -> Result<Option<Subscription>, Error> {
        let operation = "read a subscription";
        let Some(path) = self.subscription_path(operation, id).await? else {
            return Ok(None);
        };
        let found = self.find(operation, &path).await?;
        Ok(found.as_ref().map(Subscription::read))
    }

    pub async fn subscribe(&self, new: &NewSubscription) -> Result<Subscription, Error> {
        let operation = "subscribe to events";
        let path = self.subscriptions_path(operation).await?;
        let mut body = json!({
            "Destination": new.destination, "Protocol": new.protocol,
            "Context": new.context, "EventTypes": new.event_types,
        });
        if !new.headers.is_empty() {
            let header = |(name, value): &(String, String)| json!({name.as_str(): value});
            body["HttpHeaders"] = new.headers.iter().map(header).collect();
        }
        let reply = self.post(operation, &path, Some(&body)).await?;
        let inside = reply.body.pointer("/@odata.id").and_then(Value::as_str);
        let Some(location) = reply.header("location").or(inside) else {
            return Err(Error::Missing {
                operation,
                url: reply.url,
                property: "Location".to_string(),
            });
        };
        Ok(Subscription::read(&self.get(operation, location).await?))
    }

    /// Returns false where there was none of this id.
    pub async fn unsubscribe(&self, id: &str) -> Result<bool, Error> {
        let operation = "end a subscription";
        let Some(path) = self.subscription_path(operation, id).await? else {
            return Ok(false);
        };
        let ask = Ask {
            operation,
            method: Method::DELETE,
            path: &path,
            body: None,
            if_match: None,
        };
        match self.ask(&ask).await {
            Ok(_) => Ok(true),
            Err(error) if error.status() == Some(404) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Only what the BMC lists is asked for: an id never becomes part of a path.
    async fn subscription_path(
        &self,
        operation: &'static str,
        id: &str,
    ) -> Result<Option<String>, Error> {
        let path = self.subscriptions_path(operation).await?;
        let members = self.member_paths(operation, &path).await?;
        Ok(members
            .into_iter()
            .find(|path| path.trim_end_matches('/').rsplit('/').next() == Some(id)))
    }

    async fn subscriptions_path(&self, operation: &'static str) -> Result<String, Error> {
        let root = self.get(operation, "/redfish/v1/").await?;
        let Some(path) = root.link("/EventService") else {
            return Err(Error::Unsupported {
                operation,
                url: root.url,
                why: "it has no event service".to_string(),
            });
        };
        let service = self.get(operation, path).await?;
        Ok(service.must_link(operation, "/Subscriptions")?.to_string())
    }
}
