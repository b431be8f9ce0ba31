//! The nouns everyone shares, each parsed into a type that cannot be wrong.

mod bmc_address;
mod config_error;
pub mod inventory;
mod mac;
pub mod payload;
pub mod root_device;
mod secret;

pub use bmc_address::{BmcAddress, BmcAddressError, Scheme};
pub use config_error::ConfigError;
pub use mac::{Mac, ParseMacError};
pub use secret::Secret;

/// An error with all its causes, on one line: what was being done, then why it failed.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        // Some libraries repeat the cause in their own text.
        let said = error.to_string();
        if !text.ends_with(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    text
}
