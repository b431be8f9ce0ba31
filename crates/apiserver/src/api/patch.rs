//! Patch in its four forms; the fourth is server-side apply.

use objects::apply;
use objects::json::Parsed;
use objects::status::{CauseReason, Reason};
use objects::write::{self, Prepared};
use objects::{Cause, Status, patch as patches};
use serde_json::Value;

use super::answer::Answer;
use super::write::{How, Next, TRIES, change, insert, judge, show};
use super::{Call, body};

/// PATCH in any of its four forms.
pub async fn patch(call: &Call<'_>, subresource: &str) -> Result<Answer, Status> {
    let how = How::parse(call, subresource)?;
    let media = body::media(&call.parts.headers);
    if media == body::APPLY_PATCH {
        return server_side_apply(call, &how).await;
    }
    let Parsed {
        value: changes,
        duplicates,
    } = objects::json::parse(call.body)?;
    let compute = |old: &Value| {
        let patched = patched(call, &media, old, &changes)?;
        let Prepared { object, unknown } =
            write::prepare(call.kind, patched, call.namespace(), call.name())?;
        let warnings = judge(call, how.options.validation, &unknown, &duplicates)?;
        Ok(Next {
            object,
            warnings,
            tracked: false,
        })
    };
    Ok(show(call, change(call, &how, compute).await?))
}

/// The object with a patch of this media type in it.
pub fn patched(
    call: &Call<'_>,
    media: &str,
    old: &Value,
    changes: &Value,
) -> Result<Value, Status> {
    match media {
        body::JSON_PATCH => patches::json(old, &without_absent_nulls(old, changes)),
        body::MERGE_PATCH => patches::merge(old, changes),
        body::STRATEGIC_PATCH if !call.kind.custom => {
            patches::strategic(old, changes, &call.kind.schema)
        }
        _ if call.kind.custom => Err(Status::unsupported_media_type(&[
            body::JSON_PATCH,
            body::MERGE_PATCH,
            body::APPLY_PATCH,
        ])),
        _ => Err(Status::unsupported_media_type(&[
            body::JSON_PATCH,
            body::MERGE_PATCH,
            body::STRATEGIC_PATCH,
            body::APPLY_PATCH,
        ])),
    }
}

/// Clients test that a field is absent by testing it for null (kube's finalizers do); RFC 6902 knows only present ones.
fn without_absent_nulls(old: &Value, changes: &Value) -> Value {
    let Some(operations) = changes.as_array() else {
        return changes.clone();
    };
    let tests_absence = |operation: &&Value| {
        let path = operation["path"].as_str().unwrap_or("");
        operation["op"] == "test"
            && operation.get("value") == Some(&Value::Null)
            && old.pointer(path).is_none()
    };
    operations
        .iter()
        .filter(|operation| !tests_absence(operation))
        .cloned()
        .collect()
}

async fn server_side_apply(call: &Call<'_>, how: &How<'_>) -> Result<Answer, Status> {
    if how.options.manager.is_none() {
        let cause = Cause::required("fieldManager", "is required for apply patch");
        return Err(Status::invalid(
            "meta.k8s.io",
            "PatchOptions",
            "",
            vec![cause],
        ));
    }
    let Parsed {
        value: mut applied,
        duplicates,
    } = body::yaml(call.body)?;
    if applied
        .pointer("/metadata/managedFields")
        .is_some_and(|fields| !fields.is_null())
    {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    // Only for its checks: defaults must not become the applier's own fields.
    write::prepare(call.kind, applied.clone(), call.namespace(), call.name())?;
    let unknown = call.kind.schema.prune(&mut applied);
    let warnings = judge(call, how.options.validation, &unknown, &duplicates)?;
    let compute = |live: Option<&Value>| {
        let attempt =
            |force: bool| apply::apply(live, &applied, how.writer(), force, &call.kind.schema);
        let result = match attempt(how.options.force) {
            Err(conflict) if takes_over_from_client_side(&how.manager, &conflict) => attempt(true)?,
            other => other?,
        };
        let prepared = write::prepare(call.kind, result, call.namespace(), call.name())?;
        Ok(Next {
            object: prepared.object,
            warnings: warnings.clone(),
            tracked: true,
        })
    };
    for _ in 0..TRIES {
        let outcome = change(call, how, |old| compute(Some(old))).await;
        match outcome {
            Err(missing) if missing.code == 404 && how.subresource.is_empty() => {}
            other => return Ok(show(call, other?)),
        }
        match insert(call, how, compute(None)?, call.name()).await {
            Err(taken) if taken.reason == Reason::AlreadyExists => {}
            other => return Ok(show(call, other?)),
        }
    }
    Err(Status::modified(&call.kind.resource(), call.name()))
}

/// `kubectl apply --server-side` goes on where `kubectl apply` without it left off: what that owned is no conflict.
fn takes_over_from_client_side(manager: &str, conflict: &Status) -> bool {
    let causes = conflict
        .details
        .as_ref()
        .map_or(&[][..], |details| &details.causes);
    let was_client_side = |cause: &Cause| {
        cause.reason == CauseReason::FieldManagerConflict
            && cause
                .message
                .contains("conflict with \"kubectl-client-side-apply\"")
    };
    manager == "kubectl" && !causes.is_empty() && causes.iter().all(was_client_side)
}
