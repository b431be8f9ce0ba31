//! DHCP for IPv6 (RFC 8415, RFC 5970), as far as machines that boot need it: one address each, and what to boot.

mod packet;
pub mod server;
#[cfg(test)]
mod tests;

pub use packet::{DecodeError, Kind, Message};

pub const CLIENT_PORT: u16 = 546;
pub const SERVER_PORT: u16 = 547;

/// Codes of the options that have a meaning here.
pub mod code {
    pub const CLIENT_ID: u16 = 1;
    pub const SERVER_ID: u16 = 2;
    pub const IA_NA: u16 = 3;
    pub const IA_ADDRESS: u16 = 5;
    pub const PREFERENCE: u16 = 7;
    pub const STATUS: u16 = 13;
    pub const RAPID_COMMIT: u16 = 14;
    pub const USER_CLASS: u16 = 15;
    pub const VENDOR_CLASS: u16 = 16;
    pub const DNS: u16 = 23;
    pub const BOOT_URL: u16 = 59;
    pub const ARCHITECTURE: u16 = 61;
}
