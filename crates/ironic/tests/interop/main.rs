//! Third-party clients at the other end of the API: the `baremetal` command line and openstacksdk.

mod command_line;
mod python;
mod sdk;
mod service;
mod tftp;
