//! The DNS decisions of a small site: its own names, and everything else asked of someone who knows.
//!
//! ```text
//!   query -----> Resolver --- name of a zone? ---> Zone -----> Answer
//!                   |  no
//!                   +--------------- AskUpstream, again, elsewhere --> ServFail at last
//!   upstream's answer ------------------------------------------> Answer
//! ```
//!
//! Bytes are read and written by hickory-proto. Nothing is cached: a lab's few questions are not worth being wrong.

mod resolver;
mod zone;

pub use hickory_proto::rr::Name;
pub use resolver::{Action, Asker, Event, Resolver, Transport};
pub use zone::{Data, NameError, Zone, reverse_name, reverse_zone};
