//! DHCP for IPv4 (RFC 2131, RFC 2132): the one server and the one client of Plinth.
//!
//! ```text
//!                 bytes                         bytes
//!  [client] -----------------> packet.rs ----------------> request.rs -> [server]
//!      client.rs                total decoding             what a client says
//!      (agent, simulated        on dhcproto                     |
//!       servers)                                                v
//!                                              server/  who gets which address, and when
//!                                                config.rs    what the site decides
//!                                                boot.rs      boot files by firmware
//!                                                addresses.rs the table of addresses
//!                                                reply.rs     the answer's bytes
//! ```
//!
//! The lab's site network and the provisioning network run the same [`server::Server`]; what differs between them
//! is data in [`server::Config`].

pub mod client;
pub mod packet;
pub mod request;
pub mod server;

pub use packet::{CLIENT_PORT, SERVER_PORT};
