use jiff::Timestamp;
use lifecycle::host::{ErrorType, State};

use super::*;

const H: Host<'static> = Host {
    namespace: "metal",
    name: "h\"1",
};

fn status(state: State) -> Status {
    let mut status = Status::default();
    status.provisioning.state = state;
    status
}

#[test]
fn what_happened_to_a_host_is_told_and_forgotten_with_it() {
    let metrics = Metrics::default();
    let before = status(State::Inspecting);
    let mut after = status(State::Preparing);
    let at = |second| Timestamp::from_second(second).ok();
    after.operation_history.inspect.start = at(100);
    after.operation_history.inspect.end = at(160);
    metrics.saved(H, &before, &after);
    let mut failed = after.clone();
    failed.error_type = Some(ErrorType::Preparation);
    failed.error_count = 1;
    metrics.saved(H, &after, &failed);
    // Written once more for another reason: nothing new.
    metrics.saved(H, &failed, &failed);
    metrics.powered(H, Power::SoftOff);
    metrics.reconciling(H);
    metrics.reconciling(H);
    metrics.reconcile_failed(H);
    metrics.reconciled(Duration::from_millis(15));
    metrics.reconciled(Duration::from_millis(20));
    insta::assert_snapshot!(metrics.render());
    metrics.forget(H);
    let left = metrics.render();
    assert!(!left.contains("metal\""), "{left}");
    assert!(left.contains("metal3_host_error_total"), "{left}");
}

#[test]
fn every_family_has_a_name_of_its_own() {
    let mut names: Vec<&str> = Family::ALL.iter().map(|family| family.name()).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
}

#[test]
fn an_error_has_the_word_of_the_object() {
    assert_eq!(word(ErrorType::PowerManagement), "power management error");
}
