//! When a node asks for the certificate it serves with, and for which address.
//!
//! ```text
//!   joined ─▶ ready, and a Machine is linked to it ─▶ as `identity` does: Draw, Submit, Wait, Take, Use
//!      └────── ready for a while without a Machine ─────▲
//! ```
//!
//! Nobody approves it before there is a Machine, so an install is not bothered with it. Where nobody makes Machines a person
//! may approve it, and is asked a little later.

use std::net::IpAddr;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;

use super::identity::{self, Pending, Step, Validity};

/// How far the node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Joined {
    /// Since when it has its Node, as far as this process knows.
    pub since: Timestamp,
    /// All that is checked on it holds.
    pub ready: bool,
    /// It is one that a Machine is linked to.
    pub machine: bool,
}

/// So long a Machine may be on its way.
pub const ALONE: SignedDuration = SignedDuration::from_mins(10);
/// Whoever looks for an approval looks a tenth as often as it has waited, within these.
const SOONEST: Duration = Duration::from_secs(10);
const LATEST: Duration = Duration::from_mins(5);
/// On a Node: its Machine, as namespace/name.
const MACHINE: &str = "machine.openshift.io/machine";

/// As [`identity::next`], but asks only in due time and looks seldom.
pub fn next(
    joined: Joined,
    certificate: Option<Validity>,
    pending: Option<&Pending>,
    spread: f64,
    now: Timestamp,
) -> Step {
    let step = identity::next(certificate, pending, spread, now);
    match step {
        Step::Draw { why } => match too_early(joined, now) {
            Some(reason) => Step::Wait {
                reason: reason.to_owned(),
                again_in: SOONEST,
            },
            None => Step::Draw { why },
        },
        Step::Wait { reason, .. } => Step::Wait {
            reason,
            again_in: pause(pending, now),
        },
        Step::Use { .. } | Step::Submit | Step::Take { .. } => step,
    }
}

/// Whether a Machine is linked to the Node.
pub fn has_machine(node: &Node) -> bool {
    let annotations = node.metadata.annotations.as_ref();
    annotations.is_some_and(|all| all.contains_key(MACHINE))
}

/// The first: by it Machines know their Nodes, so it is one that somebody can vouch for. It stays while none is known.
pub fn address(known: Option<IpAddr>, seen: &[IpAddr]) -> Option<IpAddr> {
    seen.first().copied().or(known)
}

fn too_early(joined: Joined, now: Timestamp) -> Option<&'static str> {
    if !joined.ready {
        return Some("this node to be ready");
    }
    let waited = now.duration_since(joined.since) >= ALONE;
    (!joined.machine && !waited).then_some("a Machine to be linked to this node")
}

fn pause(pending: Option<&Pending>, now: Timestamp) -> Duration {
    let age = pending.map(|pending| now.duration_since(pending.since));
    let age = age.unwrap_or_default().max(SignedDuration::ZERO);
    (age.unsigned_abs() / 10).clamp(SOONEST, LATEST)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::decide::identity::Request;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).expect("it is in range")
    }

    fn joined(ready: bool, machine: bool) -> Joined {
        Joined {
            since: at(0),
            ready,
            machine,
        }
    }

    fn pending(request: Request) -> Pending {
        Pending {
            since: at(0),
            request,
        }
    }

    #[test]
    fn a_node_asks_once_it_is_ready_and_somebody_can_approve() {
        let young = Some(Validity {
            not_before: at(0),
            not_after: at(1000),
        });
        let signed = || Some(pending(Request::Signed { pem: "pem".into() }));
        for (name, joined, certificate, request, now, expected) in [
            ("just joined", joined(false, false), None, None, 0, "Wait"),
            ("linked, ill", joined(false, true), None, None, 9999, "Wait"),
            ("linked", joined(true, true), None, None, 0, "Draw"),
            ("alone", joined(true, false), None, None, 599, "Wait"),
            ("long alone", joined(true, false), None, None, 600, "Draw"),
            ("has one", joined(false, false), young, None, 0, "Use"),
            ("its end", joined(true, true), young, None, 900, "Draw"),
            (
                "drawn",
                joined(false, false),
                None,
                Some(pending(Request::Absent)),
                1,
                "Submit",
            ),
            ("signed", joined(false, false), None, signed(), 1, "Take"),
        ] {
            let step = next(joined, certificate, request.as_ref(), 0.5, at(now));
            let said = format!("{step:?}");
            assert!(said.starts_with(expected), "{name}: {said}");
        }
    }

    #[test]
    fn the_longer_an_approval_takes_the_less_often_it_is_looked_for() {
        let again = |age: i64| {
            let waits = pending(Request::Undecided);
            match next(joined(true, true), None, Some(&waits), 0.0, at(age)) {
                Step::Wait { again_in, .. } => again_in.as_secs(),
                step
                @ (Step::Use { .. } | Step::Draw { .. } | Step::Submit | Step::Take { .. }) => {
                    panic!("{step:?}")
                }
            }
        };
        assert_eq!(
            [again(0), again(100), again(1200), again(3600)],
            [10, 10, 120, 300]
        );
    }

    #[test]
    fn the_address_is_the_first_and_stays_while_none_is_seen() {
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        let (old, new) = (ip("192.0.2.7"), ip("192.0.2.8"));
        assert_eq!(address(Some(old), &[new, ip("2001:db8::8")]), Some(new));
        assert_eq!(address(Some(old), &[]), Some(old));
        assert_eq!(address(None, &[]), None);
    }

    #[test]
    fn a_machine_is_known_by_the_nodes_annotation() {
        let mut node = Node::default();
        assert!(!has_machine(&node));
        let annotations = node.metadata.annotations.get_or_insert_default();
        annotations.insert(MACHINE.into(), "openshift-machine-api/lab-worker-0".into());
        assert!(has_machine(&node));
    }

    proptest! {
        /// Whatever the API answers: nothing is drawn before its time, and nobody looks more often than every ten seconds.
        #[test]
        fn an_install_is_not_bothered(ready in any::<bool>(), machine in any::<bool>(), now in 0_i64..2000) {
            match next(joined(ready, machine), None, None, 0.0, at(now)) {
                Step::Draw { .. } => prop_assert!(ready && (machine || now >= ALONE.as_secs())),
                Step::Wait { again_in, .. } => prop_assert!(again_in >= SOONEST),
                step @ (Step::Use { .. } | Step::Submit | Step::Take { .. }) => prop_assert!(false, "{step:?}"),
            }
        }
    }
}
