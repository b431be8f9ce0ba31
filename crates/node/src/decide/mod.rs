//! What is to be done for a node, from what is wanted and what is seen. No clock, no file, no socket.

pub mod address;
pub mod identity;
pub mod lease;
pub mod node;
pub mod serving;
pub mod show;
