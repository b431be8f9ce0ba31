//! A node of the builtin payload, without workloads: what a kubelet does for its Node, and no more.
//!
//! ```text
//!   config ─┐                       ┌─ decide::identity: ask for a certificate, wait, take it, renew it
//!   facts ──┼─▶ daemon: one task ──▶├─ decide::node:     make the Node, mend it, say what changed
//!   checks ─┘        │              └─ decide::lease:    alive, every ten seconds
//!                    ▼              └─ decide::serving:  ask for the certificate to serve with, in due time
//!                 the API                 admin: health, metrics and status on the loopback
//!                                         server: logs and counters, to masters of the cluster
//!
//!   name     the host's name from its config drive, before anything else starts
//!   router   a stand-in where no ingress controller runs: it answers, and says what it is
//! ```

mod admin;
mod api;
mod checks;
pub mod config;
pub mod daemon;
pub mod decide;
mod facts;
mod identity;
pub mod name;
mod notify;
pub mod router;
mod server;
mod serving;
pub mod status;

pub use config::Config;
pub use status::Status;
