//! What the agent can do to a server, as pieces that its commands call.

pub mod disk;
