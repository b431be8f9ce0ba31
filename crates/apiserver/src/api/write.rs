//! Create and update, and the one way every change takes.
//!
//! Every change reads the object, computes what it becomes and writes it under the condition that nobody was faster;
//! who comes second computes again from what is there then, a few times.

use std::time::Duration;

use axum::http::header;
use jiff::Timestamp;
use objects::apply::{self, Writer};
use objects::json::Parsed;
use objects::write::{self, Birth, Prepared};
use objects::{Cause, Status};
use serde_json::{Value, json};

use super::answer::{self, Answer, Content};
use super::options::{FieldValidation, Write};
use super::{Call, admission, body, kinds, object};
use crate::store::{Error, Kv};

/// How often a change is computed anew, and how often another name is generated.
pub const TRIES: u32 = 64;

/// How a write is done, and in whose name.
pub struct How<'a> {
    pub options: Write,
    pub manager: String,
    api_version: String,
    pub subresource: &'a str,
    now: Timestamp,
}

impl<'a> How<'a> {
    pub fn parse(call: &Call<'_>, subresource: &'a str) -> Result<Self, Status> {
        let options = Write::parse(call.query())?;
        let agent = call
            .parts
            .headers
            .get(header::USER_AGENT)
            .and_then(|value| value.to_str().ok())
            .unwrap_or("");
        let manager = options
            .manager
            .clone()
            .unwrap_or_else(|| apply::default_manager(agent));
        Ok(Self {
            options,
            manager,
            api_version: call.kind.api_version(),
            subresource,
            now: call.now,
        })
    }

    pub fn writer(&self) -> Writer<'_> {
        Writer {
            manager: &self.manager,
            api_version: &self.api_version,
            subresource: self.subresource,
            now: self.now,
        }
    }
}

pub async fn create(call: &Call<'_>) -> Result<Answer, Status> {
    let how = How::parse(call, "")?;
    let Parsed { value, duplicates } = body::object(&call.parts.headers, call.body)?;
    let Prepared { object, unknown } = write::prepare(call.kind, value, call.namespace(), "")?;
    let warnings = judge(call, how.options.validation, &unknown, &duplicates)?;
    let created = insert(
        call,
        &how,
        Next {
            object,
            warnings,
            tracked: false,
        },
        "",
    )
    .await?;
    Ok(show(call, created))
}

/// PUT of the object, or of one of its subresources.
pub async fn update(call: &Call<'_>, subresource: &str) -> Result<Answer, Status> {
    let how = How::parse(call, subresource)?;
    let Parsed { value, duplicates } = body::object(&call.parts.headers, call.body)?;
    let Prepared { object, unknown } =
        write::prepare(call.kind, value, call.namespace(), call.name())?;
    let warnings = judge(call, how.options.validation, &unknown, &duplicates)?;
    if call.kind.custom && object::meta(&object, "resourceVersion").is_empty() {
        let cause = Cause::invalid(
            "metadata.resourceVersion",
            &json!(0),
            "must be specified for an update",
        );
        return Err(Status::invalid(
            &call.kind.group,
            &call.kind.kind,
            call.name(),
            vec![cause],
        ));
    }
    let compute = |_: &Value| {
        Ok(Next {
            object: object.clone(),
            warnings: warnings.clone(),
            tracked: false,
        })
    };
    Ok(show(call, change(call, &how, compute).await?))
}

/// What was written, or would have been.
pub struct Changed {
    pub code: u16,
    pub object: Value,
    pub warnings: Vec<String>,
}

/// What an object is to become.
pub struct Next {
    pub object: Value,
    pub warnings: Vec<String>,
    /// Whether its managedFields are already right (apply).
    pub tracked: bool,
}

