//! Netlink, namespaces, packet sockets, block devices, mounts, modules.
