//! What an API server does with an object before it is kept and after it is read.
//!
//! ```text
//!   body ── parse ──▶ object ── patch / apply ──▶ object ── write ──▶ what the store keeps
//!                                                   │
//!                                  prune, default, metadata rules, validate, CEL,
//!                                  who owns which field (managedFields)
//!
//!   kept ── selector ──▶ chosen ── table / as it is ──▶ answer
//! ```
//!
//! Nothing here reads a clock, the network, a file or dice: the time, a fresh identity and the end of a generated name
//! come as arguments. Whatever goes wrong is one [`Status`], in the words Kubernetes uses.

pub mod access;
pub mod apply;
mod cause;
pub mod json;
pub mod kinds;
pub mod metadata;
pub mod patch;
mod path;
pub mod schema;
pub mod selector;
pub mod status;
pub mod table;
pub mod write;

pub use kinds::{Kind, Registry, Resource};
pub use schema::Schema;
pub use status::{Cause, Status};
