//! The life of a Machine: it finds a host, has it provisioned, meets its Node, and gives the host back.
//!
//! ```text
//!   Machine, hosts, Node ──▶ next(..) ──▶ Do { actions } / Wait { reason, until } / Done
//!        "" ─▶ Provisioning ─▶ Provisioned ─▶ Running ─▶ Deleting          Failed: for a person, or a health check
//! ```
//!
//! `provider` reads the provider's part of a Machine; `choose` finds a host; `link` finds the Machine of a Node;
//! `csr` says whether a Node's certificate is expected; `deletion` is the way out.

mod choose;
pub mod csr;
mod deletion;
mod link;
mod next;
mod provider;
mod request;
mod selector;
#[cfg(test)]
mod tests;
mod view;

pub use choose::is_free;
pub use link::{Link, link, may_be};
pub use next::next;
pub use provider::{CustomDeploy, ProviderImage, ProviderSpec};
pub use selector::{HostSelector, LabelSelector, Requirement, SelectorError};
pub use view::{
    Action, Address, AddressKind, Condition, Config, EXCLUDE_DRAIN, FINALIZER, HOST_ANNOTATION,
    HostChange, HostSeen, INSTANCE_STATE, Machine, NodeRef, NodeSeen, Observed, Phase, Status,
    Step, Taint, host_ref, provider_id,
};
