//! The Linux kernel as Plinth uses it: this crate touches the world and decides nothing.
//!
//! ```text
//!   netns ──── network namespaces, and `Host`: one namespace + one runtime, for tests
//!   netlink ── the rtnetlink connection; its verbs live in link, addr, route
//!   tap ────── tap devices as descriptors        packet ── whole Ethernet frames
//!   frame ──── Ethernet/IPv4/UDP bytes (pure)    sysctl ── /proc/sys
//!   vrrp_socket ── IP protocol 112
//!   process ── children that die with us, pids that are not reused
//!   mount, kmod, power, sched ── what an init program and a real-time daemon need
//! ```
//!
//! It is the only crate with `unsafe`; each module that needs it says why.

pub mod addr;
pub mod block;
pub mod frame;
pub mod kmod;
pub mod link;
pub mod mount;
pub mod netlink;
pub mod netns;
pub mod packet;
pub mod power;
pub mod process;
pub mod route;
pub mod sched;
pub mod sysctl;
pub mod tap;
pub mod vrrp_socket;
