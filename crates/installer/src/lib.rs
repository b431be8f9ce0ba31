//! The install directory: keys made once, files rendered stage by stage, nothing of a person's overwritten.
//!
//! ```text
//! install-config.yaml ─▶ plan ─▶ manifests/ ─▶ *.ign hosts/ auth/ tls/ metadata.json
//!                          ▲
//!        .plinth_install_state.json   identity, keys, tokens, and what was written last
//! ```

pub mod bootstrap;
pub mod cluster;
pub mod consoles;
pub mod destroy;
pub mod dir;
mod lines;
pub mod pki;
pub mod preflight;
pub mod progress;
pub mod replace;
mod state;

pub use dir::{Dir, Error, Outcome, Stage};