/// Keeps a new object.
pub async fn insert(
    call: &Call<'_>,
    how: &How<'_>,
    next: Next,
    name: &str,
) -> Result<Changed, Status> {
    let generated = name.is_empty() && object::meta(&next.object, "name").is_empty();
    let mut tries = 0;
    loop {
        tries += 1;
        let uid = uuid::Uuid::new_v4().to_string();
        let suffix = suffix();
        let birth = Birth {
            namespace: call.namespace(),
            name,
            uid: &uid,
            suffix: &suffix,
            now: call.now,
        };
        let mut filled = next.object.clone();
        admission::fill(call.kind, call.user, &mut filled);
        let mut object = write::create(call.kind, filled, birth)?;
        object::tidy(&mut object);
        if !next.tracked {
            apply::track(None, &mut object, how.writer(), &call.kind.schema);
        }
        let _stake = admission::check(call, "", &object, None).await?;
        let name = object::meta(&object, "name").to_owned();
        let key = object::key(call.kind, call.namespace(), &name);
        if how.options.dry_run {
            if call.core.store.peek(&key).is_some() {
                return Err(Status::already_exists(&call.kind.resource(), &name));
            }
            return Ok(Changed {
                code: 201,
                object,
                warnings: next.warnings,
            });
        }
        match call
            .core
            .store
            .create(&key, object::keep(call.kind, &object))
            .await
        {
            Ok(revision) => {
                object::set_version(&mut object, revision);
                settle(call, revision).await;
                return Ok(Changed {
                    code: 201,
                    object,
                    warnings: next.warnings,
                });
            }
            Err(Error::Exists { .. }) if generated && tries < TRIES => {}
            Err(error) => {
                return Err(super::errors::of_store(
                    &error,
                    &call.kind.resource(),
                    &name,
                ));
            }
        }
    }
}

/// Reads, computes and writes until nobody came in between.
pub async fn change(
    call: &Call<'_>,
    how: &How<'_>,
    compute: impl Fn(&Value) -> Result<Next, Status>,
) -> Result<Changed, Status> {
    let key = call.key();
    // Most often nobody came in between, and the store compares. Whatever else comes of it may be of yesterday.
    if let Some(kept) = call.core.store.likely(&key)
        && let Tried::Written(changed) = attempt(call, how, &kept, &compute).await?
    {
        return Ok(changed);
    }
    for tries in 0..TRIES {
        let (kept, _) = call
            .core
            .store
            .get(&key)
            .await
            .map_err(|error| call.store_failed(&error))?;
        let kept = kept.ok_or_else(|| call.not_found())?;
        match attempt(call, how, &kept, &compute).await? {
            Tried::Written(changed) | Tried::AsItWas(changed) => return Ok(changed),
            Tried::Refused(status) => return Err(status),
            Tried::Overtaken => give_way(tries).await,
        }
    }
    Err(Status::modified(&call.kind.resource(), call.name()))
}

/// What came of a change to an object as it was read.
enum Tried {
    Written(Changed),
    /// Nothing was to be written.
    AsItWas(Changed),
    Refused(Status),
    /// Another has written it since.
    Overtaken,
}

/// Computes from what was read and writes, unless another has since. An error is the store's: whether it has written is
/// not known.
async fn attempt(
    call: &Call<'_>,
    how: &How<'_>,
    kept: &Kv,
    compute: impl Fn(&Value) -> Result<Next, Status>,
) -> Result<Tried, Status> {
    let (old, mut new, warnings) = match replacement(call, how, kept, compute) {
        Ok(found) => found,
        Err(status) => return Ok(Tried::Refused(status)),
    };
    let changed = |object| Changed {
        code: 200,
        object,
        warnings,
    };
    // Also where only who manages what was left out of the body: then it is as it was again.
    if new == old {
        return Ok(Tried::AsItWas(changed(old)));
    }
    let _stake = match admission::check(call, how.subresource, &new, Some(&old)).await {
        Ok(stake) => stake,
        Err(status) => return Ok(Tried::Refused(status)),
    };
    if how.options.dry_run {
        return Ok(Tried::AsItWas(changed(new)));
    }
    let (store, key) = (&call.core.store, &kept.key);
    let written = if write::is_done(&new) {
        store.delete(key, kept.revision).await
    } else {
        let value = object::keep(call.kind, &new);
        store.update(key, value, kept.revision).await
    };
    match written {
        Ok(revision) => {
            object::set_version(&mut new, revision);
            settle(call, revision).await;
            Ok(Tried::Written(changed(new)))
        }
        Err(Error::Conflict { .. }) => Ok(Tried::Overtaken),
        Err(error) => Err(call.store_failed(&error)),
    }
}

