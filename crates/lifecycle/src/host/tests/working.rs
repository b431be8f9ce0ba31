//! Inspection, preparation, deployment and its end.

use std::time::Duration;

use serde_json::json;

use super::given::{Given, host, image, in_use, now, rest};
use crate::host::{
    Action, CleaningMode, ErrorType, InspectionMode, Operational, Raid, State, Step, Verb,
    annotations,
};
use crate::node;

#[test]
fn what_inspection_found_is_kept_in_both_objects() {
    let given = host(State::Inspecting, node::State::Manageable)
        .with(|given| given.seen.inventory = Some(Some(json!({"inventory": {"hostname": "h"}}))));
    assert_eq!(
        given.says(),
        "save hardware data, -> preparing, [InspectionComplete]"
    );
    assert_eq!(given.saves().hardware.unwrap()["hostname"], "h");
    let off = given.with(|given| given.host.spec.inspection_mode = Some(InspectionMode::Disabled));
    assert_eq!(off.says(), "-> preparing, [InspectionSkipped]");
}

#[test]
fn an_available_host_is_inspected_again_when_asked_and_the_request_goes_when_it_starts() {
    let asked = rest().annotated(annotations::INSPECT, "");
    assert_eq!(asked.says(), "-> inspecting");
    let starting =
        host(State::Inspecting, node::State::Manageable).annotated(annotations::INSPECT, "");
    assert_eq!(
        starting.says(),
        "patch /inspect_interface, verb inspect, remove inspect.metal3.io, [InspectionStarted]"
    );
}

