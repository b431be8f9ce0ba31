//! Real sockets in network namespaces of their own. Needs root, and fails without.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod site;
mod wire;
