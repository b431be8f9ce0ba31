//! Virtual media and firmware images.

use super::*;

#[tokio::test]
async fn an_image_is_fetched_inserted_and_removed_by_every_vendor() {
    let url = image_server(b"an image").await;
    for p in ALL {
        let bench = bench(p);
        let slot = bench.path(Resource::Slot(bench.slot()));
        let image = format!("{url}/image.iso");
        let reply = bench.insert(&image).await;
        assert!(reply.status.is_success(), "{}: {}", p.name, reply.body);
        let media = bench.bmc.server.view().media.unwrap();
        assert_eq!(std::fs::read(&media.file).unwrap(), b"an image");
        let drive = bench.get(&slot).await.body;
        assert_eq!(
            (&drive["Inserted"], &drive["Image"], &drive["ImageName"]),
            (&json!(true), &json!(image), &json!("image.iso"))
        );

        let again = bench.insert(&image).await;
        match p.slot_occupied {
            Some(no) => assert_eq!(again.status.as_u16(), no.status, "{}", p.name),
            None => assert!(again.status.is_success(), "{}", p.name),
        }
        assert_eq!(
            bench.images(),
            1,
            "{}: the old copy goes when a new one comes",
            p.name
        );

        if p.media.slots[bench.slot()].insert == Insert::Patch {
            bench
                .send("PATCH", &slot, json!({"Image": null, "Inserted": false}))
                .await
                .is(200);
        } else {
            bench
                .send(
                    "POST",
                    &bench.action(Action::Eject(bench.slot())),
                    json!({}),
                )
                .await
                .is(204);
            let empty = bench
                .send(
                    "POST",
                    &bench.action(Action::Eject(bench.slot())),
                    json!({}),
                )
                .await;
            assert_eq!(
                empty.status.is_success(),
                p.slot_empty.is_none(),
                "{}",
                p.name
            );
        }
        assert_eq!(
            (bench.bmc.server.view().media, bench.images()),
            (None, 0),
            "{}",
            p.name
        );
    }
}

#[tokio::test]
async fn an_image_that_cannot_be_had_is_explained() {
    let url = image_server(b"0123456789").await;
    let bench = bench_with(vendor("generic"), |config| config.media_limits.size = 5);
    for (path, status, says) in [
        ("/missing.iso", 400, "404 Not Found"),
        ("/private.iso", 400, "401 Unauthorized"),
        ("/image.iso", 400, "larger than the 5 bytes"),
    ] {
        let reply = bench.insert(&format!("{url}{path}")).await.is(status);
        assert!(
            reply.message().contains(says) && reply.message().contains(path),
            "{}",
            reply.message()
        );
    }
    let plain_http = url.replace("http://", "https://");
    let reply = bench
        .insert(&format!("{plain_http}/image.iso"))
        .await
        .is(502);
    assert!(
        reply.message().contains("connect to https://"),
        "{}",
        reply.message()
    );
    assert_eq!((bench.bmc.server.view().media, bench.images()), (None, 0));
}

#[tokio::test]
async fn a_task_that_fails_says_why() {
    let bench = bench(vendor("supermicro"));
    let reply = bench.insert("http://127.0.0.1:1/a.iso").await.is(200);
    assert_eq!(
        (&reply.body["TaskState"], &reply.body["TaskStatus"]),
        (&json!("Exception"), &json!("Critical"))
    );
    assert!(
        reply.body["Messages"][0]["Message"]
            .as_str()
            .unwrap()
            .contains("http://127.0.0.1:1/a.iso")
    );
}