#[test]
fn an_inspection_that_was_aborted_starts_again_without_a_word() {
    let given = host(State::Inspecting, node::State::InspectFailed)
        .with(|given| given.node().last_error = Some("Inspection was aborted by request".into()));
    assert_eq!(
        given.says(),
        "patch /inspect_interface, verb inspect, [InspectionStarted]"
    );
    let forced = host(State::Inspecting, node::State::InspectWait)
        .annotated(annotations::REBOOT, r#"{"force":true}"#);
    assert_eq!(forced.says(), "verb abort");
}

#[test]
fn an_inspection_that_leaves_no_inventory_is_an_error_and_not_begun_for_ever() {
    let given = host(State::Inspecting, node::State::Manageable).with(|given| {
        given.node().inspection_finished_at = Some("2027-01-01T00:00:00+00:00".into());
    });
    assert!(
        given
            .says()
            .starts_with("Inspection error: Ironic has inspected the host and keeps no inventory"),
        "{}",
        given.says()
    );
    let again = given.failed(ErrorType::Inspection, "no inventory");
    assert_eq!(
        again.says(),
        "patch /inspect_interface, verb inspect, status Ok, [InspectionStarted]"
    );
}

#[test]
fn raid_is_made_by_manual_cleaning_and_noted_when_that_starts() {
    let raid = json!({"hardwareRAIDVolumes": [{"level": "1"}]});
    let raid: Raid = serde_json::from_value(raid).unwrap();
    let given = host(State::Preparing, node::State::Manageable)
        .with(|given| given.host.spec.raid = Some(raid.clone()));
    assert_eq!(
        given.says(),
        "patch /raid_interface, raid of 1, verb clean, save"
    );
    assert_eq!(given.saves().provisioning.raid, Some(raid.clone()));
    let done = given.with(|given| given.host.status.provisioning.raid = Some(raid));
    assert_eq!(done.says(), "-> available");
    let changed = rest().with(|given| given.host.spec.raid = done.host.spec.raid.clone());
    assert_eq!(changed.says(), "-> preparing");
}

#[test]
fn a_failed_preparation_forgets_what_was_set_up_and_is_begun_again_from_manageable() {
    let given = host(State::Preparing, node::State::CleanFailed)
        .with(|given| given.node().last_error = Some("no controller".into()));
    assert_eq!(
        given.says(),
        "Preparation error: no controller, [PreparationError]"
    );
    assert_eq!(given.saves().provisioning.root_device_hints, None);
    let again = given.failed(ErrorType::Preparation, "no controller");
    let held = again.clone().with(|given| {
        given.node().maintenance = true;
        given.node().fault = Some("clean failure".into());
    });
    assert_eq!(held.says(), "end maintenance");
    assert_eq!(again.says(), "verb manage, status Ok");
}

#[test]
fn a_node_with_a_fault_of_its_own_is_left_to_ironic_and_maintenance_by_hand_is_ended() {
    let faulty = host(State::Provisioning, node::State::Manageable)
        .wants("a")
        .with(|given| {
            given.node().maintenance = true;
            given.node().fault = Some("power failure".into());
        });
    assert_eq!(
        faulty.says(),
        "wait 10s: Ironic to recover the node from \"power failure\""
    );
    let by_hand = faulty.with(|given| given.node().fault = None);
    assert_eq!(by_hand.says(), "end maintenance");
}

/// A node that was told of the image.
fn told(given: &mut Given) {
    let node = given.node();
    node.instance_uuid = Some("uid-0".into());
    let key = "force_persistent_boot_device";
    node.driver_info.insert(key.into(), "Default".into());
    node.instance_info = serde_json::from_value(json!({
        "capabilities": {}, "root_device": {"name": "s== /dev/sda"},
        "image_source": "http://images/a", "image_checksum": "c0ffee",
    }))
    .unwrap();
}

#[test]
fn a_deployment_is_set_up_checked_and_started() {
    let given = host(State::Provisioning, node::State::Available).wants("a");
    let Step::Do { actions, .. } = given.next() else {
        panic!()
    };
    let [Action::PatchNode { patch, .. }] = actions.as_slice() else {
        panic!("{actions:?}")
    };
    insta::assert_json_snapshot!(patch);
    let ready = given.with(told);
    assert_eq!(ready.says(), "verb active, [ProvisioningStarted]");
    let refused = ready
        .clone()
        .with(|given| given.seen.validation = Some(vec!["no kernel".into()]));
    assert_eq!(
        refused.says(),
        "Provisioning error: Ironic refuses to deploy http://images/a: no kernel, [ProvisioningError]"
    );
    let secretless = ready
        .clone()
        .with(|given| given.seen.deploy_data = Some(Err("no user data".into())));
    assert_eq!(
        secretless.says(),
        "Provisioning error: no user data, [ProvisioningError]"
    );
    let unchecked = ready.with(|given| {
        given.host.spec.image.as_mut().unwrap().checksum.clear();
        given
            .host
            .status
            .last_attempted_image
            .clone_from(&given.host.spec.image);
    });
    let said = unchecked.says();
    assert!(said.contains("image.checksum is needed"), "{said}");
}

#[test]
fn a_custom_deployment_sends_its_step_and_its_config_drive() {
    let given = host(State::Provisioning, node::State::Available)
        .custom("install_coreos")
        .with(told)
        .with(|given| {
            given.node().deploy_interface = Some("custom-agent".into());
            given.node().instance_info.remove("image_source");
            given.node().instance_info.remove("image_checksum");
        });
    let Step::Do { actions, .. } = given.next() else {
        panic!()
    };
    let [Action::Provision { verb, .. }] = actions.as_slice() else {
        panic!("{actions:?}")
    };
    let Verb::Active {
        config_drive,
        steps,
    } = verb
    else {
        panic!("{verb:?}")
    };
    assert_eq!(
        json!(steps),
        json!([{"interface": "deploy", "step": "install_coreos", "args": {}, "priority": 80}])
    );
    let defaults = &config_drive.as_ref().unwrap().defaults;
    assert_eq!(defaults["local-hostname"], "h0");
    assert_eq!(defaults["uuid"], "uid-0");
}

#[test]
fn a_live_iso_is_booted_without_a_config_drive() {
    let given = host(State::Provisioning, node::State::Available)
        .wants("a")
        .with(|given| {
            let image = given.host.spec.image.as_mut().unwrap();
            image.format = "live-iso".into();
            image.checksum.clear();
            given
                .host
                .status
                .last_attempted_image
                .clone_from(&given.host.spec.image);
        });
    assert_eq!(
        given.says(),
        "patch /instance_uuid /instance_info/capabilities /instance_info/root_device \
         /instance_info/boot_iso /deploy_interface /driver_info/force_persistent_boot_device"
    );
    let ready = given.with(told).with(|given| {
        given.node().deploy_interface = Some("ramdisk".into());
        given.node().instance_info.remove("image_source");
        given.node().instance_info.remove("image_checksum");
        let url = json!("http://images/a");
        given.node().instance_info.insert("boot_iso".into(), url);
    });
    let Step::Do { actions, .. } = ready.next() else {
        panic!()
    };
    let [Action::Provision { verb, .. }] = actions.as_slice() else {
        panic!("{actions:?}")
    };
    assert!(matches!(
        verb,
        Verb::Active {
            config_drive: None,
            ..
        }
    ));
}

#[test]
fn a_failed_deployment_is_cleaned_away_counted_and_not_tried_for_ever() {
    let failed = || {
        host(State::Provisioning, node::State::DeployFailed)
            .wants("a")
            .with(told)
    };
    let seen = failed().with(|given| given.node().last_error = Some("disk full".into()));
    assert_eq!(
        seen.says(),
        "Provisioning error: deploying http://images/a failed: disk full, [ProvisioningError]"
    );
    let later = failed().failed(ErrorType::Provisioning, "disk full");
    assert_eq!(later.says(), "-> deprovisioning");
    assert_eq!(later.saves().provisioning_fail_count, 1);
    let often = rest()
        .wants("a")
        .with(|given| given.host.status.provisioning_fail_count = 5);
    let said = often.says();
    assert!(
        said.starts_with("Provisioning error: provisioning failed 5 times"),
        "{said}"
    );
    let other = often.with(|given| given.host.spec.image = Some(image("b")));
    assert_eq!(other.saves().provisioning_fail_count, 0);
    let endless = rest().wants("a").with(|given| {
        given.host.status.provisioning_fail_count = 99;
        given.config.max_provisioning_retries = 0;
    });
    assert_eq!(endless.says(), "-> provisioning");
}

#[test]
fn another_image_in_the_midst_of_a_deployment_starts_over() {
    let given = host(State::Provisioning, node::State::Deploying)
        .wants("a")
        .with(|given| given.host.spec.image = Some(image("b")));
    assert_eq!(given.says(), "-> deprovisioning");
}

#[test]
fn a_provisioned_host_says_what_it_runs_and_is_deprovisioned_when_that_changes() {
    let left_over = host(State::Provisioning, node::State::Active).wants("a");
    assert_eq!(
        left_over.says(),
        "verb deleted",
        "what runs there is not what is wanted"
    );
    let done = left_over.with(told);
    assert_eq!(done.says(), "-> provisioned, [ProvisioningComplete]");
    assert_eq!(done.saves().provisioning.image, Some(image("a")));
    assert_eq!(
        in_use().says(),
        "wait 60s: a change of the host, or of its power"
    );
    let other = in_use().with(|given| given.host.spec.image = Some(image("b")));
    assert_eq!(other.says(), "-> deprovisioning");
    let gone = host(State::Deprovisioning, node::State::Available).has("a");
    assert_eq!(gone.says(), "-> available, [DeprovisioningComplete]");
    assert_eq!(gone.saves().provisioning.image, None);
    let hints = gone.saves().provisioning.root_device_hints;
    assert_eq!(hints, None, "so that it is prepared again");
}

#[test]
fn cleaning_follows_the_host_before_its_system_is_taken_off() {
    let same = host(State::Deprovisioning, node::State::Active);
    assert_eq!(same.says(), "verb deleted, [DeprovisioningStarted]");
    let other = same.with(|given| given.host.spec.automated_cleaning_mode = CleaningMode::Disabled);
    assert_eq!(other.says(), "patch /automated_clean");
}

#[test]
fn an_externally_provisioned_host_becomes_provisioned_or_is_wiped_when_the_flag_goes() {
    let external = || host(State::ExternallyProvisioned, node::State::Active).powered_on();
    let kept = external().wants("a");
    assert_eq!(kept.says(), "-> provisioned");
    assert_eq!(
        kept.saves().provisioning.image,
        Some(image("a")),
        "and nothing is deployed"
    );
    let bare = external();
    assert_eq!(bare.says(), "-> provisioned");
    let then = bare.with(|given| given.host.status.provisioning.state = State::Provisioned);
    assert_eq!(then.says(), "-> deprovisioning");
    let joins = rest().with(|given| given.host.spec.externally_provisioned = true);
    assert_eq!(joins.says(), "-> externally provisioned");
}

#[test]
fn hosts_stand_in_line_for_the_ramdisk() {
    let full = |given: &mut Given| {
        given.config.provisioning_limit = 2;
        given.seen.busy = Some(vec!["metal~x".into(), "metal~y".into()]);
    };
    let waits = host(State::Registering, node::State::Manageable).with(full);
    assert_eq!(waits.says(), "status Delayed");
    let own = waits
        .clone()
        .with(|given| given.seen.busy.as_mut().unwrap()[0] = "metal~h0".into());
    assert_eq!(own.says(), "-> inspecting");
    let media = waits.clone().with(|given| {
        let address = "redfish-virtualmedia://192.0.2.1/redfish/v1/Systems/1";
        given.host.spec.bmc.address = address.into();
        given.node().boot_interface = Some("redfish-virtual-media".into());
    });
    assert_eq!(
        media.says(),
        "-> inspecting",
        "a virtual CD needs no network"
    );
    let delayed = waits.with(|given| {
        given.host.status.operational_status = Operational::Delayed;
        given.host.status.last_updated = Some(now() - Duration::from_hours(1));
    });
    assert_eq!(delayed.says(), "save", "it looked, and looks again later");
    let free = delayed.with(|given| given.seen.busy = Some(vec![]));
    assert_eq!(free.says(), "status Ok");
}
