//! Resources, changes, actions, collections and tasks.

use std::time::Duration;

use reqwest::Method;
use serde_json::Value;
use tokio::time::Instant;
use tracing::debug;

use super::Error;
use super::json::{Resource, list, messages, text};
use super::talk::{Ask, Client, Reply};

impl Client {
    pub(super) async fn get(&self, operation: &'static str, path: &str) -> Result<Resource, Error> {
        let (resource, _) = self.get_tagged(operation, path).await?;
        Ok(resource)
    }

    /// A resource that need not exist.
    pub(super) async fn find(
        &self,
        operation: &'static str,
        path: &str,
    ) -> Result<Option<Resource>, Error> {
        match self.get(operation, path).await {
            Ok(resource) => Ok(Some(resource)),
            Err(error) if matches!(error.status(), Some(404 | 405 | 501)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A resource and its ETag, from the header or from within.
    async fn get_tagged(
        &self,
        operation: &'static str,
        path: &str,
    ) -> Result<(Resource, Option<String>), Error> {
        let ask = Ask {
            operation,
            method: Method::GET,
            path,
            body: None,
            if_match: None,
        };
        let reply = self.ask(&ask).await?;
        if !reply.body.is_object() {
            return Err(Error::NotJson {
                operation,
                url: reply.url,
                source: None,
            });
        }
        let tag = reply
            .header("etag")
            .or_else(|| text(&reply.body, "/@odata.etag"))
            .map(ToString::to_string);
        // Some send an empty one, quotes and all.
        let tag = tag.filter(|tag| !tag.trim_start_matches("W/").trim_matches('"').is_empty());
        let path = path.to_string();
        Ok((
            Resource {
                path,
                url: reply.url,
                body: reply.body,
            },
            tag,
        ))
    }

    /// Changes a resource, with its ETag in whichever form the BMC takes it back: as given, strong, or not at all.
    pub(super) async fn patch(
        &self,
        operation: &'static str,
        path: &str,
        body: &Value,
    ) -> Result<(), Error> {
        let (_, tag) = self.get_tagged(operation, path).await?;
        let strong = tag.as_deref().and_then(|tag| tag.strip_prefix("W/"));
        let forms = [tag.as_deref().map(Some), strong.map(Some), Some(None)];
        let mut last = None;
        for if_match in forms.into_iter().flatten() {
            let ask = Ask {
                operation,
                method: Method::PATCH,
                path,
                body: Some(body),
                if_match,
            };
            match self.ask(&ask).await {
                Ok(reply) => return self.see_through(operation, reply).await.map(drop),
                Err(error) if matches!(error.status(), Some(412 | 428)) => {
                    debug!(bmc = %self.config.address, path, ?if_match, "the BMC does not take the ETag so");
                    // The first refusal names the matter; that one is missing is our own doing.
                    last.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        Err(last.expect("the form without an ETag is always tried"))
    }

    /// Calls an action; a task it starts is waited for.
    pub(super) async fn post(
        &self,
        operation: &'static str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Reply, Error> {
        let ask = Ask {
            operation,
            method: Method::POST,
            path,
            body,
            if_match: None,
        };
        let reply = self.ask(&ask).await?;
        self.see_through(operation, reply).await
    }

    /// The members of a collection, page by page, each as a resource.
    pub(super) async fn members(
        &self,
        operation: &'static str,
        path: &str,
    ) -> Result<Vec<Resource>, Error> {
        let mut members = Vec::new();
        for path in self.member_paths(operation, path).await? {
            members.push(self.get(operation, &path).await?);
        }
        Ok(members)
    }

    /// The members of a collection that need not exist although it is linked.
    pub(super) async fn members_if_any(
        &self,
        operation: &'static str,
        path: &str,
    ) -> Result<Vec<Resource>, Error> {
        match self.members(operation, path).await {
            Err(error) if matches!(error.status(), Some(404 | 405 | 501)) => Ok(Vec::new()),
            outcome => outcome,
        }
    }

    pub(super) async fn member_paths(
        &self,
        operation: &'static str,
        path: &str,
    ) -> Result<Vec<String>, Error> {
        let most = self.limits().members;
        let mut paths: Vec<String> = Vec::new();
        let mut page = Some(path.to_string());
        while let Some(path) = page.take() {
            let collection = self.get(operation, &path).await?;
            if collection.body.get("Members").is_none() {
                return Err(collection.missing(operation, "/Members"));
            }
            paths.extend(collection.links("/Members"));
            let next = collection.text_at("/Members@odata.nextLink");
            // A next page that adds nothing would go round for ever.
            let goes_on = next.is_some()
                && !list(&collection.body, "/Members").is_empty()
                && paths.len() < most;
            page = next.filter(|_| goes_on).map(ToString::to_string);
        }
        paths.truncate(most);
        Ok(paths)
    }

    /// Where the answer was "accepted", waits for the task to end.
    async fn see_through(&self, operation: &'static str, reply: Reply) -> Result<Reply, Error> {
        if reply.status != 202 {
            return Ok(reply);
        }
        let inside =
            || text(&reply.body, "/TaskMonitor").or_else(|| text(&reply.body, "/@odata.id"));
        let Some(path) = reply
            .header("location")
            .or_else(inside)
            .map(ToString::to_string)
        else {
            return Ok(reply);
        };
        let started = Instant::now();
        let limit = self.limits().task;
        let mut last = "the task has not been seen".to_string();
        let mut seen = false;
        while started.elapsed() < limit {
            let ask = Ask {
                operation,
                method: Method::GET,
                path: &path,
                body: None,
                if_match: None,
            };
            match self.ask(&ask).await {
                Ok(reply) => match progress(operation, &reply)? {
                    Progress::Ended => return Ok(reply),
                    Progress::Runs(state) => last = format!("the task is {state}"),
                },
                // Dell drops monitors of tasks that are over.
                Err(error) if seen && matches!(error.status(), Some(404 | 410)) => {
                    return Ok(reply);
                }
                Err(error) => return Err(error),
            }
            seen = true;
            tokio::time::sleep(self.limits().poll.min(Duration::from_secs(10))).await;
        }
        Err(Error::Slow {
            operation,
            url: self.url(&path).to_string(),
            waited: limit,
            last,
        })
    }
}

enum Progress {
    Runs(String),
    Ended,
}

fn progress(operation: &'static str, reply: &Reply) -> Result<Progress, Error> {
    let state = text(&reply.body, "/TaskState");
    match state {
        Some("Completed") => Ok(Progress::Ended),
        Some(state @ ("Exception" | "Killed" | "Cancelled" | "Interrupted")) => {
            let said: Vec<&str> = list(&reply.body, "/Messages")
                .iter()
                .filter_map(|message| text(message, "/Message"))
                .collect();
            let (error, _) = messages(&reply.body);
            let message = [said.join(" "), error]
                .into_iter()
                .find(|text| !text.is_empty());
            let message = message.unwrap_or_else(|| "it does not say why".to_string());
            let message = super::json::clip(&message, 600);
            Err(Error::Task {
                operation,
                url: reply.url.clone(),
                state: state.to_string(),
                message,
            })
        }
        Some(state) => Ok(Progress::Runs(state.to_string())),
        None if reply.status == 202 => Ok(Progress::Runs("running".to_string())),
        None => Ok(Progress::Ended),
    }
}
