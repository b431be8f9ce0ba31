//! Power, boot, BIOS, and the BMC itself.

use super::*;

#[tokio::test]
async fn power_follows_every_reset_type_of_every_vendor() {
    for p in ALL {
        let bench = bench(p);
        assert_eq!(bench.system().await["PowerState"], "Off");
        bench.reset("On").await.is(204);
        bench.powered(Power::On).await;
        assert_eq!(bench.system().await["PowerState"], "On");
        for reset in p.resets {
            let name = format!("{reset:?}");
            let reply = bench.reset(&name).await;
            match p.power_repeated {
                Some(no) if name == "On" || name == "ForceOn" => {
                    assert_eq!(reply.status.as_u16(), no.status);
                }
                Some(_) | None => {
                    assert_eq!(reply.status, StatusCode::NO_CONTENT, "{}: {name}", p.name);
                }
            }
            if ["ForceOff", "GracefulShutdown", "PushPowerButton"].contains(&name.as_str()) {
                bench.powered(Power::Off).await;
                if let Some(no) = p.power_repeated {
                    assert_eq!(bench.reset("ForceOff").await.status.as_u16(), no.status);
                }
                bench.reset("On").await.is(204);
            }
            bench.powered(Power::On).await;
        }
    }
}

#[tokio::test]
async fn an_unknown_reset_type_is_refused_with_the_list_of_those_there_are() {
    for p in ALL {
        let reply = bench(p).reset("Sideways").await.is(400);
        assert_eq!(reply.id(), "ActionParameterValueNotInList");
        for reset in p.resets {
            assert!(
                reply.message().contains(&format!("{reset:?}")),
                "{}",
                reply.message()
            );
        }
    }
}

#[tokio::test]
async fn boot_overrides_reach_the_chassis_and_are_read_back() {
    for p in ALL {
        let bench = bench(p);
        for (name, device) in p.boot_targets {
            for (enabled, lasting) in [("Once", Lasting::Once), ("Continuous", Lasting::Continuous)]
            {
                bench.boot(name, enabled).await.is(200);
                let want = device.map(|device| Override { device, lasting });
                assert_eq!(
                    bench.bmc.server.view().boot,
                    want,
                    "{}: {name} {enabled}",
                    p.name
                );
                let boot = &bench.system().await["Boot"];
                assert_eq!(
                    boot["BootSourceOverrideEnabled"],
                    if want.is_some() { enabled } else { "Disabled" }
                );
            }
        }
        bench.boot("Pxe", "Disabled").await.is(200);
        assert_eq!(bench.bmc.server.view().boot, None);
    }
}

#[tokio::test]
async fn a_cd_is_a_usb_cd_at_supermicro() {
    let bench = bench(vendor("supermicro"));
    bench.boot("UsbCd", "Once").await.is(200);
    assert_eq!(bench.bmc.server.view().boot.unwrap().device, Device::Cd);
    assert_eq!(
        bench.system().await["Boot"]["BootSourceOverrideTarget"],
        "UsbCd"
    );
}

#[tokio::test]
async fn a_once_override_is_gone_after_the_boot_it_was_for() {
    let bench = bench(vendor("generic"));
    bench.boot("Cd", "Once").await.is(200);
    bench.reset("On").await.is(204);
    bench.powered(Power::On).await;
    let boot = &bench.system().await["Boot"];
    assert_eq!(
        (
            &boot["BootSourceOverrideEnabled"],
            &boot["BootSourceOverrideTarget"]
        ),
        (&json!("Disabled"), &json!("None"))
    );
}

#[tokio::test]
async fn an_http_boot_address_and_the_firmware_are_set_with_the_target() {
    let bench = bench(vendor("generic"));
    let path = bench.path(Resource::System);
    let boot =
        json!({"Boot": {"BootSourceOverrideTarget": "UefiHttp", "HttpBootUri": "http://h/a.efi"}});
    bench.send("PATCH", &path, boot.clone()).await.is(200);
    assert_eq!(
        bench.bmc.server.view().http_uri.as_deref(),
        Some("http://h/a.efi")
    );
    bench
        .send(
            "PATCH",
            &path,
            json!({"Boot": {"HttpBootUri": null, "BootSourceOverrideMode": "Legacy"}}),
        )
        .await
        .is(200);
    let view = bench.bmc.server.view();
    assert_eq!((view.http_uri, view.firmware), (None, Firmware::Bios));
    let reply = bench.send("PATCH", &path, boot).await.is(409);
    assert_eq!(reply.id(), "PropertyValueConflict");
    assert_eq!(
        bench.bmc.server.view().http_uri,
        None,
        "a refused change leaves nothing behind"
    );
}

#[tokio::test]
async fn picky_vendors_want_the_whole_override() {
    for (name, missing) in [
        ("supermicro", "BootSourceOverrideEnabled"),
        ("lenovo", "BootSourceOverrideMode"),
    ] {
        let bench = bench(vendor(name));
        let mut boot = json!({
            "BootSourceOverrideTarget": "Pxe",
            "BootSourceOverrideEnabled": "Once",
            "BootSourceOverrideMode": "UEFI",
        });
        boot.as_object_mut().unwrap().remove(missing);
        let reply = bench
            .send(
                "PATCH",
                &bench.path(Resource::System),
                json!({"Boot": boot}),
            )
            .await
            .is(400);
        assert_eq!(reply.id(), "PropertyMissing");
        assert!(reply.message().contains(missing));
        assert_eq!(bench.bmc.server.view().boot, None);
    }
}

