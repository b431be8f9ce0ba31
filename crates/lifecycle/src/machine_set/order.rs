//! Which Machine goes first when there are too many.

use std::cmp::Reverse;

use jiff::Timestamp;

use super::{DeletePolicy, Member};

/// On a Machine: this one first.
pub const DELETE_MACHINE: &str = "machine.openshift.io/delete-machine";

/// The one to delete. Equal ones in order of their names, so that asking twice gives the same answer.
pub(super) fn first_to_go<'a>(
    members: &[&'a Member],
    policy: DeletePolicy,
    now: Timestamp,
) -> Option<&'a Member> {
    members
        .iter()
        .copied()
        .max_by_key(|member| (priority(member, policy, now), Reverse(&member.name)))
}

/// The higher, the sooner. What was chosen by hand goes before what failed, and that before the rest.
fn priority(member: &Member, policy: DeletePolicy, now: Timestamp) -> (u8, i64) {
    let age = member.created.duration_until(now).as_secs();
    if member.marked {
        return (4, 0);
    }
    if member.failed {
        return (3, 0);
    }
    match policy {
        DeletePolicy::Random => (u8::from(!member.has_node), 0),
        DeletePolicy::Oldest => (0, age),
        DeletePolicy::Newest => (0, -age),
    }
}
