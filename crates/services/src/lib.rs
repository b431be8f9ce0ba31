//! Network services on real sockets: one task that owns one machine of `protocols`, and its files.
//!
//! [`ledger`] is how programs of ours keep records on disk.
//!
//! What a service decides is in its machine; who runs it (a lab's site, the provisioning service) gives it a
//! configuration and listens to its reports.

pub mod dhcp;
pub mod dhcp6;
pub mod holder;
pub mod ledger;
mod neighbours;
pub mod no_router;
