//! What each state permits besides verbs.

use super::State;

/// What a heartbeat of the agent does to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heartbeat {
    /// It is noted, nothing else.
    Recorded,
    /// It wakes the operation that waits for it.
    Continues,
    /// The node expects no agent; the call is refused.
    Refused,
}

/// What happens to a node when the service starts and finds it in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterRestart {
    /// Nothing was going on.
    Rests,
    /// It goes on waiting, with the deadline it had.
    Waits,
    /// The recorded progress says what to do next; a step that may not run twice fails the operation instead.
    Resumes,
}

impl State {
    pub fn heartbeat(self) -> Heartbeat {
        match self {
            Self::WaitCallBack | Self::CleanWait | Self::ServiceWait | Self::RescueWait => {
                Heartbeat::Continues
            }
            Self::Enroll
            | Self::Manageable
            | Self::Available
            | Self::Inspecting
            | Self::InspectWait
            | Self::Cleaning
            | Self::Deploying
            | Self::Rescuing
            | Self::Servicing
            | Self::CleanHold
            | Self::DeployHold
            | Self::ServiceHold => Heartbeat::Recorded,
            Self::Verifying
            | Self::InspectFailed
            | Self::CleanFailed
            | Self::DeployFailed
            | Self::Active
            | Self::Deleting
            | Self::Error
            | Self::Adopting
            | Self::AdoptFailed
            | Self::RescueFailed
            | Self::Rescue
            | Self::Unrescuing
            | Self::UnrescueFailed
            | Self::ServiceFailed => Heartbeat::Refused,
        }
    }

    /// May an agent look this node up? Where not, the answer is the same as for a node that does not exist.
    pub fn lookup(self, fast_track: bool) -> bool {
        match self {
            Self::Deploying
            | Self::WaitCallBack
            | Self::Cleaning
            | Self::CleanWait
            | Self::Inspecting
            | Self::InspectWait
            | Self::Rescuing
            | Self::RescueWait
            | Self::ServiceWait => true,
            Self::Enroll
            | Self::Manageable
            | Self::Available
            | Self::Servicing
            | Self::ServiceHold => fast_track,
            Self::Verifying
            | Self::InspectFailed
            | Self::CleanHold
            | Self::CleanFailed
            | Self::DeployHold
            | Self::DeployFailed
            | Self::Active
            | Self::Deleting
            | Self::Error
            | Self::Adopting
            | Self::AdoptFailed
            | Self::RescueFailed
            | Self::Rescue
            | Self::Unrescuing
            | Self::UnrescueFailed
            | Self::ServiceFailed => false,
        }
    }

    /// May the node be deleted from the service? Maintenance permits it anywhere.
    pub fn may_delete_node(self, maintenance: bool) -> bool {
        maintenance
            || matches!(
                self,
                Self::Enroll | Self::Manageable | Self::AdoptFailed | Self::Available
            )
    }

    /// May fields be patched? `busy` is whether a `target_provision_state` is set.
    pub fn may_change_fields(self, busy: bool) -> bool {
        !busy
            || matches!(
                self,
                Self::DeployFailed
                    | Self::InspectFailed
                    | Self::InspectWait
                    | Self::CleanFailed
                    | Self::Error
                    | Self::Verifying
                    | Self::AdoptFailed
                    | Self::RescueFailed
                    | Self::UnrescueFailed
                    | Self::ServiceHold
                    | Self::ServiceFailed
            )
    }

    /// May `driver` and the `*_interface` fields be patched?
    pub fn may_change_interfaces(self, maintenance: bool) -> bool {
        maintenance
            || matches!(
                self,
                Self::Enroll
                    | Self::Inspecting
                    | Self::InspectWait
                    | Self::Manageable
                    | Self::Available
            )
    }

    /// May a client change the power? Not while cleaning: it would cut an erase short.
    pub fn may_change_power(self) -> bool {
        !matches!(self, Self::Cleaning | Self::CleanWait)
    }

    /// Is the power compared with the BMC's and put right? Not while the host may do as it likes.
    pub fn syncs_power(self) -> bool {
        match self.kind() {
            super::Kind::Stable => self != Self::Enroll,
            super::Kind::Failed => self != Self::AdoptFailed,
            super::Kind::Working | super::Kind::Waiting | super::Kind::Held => false,
        }
    }

    pub fn after_restart(self) -> AfterRestart {
        match self.kind() {
            super::Kind::Stable | super::Kind::Held => AfterRestart::Rests,
            super::Kind::Waiting => AfterRestart::Waits,
            // A failed node may still have its clean-up to finish.
            super::Kind::Working | super::Kind::Failed => AfterRestart::Resumes,
        }
    }
}
