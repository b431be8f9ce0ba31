//! A data centre in a box: servers behind BMCs on two networks, breakable on demand.
//!
//! ```text
//!   plinth lab status|power|fault ──unix socket──▶ control
//!                                                     │
//!   ironic, sushy, ipmitool ──▶ bmc (Redfish, IPMI) ──┤
//!                                                     ▼
//!                                        server: one task per server
//!                                          chassis   decides (pure)
//!                                          board     QEMU, or simulated in-process
//!                                                     │ frames
//!                             baremetal ── provisioning (bridges in one namespace)
//!                                 │
//!                               site (DHCP, DNS, router)
//! ```

pub mod bmc;
pub mod certificate;
mod clock;
pub mod control;
pub mod daemon;
pub mod doctor;
pub mod fault;
pub mod hardware;
pub mod install_config;
pub mod loss;
pub mod needs;
pub mod network;
pub mod port;
pub mod rack;
pub mod server;
pub mod site;
pub mod state;
pub mod status;
pub mod up;
