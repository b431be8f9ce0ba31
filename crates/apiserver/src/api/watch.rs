//! Watch: what happens to the selected objects from a revision on, one JSON document per line.
//!
//! An object that leaves the selection is reported as deleted and one that enters it as added, so that a client's
//! picture of the selection stays right.

use std::collections::VecDeque;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use jiff::Timestamp;
use objects::Status;
use objects::table::{self, IncludeObject};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::answer::{self, Answer, Content};
use super::negotiate::Shape;
use super::object::Lens;
use super::options::{List, Version};
use super::{Call, errors, object};
use crate::store::{At, Error, Event, Kv, Page, Store, Watch};

/// How long a watch lives whose client names no time; spread, so that clients do not come back all at once.
const LIFE: std::ops::Range<u64> = 1800..3600;

pub async fn watch(call: &Call<'_>) -> Result<Answer, Status> {
    let options = List::parse(call.query(), call.kind)?;
    let life = options
        .timeout_seconds
        .filter(|seconds| *seconds > 0)
        .unwrap_or_else(|| rand::random_range(LIFE));
    let mut stream = Stream {
        store: call.core.store.clone(),
        prefix: object::prefix(call.kind, call.namespace()),
        view: View {
            lens: call.lens.clone(),
            shape: call.shape,
            include: answer::include(call.query()),
            headers_sent: false,
            options,
        },
        existing: VecDeque::new(),
        existing_at: None,
        lines: VecDeque::new(),
        state: State::Ended,
        ends_at: Instant::now() + Duration::from_secs(life),
        stop: call.core.stop.clone(),
    };
    stream.start().await;
    let lines = futures::stream::unfold(stream, |mut stream| async move {
        let line = stream.next().await?;
        Some((Ok::<_, std::convert::Infallible>(line), stream))
    });
    Ok(Answer::new(200, Content::Stream(Body::from_stream(lines))))
}

struct Stream {
    store: Store,
    prefix: String,
    view: View,
    /// What exists and is still to be told, and the revision at which it did.
    existing: VecDeque<Kv>,
    existing_at: Option<u64>,
    /// Ready to be sent.
    lines: VecDeque<Bytes>,
    state: State,
    ends_at: Instant,
    stop: tokio::sync::watch::Receiver<bool>,
}

enum State {
    Following(Watch),
    Ended,
}

impl Stream {
    /// Prepares what exists, where that is asked for, and begins to follow.
    async fn start(&mut self) {
        if let Err(status) = self.try_start().await {
            self.lines.push_back(line("ERROR", &status.to_value()));
        }
    }

    async fn try_start(&mut self) -> Result<(), Status> {
        let resource = self.view.lens.kind.resource();
        let failed = |error: &Error| errors::of_store(error, &resource, "");
        let options = &self.view.options;
        let with_state = options
            .initial_events
            .unwrap_or(matches!(options.version, Version::Latest | Version::Any));
        let (at, named) = match options.version {
            Version::Latest => (At::Newest, None),
            Version::Any => (At::NotBefore(0), None),
            Version::NotOlderThan(revision) | Version::Exact(revision) => {
                (At::NotBefore(revision), Some(revision))
            }
        };
        let revision = if let Some(revision) = named.filter(|_| !with_state) {
            revision
        } else {
            let limit = usize::from(!with_state);
            let page = Page {
                after: None,
                limit,
                at,
            };
            let listing = self.store.list(&self.prefix, &page).await;
            let listing = listing.map_err(|error| failed(&error))?;
            if with_state {
                self.existing = listing.items.into();
                self.existing_at = Some(listing.revision);
            }
            listing.revision
        };
        self.state = State::Following(
            self.store
                .watch(&self.prefix, revision)
                .map_err(|error| failed(&error))?,
        );
        Ok(())
    }

    /// The next line of what exists; after the last, where it was asked for, the bookmark that says so.
    fn next_existing(&mut self) -> Option<Bytes> {
        while let Some(kv) = self.existing.pop_front() {
            if let Some(line) = self.view.event(Event::Put { kv, previous: None }) {
                return Some(line);
            }
        }
        let revision = self.existing_at.take()?;
        let wanted = self.view.options.initial_events == Some(true) && self.view.options.bookmarks;
        wanted.then(|| self.view.bookmark(revision, true))
    }

