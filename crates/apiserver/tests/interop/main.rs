//! Strangers at the API: kubectl, and controllers written with kube.
//!
//! Needs kubectl and etcd (Debian packages kubernetes-client and etcd-server); fails, and says so, without.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod cluster;
mod kube_rs;
mod kubectl;
mod members;
mod site;
mod store;
