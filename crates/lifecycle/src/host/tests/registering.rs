//! How a host comes under control, and stays there.

use std::time::Duration;

use serde_json::json;

use super::given::{Given, MAC, brief, fresh, host, in_use, just_now, now, rest, secret};
use crate::host::{
    Action, Bmc, BootMode, Credentials, CredentialsStatus, ErrorType, InspectionMode, Operational,
    PortOwner, Power, State, Step, Trouble, Verb, annotations, troubled,
};
use crate::node;

#[test]
fn a_paused_host_is_not_touched() {
    let given = in_use().annotated(annotations::PAUSED, "x").deleting();
    assert_eq!(given.says(), "done");
}

#[test]
fn a_new_host_gets_a_finalizer_then_registers_or_is_only_discovered() {
    let given = fresh().with(|given| given.host.finalizer = false);
    assert_eq!(given.says(), "add finalizer");
    assert_eq!(fresh().says(), "-> registering");
    let bare = fresh().with(|given| given.host.spec.bmc = Bmc::default());
    assert_eq!(bare.says(), "-> unmanaged, [Discovered]");
    assert_eq!(bare.saves().operational_status, Operational::Discovered);
    let unmanaged = bare.with(|given| given.host.status.provisioning.state = State::Unmanaged);
    assert_eq!(
        unmanaged.says(),
        "wait 600s: BMC details in the host's spec"
    );
}

#[test]
fn a_node_is_made_only_after_the_credentials_to_be_tried_are_written_down() {
    let mut given = fresh().with(|given| given.host.status.provisioning.state = State::Registering);
    assert_eq!(given.saves().tried_credentials, secret());
    given.host.status = given.saves();
    let Step::Do { actions, events } = given.next() else {
        panic!()
    };
    let [Action::CreateNode(node)] = actions.as_slice() else {
        panic!("{actions:?}")
    };
    insta::assert_json_snapshot!(node);
    assert_eq!(events[0].reason, "Registered");
}

#[test]
fn a_mac_of_another_host_is_an_error_and_a_node_nobody_named_is_taken() {
    let owner = |name: Option<&str>| PortOwner {
        uuid: "x".into(),
        name: name.map(str::to_owned),
    };
    let given = host(State::Registering, node::State::Enroll).unknown_to_ironic();
    let taken = given.clone().with(|given| {
        given.seen.port_owners = [(MAC.parse().unwrap(), Some(owner(Some("metal~other"))))].into();
    });
    assert_eq!(
        taken.says(),
        "Registration error: the MAC 52:54:00:00:00:01 is in use by the node \"metal~other\"; \
         a NIC belongs to one host only, [RegistrationError]"
    );
    let found = given.with(|given| {
        given.seen.port_owners = [(MAC.parse().unwrap(), Some(owner(None)))].into();
    });
    assert_eq!(found.saves().provisioning.id, "x");
}

#[test]
fn impossible_hosts_are_registration_errors_with_a_remedy() {
    type Change = fn(&mut Given);
    let rows: [(Change, &str); 9] = [
        (
            |given| given.host.spec.bmc.address = "telnet://x".into(),
            "scheme",
        ),
        (
            |given| given.host.spec.boot_mac_address = "zz".into(),
            "bootMACAddress",
        ),
        (
            |given| {
                given.host.spec.boot_mac_address.clear();
                given.host.spec.inspection_mode = Some(InspectionMode::Disabled);
            },
            "bootMACAddress is needed",
        ),
        (
            |given| given.config.provisioning_network_disabled = true,
            "virtual media",
        ),
        (
            |given| {
                given.host.spec.bmc.address = "ipmi://192.0.2.1".into();
                given.host.spec.boot_mode = Some(BootMode::UefiSecureBoot);
            },
            "UEFISecureBoot",
        ),
        (
            |given| {
                given.host.spec.bmc.address = "ipmi://192.0.2.1".into();
                given.host.spec.inspection_mode = Some(InspectionMode::Fast);
            },
            "needs a Redfish BMC",
        ),
        (
            |given| {
                given.host.spec.disable_power_off = true;
                given.seen.ironic = Some(89);
            },
            "1.95",
        ),
        (
            |given| given.seen.credentials = Credentials::Missing,
            "does not exist",
        ),
        (
            |given| given.host.spec.bmc.address.clear(),
            "bmc.address is missing",
        ),
    ];
    for (change, wanted) in rows {
        let given = host(State::Registering, node::State::Enroll)
            .unknown_to_ironic()
            .with(change);
        let status = given.saves();
        assert_eq!(status.error_type, Some(ErrorType::Registration), "{wanted}");
        assert!(
            status.error_message.contains(wanted),
            "{wanted}: {}",
            status.error_message
        );
        assert_eq!(status.error_count, 1);
    }
}

