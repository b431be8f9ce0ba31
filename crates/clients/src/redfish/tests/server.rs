use super::fake::{Answer, Fake, SYSTEM, Seen, ok, refusal, status, system_with};
use crate::redfish::{BootDevice, Error, Reset};
use crate::{BootMode, Lasting, Power};
use serde_json::{Value, json};

const RESET: &str = "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset";

fn power_is(state: &'static str) -> Answer {
    system_with(|system| system["PowerState"] = json!(state))
}

#[tokio::test]
async fn power_on_waits_until_the_server_is_on() {
    let bmc = Fake::start(|seen| {
        let states = ["Off", "Off", "PoweringOn", "PoweringOn", "On"];
        (seen.method == "GET" && seen.path == SYSTEM).then(|| power_is(states[seen.before.min(4)]))
    })
    .await;
    bmc.client().set_power(Power::On).await.unwrap();
    assert_eq!(bmc.bodies("POST", RESET), [json!({"ResetType": "On"})]);
}

#[tokio::test]
async fn power_that_does_not_change_is_told_with_what_it_is() {
    let bmc = Fake::start(|_| None).await;
    let error = bmc.client().set_power(Power::On).await.unwrap_err();
    assert!(
        matches!(&error, Error::Slow { last, .. } if last == "the power is Off, not on"),
        "{error}"
    );
}

#[tokio::test]
async fn a_refusal_to_do_what_is_so_already_is_success() {
    let refuses = |seen: &Seen| {
        (seen.path == RESET)
            .then(|| refusal(409, "Base.1.18.ActionParameterValueConflict", "is off"))
    };
    let bmc = Fake::start(refuses).await;
    bmc.client().reset(Reset::ForceOff).await.unwrap();
    let error = bmc.client().reset(Reset::ForceRestart).await.unwrap_err();
    assert_eq!(error.status(), Some(409));
}

#[tokio::test]
async fn power_on_refused_just_after_off_is_asked_again() {
    let bmc = Fake::start(|seen| {
        (seen.path == RESET && seen.before < 3)
            .then(|| refusal(409, "Base.1.18.ActionParameterValueConflict", "just off"))
    })
    .await;
    bmc.client().reset(Reset::On).await.unwrap();
    assert_eq!(bmc.count("POST", RESET), 4);
}

#[tokio::test]
async fn a_reset_the_bmc_does_not_list_is_not_sent() {
    let bmc = Fake::start(|seen| {
        (seen.path == SYSTEM).then(|| {
            system_with(|system| {
                system["Actions"]["#ComputerSystem.Reset"]["ResetType@Redfish.AllowableValues"] =
                    json!(["On", "ForceOff"]);
            })
        })
    })
    .await;
    let error = bmc
        .client()
        .reset(Reset::GracefulShutdown)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.ends_with("GracefulShutdown is not among On, ForceOff"),
        "{error}"
    );
    assert_eq!(bmc.count("POST", RESET), 0);
}

/// The last body of a change of the system.
async fn boot_change(vendor: &'static str, device: BootDevice, lasting: Lasting) -> Value {
    let bmc = Fake::start(move |seen| {
        (seen.method == "GET" && seen.path == SYSTEM).then(|| {
            system_with(|system| {
                system["Manufacturer"] = json!(vendor);
                system["Boot"]["BootSourceOverrideEnabled"] = json!("Once");
                system["Boot"]["BootSourceOverrideTarget@Redfish.AllowableValues"] =
                    json!(["Pxe", "Hdd", "Cd", "UsbCd", "UefiHttp"]);
            })
        })
    })
    .await;
    bmc.client()
        .set_boot_device(&device, lasting)
        .await
        .unwrap();
    bmc.bodies("PATCH", SYSTEM).pop().unwrap_or_default()["Boot"].clone()
}

#[tokio::test]
async fn each_vendor_is_told_the_boot_device_in_its_own_way() {
    let once = Lasting::Once;
    assert_eq!(
        boot_change("Acme", BootDevice::Cdrom, once).await,
        json!({"BootSourceOverrideTarget": "Cd"})
    );
    assert_eq!(
        boot_change("Acme", BootDevice::Disk, Lasting::Continuous).await,
        json!({"BootSourceOverrideTarget": "Hdd", "BootSourceOverrideEnabled": "Continuous"})
    );
    assert_eq!(
        boot_change("Supermicro", BootDevice::Cdrom, once).await,
        json!({"BootSourceOverrideTarget": "UsbCd", "BootSourceOverrideEnabled": "Once", "BootSourceOverrideMode": "UEFI"})
    );
    assert_eq!(
        boot_change("AMI", BootDevice::Pxe, once).await,
        json!({"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Once", "BootSourceOverrideMode": "UEFI"})
    );
    assert_eq!(
        boot_change("Lenovo", BootDevice::Disk, Lasting::Continuous).await,
        json!({"BootSourceOverrideEnabled": "Disabled"})
    );
    assert_eq!(
        boot_change(
            "Acme",
            BootDevice::UefiHttp("http://192.0.2.1/boot.iso".into()),
            once
        )
        .await,
        json!({"BootSourceOverrideTarget": "UefiHttp", "HttpBootUri": "http://192.0.2.1/boot.iso"})
    );
}

