//! From `install-config.yaml` to everything an install needs, decided before the first server is powered on.
//!
//! ```text
//! text ── yaml ──▶ tree ── schema ──▶ written ── resolve ──▶ InstallConfig ── cluster ──▶ Plan ── assets ──▶ files
//!                           every problem at once                     no secrets      with the keys
//! ```
//!
//! Nothing here reads a file, a clock, the network or dice: what the world knows (names in DNS, an identity, keys)
//! comes as an argument.

pub mod assets;
pub mod cluster;
pub mod destroy;
pub mod install;
pub mod install_config;
pub mod nmstate;
pub mod preflight;
pub mod problem;
pub mod replace;
mod subnet;
pub mod yaml;

pub use problem::{Problem, Problems};
