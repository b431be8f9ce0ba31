//! What one run of the command remembers. Another one begins with nothing.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Step, Vm};

/// What is known of a host's power.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Power {
    Unknown,
    Off,
    Failed { why: String, tries: u32 },
}

#[derive(Debug, Clone, Default)]
pub struct Run {
    /// How often the VM was started.
    pub(super) starts: u32,
    began: BTreeMap<Step, Timestamp>,
    tries: BTreeMap<String, u32>,
    power: BTreeMap<String, Power>,
    vm: Option<Vm>,
}

impl Run {
    /// To be told of every look. A VM that came, or went, may have left hosts on; so may the time it took.
    pub fn looked(&mut self, vm: &Vm) {
        if self.vm.as_ref() != Some(vm) {
            self.power.clear();
            self.vm = Some(vm.clone());
        }
    }

    pub fn enter(&mut self, step: Step, now: Timestamp) {
        if self.began(step).is_none() {
            self.began.retain(|before, _| *before < step);
            self.began.insert(step, now);
        }
    }

    /// A step that is come back to, from a later one, begins anew.
    pub fn began(&self, step: Step) -> Option<Timestamp> {
        let later = self.began.keys().any(|begun| *begun > step);
        self.began.get(&step).copied().filter(|_| !later)
    }

    /// The VM is started once more.
    pub fn starts_vm(&mut self) {
        self.starts += 1;
    }

    /// A host was asked once more for what it failed at.
    pub fn asked_again(&mut self, host: &str) {
        *self.tries.entry(host.to_owned()).or_default() += 1;
    }

    pub fn tries(&self, host: &str) -> u32 {
        self.tries.get(host).copied().unwrap_or(0)
    }

    /// What came of switching a host off.
    pub fn switched_off(&mut self, host: &str, ended: Result<(), String>) {
        let before = match self.power(host) {
            Power::Failed { tries, .. } => tries,
            Power::Unknown | Power::Off => 0,
        };
        let power = match ended {
            Ok(()) => Power::Off,
            Err(why) => Power::Failed {
                why,
                tries: before + 1,
            },
        };
        self.power.insert(host.to_owned(), power);
    }

    pub fn power(&self, host: &str) -> Power {
        self.power.get(host).cloned().unwrap_or(Power::Unknown)
    }

    /// The steps up to this one, and when each began.
    pub fn steps(&self) -> &BTreeMap<Step, Timestamp> {
        &self.began
    }
}
