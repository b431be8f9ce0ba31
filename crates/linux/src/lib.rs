//! The Linux kernel as Plinth uses it: this crate touches the world and decides nothing.
//!
//! ```text
//!   netns ──── network namespaces, and `Host`: one namespace + one runtime, for tests
//!   netlink ── the rtnetlink connection; its verbs live in link, addr, route
//!   tap ────── tap devices as descriptors        packet ── whole Ethernet frames
//!   frame ──── Ethernet/IPv4/UDP bytes (pure)    sysctl ── /proc/sys
//!   vrrp_socket ── IP protocol 112              mmsg ──── many datagrams per call
//!   epoll, stream, splice ── what a TCP balancer on one thread is made of
//!   process ── children that die with us, pids that are not reused
//!   mount, kmod, power, kexec, sched, clock, kernel_log, memory ── what an init program and a real-time daemon need
//!   block, nvme, ata ── disks        bmc ── the server's own BMC        terminal ── what is typed unseen
//! ```
//!
//! It is the only crate with `unsafe`; each module that needs it says why.

pub mod addr;
pub mod ata;
pub mod block;
pub mod bmc;
pub mod clock;
pub mod epoll;
pub mod frame;
pub mod kernel_log;
pub mod kexec;
pub mod kmod;
pub mod link;
pub mod memory;
pub mod mmsg;
pub mod mount;
pub mod netlink;
pub mod netns;
pub mod nvme;
pub mod packet;
pub mod power;
pub mod process;
pub mod route;
pub mod sched;
pub mod splice;
pub mod stream;
pub mod sysctl;
pub mod tap;
pub mod terminal;
pub mod vrrp_socket;