#[tokio::test]
async fn a_device_the_bmc_does_not_list_is_refused_with_those_it_does() {
    let bmc = Fake::start(|_| None).await;
    let error = bmc
        .client()
        .set_boot_device(&BootDevice::BiosSetup, Lasting::Once)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("None, Pxe, Hdd, Cd"), "{error}");
}

#[tokio::test]
async fn a_bmc_that_wants_the_whole_triple_gets_it_and_one_without_continuous_gets_once() {
    let whole = |seen: &Seen| {
        (seen.method == "PATCH" && seen.body["Boot"].get("BootSourceOverrideMode").is_none())
            .then(|| refusal(400, "Base.1.18.PropertyMissing", "more"))
    };
    let bmc = Fake::start(whole).await;
    assert_eq!(
        bmc.client()
            .set_boot_device(&BootDevice::Pxe, Lasting::Once)
            .await
            .unwrap(),
        Lasting::Once
    );

    let never = |seen: &Seen| {
        (seen.method == "PATCH" && seen.body["Boot"]["BootSourceOverrideEnabled"] == "Continuous")
            .then(|| refusal(400, "x", "no"))
    };
    let bmc = Fake::start(never).await;
    assert_eq!(
        bmc.client()
            .set_boot_device(&BootDevice::Disk, Lasting::Continuous)
            .await
            .unwrap(),
        Lasting::Once
    );
}

#[tokio::test]
async fn a_server_in_its_self_test_is_asked_again() {
    let bmc = Fake::start(|seen| {
        (seen.method == "PATCH" && seen.before < 3)
            .then(|| refusal(400, "iLO.2.24.UnableToModifyDuringSystemPOST", "POST"))
    })
    .await;
    bmc.client()
        .set_boot_device(&BootDevice::Pxe, Lasting::Once)
        .await
        .unwrap();
    assert_eq!(bmc.count("PATCH", SYSTEM), 4);
}

#[tokio::test]
async fn boot_settings_are_changed_where_they_live() {
    let bmc = Fake::start(|seen| match (seen.method.as_str(), seen.path.as_str()) {
        ("GET", SYSTEM) => Some(system_with(|system| {
            system["@Redfish.Settings"] = json!({"SettingsObject": {"@odata.id": "/settings"}});
        })),
        ("GET", "/settings") => Some(ok(json!({"Boot": {}}))),
        _ => None,
    })
    .await;
    bmc.client().set_boot_mode(BootMode::Bios).await.unwrap();
    assert_eq!(
        bmc.bodies("PATCH", "/settings"),
        [json!({"Boot": {"BootSourceOverrideMode": "Legacy"}})]
    );
}

fn slot(id: &str, inserted: bool) -> Value {
    json!({"Id": id, "MediaTypes": ["CD", "DVD"], "Inserted": inserted, "Actions": {
        "#VirtualMedia.InsertMedia": {"target": format!("/{id}/insert")},
        "#VirtualMedia.EjectMedia": {"target": format!("/{id}/eject")}}})
}

/// A BMC with two drives; the second takes what `takes` lets it.
fn drives(seen: &Seen, takes: fn(&Seen) -> Option<Answer>) -> Option<Answer> {
    match (seen.method.as_str(), seen.path.as_str()) {
        ("GET", "/redfish/v1/Systems/1/VirtualMedia") => Some(ok(
            json!({"Members": [{"@odata.id": "/one"}, {"@odata.id": "/two"}]}),
        )),
        ("GET", "/one") => Some(ok(slot("one", false))),
        ("GET", "/two") => Some(ok(slot("two", seen.before > 0))),
        ("POST", "/one/insert") => Some(status(405)),
        ("POST", "/two/insert") => takes(seen),
        _ => None,
    }
}

const ISO: &str = "https://192.0.2.1/boot.iso";

#[tokio::test]
async fn an_image_goes_into_the_drive_that_takes_it_after_all_were_emptied() {
    let bmc = Fake::start(|seen| drives(seen, |_| None)).await;
    let slot = bmc.client().insert_cd(ISO).await.unwrap();
    assert_eq!((slot.id.as_str(), slot.inserted), ("two", true));
    let posts: Vec<String> = bmc
        .log()
        .into_iter()
        .filter(|line| line.starts_with("POST"))
        .collect();
    assert_eq!(
        posts,
        [
            "POST /one/eject",
            "POST /two/eject",
            "POST /one/insert",
            "POST /two/insert"
        ]
    );
    assert_eq!(bmc.bodies("POST", "/two/insert"), [json!({"Image": ISO})]);
}

