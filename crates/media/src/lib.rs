//! Disk and CD images as bytes: ISO 9660, FAT, cpio.
//!
//! Nothing here opens a file. An image is computed as a [`Layout`]: which bytes lie where, and which parts come
//! from a file that only the caller can open. A layout can be written out, or served piecemeal by HTTP range
//! without ever existing as a whole.
//!
//! ```text
//! boot_iso ──> fat (ESP) ──┐
//!      └──────────────────> iso ──> Layout ──> write_to(writer) | pieces(offset, len)
//! cpio ──> writer
//! ```

mod boot;
pub mod config_drive;
pub mod cpio;
mod date;
pub mod fat;
pub mod iso;
mod layout;
pub mod qcow2;

pub use boot::{BootIso, BootIsoError, MARKER, boot_iso};
pub use layout::{Content, Extent, Layout, Piece, WriteError};
