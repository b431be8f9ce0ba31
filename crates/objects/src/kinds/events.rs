//! Events have two faces, `v1` and `events.k8s.io/v1`, and are one thing: kept as `v1`.

use serde_json::{Value, json};

pub(super) const GROUP: &str = "events.k8s.io";

/// The same field in both: (`v1`, `events.k8s.io/v1`).
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

pub(super) fn to_core(mut event: Value) -> Value {
    rename(&mut event, "v1", |(core, other)| (other, core));
    event
}

pub(super) fn from_core(mut event: Value) -> Value {
    rename(&mut event, "events.k8s.io/v1", |names| names);
    event
}

fn rename(
    event: &mut Value,
    api_version: &str,
    direction: impl Fn((&'static str, &'static str)) -> (&'static str, &'static str),
) {
    let Value::Object(fields) = event else { return };
    for (from, to) in NAMES.map(direction) {
        if let Some(value) = fields.remove(from) {
            fields.insert(to.into(), value);
        }
    }
    fields.insert("apiVersion".into(), json!(api_version));
    fields.insert("kind".into(), json!("Event"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_written_with_one_face_reads_with_the_other() {
        let new = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "a"},
            "regarding": {"kind": "Node", "name": "n"}, "note": "hello", "reason": "Hi", "type": "Normal",
            "reportingController": "metal3", "reportingInstance": "0", "action": "Greet",
            "eventTime": "2026-11-15T16:00:00.000000Z"});
        let core = to_core(new.clone());
        assert_eq!(core["involvedObject"]["name"], "n");
        assert_eq!(core["message"], "hello");
        assert_eq!(core["reportingComponent"], "metal3");
        assert_eq!(core["apiVersion"], "v1");
        assert_eq!(from_core(core), new);
    }
}
