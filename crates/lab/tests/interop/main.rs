//! Third-party programs at the other end of the lab's protocols.

mod python;
mod redfish;