#[tokio::test]
async fn asset_tag_and_indicator_are_kept() {
    let bench = bench(vendor("generic"));
    let change = json!({"AssetTag": "rack 4", "IndicatorLED": "Blinking"});
    let reply = bench
        .send("PATCH", &bench.path(Resource::System), change)
        .await
        .is(200);
    assert_eq!(
        (&reply.body["AssetTag"], &reply.body["IndicatorLED"]),
        (&json!("rack 4"), &json!("Blinking"))
    );
    let chassis = bench.path(Resource::Chassis);
    assert_eq!(bench.get(&chassis).await.body["IndicatorLED"], "Blinking");
    bench
        .send("PATCH", &chassis, json!({"IndicatorLED": "Off"}))
        .await
        .is(200);
}

#[tokio::test]
async fn an_action_without_a_body_is_refused_only_by_ilo() {
    for name in ["generic", "ilo"] {
        let bench = bench(vendor(name));
        let request = Bench::request("POST", &bench.action(Action::ResetBios))
            .body(HttpBody::empty())
            .unwrap();
        bench
            .raw(request)
            .await
            .is(if name == "ilo" { 400 } else { 204 });
    }
}

#[tokio::test]
async fn bios_attributes_wait_for_a_boot() {
    let bench = bench(vendor("generic"));
    let (bios, settings) = (
        bench.path(Resource::Bios),
        bench.path(Resource::BiosSettings),
    );
    let body = json!({"Attributes": {"MemTest": "Enabled"}, "@Redfish.SettingsApplyTime": {"ApplyTime": "OnReset"}});
    bench.send("PATCH", &settings, body).await.is(200);
    assert_eq!(
        bench.get(&settings).await.body["Attributes"],
        json!({"MemTest": "Enabled"})
    );
    let now = bench.get(&bios).await.body;
    assert_eq!(now["Attributes"]["MemTest"], "Disabled");
    assert!(now["@Redfish.Settings"].get("Time").is_none());
    bench.reset("On").await.is(204);
    bench.powered(Power::On).await;
    let now = bench.get(&bios).await.body;
    assert_eq!(now["Attributes"]["MemTest"], "Enabled");
    assert!(now["@Redfish.Settings"]["Time"].is_string());
}

#[tokio::test]
async fn secure_boot_is_wanted_first_and_current_after_a_start() {
    let bench = bench(vendor("generic"));
    let path = bench.path(Resource::SecureBoot);
    bench
        .send("PATCH", &path, json!({"SecureBootEnable": true}))
        .await
        .is(200);
    let now = bench.get(&path).await.body;
    assert_eq!(
        (&now["SecureBootEnable"], &now["SecureBootCurrentBoot"]),
        (&json!(true), &json!("Disabled"))
    );
    bench.reset("On").await.is(204);
    bench.powered(Power::On).await;
    assert_eq!(
        bench.get(&path).await.body["SecureBootCurrentBoot"],
        "Enabled"
    );
    bench
        .send(
            "PATCH",
            &bench.path(Resource::System),
            json!({"Boot": {"BootSourceOverrideMode": "Legacy"}}),
        )
        .await
        .is(200);
    let reply = bench
        .send("PATCH", &path, json!({"SecureBootEnable": true}))
        .await
        .is(409);
    assert_eq!(reply.id(), "PropertyValueConflict");
    let keys = bench.action(Action::ResetKeys);
    bench
        .send("POST", &keys, json!({"ResetKeysType": "DeleteAllKeys"}))
        .await
        .is(204);
    assert_eq!(bench.get(&path).await.body["SecureBootMode"], "SetupMode");
}

#[tokio::test]
async fn a_bmc_that_is_reset_is_away_and_comes_back_without_sessions() {
    let bench = bench_with(vendor("idrac"), |config| {
        config.restart = Duration::from_mins(10);
    });
    let login = json!({"UserName": "admin", "Password": "s3cret:with colon"});
    bench
        .send("POST", "/redfish/v1/SessionService/Sessions", login)
        .await
        .is(201);
    bench
        .send(
            "POST",
            &bench.action(Action::ResetBmc),
            json!({"ResetType": "GracefulRestart"}),
        )
        .await
        .is(204);
    let reply = bench.get("/redfish/v1/").await.is(503);
    assert_eq!(reply.id(), "SYS518");
    assert!(reply.header("retry-after").parse::<u64>().unwrap() <= 600);
    bench.bmc.memory().away_until = None;
    let sessions = bench
        .get("/redfish/v1/SessionService/Sessions")
        .await
        .is(200);
    assert_eq!(sessions.body["Members@odata.count"], 0);
}

#[tokio::test]
async fn the_clock_can_be_set() {
    let bench = bench(vendor("generic"));
    let path = bench.path(Resource::Manager);
    let reply = bench
        .send("PATCH", &path, json!({"DateTime": "2031-05-04T03:02:01Z"}))
        .await
        .is(200);
    assert!(
        reply.body["DateTime"]
            .as_str()
            .unwrap()
            .starts_with("2031-05-04T03:02:"),
        "{}",
        reply.body["DateTime"]
    );
}

#[tokio::test]
async fn a_lying_bmc_shows_the_wrong_power_and_a_pulled_cable_no_link() {
    let bench = bench(vendor("generic"));
    bench
        .bmc
        .server
        .faults()
        .add(Order::new(Kind::LiesAboutPower));
    bench.bmc.server.faults().add(Order::new(Kind::LinkDown {
        network: Network::Baremetal,
    }));
    bench.reset("On").await.is(204);
    bench.powered(Power::On).await;
    assert_eq!(bench.system().await["PowerState"], "Off");
    let links: Vec<Value> = [
        bench.get(&bench.path(Resource::Nic(0))).await.body["LinkStatus"].clone(),
        bench.get(&bench.path(Resource::Nic(1))).await.body["LinkStatus"].clone(),
    ]
    .into();
    assert_eq!(links, ["LinkUp", "LinkDown"]);
}
