//! Firmware, its settings, and the ramdisk that changes them.

use serde_json::json;

use super::given::{Given, host, rest};
use crate::host::{
    Action, FirmwareComponents, FirmwareSettings, FirmwareUpdate, ImageFormat, ImageRequest,
    Observation, PreprovisioningImage, State, Step, Verb,
};
use crate::node;

fn seen() -> Observation {
    Observation {
        generation: 2,
        observed_generation: Some(2),
        change_detected: true,
        valid: true,
    }
}

fn pairs(all: &[(&str, &str)]) -> std::collections::BTreeMap<String, String> {
    all.iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn other_settings(given: &mut Given) {
    given.seen.firmware_settings = Some(FirmwareSettings {
        seen: seen(),
        wanted: [
            ("Boot".to_owned(), json!("Fast")),
            ("Smt".to_owned(), json!("enabled")),
        ]
        .into(),
        ..FirmwareSettings::default()
    });
    given.seen.bios = Some(pairs(&[("Boot", "Slow"), ("Smt", "Enabled")]));
}

#[test]
fn settings_are_changed_when_a_host_is_prepared_and_only_those_that_differ() {
    assert_eq!(rest().with(other_settings).says(), "-> preparing");
    let preparing = host(State::Preparing, node::State::Manageable).with(other_settings);
    let Step::Do { actions, .. } = preparing.next() else {
        panic!()
    };
    let Action::Provision {
        verb: Verb::Clean(steps),
        ..
    } = &actions[0]
    else {
        panic!("{actions:?}")
    };
    assert_eq!(
        json!(steps),
        json!([{"interface": "bios", "step": "apply_configuration",
            "args": {"settings": [{"name": "Boot", "value": "Fast"}]}}])
    );
    let applied = preparing.with(|given| given.seen.bios = Some(pairs(&[("Boot", "fast")])));
    assert_eq!(applied.says(), "-> available");
}

#[test]
fn settings_that_nobody_has_checked_are_waited_for() {
    let given = rest().with(other_settings).with(|given| {
        let settings = given.seen.firmware_settings.as_mut().unwrap();
        settings.seen.generation = 3;
    });
    assert_eq!(
        given.says(),
        "wait 60s: the HostFirmwareSettings of the host to be checked"
    );
}

fn update() -> Vec<FirmwareUpdate> {
    vec![FirmwareUpdate {
        component: "bios".into(),
        url: "http://fw".into(),
    }]
}

fn new_firmware(given: &mut Given) {
    given.seen.firmware_components = Some(FirmwareComponents {
        seen: seen(),
        wanted: update(),
        applied: vec![],
    });
}

#[test]
fn a_host_in_use_is_serviced_while_it_is_off_if_its_policy_says_so() {
    let off = host(State::Provisioned, node::State::Active)
        .has("a")
        .with(new_firmware);
    assert_eq!(off.says(), "power on, [PowerOn]", "without a policy");
    let allowed = off.with(|given| given.seen.update_policy.updates_on_reboot = true);
    assert_eq!(allowed.says(), "status Servicing");
    let servicing = allowed
        .clone()
        .with(|given| given.host.status = allowed.saves());
    assert_eq!(servicing.says(), "verb service, save 1 updates");
    let done = servicing.with(|given| {
        given.seen.firmware_components.as_mut().unwrap().applied = update();
    });
    assert_eq!(done.says(), "status Ok");
    let failed = done.with(|given| {
        given.node().provision_state = node::State::ServiceFailed;
        given.node().last_error = Some("flash".into());
    });
    assert_eq!(failed.says(), "Servicing error: flash, [ServicingError]");
    let again = failed.failed(crate::host::ErrorType::Servicing, "flash");
    assert_eq!(again.says(), "verb abort, status Ok");
}

#[test]
fn a_ramdisk_that_is_built_for_a_host_is_waited_for_before_it_boots() {
    let given = host(State::Inspecting, node::State::Manageable)
        .with(|given| given.config.image_builder = true);
    assert_eq!(given.says(), "ensure image");
    let image = PreprovisioningImage {
        wanted: ImageRequest {
            architecture: "x86_64".into(),
            accept_formats: vec![ImageFormat::Initrd],
            ..ImageRequest::default()
        },
        ..PreprovisioningImage::default()
    };
    let waits = given.with(|given| given.seen.preprovisioning_image = Some(image.clone()));
    assert_eq!(
        waits.says(),
        "wait 300s: the ramdisk to be built for this host"
    );
    let ready = waits.clone().with(|given| {
        given.seen.preprovisioning_image = Some(PreprovisioningImage {
            ready: true,
            image_url: "http://initrd".into(),
            kernel_url: "http://kernel".into(),
            extra_kernel_params: "quiet".into(),
            format: Some(ImageFormat::Initrd),
            architecture: "x86_64".into(),
            ..image
        });
    });
    assert_eq!(
        ready.says(),
        "patch /driver_info/deploy_kernel /driver_info/deploy_ramdisk /driver_info/kernel_append_params"
    );
    let broken = waits.with(|given| {
        let image = given.seen.preprovisioning_image.as_mut().unwrap();
        image.error = Some("no space".into());
    });
    let said = broken.says();
    assert!(
        said.starts_with("Registration error: the ramdisk cannot be built: no space"),
        "{said}"
    );
}
