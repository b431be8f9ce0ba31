//! The machine-config server: full Ignition configs for nodes on their first boot, and the files these name.
//!
//! ```text
//! GET /config/{pool}      Authorization: Bearer <pool's secret | host's one-time token>
//!                         Accept: application/vnd.coreos.ignition+json;version=3.x.0
//! GET /files/{sha256}     the same authorization; ranges
//! GET /payload            the list of the files that the cluster carries with it; the same authorization
//! GET /healthz /readyz
//! ```
//!
//! A config holds keys, so nobody gets one without a secret from a pointer config. A host's token opens its config
//! once; what was used is on disk before the answer leaves, so a restart forgets nothing.

pub mod config;
mod files;
mod ledger;
mod payload;
mod replicate;
mod route;
pub mod server;
pub mod status;
pub mod version;

pub use config::Config;