#[tokio::test]
async fn what_a_bmc_wants_beside_the_image_is_added_as_it_asks() {
    let demanding = |seen: &Seen| {
        let missing = [
            "TransferProtocolType",
            "TransferMethod",
            "UserName",
            "Password",
        ]
        .into_iter()
        .find(|name| seen.body.get(*name).is_none());
        missing.map(|name| {
            refusal(
                400,
                "Base.1.18.ActionParameterMissing",
                &format!("{name} is missing"),
            )
        })
    };
    let bmc = Fake::start(move |seen| drives(seen, demanding)).await;
    bmc.client().insert_cd(ISO).await.unwrap();
    let last = bmc.bodies("POST", "/two/insert").pop().unwrap();
    assert_eq!(
        last,
        json!({"Image": ISO, "TransferProtocolType": "HTTPS", "TransferMethod": "Stream", "UserName": "none", "Password": "none"})
    );
}

#[tokio::test]
async fn a_server_error_on_insert_is_tried_three_times() {
    let bmc = Fake::start(|seen| drives(seen, |_| Some(status(500)))).await;
    assert_eq!(
        bmc.client().insert_cd(ISO).await.unwrap_err().status(),
        Some(500)
    );
    assert_eq!(bmc.count("POST", "/two/insert"), 3);
}

#[tokio::test]
async fn an_eject_wants_an_empty_object_on_some_and_is_fine_where_nothing_is_inside() {
    let bmc = Fake::start(|seen| match seen.path.as_str() {
        "/one/eject" if seen.empty => Some(status(415)),
        "/two" => Some(ok(slot("two", false))),
        "/two/eject" => Some(refusal(400, "IDRAC.2.8.VRM0009", "nothing there")),
        _ => drives(seen, |_| None),
    })
    .await;
    bmc.client().eject_cds().await.unwrap();
    assert_eq!(bmc.bodies("POST", "/one/eject"), [Value::Null, json!({})]);
}

#[tokio::test]
async fn a_bmc_without_a_drive_says_so() {
    let bmc = Fake::start(|seen| {
        (seen.path == "/redfish/v1/Systems/1/VirtualMedia").then(|| ok(json!({"Members": []})))
    })
    .await;
    let error = bmc.client().insert_cd(ISO).await.unwrap_err().to_string();
    assert!(error.contains("no virtual CD drive"), "{error}");
}

#[tokio::test]
async fn bios_settings_that_are_so_already_need_no_change_and_unknown_ones_are_named() {
    let bmc = Fake::start(|seen| match (seen.method.as_str(), seen.path.as_str()) {
        ("GET", SYSTEM) => Some(system_with(|system| system["Bios"] = json!({"@odata.id": "/bios"}))),
        ("GET", "/bios") => Some(ok(json!({"Attributes": {"Turbo": "On", "Cores": 8},
            "@Redfish.Settings": {"SettingsObject": {"@odata.id": "/bios/sd"}, "SupportedApplyTimes": ["OnReset"]}}))),
        ("GET", "/bios/sd") => Some(ok(json!({"Attributes": {"Turbo": "On", "Cores": 4}}))),
        _ => None,
    })
    .await;
    let client = bmc.client();
    let bios = client.bios().await.unwrap().unwrap();
    assert_eq!(bios.pending, [("Cores".to_string(), json!(4))].into());
    assert!(
        !client
            .set_bios(&[("Turbo".into(), json!("On"))].into())
            .await
            .unwrap()
    );
    assert!(
        client
            .set_bios(&[("Turbo".into(), json!("Off"))].into())
            .await
            .unwrap()
    );
    assert_eq!(
        bmc.bodies("PATCH", "/bios/sd"),
        [
            json!({"Attributes": {"Turbo": "Off"}, "@Redfish.SettingsApplyTime": {"ApplyTime": "OnReset"}})
        ]
    );
    let error = client
        .set_bios(&[("Warp".into(), json!(9))].into())
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("no attributes Warp"), "{error}");
}

#[tokio::test]
async fn what_is_not_there_is_none_and_not_an_error() {
    let bmc = Fake::start(|_| None).await;
    let client = bmc.client();
    assert_eq!(client.bios().await.unwrap(), None);
    assert_eq!(client.secure_boot().await.unwrap(), None);
    assert!(client.firmware().await.unwrap().is_empty());
    assert!(client.sensors().await.unwrap().is_empty());
    let inventory = client.inventory().await.unwrap();
    assert!(inventory.disks.is_empty() && inventory.interfaces.is_empty());
    assert!(matches!(
        client.set_secure_boot(true).await,
        Err(Error::Unsupported { .. })
    ));
}
