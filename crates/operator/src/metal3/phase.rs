//! How far metal3 is on this node, for whoever asks whether it is well.

use tokio::sync::watch;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// There is nothing to do for us here, and why.
    Idle(String),
    /// Another is active.
    Standby,
    /// Active, but it cannot work, and why.
    Unsettled(String),
    Active,
}

impl Phase {
    /// A line for people, and whether this is as it should be.
    pub fn told(&self) -> (bool, String) {
        match self {
            Self::Idle(why) => (true, format!("idle: {why}")),
            Self::Standby => (true, "standby: another is active".to_owned()),
            Self::Unsettled(why) => (false, format!("active, and waits: {why}")),
            Self::Active => (true, "active".to_owned()),
        }
    }

    pub fn is_active(&self) -> bool {
        match self {
            Self::Unsettled(_) | Self::Active => true,
            Self::Idle(_) | Self::Standby => false,
        }
    }
}

/// The phase now, told by one and read by many.
#[derive(Debug, Clone)]
pub struct Phases(watch::Sender<Phase>);

impl Default for Phases {
    fn default() -> Self {
        Self(watch::Sender::new(Phase::Idle(
            "it has only begun".to_owned(),
        )))
    }
}

impl Phases {
    pub fn is(&self, phase: Phase) {
        self.0.send_replace(phase);
    }

    pub fn now(&self) -> Phase {
        self.0.borrow().clone()
    }
}
