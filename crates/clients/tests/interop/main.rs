//! Our clients against BMCs: those of the lab, vendor by vendor, and strangers'.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod bmc;
mod ipmi;
mod lab_redfish;
mod python;
mod sushy_tools;
