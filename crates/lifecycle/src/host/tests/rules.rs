//! Rules that are tables of their own: what cancels, what conditions say.

use super::given::{host, image, now};
use crate::host::{CustomDeploy, ErrorType, Host, Operational, State, Step, Truth};
use crate::node;

fn deployments(wanted: (&str, &str), there: (&str, &str)) -> Host {
    let mut given = host(State::Provisioned, node::State::Active);
    let of = |(url, method): (&str, &str)| {
        let image = (!url.is_empty()).then(|| image(url));
        let method = (!method.is_empty()).then(|| CustomDeploy {
            method: method.to_owned(),
        });
        (image, method)
    };
    (given.host.spec.image, given.host.spec.custom_deploy) = of(wanted);
    let provisioning = &mut given.host.status.provisioning;
    (provisioning.image, provisioning.custom_deploy) = of(there);
    given.host
}

#[test]
fn what_starts_and_what_cancels_a_deployment() {
    // Wanted image and method, deployed image and method: starts, is cancelled.
    let rows = [
        (("", ""), ("", ""), false, true),
        (("a", ""), ("", ""), true, false),
        (("a", ""), ("a", ""), false, false),
        (("b", ""), ("a", ""), false, true),
        (("", ""), ("a", ""), false, true),
        (("", "m"), ("", ""), true, false),
        (("", "m"), ("", "m"), false, false),
        (("", "n"), ("", "m"), true, true),
        (("", ""), ("", "m"), false, true),
        (("a", ""), ("", "m"), true, true),
        (("a", "m"), ("a", "m"), false, false),
        (("b", "m"), ("a", "m"), false, true),
        (("", "m"), ("a", "m"), false, true),
        (("a", "m"), ("", "m"), true, false),
        (("", "m"), ("a", ""), true, true),
    ];
    for (wanted, there, starts, cancelled) in rows {
        let mut host = deployments(wanted, there);
        assert_eq!(host.needs_provisioning(), starts, "{wanted:?} {there:?}");
        assert_eq!(host.is_cancelled(), cancelled, "{wanted:?} {there:?}");
        host.spec.online = false;
        assert!(
            !host.needs_provisioning(),
            "a host that is to be off is not provisioned"
        );
    }
}

#[test]
fn another_checksum_format_or_user_data_does_not_redeploy() {
    let given = host(State::Provisioned, node::State::Active)
        .has("a")
        .powered_on()
        .with(|given| {
            let image = given.host.spec.image.as_mut().unwrap();
            image.checksum = "other".into();
            image.format = "qcow2".into();
            given.host.spec.user_data = Some(crate::host::SecretRef::default());
        });
    assert_eq!(
        given.says(),
        "wait 60s: a change of the host, or of its power"
    );
}

#[test]
fn conditions_say_where_a_host_is() {
    let rows = [
        (
            State::Registering,
            Operational::Ok,
            "Manageable=False(Registering) AvailableForProvisioning=False(NotAvailable) Provisioned=False(NotProvisioned) Ready=False(NotProvisioned) Progressing=True(Registering) Healthy=Unknown(Unknown)",
        ),
        (
            State::Available,
            Operational::Ok,
            "Manageable=True(Manageable) AvailableForProvisioning=True(Available) Provisioned=False(NotProvisioned) Ready=False(NotProvisioned) Progressing=False(NotProgressing) Healthy=Unknown(Unknown)",
        ),
        (
            State::Provisioned,
            Operational::Ok,
            "Manageable=True(Manageable) AvailableForProvisioning=False(NotAvailable) Provisioned=True(Provisioned) Ready=True(Provisioned) Progressing=False(NotProgressing) Healthy=Unknown(Unknown)",
        ),
        (
            State::Provisioned,
            Operational::Servicing,
            "Manageable=True(Manageable) AvailableForProvisioning=False(NotAvailable) Provisioned=True(Provisioned) Ready=False(Servicing) Progressing=False(NotProgressing) Healthy=Unknown(Unknown)",
        ),
        (
            State::Inspecting,
            Operational::Detached,
            "Manageable=True(Manageable) AvailableForProvisioning=False(NotAvailable) Provisioned=False(NotProvisioned) Ready=False(Detached) Progressing=False(Detached) Healthy=Unknown(Unknown)",
        ),
        (
            State::Deleting,
            Operational::Ok,
            "Manageable=True(Manageable) AvailableForProvisioning=False(NotAvailable) Provisioned=False(NotProvisioned) Ready=False(NotProvisioned) Progressing=True(Deleting) Healthy=Unknown(Unknown)",
        ),
    ];
    for (state, operational, wanted) in rows {
        let mut given = host(state, node::State::Active);
        given.host.status.operational_status = operational;
        let mut status = given.host.status.clone();
        crate::host::conditions::refresh(&mut status, &given.host, None, now(), now());
        let all = status.conditions.iter();
        let said: Vec<String> = all
            .map(|seen| format!("{}={:?}({})", seen.kind, seen.status, seen.reason))
            .collect();
        assert_eq!(said.join(" "), wanted);
    }
}

#[test]
fn an_error_is_told_with_the_time_of_the_next_try_and_health_follows_the_node() {
    let mut given = host(State::Provisioned, node::State::Active)
        .failed(ErrorType::PowerManagement, "no answer");
    given.node().health = Some("Critical".into());
    given.node().fault = Some("power failure".into());
    let mut status = given.host.status.clone();
    let node = given.seen.node.clone().unwrap().unwrap();
    crate::host::conditions::refresh(&mut status, &given.host, Some(&node), now(), now());
    let of = |kind: &str| {
        status
            .conditions
            .iter()
            .find(|seen| seen.kind == kind)
            .unwrap()
    };
    assert_eq!(
        of("Ready").message,
        "no answer; next try at 2027-01-15T08:00:00Z"
    );
    assert_eq!(
        (of("Healthy").status, of("Healthy").reason.as_str()),
        (Truth::False, "CriticalError")
    );
    assert_eq!(of("Manageable").reason, "PowerFailure");
    assert_eq!(of("Manageable").observed_generation, 1);
}

#[test]
fn what_a_host_at_work_waits_for_is_in_its_condition() {
    let mut given = host(State::Inspecting, node::State::InspectWait);
    given.host.status.last_updated = Some(now());
    let status = given.saves();
    let progressing = status
        .conditions
        .iter()
        .find(|seen| seen.kind == "Progressing")
        .unwrap();
    assert_eq!(
        progressing.message,
        "the host to boot the ramdisk and report its hardware"
    );
    assert_eq!(
        status.last_updated, given.host.status.last_updated,
        "that is no news of the host itself"
    );
    given.host.status = status;
    assert!(
        matches!(given.next(), Step::Wait { .. }),
        "and it is written once"
    );
}

#[test]
fn states_are_spelled_as_in_the_api() {
    for state in State::ALL {
        let json = serde_json::to_value(state).unwrap();
        assert_eq!(json, state.as_str());
        assert_eq!(serde_json::from_value::<State>(json).unwrap(), state);
    }
    assert_eq!(
        serde_json::from_value::<State>("ready".into()).unwrap(),
        State::Available
    );
}
