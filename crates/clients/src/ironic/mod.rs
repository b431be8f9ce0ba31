//! A client of Ironic's API: ours or the original.
//!
//! Speaks the highest version that both sides know, up to [`NEWEST`]. A node that is locked and a service that is busy
//! are asked again for a while; everything else is an answer.

mod call;
mod error;
mod hardware;
mod history;
mod node;
mod verbs;

#[cfg(test)]
mod tests;

pub use call::{Config, Ironic, Limits, Login};
pub use error::Error;
pub use hardware::{BiosSetting, Brief, Component};
pub use node::{NewNode, NewPort, Node, Patch, Port, Validation};
pub use verbs::{ConfigDrive, Deploy, Power, Step, Verb};

/// The newest version of the API that this client knows: a minor number, the major one being 1.
pub const NEWEST: u16 = 110;
/// The oldest that it can work with: virtual media and the inventory came by then.
pub const OLDEST: u16 = 89;