    /// The next line, or the end of the stream.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.next_existing().or_else(|| self.lines.pop_front()) {
                return Some(line);
            }
            let State::Following(watch) = &mut self.state else {
                return None;
            };
            tokio::select! {
                biased;
                () = stopped(&mut self.stop) => self.state = State::Ended,
                () = tokio::time::sleep_until(self.ends_at) => self.last_word(),
                event = watch.next() => match event {
                    Ok(event) => self.lines.extend(self.view.event(event)),
                    Err(Error::Closed) => self.state = State::Ended,
                    Err(error) => {
                        // Too slow, or the store is gone: the client lists anew. Nothing is ever skipped.
                        let status = errors::of_store(&error, &self.view.lens.kind.resource(), "");
                        self.lines.push_back(line("ERROR", &status.to_value()));
                        self.state = State::Ended;
                    }
                },
            }
        }
    }

    fn last_word(&mut self) {
        let State::Following(mut watch) = std::mem::replace(&mut self.state, State::Ended) else {
            return;
        };
        if let (true, Some(revision)) = (self.view.options.bookmarks, watch.progress()) {
            self.lines.push_back(self.view.bookmark(revision, false));
        }
    }
}

/// Returns when the server stops.
async fn stopped(stop: &mut tokio::sync::watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        // Nobody is left who could say stop.
        std::future::pending::<()>().await;
    }
}

/// What this client sees of an event.
struct View {
    lens: Lens,
    options: List,
    shape: Shape,
    include: IncludeObject,
    headers_sent: bool,
}

impl View {
    fn selects(&self, object: &Value) -> bool {
        self.options.labels.matches(object) && self.options.fields.matches(object)
    }

    /// Whether objects go to the client as they are kept.
    fn passes_on(&self) -> bool {
        self.shape == Shape::Object && self.options.selects_all()
    }

    fn text(&self, what: &str, kv: &Kv, revision: u64) -> Option<Bytes> {
        let object = self.lens.text(kv, revision)?;
        Some(
            [
                format!(r#"{{"type":"{what}","object":"#).as_bytes(),
                &object,
                b"}\n",
            ]
            .concat()
            .into(),
        )
    }

    fn event(&mut self, event: Event) -> Option<Bytes> {
        if self.passes_on() {
            let line = match &event {
                Event::Put { kv, previous: None } => self.text("ADDED", kv, kv.revision),
                Event::Put {
                    kv,
                    previous: Some(_),
                } => self.text("MODIFIED", kv, kv.revision),
                Event::Delete { previous, revision } => self.text("DELETED", previous, *revision),
                Event::Progress { .. } => None,
            };
            if line.is_some() {
                return line;
            }
        }
        match event {
            Event::Put { kv, previous } => {
                let object = self.read(&kv)?;
                let before = previous.as_ref().and_then(|kv| self.read(kv));
                let was = before.as_ref().is_some_and(|before| self.selects(before));
                match (was, self.selects(&object)) {
                    (false, true) => Some(self.line("ADDED", object)),
                    (true, true) => Some(self.line("MODIFIED", object)),
                    (true, false) => {
                        let mut gone = before.unwrap_or(object);
                        object::set_version(&mut gone, kv.revision);
                        Some(self.line("DELETED", gone))
                    }
                    (false, false) => None,
                }
            }
            Event::Delete { previous, revision } => {
                let mut object = self.read(&previous)?;
                object::set_version(&mut object, revision);
                self.selects(&object).then(|| self.line("DELETED", object))
            }
            Event::Progress { revision } => self
                .options
                .bookmarks
                .then(|| self.bookmark(revision, false)),
        }
    }

    fn read(&self, kv: &Kv) -> Option<Value> {
        self.lens
            .read(kv)
            .inspect_err(|error| tracing::error!(key = %kv.key, %error, "kept object"))
            .ok()
    }

    fn line(&mut self, what: &str, object: Value) -> Bytes {
        let shown = match self.shape {
            Shape::Table => {
                let metadata =
                    json!({ "resourceVersion": object::meta(&object, "resourceVersion") });
                self.table(&[object], metadata)
            }
            Shape::Metadata => table::partial(&object),
            Shape::Object | Shape::Discovery(_) | Shape::OpenApiProtobuf => object,
        };
        line(what, &shown)
    }

    fn bookmark(&mut self, revision: u64, after_state: bool) -> Bytes {
        let mut metadata =
            json!({ "resourceVersion": revision.to_string(), "creationTimestamp": null });
        if after_state {
            metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        let shown = match self.shape {
            Shape::Table => self.table(&[], metadata),
            Shape::Metadata => {
                json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata })
            }
            Shape::Object | Shape::Discovery(_) | Shape::OpenApiProtobuf => {
                json!({ "kind": self.lens.kind.kind, "apiVersion": self.lens.kind.api_version(), "metadata": metadata })
            }
        };
        line("BOOKMARK", &shown)
    }

    /// Only the first table of a watch says what its columns are.
    fn table(&mut self, items: &[Value], metadata: Value) -> Value {
        let headers = !std::mem::replace(&mut self.headers_sent, true);
        table::table(
            &self.lens.kind,
            items,
            metadata,
            self.include,
            headers,
            Timestamp::now(),
        )
    }
}

fn line(what: &str, object: &Value) -> Bytes {
    let mut text = serde_json::to_vec(&json!({ "type": what, "object": object }))
        .expect("a JSON value serialises");
    text.push(b'\n');
    text.into()
}