#[test]
fn a_missing_secret_is_written_down_once_and_looked_for_often() {
    let mut given = host(State::Registering, node::State::Enroll)
        .with(|given| given.seen.credentials = Credentials::Missing);
    given.host.status = given.saves();
    let said = given.says();
    assert!(said.starts_with("wait 10s: the Secret \"bmc\""), "{said}");
    let back = given.with(|given| {
        given.seen.credentials = host(State::None, node::State::Enroll).seen.credentials;
    });
    assert_eq!(
        back.says(),
        "verb manage, status Ok",
        "and taken up when it comes"
    );
}

#[test]
fn new_credentials_are_tried_at_once_even_in_the_midst_of_a_back_off() {
    let given = host(State::Registering, node::State::Enroll)
        .failed(ErrorType::Registration, "refused")
        .with(|given| {
            just_now(given);
            given.node().last_error = Some("refused".into());
        });
    assert!(given.says().starts_with("wait"), "{}", given.says());
    let given = given.with(|given| {
        given.seen.credentials = Credentials::Present {
            secret: secret().credentials.unwrap(),
            version: "2".into(),
        };
    });
    assert_eq!(given.says(), "set driver_info, verb manage, status Ok");
}

#[test]
fn an_error_is_waited_out_unless_something_was_edited_or_a_retry_is_asked_for() {
    let failed = host(State::Inspecting, node::State::InspectFailed)
        .failed(ErrorType::Inspection, "no ramdisk")
        .with(just_now);
    let Step::Wait { until, .. } = failed.next() else {
        panic!()
    };
    assert!(until > now() + Duration::from_mins(1) && until <= now() + Duration::from_mins(2));
    let edited = failed.clone().with(|given| given.host.generation = 2);
    let again = "patch /inspect_interface, verb inspect, status Ok, [InspectionStarted]";
    assert_eq!(edited.says(), again);
    let asked = failed.annotated(annotations::RETRY_NOW, "");
    assert_eq!(
        asked.says(),
        "save, remove baremetalhost.metal3.io/retry-now, [RetryNow]"
    );
    let heeded = asked.clone().with(|given| {
        given.host.status = asked.saves();
        given.host.annotations.clear();
    });
    assert_eq!(heeded.says(), again);
    assert_eq!(heeded.host.status.error_count, 0);
}

#[test]
fn a_registered_host_goes_where_its_spec_says() {
    let registered = || host(State::Registering, node::State::Manageable);
    assert_eq!(registered().says(), "-> inspecting");
    let external = registered().with(|given| given.host.spec.externally_provisioned = true);
    assert_eq!(external.says(), "-> externally provisioned");
    let blind =
        registered().with(|given| given.host.spec.inspection_mode = Some(InspectionMode::Disabled));
    assert_eq!(blind.says(), "-> preparing");
    let unproven = registered()
        .with(|given| given.host.status.good_credentials = CredentialsStatus::default());
    assert_eq!(
        unproven.says(),
        "ensure firmware objects, save, [BMCAccessValidated]"
    );
    assert_eq!(unproven.saves().good_credentials, secret());
}

#[test]
fn a_node_follows_its_host() {
    type Change = fn(&mut Given);
    let rows: [(Change, &str); 5] = [
        (|given| given.node().name = Some("h0".into()), "patch /name"),
        (
            |given| given.host.spec.bmc.address = "redfish://192.0.2.2/redfish/v1/Systems/1".into(),
            "set driver_info, save",
        ),
        (
            |given| given.host.spec.bmc.address = "ipmi://192.0.2.2".into(),
            "patch /driver /boot_interface /raid_interface, set driver_info, save",
        ),
        (
            |given| given.host.spec.architecture = "aarch64".into(),
            "patch /properties/cpu_arch",
        ),
        (
            |given| given.seen.ports = Some(vec![]),
            "create port 52:54:00:00:00:01",
        ),
    ];
    for (change, wanted) in rows {
        let given = host(State::Inspecting, node::State::Manageable).with(change);
        assert_eq!(given.says(), wanted);
    }
}

