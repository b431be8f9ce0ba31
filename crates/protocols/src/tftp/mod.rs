//! TFTP as boot firmware speaks it (RFC 1350, 2347, 2348, 2349, 7440): reading only.
//!
//! ```text
//!   client                                   server (a port of its own per transfer)
//!     | RRQ file, blksize, tsize, windowsize -->  |  :69
//!     | <------------------------- OACK what of it |
//!     | ACK 0 ---------------------------------->  |
//!     | <------ DATA 1, 2 .. windowsize            |
//!     | ACK last in order ---------------------->  |
//!     | <------ DATA ...  the one that is not full is the last
//! ```

pub mod client;
mod packet;
pub mod server;

pub use packet::{DecodeError, ErrorCode, Packet, data_header};

/// Where requests go.
pub const PORT: u16 = 69;
/// Without the option.
pub const DEFAULT_BLOCK: u16 = 512;
pub const MIN_BLOCK: u16 = 8;
pub const MAX_BLOCK: u16 = 65464;

#[cfg(test)]
mod tests;
