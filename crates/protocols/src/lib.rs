//! DHCP, TFTP, DNS, IPMI, VRRP: codecs, and machines that turn (time, event) into actions.

pub mod dhcp;
pub mod dns;
pub mod ipmi;
pub mod tftp;
pub mod vrrp;
