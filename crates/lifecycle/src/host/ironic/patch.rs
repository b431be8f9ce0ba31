//! JSON patches that say only what differs.

use serde_json::{Map, Value};

use crate::host::step::{Action, Patch};
use crate::host::view::Node;

#[derive(Debug, Default)]
pub struct Patches(Vec<Patch>);

impl Patches {
    /// A field at the top.
    pub fn set(&mut self, field: &str, now: Option<&Value>, wanted: impl Into<Value>) {
        let wanted = wanted.into();
        if now != Some(&wanted) {
            self.0.push(Patch::Add {
                path: format!("/{field}"),
                value: wanted,
            });
        }
    }

    /// A key of an object such as `driver_info`.
    pub fn set_in(
        &mut self,
        field: &str,
        object: &Map<String, Value>,
        key: &str,
        wanted: Option<Value>,
    ) {
        let now = object.get(key).filter(|value| !value.is_null());
        let path = format!("/{field}/{key}");
        match wanted {
            Some(value) if now != Some(&value) => self.0.push(Patch::Add { path, value }),
            None if now.is_some() => self.0.push(Patch::Remove { path }),
            Some(_) | None => {}
        }
    }

    pub fn remove(&mut self, field: &str) {
        self.0.push(Patch::Remove {
            path: format!("/{field}"),
        });
    }

    /// The call, unless there is nothing to say.
    pub fn action(self, node: &Node) -> Option<Action> {
        (!self.0.is_empty()).then(|| Action::PatchNode {
            node: node.uuid.clone(),
            patch: self.0,
        })
    }
}

pub fn text(value: Option<&String>) -> Option<Value> {
    value.map(|text| Value::String(text.clone()))
}
