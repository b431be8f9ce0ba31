//! What servers boot from: files by name, over TFTP (and, with the rest of the boot services, HTTP).

pub mod shelf;
pub mod tftp;