/// What was read, what is to take its place, and what there is to warn of.
fn replacement(
    call: &Call<'_>,
    how: &How<'_>,
    kept: &Kv,
    compute: impl Fn(&Value) -> Result<Next, Status>,
) -> Result<(Value, Value, Vec<String>), Status> {
    let old = call.lens.read(kept)?;
    let next = compute(&old)?;
    preconditions(call, &next.object, &old)?;
    let mut new = write::update(call.kind, &old, next.object, how.subresource, call.now)?;
    object::tidy(&mut new);
    object::set_version(&mut new, kept.revision);
    if new != old && !next.tracked {
        apply::track(Some(&old), &mut new, how.writer(), &call.kind.schema);
    }
    Ok((old, new, next.warnings))
}

/// Whoever lost several times lets others go first for a moment, each for another.
pub async fn give_way(tries: u32) {
    if tries > 2 {
        let most = 1_u64 << tries.min(6);
        tokio::time::sleep(Duration::from_millis(rand::random_range(0..most))).await;
    }
}

/// A body that names a version or an identity means exactly that one.
fn preconditions(call: &Call<'_>, new: &Value, old: &Value) -> Result<(), Status> {
    let uid = object::meta(new, "uid");
    if !uid.is_empty() && uid != object::meta(old, "uid") {
        let why = format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            object::meta(old, "uid")
        );
        return Err(Status::conflict(&call.kind.resource(), call.name(), &why));
    }
    let version = object::meta(new, "resourceVersion");
    if !matches!(version, "" | "0") && version != object::meta(old, "resourceVersion") {
        return Err(Status::modified(&call.kind.resource(), call.name()));
    }
    Ok(())
}

/// A definition is answered once its routes are there.
pub async fn settle(call: &Call<'_>, revision: u64) {
    if call.kind.group == kinds::CRD_GROUP && call.kind.plural == kinds::CRD_PLURAL {
        call.core.kinds.reach(revision).await;
    }
}

pub fn show(call: &Call<'_>, changed: Changed) -> Answer {
    let shown = answer::object(
        call.kind,
        changed.object,
        call.shape,
        call.query(),
        call.now,
    );
    Answer::new(changed.code, Content::Json(shown)).with_warnings(changed.warnings)
}

/// Unknown and doubled fields: refused, told, or passed over, as the client asked.
pub fn judge(
    call: &Call<'_>,
    validation: FieldValidation,
    unknown: &[String],
    duplicates: &[String],
) -> Result<Vec<String>, Status> {
    let twice = duplicates
        .iter()
        .map(|field| format!("duplicate field {field:?}"));
    let problems: Vec<String> = unknown
        .iter()
        .map(|field| format!("unknown field {field:?}"))
        .chain(twice)
        .collect();
    match validation {
        FieldValidation::Strict if !problems.is_empty() => Err(Status::bad_request(format!(
            "{kind} in version {:?} cannot be handled as a {kind}: strict decoding error: {}",
            call.kind.version,
            problems.join(", "),
            kind = call.kind.kind,
        ))),
        FieldValidation::Strict | FieldValidation::Warn => Ok(problems),
        FieldValidation::Ignore => Ok(Vec::new()),
    }
}

/// Five letters and digits that form no word by accident: no vowels, nothing that looks like another.
fn suffix() -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    (0..5)
        .map(|_| char::from(LETTERS[rand::random_range(0..LETTERS.len())]))
        .collect()
}
