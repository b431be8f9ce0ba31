//! What servers boot from: files by name, over TFTP for firmware and over HTTP for what is large.

pub mod http;
pub mod shelf;
pub mod tftp;
