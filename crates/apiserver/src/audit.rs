//! The audit log: one line of JSON for every request that changes something or is refused, never what was in it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use objects::access::User;
use serde_json::{Value, json};
use tokio::fs::OpenOptions;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;
use tracing::error;
use uuid::Uuid;

use crate::api::request::{RequestInfo, Verb};

/// Lines that may wait for the disk.
const QUEUE: usize = 1024;
/// How long a request waits for its line to be taken.
const PATIENCE: Duration = Duration::from_secs(5);

/// Clones write to the same file. Without one, to none.
#[derive(Clone, Default)]
pub struct Audit(Option<mpsc::Sender<Value>>);

#[derive(Debug, thiserror::Error)]
#[error("could not open {path}")]
pub struct Error {
    path: PathBuf,
    source: std::io::Error,
}

/// What is known of a request when it was answered.
pub struct Entry<'a> {
    pub user: Option<&'a User>,
    pub info: &'a RequestInfo,
    pub uri: &'a str,
    pub user_agent: &'a str,
    pub peer: std::net::IpAddr,
    pub code: u16,
    pub received: Timestamp,
}

impl Audit {
    /// Appends to the file, by a task that ends with the last clone.
    pub async fn open(path: &Path) -> Result<Self, Error> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(path)
            .await;
        let mut file = file.map_err(|source| Error {
            path: path.to_owned(),
            source,
        })?;
        let (lines, mut queue) = mpsc::channel::<Value>(QUEUE);
        let path = path.to_owned();
        tokio::spawn(async move {
            while let Some(line) = queue.recv().await {
                let mut text = line.to_string();
                while let Ok(next) = queue.try_recv() {
                    text.push('\n');
                    text.push_str(&next.to_string());
                }
                text.push('\n');
                let written = file.write_all(text.as_bytes()).await;
                if let Err(problem) = match written {
                    Ok(()) => file.flush().await,
                    Err(problem) => Err(problem),
                } {
                    error!(path = %path.display(), error = %problem, "the audit log cannot be written");
                }
            }
        });
        Ok(Self(Some(lines)))
    }

    pub async fn note(&self, entry: &Entry<'_>) {
        let Some(lines) = self.0.as_ref().filter(|_| entry.matters()) else {
            return;
        };
        let sent = lines.send_timeout(entry.line(), PATIENCE).await;
        if sent.is_err() {
            error!(uri = entry.uri, "a line of the audit log was lost");
        }
    }
}

impl Entry<'_> {
    fn matters(&self) -> bool {
        match self.info.verb {
            Verb::Create
            | Verb::Update
            | Verb::Patch
            | Verb::Delete
            | Verb::DeleteCollection
            | Verb::Post
            | Verb::Put => true,
            Verb::Get | Verb::List | Verb::Watch | Verb::Head | Verb::Options => {
                matches!(self.code, 401 | 403)
            }
        }
    }

    fn line(&self) -> Value {
        let mut line = json!({
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "Metadata",
            "auditID": Uuid::new_v4(),
            "stage": "ResponseComplete",
            "requestURI": self.uri,
            "verb": self.info.verb.as_str(),
            "sourceIPs": [self.peer],
            "userAgent": self.user_agent,
            "responseStatus": {"code": self.code},
            "requestReceivedTimestamp": self.received,
            "stageTimestamp": Timestamp::now(),
        });
        if let Some(user) = self.user {
            line["user"] = json!({"username": user.name, "uid": user.uid, "groups": user.groups});
        }
        if let Some(at) = &self.info.resource {
            line["objectRef"] = json!({
                "apiGroup": at.group,
                "apiVersion": at.version,
                "resource": at.plural,
                "subresource": at.subresource,
                "namespace": at.namespace,
                "name": at.name,
            });
        }
        line
    }
}
