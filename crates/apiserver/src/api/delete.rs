//! Delete of one object and of a selection.

use objects::Status;
use objects::write::{self, Deletion, Propagation};
use serde_json::{Value, json};

use super::answer::{self, Answer, Content};
use super::options::{Delete, List};
use super::{Call, admission, body, errors, object, read, write as writes};
use crate::store::Error;

pub async fn delete(call: &Call<'_>) -> Result<Answer, Status> {
    let options = options(call)?;
    match remove(call, call.namespace(), call.name(), &options).await? {
        Removed::Gone(object) => {
            let uid = object::meta(&object, "uid");
            Ok(Answer::json(Status::deleted(
                &call.kind.resource(),
                call.name(),
                uid,
            )))
        }
        Removed::Waiting(object) => Ok(Answer::json(answer::object(
            call.kind,
            object,
            call.shape,
            call.query(),
            call.now,
        ))),
    }
}

/// Deletes what the selectors choose and gives it back as a list.
pub async fn collection(call: &Call<'_>) -> Result<Answer, Status> {
    let options = options(call)?;
    let selection = List::parse(call.query(), call.kind)?;
    let found = read::select(call, &selection, |call, kv| {
        read::chosen(call, &selection, kv)
    })
    .await?;
    let mut items = Vec::new();
    for object in found.items {
        let (namespace, name) = (
            object::meta(&object, "namespace"),
            object::meta(&object, "name"),
        );
        match remove(call, namespace, name, &options).await {
            Ok(Removed::Gone(object) | Removed::Waiting(object)) => items.push(object),
            Err(gone) if gone.code == 404 => {}
            Err(status) => return Err(status),
        }
    }
    let metadata = json!({ "resourceVersion": found.revision.to_string() });
    let list = answer::list(
        call.kind,
        items,
        metadata,
        call.shape,
        call.query(),
        call.now,
    );
    Ok(Answer::new(200, Content::Json(list)))
}

fn options(call: &Call<'_>) -> Result<Delete, Status> {
    let body = match call.body.trim_ascii() {
        b"" => None,
        _ => Some(body::object(&call.parts.headers, call.body)?.value),
    };
    Delete::parse(call.query(), body.as_ref())
}

/// What became of the object.
enum Removed {
    Gone(Value),
    /// Finalizers hold it: it is marked.
    Waiting(Value),
}

async fn remove(
    call: &Call<'_>,
    namespace: &str,
    name: &str,
    options: &Delete,
) -> Result<Removed, Status> {
    let resource = call.kind.resource();
    let failed = |error: &Error| errors::of_store(error, &resource, name);
    let key = object::key(call.kind, namespace, name);
    for tries in 0..writes::TRIES {
        let (kept, _) = call
            .core
            .store
            .get(&key)
            .await
            .map_err(|error| failed(&error))?;
        let kept = kept.ok_or_else(|| Status::not_found(&resource, name))?;
        let object = call.lens.read(&kept)?;
        preconditions(call, &object, options)?;
        admission::check_delete(call.kind, &object)?;
        let propagation = options.propagation.unwrap_or(Propagation::Background);
        let (written, outcome) = match write::delete(call.kind, &object, propagation, call.now) {
            Deletion::Now if options.dry_run => return Ok(Removed::Gone(object)),
            Deletion::Marked(marked) if options.dry_run => return Ok(Removed::Waiting(marked)),
            Deletion::Pending => return Ok(Removed::Waiting(object)),
            Deletion::Now => (
                call.core.store.delete(&key, kept.revision).await,
                Removed::Gone(object),
            ),
            Deletion::Marked(marked) => {
                let value = object::keep(call.kind, &marked);
                (
                    call.core.store.update(&key, value, kept.revision).await,
                    Removed::Waiting(marked),
                )
            }
        };
        match written {
            Ok(revision) => {
                writes::settle(call, revision).await;
                return Ok(match outcome {
                    Removed::Waiting(mut object) => {
                        object::set_version(&mut object, revision);
                        Removed::Waiting(object)
                    }
                    gone @ Removed::Gone(_) => gone,
                });
            }
            Err(Error::Conflict { .. }) => writes::give_way(tries).await,
            Err(error) => return Err(failed(&error)),
        }
    }
    Err(Status::modified(&resource, name))
}

fn preconditions(call: &Call<'_>, object: &Value, options: &Delete) -> Result<(), Status> {
    let checks = [
        ("UID", "uid", &options.uid),
        ("ResourceVersion", "resourceVersion", &options.version),
    ];
    for (word, field, wanted) in checks {
        let (Some(wanted), found) = (wanted, object::meta(object, field)) else {
            continue;
        };
        if wanted != found {
            let why = format!(
                "Precondition failed: {word} in precondition: {wanted}, {word} in object meta: {found}"
            );
            return Err(Status::conflict(
                &call.kind.resource(),
                object::meta(object, "name"),
                &why,
            ));
        }
    }
    Ok(())
}
