//! The agent's work on disks, as blocking pieces: run them where blocking is allowed.
//!
//! ```text
//!   write      image ─▶ disk, verified, ends last
//!              limit, hashed, decompress, peek, format, spool    the readers it is made of
//!              content ─▶ writer ─▶ target                       blocks, order of writing, the disk
//!   table      what comes after: gpt | mbr; the backup GPT goes to the disk's end
//!   config_drive   a partition with the host's first configuration
//!   erase      the disk looks new; guard says which disks must not be touched
//!   overwrite  every byte, for disks that cannot erase themselves
//!   checksum   hashes, and the files publishers list them in
//! ```
//!
//! Which disk is the root disk is decided by `model::root_device`.

pub mod aligned;
pub mod checksum;
pub mod config_drive;
pub mod content;
pub mod decompress;
pub mod erase;
pub mod format;
pub mod gpt;
pub mod guard;
pub mod hashed;
pub mod limit;
pub mod mbr;
pub mod overwrite;
pub mod peek;
pub mod signature;
pub mod spool;
pub mod table;
pub mod target;
pub mod write;
pub mod writer;

#[cfg(test)]
mod tests;

pub use checksum::Checksum;
pub use decompress::Compression;
pub use format::Format;
pub use spool::Spool;
pub use target::{Store, Target};
pub use write::{Error, Options, Phase, Progress, Source, Written, write_image};
