//! A Redfish client: one per BMC, shared by whoever deals with that BMC.
//!
//! ```text
//!   power, boot, media, bios, secure_boot,      what is asked of a server
//!   inventory, firmware, sensors, system,
//!   events, indicator, maintenance
//!        │
//!   call ── ETags, tasks, collections           what Redfish makes of it
//!        │
//!   talk ── login, retries, limits              what a BMC needs to answer
//! ```
//!
//! `quirks` holds what vendors do differently, as data. A session is opened when it is first needed, kept, and
//! given back by [`Client::close`]: BMCs have few.
//!
//! The TLS provider is aws-lc-rs; the first client installs it for the process if nobody did before.

mod bios;
mod boot;
mod call;
mod config;
mod error;
mod events;
mod firmware;
mod indicator;
mod inventory;
mod json;
mod login;
mod maintenance;
mod media;
mod power;
mod quirks;
mod secure_boot;
mod sensors;
mod system;
mod talk;
#[cfg(test)]
mod tests;

pub use bios::{AttributeInfo, Attributes, Bios};
pub use boot::{BootDevice, BootSetting};
pub use config::{Auth, Config, Limits, Verify};
pub use error::Error;
pub use events::{NewSubscription, Subscription};
pub use firmware::Component;
pub use indicator::Light;
pub use media::{Medium, Slot};
pub use power::Reset;
pub use quirks::{Quirks, quirks_of};
pub use secure_boot::SecureBoot;
pub use sensors::{Quantity, Reading};
pub use system::System;
pub use talk::Client;
