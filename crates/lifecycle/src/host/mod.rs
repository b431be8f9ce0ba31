//! The life of a BareMetalHost: from its object and what Ironic shows of its node to the next step.
//!
//! ```text
//!   BareMetalHost ──▶ Host ─────┐                 ┌──▶ Look(what): ask Ironic, then ask again
//!   Secret, HardwareData, ... ──┼─▶ next(..) ─────┼──▶ Do { actions, events }: then a new pass
//!   Ironic's node ──▶ Observed ─┘                 ├──▶ Wait { reason, until }
//!                                                 └──▶ Done
//! ```
//!
//! Nothing is remembered between passes but what the object's `status` says, and Ironic's database may vanish at any
//! time: then the node is made anew, and adopted if the host was provisioned.
//!
//! `next` is the order of a pass; `registration`, `deletion`, `detach` and `capacity` hold in every state; `handlers`
//! has one function per state; `ironic` says what to ask of a node for each operation, by the state the node is in.
//! A part of a pass either goes on or ends it (`pass::Halt`). Changes of `status` are drafted (`draft`) and written
//! whole, with the conditions that follow from them (`conditions`).

pub mod annotations;
mod bmc;
mod capacity;
mod conditions;
mod data_image;
mod deletion;
mod detach;
mod draft;
mod firmware;
mod handlers;
pub mod hardware;
mod hints;
mod image_rules;
mod ironic;
mod next;
mod pass;
mod power;
mod raid;
mod ramdisk;
mod registration;
mod spec;
mod state;
mod status;
mod step;
#[cfg(test)]
mod tests;
mod told;
mod view;

pub use capacity::busy;
pub use draft::backoff;
pub use hints::{RootDeviceHints, UnknownProfile, profile_hints};
pub use next::{next, troubled};
pub use raid::{HardwareVolume, Raid, SoftwareVolume};
pub use spec::{
    Bmc, BootMode, CleaningMode, CustomDeploy, Image, InspectionMode, ObjectRef, SecretRef, Spec,
};
pub use state::State;
pub use status::{
    Condition, CredentialsStatus, ErrorType, History, Labels, Operational, Provisioning, Span,
    Status, Truth,
};
pub use step::{
    Action, ConfigDrive, Event, Login, NewNode, Patch, Power, SOFT_TIMEOUT_SECONDS, Step, StepCall,
    Trouble, Verb,
};
pub use told::{Retry, Waiting};
pub use view::{
    Config, Credentials, DataImage, FINALIZER, FirmwareComponents, FirmwareSettings,
    FirmwareUpdate, Host, ImageFormat, ImageRequest, Look, Node, Observation, Observed, Pace,
    PortOwner, PreprovisioningImage, UpdatePolicy,
};
