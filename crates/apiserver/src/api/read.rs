//! Get and list.

use objects::Status;
use serde_json::{Value, json};

use super::answer::{self, Answer, Content};
use super::negotiate::Shape;
use super::options::{List, Version};
use super::page::Token;
use super::{Call, errors, object, request};
use crate::store::{At, Error, Kv, Page};

pub async fn get(call: &Call<'_>) -> Result<Answer, Status> {
    let kept = find_kept(call).await?;
    if call.shape == Shape::Object
        && let Some(text) = call.lens.text(&kept, kept.revision)
    {
        return Ok(Answer::new(200, Content::Text(text)));
    }
    let object = call.lens.read(&kept)?;
    Ok(Answer::json(answer::object(
        call.kind,
        object,
        call.shape,
        call.query(),
        call.now,
    )))
}

/// The object of the path, or 404.
pub async fn find(call: &Call<'_>) -> Result<Value, Status> {
    call.lens.read(&find_kept(call).await?)
}

async fn find_kept(call: &Call<'_>) -> Result<Kv, Status> {
    let key = call.key();
    // `resourceVersion=0` takes what this server has at hand.
    let at_hand = request::value(call.query(), "resourceVersion").as_deref() == Some("0");
    let kept = match at_hand.then(|| call.core.store.peek(&key)).flatten() {
        Some(kv) => Some(kv),
        None => {
            call.core
                .store
                .get(&key)
                .await
                .map_err(|error| call.store_failed(&error))?
                .0
        }
    };
    kept.ok_or_else(|| call.not_found())
}

pub async fn list(call: &Call<'_>) -> Result<Answer, Status> {
    let options = List::parse(call.query(), call.kind)?;
    if call.shape == Shape::Object && options.selects_all() {
        let found = select(call, &options, passed_on).await?;
        return Ok(Answer::new(200, Content::Text(join(call, &found))));
    }
    let found = select(call, &options, |call, kv| chosen(call, &options, kv)).await?;
    let metadata = found.metadata();
    let list = answer::list(
        call.kind,
        found.items,
        metadata,
        call.shape,
        call.query(),
        call.now,
    );
    Ok(Answer::new(200, Content::Json(list)))
}

/// The list as text, of items that are text.
fn join(call: &Call<'_>, found: &Found<Vec<u8>>) -> Vec<u8> {
    let size: usize = found.items.iter().map(|item| item.len() + 1).sum();
    let mut text = Vec::with_capacity(size + 256);
    let head = format!(
        r#"{{"apiVersion":{:?},"kind":{:?},"metadata":{},"items":["#,
        call.kind.api_version(),
        call.kind.list_kind,
        found.metadata()
    );
    text.extend_from_slice(head.as_bytes());
    for (number, item) in found.items.iter().enumerate() {
        if number > 0 {
            text.push(b',');
        }
        text.extend_from_slice(item);
    }
    text.extend_from_slice(b"]}");
    text
}

/// A page of what the options select.
pub struct Found<Item> {
    pub items: Vec<Item>,
    pub revision: u64,
    pub token: Option<Token>,
    /// Known only where nothing was filtered out.
    pub remaining: Option<usize>,
}

impl<Item> Found<Item> {
    fn metadata(&self) -> Value {
        let mut metadata = json!({ "resourceVersion": self.revision.to_string() });
        if let Some(token) = &self.token {
            metadata["continue"] = json!(token.render());
        }
        if let Some(remaining) = self.remaining {
            metadata["remainingItemCount"] = json!(remaining);
        }
        metadata
    }
}

/// A page of the kind's objects; `take` says which and in what form.
pub async fn select<Item>(
    call: &Call<'_>,
    options: &List,
    take: impl Fn(&Call<'_>, &Kv) -> Result<Option<Item>, Status>,
) -> Result<Found<Item>, Status> {
    let prefix = object::prefix(call.kind, call.namespace());
    // What a selector leaves out is read in larger steps than what it keeps is shown.
    let step = if options.selects_all() { 0 } else { 500 };
    let mut page = Page {
        after: None,
        limit: options.limit.map_or(0, |limit| limit.max(step)),
        at: at(options),
    };
    page.after = options
        .token
        .as_ref()
        .map(|token| format!("{prefix}{}", token.after));
    let mut items = Vec::new();
    loop {
        let listing = call
            .core
            .store
            .list(&prefix, &page)
            .await
            .map_err(|error| too_old(call, options, &error))?;
        let mut examined = listing.items.iter();
        for kv in examined.by_ref() {
            if let Some(item) = take(call, kv)? {
                items.push(item);
            }
            if options.limit.is_some_and(|limit| items.len() >= limit) {
                page.after = Some(kv.key.to_string());
                break;
            }
            page.after = Some(kv.key.to_string());
        }
        let left = examined.len() + listing.remaining;
        let full = options.limit.is_some_and(|limit| items.len() >= limit);
        if full || left == 0 {
            let after = page
                .after
                .as_deref()
                .unwrap_or("")
                .strip_prefix(&prefix)
                .unwrap_or("");
            let token = (left > 0).then(|| Token::new(listing.revision, after));
            let remaining = (left > 0 && options.selects_all()).then_some(left);
            return Ok(Found {
                items,
                revision: listing.revision,
                token,
                remaining,
            });
        }
        // A filter took some out: the rest of the page comes from the same revision.
        page.at = At::Exactly(listing.revision);
    }
}

fn passed_on(call: &Call<'_>, kv: &Kv) -> Result<Option<Vec<u8>>, Status> {
    match call.lens.text(kv, kv.revision) {
        Some(text) => Ok(Some(text)),
        None => Ok(Some(call.lens.read(kv)?.to_string().into_bytes())),
    }
}

pub fn chosen(call: &Call<'_>, options: &List, kv: &Kv) -> Result<Option<Value>, Status> {
    let object = call.lens.read(kv)?;
    Ok((options.labels.matches(&object) && options.fields.matches(&object)).then_some(object))
}

fn at(options: &List) -> At {
    if let Some(token) = &options.token {
        return At::Exactly(token.revision);
    }
    match options.version {
        Version::Latest => At::Newest,
        Version::Any => At::NotBefore(0),
        Version::NotOlderThan(revision) => At::NotBefore(revision),
        Version::Exact(revision) => At::Exactly(revision),
    }
}

/// A page of a list whose revision is gone has its own words: clients look for a new list then.
fn too_old(call: &Call<'_>, options: &List, error: &Error) -> Status {
    if options.token.is_some() && matches!(error, Error::Compacted { .. }) {
        return Status::expired(
            "The provided continue parameter is too old to display a consistent list result. \
             You must start a new list without the continue parameter.",
        );
    }
    errors::of_store(error, &call.kind.resource(), "")
}
