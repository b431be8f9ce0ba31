//! What annotations ask of a host.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::spec::InspectionMode;
use super::view::Host;

pub const PAUSED: &str = "baremetalhost.metal3.io/paused";
pub const DETACHED: &str = "baremetalhost.metal3.io/detached";
/// A status to begin with, after a move or from a backup.
pub const STATUS: &str = "baremetalhost.metal3.io/status";
pub const REBOOT: &str = "reboot.metal3.io";
const HOLD_OFF: &str = "reboot.metal3.io/";
pub const INSPECT: &str = "inspect.metal3.io";
pub const HARDWARE_DETAILS: &str = "inspect.metal3.io/hardwaredetails";
/// Do not wait out the back-off after an error. Taken away when it was heeded.
pub const RETRY_NOW: &str = "baremetalhost.metal3.io/retry-now";

/// How a host is to be detached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Detach {
    /// A delete waits until the host is attached again.
    pub delay_delete: bool,
    /// Whatever is going on is cut short.
    pub force: bool,
}

/// All the reboot annotations together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reboot {
    /// [`REBOOT`] itself: off, and on again.
    pub once: bool,
    /// One with a suffix: off until it is taken away.
    pub hold: bool,
    pub hard: bool,
    /// Also in the midst of things.
    pub force: bool,
    /// Keys with a value that cannot be read, and means a soft reboot.
    pub unreadable: Vec<String>,
}

impl Host {
    pub fn is_paused(&self) -> bool {
        self.annotations.contains_key(PAUSED)
    }

    pub fn detach(&self) -> Option<Detach> {
        #[derive(Deserialize, Default)]
        #[serde(rename_all = "camelCase", default)]
        struct Arguments {
            delete_action: String,
            force: bool,
        }
        // Anything that is not JSON is a plain "yes".
        let text = self.annotations.get(DETACHED)?;
        let arguments: Arguments = serde_json::from_str(text).unwrap_or_default();
        Some(Detach {
            delay_delete: arguments.delete_action == "delay",
            force: arguments.force,
        })
    }

    pub fn wants_inspection(&self) -> bool {
        let value = self.annotations.get(INSPECT);
        value.is_some_and(|value| value != "disabled")
    }

    pub fn inspection_mode(&self) -> InspectionMode {
        if let Some(mode) = self.spec.inspection_mode {
            return mode;
        }
        match self.annotations.get(INSPECT).map(String::as_str) {
            Some("disabled") => InspectionMode::Disabled,
            _ => InspectionMode::Agent,
        }
    }

    pub fn inspection_disabled(&self) -> bool {
        self.inspection_mode() == InspectionMode::Disabled
    }

    /// The reboot annotations that count; those without force only where a system runs on the host.
    pub fn reboot(&self, forced_only: bool) -> Reboot {
        reboot(&self.annotations, forced_only)
    }
}

fn reboot(annotations: &BTreeMap<String, String>, forced_only: bool) -> Reboot {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Arguments {
        mode: String,
        force: bool,
    }
    let mut all = Reboot::default();
    for (key, value) in annotations {
        if key != REBOOT && !key.starts_with(HOLD_OFF) {
            continue;
        }
        let read = match value.trim() {
            "" => Ok(Arguments::default()),
            text => serde_json::from_str::<Arguments>(text),
        };
        let unreadable = read.is_err();
        let arguments = read.unwrap_or_default();
        if forced_only && !arguments.force {
            continue;
        }
        if unreadable {
            all.unreadable.push(key.clone());
        }
        all.once |= key == REBOOT;
        all.hold |= key != REBOOT;
        all.hard |= arguments.mode == "hard";
        all.force |= arguments.force;
    }
    all
}

impl Reboot {
    pub fn wanted(&self) -> bool {
        self.once || self.hold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(annotations: &[(&str, &str)]) -> Host {
        Host {
            annotations: annotations
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            ..Host::default()
        }
    }

    #[test]
    fn a_reboot_is_hard_if_anyone_wants_it_hard_and_holds_if_anyone_holds() {
        let seen = host(&[
            ("reboot.metal3.io", ""),
            ("reboot.metal3.io/fencing", r#"{"mode":"hard"}"#),
            ("reboot.metal3.io.example", ""),
        ])
        .reboot(false);
        assert_eq!(
            seen,
            Reboot {
                once: true,
                hold: true,
                hard: true,
                ..Reboot::default()
            }
        );
        assert!(!host(&[("reboot.metal3.io", "")]).reboot(true).wanted());
        assert!(
            host(&[("reboot.metal3.io", r#"{"force":true}"#)])
                .reboot(true)
                .wanted()
        );
        let broken = host(&[("reboot.metal3.io", "now!")]).reboot(false);
        assert!(broken.wanted() && !broken.hard);
        assert_eq!(broken.unreadable, ["reboot.metal3.io"]);
    }

    #[test]
    fn detach_arguments_are_read_and_anything_else_is_a_plain_yes() {
        let read = |value| host(&[(DETACHED, value)]).detach().unwrap();
        assert_eq!(read("true"), Detach::default());
        assert_eq!(read(""), Detach::default());
        assert!(read(r#"{"deleteAction":"delay"}"#).delay_delete);
        assert!(!read(r#"{"deleteAction":"delete"}"#).delay_delete);
        assert!(read(r#"{"force":true}"#).force);
        assert_eq!(host(&[]).detach(), None);
    }

    #[test]
    fn the_field_wins_over_the_annotation_that_switches_inspection_off() {
        let mut host = host(&[(INSPECT, "disabled")]);
        assert!(host.inspection_disabled() && !host.wants_inspection());
        host.spec.inspection_mode = Some(InspectionMode::Fast);
        assert_eq!(host.inspection_mode(), InspectionMode::Fast);
    }
}
