//! The provisioning service: Ironic's API, network boot, and the care of every node.
//!
//! ```text
//!   clients ──▶ server ──▶ api ──▶ store (file + memory) ◀── conductor: one task per node ──▶ driver ──▶ hardware
//! ```
//!
//! `record` is what is remembered, `store` remembers it, `api` shows and changes it, `conductor` acts on it through
//! `driver`; every decision about a node's life is `lifecycle::node`'s.

mod api;
pub mod boot;
mod conductor;
pub mod config;
mod deploy;
mod driver;
mod record;
pub mod server;
pub mod status;
mod store;