#[tokio::test]
async fn credentials_open_the_image_server_and_stay_hidden() {
    let url = image_server(b"private").await;
    let bench = bench(vendor("generic"));
    let insert = bench.action(Action::Insert(0));
    let body = json!({"Image": format!("{url}/private.iso"), "UserName": "me", "Password": "hush"});
    bench.send("POST", &insert, body).await.is(204);
    let slot = bench.get(&bench.path(Resource::Slot(0))).await.body;
    assert_eq!(slot["UserName"], "me");
    let inside = format!("{}/private.iso", url.replace("//", "//me:hush@"));
    bench
        .send("POST", &insert, json!({"Image": inside}))
        .await
        .is(204);
    let slot = bench.get(&bench.path(Resource::Slot(0))).await.body;
    assert!(!slot.to_string().contains("hush"), "{slot}");
    assert!(!format!("{:?}", bench.bmc.server.view()).contains("hush"));
}

#[tokio::test]
async fn what_a_slot_needs_is_asked_for() {
    let bench = bench(vendor("supermicro"));
    let insert = bench.action(Action::Insert(bench.slot()));
    let reply = bench
        .send("POST", &insert, json!({"Image": "http://h/a.iso"}))
        .await
        .is(400);
    assert_eq!(
        reply.body["error"]["code"],
        "Base.1.18.ActionParameterMissing"
    );
    assert_eq!(
        reply.body["error"]["@Message.ExtendedInfo"][0]["RelatedProperties"][0],
        "#/TransferProtocolType"
    );
}

#[tokio::test]
async fn a_slot_that_is_not_the_drive_refuses() {
    for name in ["idrac", "ilo"] {
        let bench = bench(vendor(name));
        let other = 1 - bench.slot();
        let reply = bench
            .send(
                "POST",
                &bench.action(Action::Insert(other)),
                json!({"Image": "http://h/a"}),
            )
            .await
            .is(400);
        assert_eq!(reply.id(), "ActionNotSupported");
    }
}

#[tokio::test]
async fn virtual_media_needs_a_licence_where_the_vendor_sells_one() {
    for (name, id) in [
        ("supermicro", "OemLicenseNotPassed"),
        ("ilo", "LicenseKeyRequired"),
    ] {
        let bench = bench_with(vendor(name), |config| config.licensed = false);
        assert_eq!(bench.insert("http://h/a.iso").await.is(403).id(), id);
    }
}

#[tokio::test]
async fn an_update_runs_as_a_task_and_ends_in_a_newer_version() {
    let url = image_server(b"firmware").await;
    let bench = bench(vendor("idrac"));
    let target = bench.path(Resource::Firmware("BMC"));
    assert_eq!(bench.get(&target).await.body["Version"], "7.00.60.00");
    let body = json!({"ImageURI": format!("{url}/image.iso"), "TransferProtocol": "HTTP", "Targets": [target]});
    let accepted = bench
        .send("POST", &bench.action(Action::Update), body)
        .await
        .is(202);
    let done = bench.finished(&accepted).await.is(200);
    assert_eq!(
        (&done.body["TaskState"], &done.body["PercentComplete"]),
        (&json!("Completed"), &json!(100))
    );
    assert_eq!(bench.get(&target).await.body["Version"], "7.00.60.01");
    assert_eq!(
        bench.get(&bench.path(Resource::Manager)).await.body["FirmwareVersion"],
        "7.00.60.01"
    );
    assert_eq!(bench.images(), 0);
    let body = json!({"ImageURI": format!("{url}/none")});
    let accepted = bench
        .send("POST", &bench.action(Action::Update), body)
        .await
        .is(202);
    assert_eq!(
        bench.finished(&accepted).await.body["TaskState"],
        "Exception"
    );
}

#[tokio::test]
async fn a_corrupted_transfer_changes_bytes_and_only_when_the_fault_strikes() {
    let url = image_server(b"pristine").await;
    let bench = bench(vendor("generic"));
    bench.fault(Kind::CorruptsTransfer);
    let mut contents = vec![];
    for _ in 0..2 {
        bench.insert(&format!("{url}/image.iso")).await.is(204);
        contents.push(std::fs::read(bench.bmc.server.view().media.unwrap().file).unwrap());
    }
    assert_eq!(contents, [b"\x8fristine".to_vec(), b"pristine".to_vec()]);
}
