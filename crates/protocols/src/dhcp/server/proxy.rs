//! ProxyDHCP (PXE 2.1, 2.2.3): another server gives the addresses, we add what to boot.

use super::config::Role;
use super::{Action, Server, reply, send};
use crate::dhcp::request::{Kind, Request};

/// Where firmware asks the boot server it was told of.
pub const BOOT_PORT: u16 = 4011;

impl Server {
    /// On the ordinary port: an offer beside that of the server with the addresses.
    pub(super) fn proxy(&self, request: &Request, actions: &mut Vec<Action>) {
        match request.kind {
            Kind::Discover => {
                actions.extend(reply::proxy_offer(&self.config, request).map(send));
            }
            // These are the other server's business.
            Kind::Request | Kind::Decline | Kind::Release | Kind::Inform => {}
        }
    }

    /// On the boot server's port: firmware that has an address asks us alone.
    pub(super) fn boot_service(&self, request: &Request, actions: &mut Vec<Action>) {
        match (self.config.role, request.kind) {
            (Role::BootFiles, Kind::Request | Kind::Inform | Kind::Discover) => {
                actions.extend(reply::proxy_ack(&self.config, request).map(send));
            }
            (Role::BootFiles, Kind::Decline | Kind::Release) | (Role::Addresses, _) => {}
        }
    }
}
