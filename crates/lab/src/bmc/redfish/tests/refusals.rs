//! Requests that are refused, and why.

use super::*;

#[tokio::test]
async fn bad_requests_are_named_and_change_nothing() {
    let system = "/redfish/v1/Systems/1";
    let reset = "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset";
    let insert = "/redfish/v1/Systems/1/VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia";
    let settings = "/redfish/v1/Systems/1/Bios/Settings";
    let events = "/redfish/v1/EventService/Subscriptions";
    let update = "/redfish/v1/UpdateService/Actions/UpdateService.SimpleUpdate";
    #[rustfmt::skip] // one row, one line
    let table: &[(&str, &str, &str, &str, u16, &str)] = &[
        ("broken JSON", "PATCH", system, "{\"AssetTag\": }", 400, "MalformedJSON"),
        ("not an object", "PATCH", system, "[1]", 400, "MalformedJSON"),
        ("empty change", "PATCH", system, "{}", 400, "MalformedJSON"),
        ("no body", "PATCH", system, "", 400, "MalformedJSON"),
        ("unknown property", "PATCH", system, r#"{"Colour": 1}"#, 400, "PropertyUnknown"),
        ("unknown inner property", "PATCH", system, r#"{"Boot": {"Shoe": 1}}"#, 400, "PropertyUnknown"),
        ("read-only property", "PATCH", system, r#"{"PowerState": "On"}"#, 400, "PropertyNotWritable"),
        ("wrong type", "PATCH", system, r#"{"AssetTag": 5}"#, 400, "PropertyValueTypeError"),
        ("object wanted", "PATCH", system, r#"{"Boot": "Cd"}"#, 400, "PropertyValueTypeError"),
        ("not in list", "PATCH", system, r#"{"IndicatorLED": "Purple"}"#, 400, "PropertyValueNotInList"),
        ("bad target", "PATCH", system, r#"{"Boot": {"BootSourceOverrideTarget": "Tape"}}"#, 400, "PropertyValueNotInList"),
        ("too long", "PATCH", system, &format!(r#"{{"AssetTag": "{}"}}"#, "x".repeat(64)), 400, "PropertyValueFormatError"),
        ("bad boot address", "PATCH", system, r#"{"Boot": {"HttpBootUri": "gopher://x"}}"#, 400, "PropertyValueFormatError"),
        ("legacy http", "PATCH", system, r#"{"Boot": {"BootSourceOverrideTarget": "UefiHttp", "BootSourceOverrideMode": "Legacy"}}"#, 409, "PropertyValueConflict"),
        ("one good, one bad", "PATCH", system, r#"{"AssetTag": "kept?", "Boot": {"BootSourceOverrideTarget": "Tape"}}"#, 400, "PropertyValueNotInList"),
        ("no reset type", "POST", reset, "{}", 400, "ActionParameterMissing"),
        ("empty reset", "POST", reset, "", 400, "ActionParameterMissing"),
        ("reset type of wrong type", "POST", reset, r#"{"ResetType": 1}"#, 400, "ActionParameterValueTypeError"),
        ("unknown parameter", "POST", reset, r#"{"ResetType": "On", "Hard": true}"#, 400, "ActionParameterUnknown"),
        ("NMI while off", "POST", reset, r#"{"ResetType": "Nmi"}"#, 409, "ActionParameterValueConflict"),
        ("no image", "POST", insert, "{}", 400, "ActionParameterMissing"),
        ("nonsense image", "POST", insert, r#"{"Image": "a.iso"}"#, 400, "ActionParameterValueFormatError"),
        ("nfs image", "POST", insert, r#"{"Image": "nfs://h/a.iso"}"#, 400, "SourceDoesNotSupportProtocol"),
        ("wrong protocol", "POST", insert, r#"{"Image": "http://h/a", "TransferProtocolType": "HTTPS"}"#, 400, "ActionParameterValueFormatError"),
        ("odd protocol", "POST", insert, r#"{"Image": "http://h/a", "TransferProtocolType": "SMTP"}"#, 400, "ActionParameterValueNotInList"),
        ("no one there", "POST", insert, r#"{"Image": "http://127.0.0.1:1/a.iso"}"#, 502, "CouldNotEstablishConnection"),
        ("unknown attribute", "PATCH", settings, r#"{"Attributes": {"Nope": 1}}"#, 400, "PropertyUnknown"),
        ("attribute of wrong type", "PATCH", settings, r#"{"Attributes": {"NumCores": "x"}}"#, 400, "PropertyValueTypeError"),
        ("attribute not in list", "PATCH", settings, r#"{"Attributes": {"MemTest": "Maybe"}}"#, 400, "PropertyValueNotInList"),
        ("apply time", "PATCH", settings, r#"{"Attributes": {}, "@Redfish.SettingsApplyTime": {"ApplyTime": "Immediate"}}"#, 400, "PropertyValueNotInList"),
        ("secure boot as text", "PATCH", "/redfish/v1/Systems/1/SecureBoot", r#"{"SecureBootEnable": "yes"}"#, 400, "PropertyValueTypeError"),
        ("bad clock", "PATCH", "/redfish/v1/Managers/bmc", r#"{"DateTime": "soon"}"#, 400, "PropertyValueFormatError"),
        ("session too short", "PATCH", "/redfish/v1/SessionService", r#"{"SessionTimeout": 1}"#, 400, "PropertyValueFormatError"),
        ("login without password", "POST", "/redfish/v1/SessionService/Sessions", r#"{"UserName": "admin"}"#, 400, "PropertyMissing"),
        ("login of wrong type", "POST", "/redfish/v1/SessionService/Sessions", r#"{"UserName": "admin", "Password": 1}"#, 400, "PropertyValueTypeError"),
        ("events to nowhere", "POST", events, r#"{"Protocol": "Redfish"}"#, 400, "PropertyMissing"),
        ("events by SNMP", "POST", events, r#"{"Protocol": "SNMPv2c", "Destination": "http://h/"}"#, 400, "PropertyValueNotInList"),
        ("events to a file", "POST", events, r#"{"Protocol": "Redfish", "Destination": "file:///x"}"#, 400, "PropertyValueFormatError"),
        ("odd event type", "POST", events, r#"{"Protocol": "Redfish", "Destination": "http://h/", "EventTypes": ["Rain"]}"#, 400, "PropertyValueNotInList"),
        ("update of nothing", "POST", update, r#"{"ImageURI": "http://h/f", "Targets": ["/redfish/v1/Chassis/1"]}"#, 400, "ActionParameterValueNotInList"),
        ("update from nowhere", "POST", update, "{}", 400, "ActionParameterMissing"),
        ("keys", "POST", "/redfish/v1/Systems/1/SecureBoot/Actions/SecureBoot.ResetKeys", r#"{"ResetKeysType": "Lose"}"#, 400, "ActionParameterValueNotInList"),
        ("nothing there", "GET", "/redfish/v1/Systems/2", "", 404, "ResourceMissingAtURI"),
        ("no such disk", "GET", "/redfish/v1/Systems/1/Storage/1/Drives/2", "", 404, "ResourceMissingAtURI"),
        ("no such task", "GET", "/redfish/v1/TaskService/Tasks/9", "", 404, "ResourceMissingAtURI"),
        ("reading an action", "GET", reset, "", 405, "OperationNotAllowed"),
        ("deleting a system", "DELETE", system, "", 405, "OperationNotAllowed"),
        ("putting a system", "PUT", system, "{}", 405, "OperationNotAllowed"),
        ("changing a collection", "PATCH", "/redfish/v1/Systems", "{}", 405, "OperationNotAllowed"),
        ("selecting", "GET", "/redfish/v1/Systems?$select=Members", "", 501, "QueryParameterUnsupported"),
        ("deep expansion", "GET", "/redfish/v1/Systems?$expand=.($levels=9)", "", 400, "QueryParameterValueFormatError"),
    ];
    for (name, method, path, body, status, id) in table {
        let bench = bench(vendor("generic"));
        let before = bench.bmc.server.view();
        let request = Bench::request(method, path).header("content-type", "application/json");
        let reply = bench
            .raw(request.body(HttpBody::from(body.to_string())).unwrap())
            .await;
        assert_eq!(
            (reply.status.as_u16(), reply.id()),
            (*status, *id),
            "{name}: {}",
            reply.body
        );
        assert_eq!(bench.bmc.server.view(), before, "{name}");
        assert_eq!(bench.system().await["AssetTag"], "", "{name}");
        assert_eq!(bench.images(), 0, "{name}");
        let info = &reply.body["error"]["@Message.ExtendedInfo"][0];
        for field in ["MessageId", "Message", "Severity", "Resolution"] {
            assert!(info[field].is_string(), "{name}: {field}");
        }
        assert!(info["MessageArgs"].is_array(), "{name}");
        assert_eq!(*status == 405, !reply.header("allow").is_empty(), "{name}");
        assert!(
            base::ALL.iter().any(|row| row.key == *id),
            "{name}: the registry explains it"
        );
    }
}

#[tokio::test]
async fn malformed_json_is_refused_with_its_place() {
    let bench = bench(vendor("generic"));
    let request =
        Bench::request("PATCH", "/redfish/v1/Systems/1").header("content-type", "application/json");
    let reply = bench
        .raw(request.body(HttpBody::from("{\n \"AssetTag\" 5}")).unwrap())
        .await
        .is(400);
    assert!(
        reply.message().contains("line 2 column 13"),
        "{}",
        reply.message()
    );
}

#[tokio::test]
async fn bodies_have_a_type_and_a_size() {
    let bench = bench(vendor("generic"));
    let system = "/redfish/v1/Systems/1";
    let text = Bench::request("PATCH", system).header("content-type", "text/plain");
    assert_eq!(
        bench
            .raw(text.body(HttpBody::from("{}")).unwrap())
            .await
            .is(415)
            .id(),
        "UnsupportedMediaType"
    );
    let json = || {
        Bench::request("PATCH", system).header("content-type", "application/json; charset=utf-8")
    };
    let large = format!(r#"{{"AssetTag": "{}"}}"#, "x".repeat(1 << 20));
    let reply = bench
        .raw(json().body(HttpBody::from(large.clone())).unwrap())
        .await
        .is(413);
    assert_eq!(reply.id(), "PayloadTooLarge");
    let declared = json().header("content-length", "99999999999");
    bench
        .raw(declared.body(HttpBody::empty()).unwrap())
        .await
        .is(413);
    let deep = "[".repeat(100_000);
    bench
        .raw(json().body(HttpBody::from(deep)).unwrap())
        .await
        .is(400);
}

#[tokio::test]
async fn a_stale_etag_is_refused_and_the_new_one_comes_with_the_change() {
    for p in ALL {
        let bench = bench(p);
        let path = bench.path(Resource::System);
        let first = bench.get(&path).await;
        let stale = first.header("etag").trim_start_matches("W/").to_string();
        assert_eq!(first.body["@odata.etag"], first.header("etag"));
        let changed = bench
            .send("PATCH", &path, json!({"AssetTag": "one"}))
            .await
            .is(200);
        assert_ne!(changed.header("etag").trim_start_matches("W/"), stale);
        let request = Bench::request("PATCH", &path)
            .header("content-type", "application/json")
            .header("if-match", stale);
        let reply = bench
            .raw(
                request
                    .body(HttpBody::from(r#"{"AssetTag": "two"}"#))
                    .unwrap(),
            )
            .await
            .is(412);
        assert_eq!(reply.id(), "PreconditionFailed");
        assert_eq!(bench.system().await["AssetTag"], "one");
        let known = Bench::request("GET", &path).header("if-none-match", changed.header("etag"));
        bench
            .raw(known.body(HttpBody::empty()).unwrap())
            .await
            .is(304);
    }
}

#[tokio::test]
async fn a_strict_vendor_wants_an_etag() {
    let bench = bench(vendor("fujitsu"));
    let request = Bench::request("PATCH", &bench.path(Resource::System))
        .header("content-type", "application/json")
        .body(HttpBody::from(r#"{"AssetTag": "x"}"#))
        .unwrap();
    assert_eq!(
        bench.raw(request).await.is(412).id(),
        "PreconditionRequired"
    );
}

#[tokio::test]
async fn a_slow_bmc_takes_its_time() {
    let bench = bench(vendor("generic"));
    bench.fault(Kind::BmcSlow { millis: 150 });
    let before = tokio::time::Instant::now();
    bench.get("/redfish/v1/").await.is(200);
    assert!(before.elapsed() >= Duration::from_millis(150));
}

#[tokio::test]
async fn a_broken_bmc_answers_with_the_status_it_was_told_and_a_proper_body() {
    let bench = bench(vendor("generic"));
    for (status, id) in [
        (500, "InternalError"),
        (503, "ServiceTemporarilyUnavailable"),
    ] {
        bench.fault(Kind::BmcError { status });
        assert_eq!(bench.get("/redfish/v1/Systems").await.is(status).id(), id);
        bench.get("/redfish/v1/Systems").await.is(200);
    }
}
