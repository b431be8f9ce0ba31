//! The scale of a custom kind: `autoscaling/v1` Scale, by the paths its CRD gives.

use serde_json::{Value, json};

use super::{Kind, Subresource};
use crate::json::{object, text};
use crate::status::{Cause, Status};

/// Where a custom kind keeps what a Scale shows; simple JSON paths such as `.spec.replicas`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scale {
    pub spec_replicas: String,
    pub status_replicas: String,
    pub label_selector: Option<String>,
}

impl Kind {
    /// The autoscaling/v1 Scale of an object; None where this kind has no scale.
    pub fn scale(&self, object: &Value) -> Option<Value> {
        let Subresource::Scale(paths) = self.subresource("scale")? else {
            return None;
        };
        let number = |path: &str| object.pointer(&pointer(path)).and_then(Value::as_i64);
        let metadata: serde_json::Map<_, _> = [
            "name",
            "namespace",
            "uid",
            "resourceVersion",
            "creationTimestamp",
        ]
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), object["metadata"].get(name)?.clone())))
        .collect();
        let mut scale = json!({
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": metadata,
            "spec": {"replicas": number(&paths.spec_replicas).unwrap_or(0)},
            "status": {"replicas": number(&paths.status_replicas).unwrap_or(0)},
        });
        if let Some(path) = &paths.label_selector {
            let selector = text(object, &pointer(path));
            if !selector.is_empty() {
                scale["status"]["selector"] = json!(selector);
            }
        }
        Some(scale)
    }

    /// The object with the replicas of this Scale.
    pub fn with_scale(&self, of: &Value, scale: &Value) -> Result<Value, Status> {
        let Some(Subresource::Scale(paths)) = self.subresource("scale") else {
            return Err(Status::no_such_path());
        };
        let replicas = scale.pointer("/spec/replicas").unwrap_or(&Value::Null);
        let count = match replicas {
            Value::Null => Some(0),
            number => number.as_i64(),
        };
        let Some(count) = count.filter(|count| (0..=i64::from(i32::MAX)).contains(count)) else {
            let why = "must be greater than or equal to 0";
            let cause = Cause::invalid("spec.replicas", replicas, why);
            let name = text(scale, "/metadata/name");
            return Err(Status::invalid("autoscaling", "Scale", name, vec![cause]));
        };
        let mut scaled = of.clone();
        let mut place = &mut scaled;
        for step in paths.spec_replicas.trim_start_matches('.').split('.') {
            place = object(place).entry(step).or_insert(Value::Null);
        }
        *place = json!(count);
        Ok(scaled)
    }
}

/// `.spec.replicas` as a JSON pointer.
fn pointer(path: &str) -> String {
    path.replace('.', "/")
}

#[cfg(test)]
mod tests {
    use super::super::registry::tests::widget;
    use super::*;

    #[test]
    fn a_scale_shows_and_sets_the_replicas() {
        let widget = widget();
        let object = json!({"metadata": {"name": "a", "namespace": "b", "labels": {}},
            "spec": {"replicas": 2}, "status": {"replicas": 1, "selector": "a=b"}});
        let scale = widget.scale(&object).unwrap();
        assert_eq!(
            scale,
            json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "a", "namespace": "b"},
                "spec": {"replicas": 2}, "status": {"replicas": 1, "selector": "a=b"}})
        );
        let bigger = json!({"spec": {"replicas": 5}});
        let object = widget.with_scale(&object, &bigger).unwrap();
        assert_eq!(object["spec"]["replicas"], 5);
        let grown = widget.with_scale(&json!({"spec": null}), &bigger).unwrap();
        assert_eq!(grown["spec"]["replicas"], 5);
        let wrong = json!({"spec": {"replicas": -1}});
        assert_eq!(widget.with_scale(&object, &wrong).unwrap_err().code, 422);
    }
}
