//! The agent as pieces: what it does to a server's disks, and the protocol by which Ironic commands it. The ramdisk's
//! program puts a real server under them; the lab puts simulated ones.
//!
//! ```text
//!   parameters   what the kernel line says
//!   ipa          inspection, lookup, heartbeats and the API on port 9999, over a `Machine`
//!   install      an image from its URL to a disk: fetch ─▶ disk
//!   disk         writing, partition tables, config drives, erasing
//!   boot_entry, efi   having UEFI firmware start what is on the disk
//!   boot_loader  what the system on the disk would start by itself
//!   http, resolve, fetch   the way to Ironic and to image servers
//! ```

pub mod boot_entry;
pub mod boot_loader;
pub mod disk;
pub mod efi;
pub mod fetch;
pub mod http;
pub mod install;
pub mod ipa;
pub mod parameters;
pub mod resolve;
