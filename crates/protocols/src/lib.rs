//! DHCP, TFTP, DNS, IPMI, VRRP, balancing: codecs, and machines that turn (time, event) into actions.

pub mod balance;
pub mod dhcp;
pub mod dhcp6;
pub mod dns;
pub mod ipmi;
pub mod mdns;
pub mod ra;
pub mod tftp;
pub mod vrrp;
