//! A node's sign of life: a Lease of its own name.

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference};

pub const NAMESPACE: &str = "kube-node-lease";
/// Whoever is silent for so long is taken to be gone.
const DURATION_S: i32 = 40;

#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    Create(Box<Lease>),
    Update(Box<Lease>),
}

/// The Lease goes with its Node; `uid` is the Node's.
pub fn next(seen: Option<&Lease>, name: &str, uid: &str, now: Timestamp) -> Write {
    let mut lease = seen.cloned().unwrap_or_else(|| Lease {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        },
        spec: None,
    });
    lease.metadata.owner_references = Some(vec![OwnerReference {
        api_version: "v1".into(),
        kind: "Node".into(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        ..OwnerReference::default()
    }]);
    let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
    spec.holder_identity = Some(name.to_owned());
    spec.lease_duration_seconds = Some(DURATION_S);
    spec.renew_time = Some(MicroTime(now));
    match seen {
        Some(_) => Write::Update(Box::new(lease)),
        None => Write::Create(Box::new(lease)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_made_and_then_renewed_as_it_is() {
        let now = Timestamp::UNIX_EPOCH;
        let Write::Create(first) = next(None, "n", "uid", now) else {
            panic!("there is none yet")
        };
        let mut seen = *first;
        seen.metadata.resource_version = Some("7".into());
        seen.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
        let later = Timestamp::from_second(10).expect("it is in range");
        let Write::Update(renewed) = next(Some(&seen), "n", "other", later) else {
            panic!("there is one")
        };
        assert_eq!(renewed.metadata.resource_version.as_deref(), Some("7"));
        assert_eq!(renewed.metadata.labels, seen.metadata.labels);
        let owners = renewed.metadata.owner_references.expect("it has an owner");
        assert_eq!(owners[0].uid, "other");
        let spec = renewed.spec.expect("it has one");
        assert_eq!(spec.renew_time, Some(MicroTime(later)));
        assert_eq!(spec.lease_duration_seconds, Some(40));
    }
}
