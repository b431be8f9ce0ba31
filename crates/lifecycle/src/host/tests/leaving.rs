//! Deletion and detachment.

use std::time::Duration;

use super::given::{Given, brief, fresh, host, in_use, now};
use crate::host::{
    Action, Credentials, ErrorType, Operational, State, Trouble, annotations, troubled,
};
use crate::node;

#[test]
fn deletion_takes_the_way_that_fits_the_state() {
    use node::State as Node;
    let off = "-> powering off before delete";
    let rows = [
        (State::None, Node::Enroll, "-> deleting"),
        (State::Unmanaged, Node::Enroll, "-> deleting"),
        (State::Registering, Node::Enroll, "-> deleting"),
        (State::Inspecting, Node::InspectWait, off),
        (State::Preparing, Node::Manageable, off),
        (State::Available, Node::Available, off),
        (State::Provisioning, Node::Deploying, "-> deprovisioning"),
        (State::Provisioned, Node::Active, "-> deprovisioning"),
        (State::ExternallyProvisioned, Node::Active, off),
        (
            State::Deprovisioning,
            Node::Available,
            "-> powering off before delete, [DeprovisioningComplete]",
        ),
        (State::PoweringOff, Node::Available, "-> deleting"),
        (State::Deleting, Node::Available, "delete node"),
        (State::Deleting, Node::Active, "begin maintenance"),
    ];
    for (state, node, wanted) in rows {
        assert_eq!(
            host(state, node).deleting().says(),
            wanted,
            "{state} {node}"
        );
    }
    let gone = host(State::Deleting, Node::Enroll)
        .unknown_to_ironic()
        .deleting();
    assert_eq!(gone.says(), "release");
    let released = gone.with(|given| given.host.finalizer = false);
    assert_eq!(released.says(), "done");
}

#[test]
fn deletion_gives_up_on_what_cannot_be_done() {
    let unreachable = host(State::PoweringOff, node::State::Available)
        .deleting()
        .powered_on()
        .failed(ErrorType::Registration, "broken")
        .with(|given| given.host.status.error_count = 4);
    assert_eq!(unreachable.says(), "-> deleting");
    let stuck = host(State::Deprovisioning, node::State::Error)
        .deleting()
        .with(|given| {
            given.host.status.error_count = 4;
            given.node().last_error = Some("stuck".into());
        });
    assert_eq!(
        stuck.says(),
        "-> powering off before delete, [ProvisioningError]"
    );
    let stays_on = host(State::PoweringOff, node::State::Available)
        .deleting()
        .powered_on()
        .with(|given| {
            given.host.status.error_count = 4;
            given.node().last_error = Some("no answer".into());
        });
    assert_eq!(stays_on.says(), "-> deleting, [PowerManagementError]");
}

#[test]
fn deletion_does_without_credentials_and_without_ironic_where_there_is_nothing_to_do() {
    let no_secret = host(State::PoweringOff, node::State::Active)
        .deleting()
        .unknown_to_ironic()
        .with(|given| given.seen.credentials = Credentials::Missing);
    assert_eq!(no_secret.says(), "-> deleting");
    let never_registered = fresh().deleting().with(|given| {
        given.host.status.provisioning.state = State::Deleting;
        given.seen.ironic = None;
    });
    assert_eq!(never_registered.says(), "release");
    let known = host(State::Deleting, node::State::Active)
        .deleting()
        .with(|given| given.seen.ironic = None);
    assert_eq!(known.says(), "wait 1s: Ironic to be ready");
}

#[test]
fn an_ironic_that_is_about_to_begin_is_looked_for_sooner_than_one_that_has_long_been_away() {
    for (away, pause) in [(0, "1s"), (10, "5s"), (60, "30s"), (3600, "30s")] {
        let given = host(State::Inspecting, node::State::Manageable);
        let waits = given.with(|given| {
            given.seen.ironic = None;
            given.seen.ironic_away = Duration::from_secs(away);
        });
        assert_eq!(waits.says(), format!("wait {pause}: Ironic to be ready"));
    }
}

fn detach(given: Given, value: &str) -> Given {
    given.annotated(annotations::DETACHED, value)
}

#[test]
fn a_detached_host_is_left_alone_until_it_is_attached_again() {
    assert_eq!(detach(in_use(), "").says(), "begin maintenance");
    let gone = detach(in_use(), "").unknown_to_ironic();
    assert_eq!(gone.says(), "status Detached");
    let detached = gone.with(|given| given.host.status.operational_status = Operational::Detached);
    assert_eq!(detached.says(), "wait 600s: the host to be attached again");
    let attached = detached.with(|given| given.host.annotations.clear());
    assert_eq!(attached.says(), "status Ok");
}

#[test]
fn detaching_waits_for_work_to_end_unless_it_is_forced() {
    let inspecting = || host(State::Inspecting, node::State::InspectWait);
    let waits = detach(inspecting(), "");
    assert_eq!(
        waits.says(),
        "wait 10s: the host to boot the ramdisk and report its hardware"
    );
    let forced = detach(inspecting(), r#"{"force":true}"#);
    assert_eq!(forced.says(), "verb abort");
}

#[test]
fn a_detached_host_is_deleted_at_once_unless_that_is_delayed() {
    let detached = detach(in_use(), "")
        .deleting()
        .with(|given| given.host.status.operational_status = Operational::Detached);
    assert_eq!(detached.says(), "-> deleting");
    let delayed = detach(detached.clone(), r#"{"deleteAction":"delay"}"#);
    assert!(
        delayed.says().starts_with("wait 600s"),
        "{}",
        delayed.says()
    );
    let attached = detached.with(|given| given.host.annotations.clear());
    assert_eq!(attached.says(), "status Ok", "attached first, then deleted");
}

#[test]
fn an_error_of_detaching_goes_with_the_annotation() {
    let failed = in_use().failed(ErrorType::Detach, "no").with(|given| {
        given.host.status.last_updated = Some(now() - Duration::from_secs(1));
    });
    assert_eq!(failed.says(), "status Ok");
    let waits = detach(failed, "").with(super::given::just_now);
    let said = waits.says();
    assert!(
        said.contains("another try to detach the host: no"),
        "{said}"
    );
}

#[test]
fn a_node_that_may_not_be_deleted_is_a_detach_error_or_waited_for() {
    let no = Trouble::Refused {
        message: "locked".into(),
    };
    let delete = Action::DeleteNode {
        node: "node-1".into(),
    };
    let says = |given: &Given| {
        let step = troubled(&given.host, &given.seen, &given.config, now(), &delete, &no);
        brief(&step, &given.host.status)
    };
    let detaching = detach(in_use(), "");
    assert_eq!(says(&detaching), "Detach error: locked, [DetachError]");
    let deleting = host(State::Deleting, node::State::Active).deleting();
    assert_eq!(says(&deleting), "wait 30s: Ironic, which refused: locked");
}
