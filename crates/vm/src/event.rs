//! What happens to a machine, and the state that results.

use std::fmt;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex};

use tokio::sync::{broadcast, watch};

use crate::qmp::RawEvent;

/// What happens to a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    Running,
    Paused,
    /// Firmware often resets once more by itself, so one cause may give several.
    Reset {
        guest: bool,
    },
    /// The power button was pressed; what the guest makes of it is another matter.
    PowerButton,
    /// Switched off; [`Event::Exited`] follows.
    Shutdown {
        guest: bool,
    },
    /// The guest's kernel said that it cannot go on.
    Panicked,
    /// A guest opened or closed a drive, or we did.
    Tray {
        cdrom: String,
        open: bool,
    },
    /// A disk gave an error to the guest.
    IoError {
        disk: String,
        write: bool,
    },
    /// The last event.
    Exited(Exit),
}

/// How a machine ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    pub cause: Cause,
    pub status: ExitStatus,
    /// The end of what QEMU complained about.
    pub stderr: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The guest switched itself off.
    Guest,
    /// We told it to.
    Host,
    /// QEMU ended without either: it failed, or someone killed it.
    Crash,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status)?;
        if !self.stderr.is_empty() {
            write!(f, "; it said: {}", self.stderr)?;
        }
        Ok(())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    Paused,
    Running,
    Exited(Exit),
}

/// Turns what the monitor says into events and the state.
#[derive(Debug, Clone)]
pub(crate) struct Teller {
    pub events: broadcast::Sender<Event>,
    pub state: watch::Sender<State>,
    pub cause: Arc<Mutex<Option<Cause>>>,
}

impl Teller {
    pub fn hear(&self, raw: &RawEvent) {
        let Some(event) = read_event(raw) else {
            tracing::debug!(event = raw.name, "QEMU event passed over");
            return;
        };
        tracing::debug!(?event, "machine event");
        match &event {
            Event::Running => self.set_state(State::Running),
            Event::Paused => self.set_state(State::Paused),
            Event::Shutdown { guest } => {
                self.set_cause(if *guest { Cause::Guest } else { Cause::Host });
            }
            Event::Reset { .. }
            | Event::PowerButton
            | Event::Panicked
            | Event::Tray { .. }
            | Event::IoError { .. }
            | Event::Exited(_) => {}
        }
        let _ = self.events.send(event);
    }

    pub fn set_state(&self, state: State) {
        self.state.send_replace(state);
    }

    /// The first cause stays.
    pub fn set_cause(&self, cause: Cause) {
        self.cause
            .lock()
            .expect("no holder panics")
            .get_or_insert(cause);
    }

    pub fn cause(&self) -> Cause {
        self.cause
            .lock()
            .expect("no holder panics")
            .unwrap_or(Cause::Crash)
    }
}

fn read_event(raw: &RawEvent) -> Option<Event> {
    let data = &raw.data;
    let text = |key: &str| data[key].as_str().unwrap_or_default();
    Some(match raw.name.as_str() {
        "RESUME" => Event::Running,
        "STOP" => Event::Paused,
        "RESET" => Event::Reset {
            guest: data["guest"].as_bool().unwrap_or(false),
        },
        "SHUTDOWN" => Event::Shutdown {
            guest: data["guest"].as_bool().unwrap_or(false),
        },
        "POWERDOWN" => Event::PowerButton,
        "GUEST_PANICKED" => Event::Panicked,
        "DEVICE_TRAY_MOVED" => {
            let open = data["tray-open"].as_bool().unwrap_or(false);
            Event::Tray {
                cdrom: text("id").to_owned(),
                open,
            }
        }
        "BLOCK_IO_ERROR" => {
            let node = text("node-name");
            let disk = node.strip_suffix("-drive").unwrap_or(node).to_owned();
            Event::IoError {
                disk,
                write: text("operation") == "write",
            }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn raw(name: &str, data: Value) -> RawEvent {
        RawEvent {
            name: name.into(),
            data,
        }
    }

    #[test]
    fn monitor_events_are_read_and_unknown_ones_passed_over() {
        for (event, expected) in [
            (raw("RESUME", Value::Null), Some(Event::Running)),
            (
                raw("RESET", json!({"guest": true, "reason": "x"})),
                Some(Event::Reset { guest: true }),
            ),
            (
                raw("SHUTDOWN", json!({"guest": false})),
                Some(Event::Shutdown { guest: false }),
            ),
            (
                raw(
                    "DEVICE_TRAY_MOVED",
                    json!({"device": "", "id": "cd0", "tray-open": true}),
                ),
                Some(Event::Tray {
                    cdrom: "cd0".into(),
                    open: true,
                }),
            ),
            (
                raw(
                    "BLOCK_IO_ERROR",
                    json!({"node-name": "disk0-drive", "operation": "write"}),
                ),
                Some(Event::IoError {
                    disk: "disk0".into(),
                    write: true,
                }),
            ),
            (
                raw("SHUTDOWN", Value::Null),
                Some(Event::Shutdown { guest: false }),
            ),
            (raw("RTC_CHANGE", json!({"offset": 0})), None),
        ] {
            assert_eq!(read_event(&event), expected, "{event:?}");
        }
    }
}
