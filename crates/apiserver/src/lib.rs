//! A Kubernetes API server for machine objects, on an embedded store or on etcd.
//!
//! ```text
//!   server: TLS, connections ─▶ front: who, limits, audit, metrics ─▶ api ─▶ store: embedded, or etcd
//!                                      │                              ▲        │
//!                                      ▼                              │        ▼
//!                                     auth ◀── Roles, bindings ── controllers: namespaces, owners, certificates ...
//! ```

pub mod api;
mod audit;
pub mod auth;
pub mod config;
mod controllers;
mod front;
mod local;
mod metrics;
pub mod server;
pub mod store;
#[cfg(test)]
mod test_site;
mod tls;

pub use config::Config;
pub use local::{Local, Refusal};
pub use server::Running;
