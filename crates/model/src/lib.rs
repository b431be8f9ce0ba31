//! The nouns everyone shares, each parsed into a type that cannot be wrong.

pub mod inventory;
mod mac;
mod secret;

pub use mac::{Mac, ParseMacError};
pub use secret::Secret;
