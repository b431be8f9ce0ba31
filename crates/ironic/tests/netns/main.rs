//! Boot services on a real network, asked by the programs that real machines ask with.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod boot;
mod net;