#[test]
fn a_host_in_use_whose_node_is_gone_is_made_anew_and_adopted() {
    assert_eq!(
        in_use().unknown_to_ironic().says(),
        "create node, [Registered]"
    );
    let found = in_use().with(|given| given.node().uuid = "node-2".into());
    assert_eq!(found.saves().provisioning.id, "node-2");
    let manageable = host(State::Provisioned, node::State::Manageable)
        .has("a")
        .powered_on();
    assert_eq!(manageable.says(), "verb adopt");
    let failed = host(State::Provisioned, node::State::AdoptFailed)
        .has("a")
        .with(|given| given.node().last_error = Some("no power".into()));
    assert_eq!(
        failed.says(),
        "ProvisionedRegistration error: the host could not be adopted: no power, [ProvisionedRegistrationError]"
    );
}

#[test]
fn a_status_is_restored_from_its_annotation_before_anything_else() {
    let kept = json!({
        "provisioning": {"state": "provisioned", "ID": "x", "image": {"url": "u"}},
        "poweredOn": true,
    });
    let given = fresh().annotated(annotations::STATUS, &kept.to_string());
    assert_eq!(
        given.says(),
        "-> provisioned, remove baremetalhost.metal3.io/status"
    );
    assert_eq!(given.saves().last_updated, Some(now()));
    let late = rest()
        .annotated(annotations::STATUS, "{}")
        .with(|given| given.host.status.last_updated = Some(now()));
    assert_eq!(late.says(), "remove baremetalhost.metal3.io/status");
    let odd = fresh().annotated(annotations::STATUS, "lost");
    assert_eq!(
        odd.says(),
        "remove baremetalhost.metal3.io/status, [InvalidAnnotationValue]"
    );
}

#[test]
fn details_come_from_hardware_data_or_an_annotation_where_nothing_is_known() {
    let details = json!({"hostname": "h", "cpu": {"arch": "aarch64"}});
    let told = rest().annotated(annotations::HARDWARE_DETAILS, &details.to_string());
    assert_eq!(
        told.says(),
        "save, remove inspect.metal3.io/hardwaredetails, [UpdateHardwareDetails]"
    );
    let kept = rest().with(|given| given.seen.hardware_data = Some(details.clone()));
    assert_eq!(kept.says(), "architecture aarch64");
    let known = told.with(|given| given.host.status.hardware = Some(json!({})));
    assert_eq!(
        known.says(),
        "remove inspect.metal3.io/hardwaredetails, [RemoveAnnotation]"
    );
}

#[test]
fn a_refusal_becomes_an_error_of_the_right_kind_and_silence_is_waited_for() {
    let given = host(State::Inspecting, node::State::Manageable);
    let says = |action: &Action, trouble: &Trouble| {
        let step = troubled(
            &given.host,
            &given.seen,
            &given.config,
            now(),
            action,
            trouble,
        );
        brief(&step, &given.host.status)
    };
    let no = Trouble::Refused {
        message: "no".into(),
    };
    let verb = Action::Provision {
        node: "node-1".into(),
        verb: Verb::Inspect,
    };
    assert_eq!(says(&verb, &no), "Inspection error: no, [InspectionError]");
    let power = Action::Power {
        node: "node-1".into(),
        power: Power::On,
    };
    assert_eq!(
        says(&power, &no),
        "PowerManagement error: no, [PowerManagementError]"
    );
    assert_eq!(
        says(&verb, &Trouble::Busy),
        "wait 3s: the node or the object to be free"
    );
    assert_eq!(
        no.clone()
            .or_overtaken(node::State::Manageable, "manageable"),
        no
    );
    let overtaken = no
        .clone()
        .or_overtaken(node::State::Manageable, "inspecting");
    assert_eq!(
        says(&verb, &overtaken),
        "wait 3s: another look at the node, which became inspecting meanwhile"
    );
    let gone = Trouble::Unreachable {
        message: "timed out".into(),
    };
    assert!(says(&verb, &gone).starts_with("wait 10s"));
}
