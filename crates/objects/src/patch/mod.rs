//! The three patches that are not apply: JSON patch, merge patch, strategic merge patch.

mod strategic;

use json_patch::PatchOperation;
use serde_json::Value;

pub use strategic::strategic;

use crate::json::{check_depth, deeper_than};
use crate::status::{Cause, CauseReason, Details, Reason, Status};

/// Kubernetes' own bound.
const MOST_OPERATIONS: usize = 10_000;
/// What `copy` may add altogether: it can double an object with every operation.
const COPIED_BYTES: usize = 3 << 20;

/// RFC 6902. `patch` is the array of operations.
pub fn json(object: &Value, patch: &Value) -> Result<Value, Status> {
    let operations: Vec<PatchOperation> = serde::Deserialize::deserialize(patch)
        .map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))?;
    if operations.len() > MOST_OPERATIONS {
        return Err(Status::too_large(format!(
            "The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {}",
            operations.len()
        )));
    }
    let mut patched = object.clone();
    let mut copied = 0;
    for operation in &operations {
        if let PatchOperation::Copy(copy) = operation {
            let source = patched.pointer(copy.from.as_str());
            copied += source.map_or(0, |source| source.to_string().len());
            if copied > COPIED_BYTES {
                return Err(rejected("the patch copies too much"));
            }
        }
        json_patch::patch(&mut patched, std::slice::from_ref(operation))
            .map_err(|error| rejected(&error.to_string()))?;
        if grows(operation) {
            check_depth(&patched)?;
        }
    }
    Ok(patched)
}

/// Whether the operation may make the object deeper.
fn grows(operation: &PatchOperation) -> bool {
    match operation {
        PatchOperation::Add(add) => deeper_than(&add.value, 0),
        PatchOperation::Replace(replace) => deeper_than(&replace.value, 0),
        PatchOperation::Move(_) | PatchOperation::Copy(_) => true,
        PatchOperation::Remove(_) | PatchOperation::Test(_) => false,
    }
}

/// RFC 7396.
pub fn merge(object: &Value, patch: &Value) -> Result<Value, Status> {
    check_object(patch)?;
    let mut merged = object.clone();
    json_patch::merge(&mut merged, patch);
    Ok(merged)
}

fn check_object(patch: &Value) -> Result<(), Status> {
    if !patch.is_object() {
        return Err(Status::bad_request(
            "error decoding patch: it must be an object",
        ));
    }
    check_depth(patch)
}

/// The patch is well-formed and cannot be applied to this object.
fn rejected(why: &str) -> Status {
    let message = "the server rejected our request due to an error in our request";
    let mut status = Status::new(422, Reason::Invalid, message);
    status.details = Some(Box::new(Details {
        causes: vec![Cause {
            reason: CauseReason::UnexpectedServerResponse,
            message: why.into(),
            field: String::new(),
        }],
        ..Details::default()
    }));
    status
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::schema::arbitrary;

    #[test]
    fn a_json_patch_is_applied_in_order() {
        let object = json!({"spec": {"a": 1, "list": ["x"]}});
        let patch = json!([
            {"op": "test", "path": "/spec/a", "value": 1},
            {"op": "replace", "path": "/spec/a", "value": 2},
            {"op": "add", "path": "/spec/list/-", "value": "y"},
            {"op": "remove", "path": "/spec/list/0"},
            {"op": "copy", "from": "/spec/a", "path": "/spec/b"},
        ]);
        assert_eq!(
            json(&object, &patch).unwrap(),
            json!({"spec": {"a": 2, "list": ["y"], "b": 2}})
        );
    }

    #[test]
    fn a_patch_that_does_not_fit_is_refused_whole() {
        let object = json!({"a": 1});
        let table = [
            (json!([{"op": "test", "path": "/a", "value": 2}]), 422),
            (json!([{"op": "remove", "path": "/b"}]), 422),
            (json!([{"op": "replace", "path": "/b/c", "value": 2}]), 422),
            (json!([{"op": "dance", "path": "/a"}]), 400),
            (json!({"a": 2}), 400),
        ];
        for (patch, code) in table {
            assert_eq!(json(&object, &patch).unwrap_err().code, code, "{patch}");
        }
    }

    #[test]
    fn copying_into_itself_ends_early() {
        let operations = vec![json!({"op": "copy", "from": "/a", "path": "/a/a"}); 200];
        let status = json(&json!({"a": {}}), &json!(operations)).unwrap_err();
        assert_eq!(status.code, 400);
        let doubling: Vec<_> = (0..64)
            .map(|n| json!({"op": "copy", "from": "/a", "path": format!("/a/{n}")}))
            .collect();
        assert!(json(&json!({"a": {}}), &json!(doubling)).is_err());
    }

    #[test]
    fn a_merge_patch_takes_null_for_deletion() {
        let object = json!({"a": {"b": 1, "c": 2}, "d": [1]});
        let patch = json!({"a": {"b": null, "e": 3}, "d": [2]});
        assert_eq!(
            merge(&object, &patch).unwrap(),
            json!({"a": {"c": 2, "e": 3}, "d": [2]})
        );
        assert_eq!(merge(&object, &json!([])).unwrap_err().code, 400);
    }

    proptest! {
        #[test]
        fn any_patch_gives_an_object_or_an_error(object in arbitrary::json(), patch in arbitrary::json()) {
            let _ = json(&object, &patch);
            if let Ok(merged) = merge(&object, &patch) {
                prop_assert_eq!(merge(&merged, &patch).unwrap(), merged);
            }
        }

        #[test]
        fn any_operations_give_an_object_or_an_error(
            object in arbitrary::json(),
            operations in proptest::collection::vec((0..6_usize, "(/(a|b|spec|0|-|~|~1)){0,3}", "(/(a|b|spec|0)){0,3}", arbitrary::json()), 0..6),
        ) {
            let names = ["add", "remove", "replace", "move", "copy", "test"];
            let patch: Vec<_> = operations.into_iter()
                .map(|(op, path, from, value)| json!({"op": names[op], "path": path, "from": from, "value": value}))
                .collect();
            let _ = json(&object, &json!(patch));
        }
    }
}
