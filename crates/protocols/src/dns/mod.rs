//! DNS decisions: a node's resolver, and a small site's.
//!
//! ```text
//!   a node of a cluster                                    a site
//!   query ─> Question ─> Names (the cluster's own) ─> out  query ─> Resolver ─> Zone ─> Answer
//!                └─────> Cache ─────────────────────> out               └─> AskUpstream
//!                └─────> Forwarder ─> upstreams ─> Stored ─> Cache
//! ```
//!
//! The node's side is read and written as bytes (`wire`, `reply`, `stored`): it answers several hundred
//! thousand questions a second. The site's side uses hickory-proto and caches nothing: a lab's few questions
//! are not worth being wrong.

pub mod cache;
pub mod forward;
mod names;
mod reply;
mod resolver;
mod stored;
#[cfg(test)]
mod testing;
mod wire;
mod zone;

pub use hickory_proto::rr::Name;
pub use names::{BadDomain, Cluster, Local, Names, Node};
pub use reply::{Transport, refuse, refuse_unreadable};
pub use resolver::{Action, Asker, Event, Resolver};
pub use stored::{Age, Bad, Parsed, Stored};
pub use wire::{Edns, Question, Rcode, Unreadable, WireName, kind};
pub use zone::{Data, NameError, Zone, reverse_name, reverse_zone};
