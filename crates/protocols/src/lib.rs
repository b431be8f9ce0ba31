//! DHCP, TFTP, DNS, IPMI: codecs, and machines that turn (time, event) into actions.
