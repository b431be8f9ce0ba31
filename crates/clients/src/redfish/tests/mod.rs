//! The client against a BMC that answers whatever a test wants.

mod care;
mod fake;
mod server;
mod talking;
