//! The provisioning service: Ironic's API, network boot, and the care of every node.
