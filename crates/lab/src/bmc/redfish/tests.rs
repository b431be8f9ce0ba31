//! The service without sockets: requests in, answers out, for every personality.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body as HttpBody;
use axum::http::{HeaderMap, Request, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::Secret;
use rustls::RootCertStore;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tower::ServiceExt as _;

use super::messages;
use super::path::{Action, Resource};
use crate::bmc::personality::{ALL, Etag, Insert};
use crate::bmc::{Bmc, Config, Personality, media};
use crate::fault::{Faults, Kind, Order};
use crate::hardware::{Disk, Firmware, Hardware, Network, Nic};
use crate::server::boot::{Device, Lasting, Override};
use crate::server::{Power, Server, sim};

/// One BMC on a bench, with a simulated server.
struct Bench {
    bmc: Arc<Bmc>,
    dir: tempfile::TempDir,
}

struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    body: Value,
}

impl Reply {
    fn id(&self) -> &str {
        let info = &self.body["error"]["@Message.ExtendedInfo"][0];
        info["MessageId"].as_str().and_then(|id| id.rsplit('.').next()).unwrap_or("")
    }

    fn message(&self) -> String {
        self.body["error"].to_string()
    }

    #[track_caller]
    fn is(self, status: u16) -> Self {
        assert_eq!(self.status.as_u16(), status, "{}", self.body);
        self
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|v| v.to_str().unwrap()).unwrap_or_default()
    }
}

fn vendor(name: &str) -> &'static Personality {
    Personality::named(name).unwrap()
}

fn bench(personality: &'static Personality) -> Bench {
    bench_with(personality, |_| {})
}

fn bench_with(personality: &'static Personality, adjust: impl FnOnce(&mut Config)) -> Bench {
    let dir = tempfile::tempdir().unwrap();
    let hardware = Hardware {
        name: "server-0".into(),
        uuid: uuid::Uuid::from_u128(7),
        serial: "LAB0001".into(),
        cpus: 4,
        memory_mib: 6144,
        nics: vec![
            Nic { network: Network::Provisioning, mac: "52:54:00:00:00:01".parse().unwrap(), port: "p0".into() },
            Nic { network: Network::Baremetal, mac: "52:54:00:00:00:02".parse().unwrap(), port: "b0".into() },
        ],
        disks: vec![Disk { serial: "D1".into(), size_bytes: 20 << 30 }],
    };
    let faults = Faults::default();
    let board = sim::spawn(&hardware, dir.path(), None, faults.clone());
    let (server, _task) = Server::spawn(hardware, Firmware::Uefi, faults, board);
    let media_dir = dir.path().join("media");
    std::fs::create_dir(&media_dir).unwrap();
    let mut config = Config {
        server,
        personality,
        user: "admin".into(),
        password: Secret::new("s3cret:with colon".into()),
        mac: "52:54:00:00:01:01".parse().unwrap(),
        addresses: vec!["192.0.2.10".parse().unwrap(), "2001:db8::10".parse().unwrap()],
        media_dir,
        media_limits: media::Limits::default(),
        trusted: RootCertStore::empty(),
        licensed: true,
        restart: Duration::ZERO,
    };
    adjust(&mut config);
    Bench { bmc: Bmc::new(config), dir }
}

impl Bench {
    async fn raw(&self, request: Request<HttpBody>) -> Reply {
        let response = super::app(Arc::clone(&self.bmc)).oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = axum::body::to_bytes(body, 1 << 24).await.unwrap();
        let body = if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes).unwrap() };
        Reply { status: parts.status, headers: parts.headers, body }
    }

    fn request(method: &str, path: &str) -> axum::http::request::Builder {
        let basic = STANDARD.encode("admin:s3cret:with colon");
        Request::builder().method(method).uri(path).header("authorization", format!("Basic {basic}"))
    }

    async fn get(&self, path: &str) -> Reply {
        self.raw(Self::request("GET", path).body(HttpBody::empty()).unwrap()).await
    }

    async fn send(&self, method: &str, path: &str, body: Value) -> Reply {
        let mut request = Self::request(method, path).header("content-type", "application/json");
        // As a careful client does, whether it is needed or not.
        if method == "PATCH" {
            let tag = self.get(path).await.header("etag").trim_start_matches("W/").to_string();
            let weak = self.bmc.personality.etag == Etag::Weak;
            request = request.header("if-match", if weak { format!("W/{tag}") } else { tag });
        }
        self.raw(request.body(HttpBody::from(body.to_string())).unwrap()).await
    }

    fn path(&self, resource: Resource) -> String {
        resource.path(self.bmc.personality)
    }

    fn action(&self, action: Action) -> String {
        self.path(Resource::Action(action))
    }

    fn slot(&self) -> usize {
        self.bmc.personality.media.slots.iter().position(|slot| slot.insert != Insert::Never).unwrap()
    }

    async fn system(&self) -> Value {
        self.get(&self.path(Resource::System)).await.is(200).body
    }

    async fn reset(&self, kind: &str) -> Reply {
        self.send("POST", &self.action(Action::Reset), json!({"ResetType": kind})).await
    }

    /// Sends the override with everything the pickiest vendor wants.
    async fn boot(&self, target: &str, enabled: &str) -> Reply {
        let boot = json!({
            "BootSourceOverrideTarget": target,
            "BootSourceOverrideEnabled": enabled,
            "BootSourceOverrideMode": "UEFI",
        });
        self.send("PATCH", &self.path(Resource::System), json!({"Boot": boot})).await
    }

    async fn powered(&self, power: Power) {
        let mut status = self.bmc.server.watch();
        let reached = status.wait_for(|status| status.view.power == power);
        tokio::time::timeout(Duration::from_secs(5), reached).await.expect("the server changes power").unwrap();
    }

    async fn insert(&self, image: &str) -> Reply {
        let slot = self.slot();
        let protocol = if image.starts_with("https") { "HTTPS" } else { "HTTP" };
        if self.bmc.personality.media.slots[slot].insert == Insert::Patch {
            let body = json!({"Image": image, "Inserted": true, "WriteProtected": true});
            return self.send("PATCH", &self.path(Resource::Slot(slot)), body).await;
        }
        let body = json!({"Image": image, "TransferProtocolType": protocol});
        let reply = self.send("POST", &self.action(Action::Insert(slot)), body).await;
        if reply.status == StatusCode::ACCEPTED { self.finished(&reply).await } else { reply }
    }

    /// Follows a task to its end.
    async fn finished(&self, accepted: &Reply) -> Reply {
        let monitor = accepted.header("location").to_string();
        let deadline = tokio::time::Instant::now() + Duration::from_secs(5);
        loop {
            let reply = self.get(&monitor).await;
            if reply.status != StatusCode::ACCEPTED {
                return reply;
            }
            assert!(tokio::time::Instant::now() < deadline, "still running: {}", reply.body);
            tokio::task::yield_now().await;
        }
    }

    fn fault(&self, kind: Kind) {
        self.bmc.server.faults().add(Order::new(kind).times(1));
    }

    fn images(&self) -> usize {
        std::fs::read_dir(self.dir.path().join("media")).unwrap().count()
    }
}

/// An image server on loopback: `/image.iso`, and behind a login `/private.iso`.
async fn image_server(content: &'static [u8]) -> String {
    use axum::response::IntoResponse as _;
    let app = axum::Router::new()
        .route("/image.iso", axum::routing::get(move || async move { content }))
        .route(
            "/private.iso",
            axum::routing::get(move |headers: HeaderMap| async move {
                let want = format!("Basic {}", STANDARD.encode("me:hush"));
                if headers.get("authorization").is_some_and(|v| v.as_bytes() == want.as_bytes()) {
                    content.into_response()
                } else {
                    StatusCode::UNAUTHORIZED.into_response()
                }
            }),
        );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    url
}

#[tokio::test]
async fn every_link_of_every_vendor_leads_to_a_resource_that_knows_its_address() {
    for p in ALL {
        let bench = bench(p);
        let (mut open, mut seen) = (vec!["/redfish/v1/".to_string()], BTreeSet::new());
        while let Some(path) = open.pop() {
            if !seen.insert(path.clone()) {
                continue;
            }
            let reply = bench.get(&path).await;
            assert_eq!(reply.status, StatusCode::OK, "{}: {path}", p.name);
            assert_eq!(reply.header("odata-version"), "4.0");
            assert!(reply.body["Name"].is_string() && reply.body["@odata.type"].is_string(), "{path}");
            if !path.ends_with("/Registry") {
                assert_eq!(reply.body["@odata.id"], path.as_str(), "{}", p.name);
            }
            let is_mutable = reply.header("allow").contains("PATCH");
            assert_eq!(!reply.header("etag").is_empty(), is_mutable, "{path}");
            links(&reply.body, &mut open);
        }
        assert!(seen.len() > 40, "{}: {} resources", p.name, seen.len());
    }
}

fn links(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match (name.as_str(), value) {
                    ("@odata.id" | "@Redfish.ActionInfo" | "Uri", Value::String(path)) if !path.contains('#') => {
                        found.push(path.clone());
                    }
                    _ => links(value, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| links(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[tokio::test]
async fn the_root_is_open_and_everything_else_is_not() {
    let bench = bench(vendor("generic"));
    for path in ["/redfish", "/redfish/", "/redfish/v1", "/redfish/v1/", "/redfish/v1/odata"] {
        bench.raw(Request::get(path).body(HttpBody::empty()).unwrap()).await.is(200);
    }
    for path in ["/redfish/v1/Systems", "/redfish/v1/SessionService/Sessions", "/redfish/v1/Nothing"] {
        let reply = bench.raw(Request::get(path).body(HttpBody::empty()).unwrap()).await.is(401);
        assert_eq!(reply.id(), "NoValidSession");
        assert!(reply.header("www-authenticate").starts_with("Basic"));
    }
    for bad in ["Basic", "Basic !!", "Bearer x", &format!("Basic {}", STANDARD.encode("admin:wrong"))] {
        let request = Request::get("/redfish/v1/Systems").header("authorization", bad);
        bench.raw(request.body(HttpBody::empty()).unwrap()).await.is(401);
    }
}

#[tokio::test]
async fn a_session_opens_doors_until_it_is_deleted() {
    let bench = bench(vendor("ilo"));
    let login = |password: &str| {
        Request::post("/redfish/v1/SessionService/Sessions")
            .header("content-type", "application/json")
            .body(HttpBody::from(json!({"UserName": "admin", "Password": password}).to_string()))
            .unwrap()
    };
    let refused = bench.raw(login("nearly")).await.is(401);
    assert!(!refused.message().contains("nearly"));
    let reply = bench.raw(login("s3cret:with colon")).await.is(201);
    let (token, location) = (reply.header("x-auth-token").to_string(), reply.header("location").to_string());
    assert!(!reply.body.to_string().contains("s3cret"));
    let with = |method: &str, path: &str| {
        Request::builder().method(method).uri(path).header("x-auth-token", &token).body(HttpBody::empty()).unwrap()
    };
    bench.raw(with("GET", "/redfish/v1/Systems")).await.is(200);
    bench.raw(with("GET", &location)).await.is(200);
    bench.raw(with("DELETE", &location)).await.is(204);
    let reply = bench.raw(with("GET", "/redfish/v1/Systems")).await.is(401);
    assert_eq!(reply.id(), "NoValidSession");
    bench.send("DELETE", &location, Value::Null).await.is(404);
}

#[tokio::test]
async fn a_ninth_session_is_refused_in_the_vendors_words() {
    let bench = bench(vendor("idrac"));
    let login = json!({"UserName": "admin", "Password": "s3cret:with colon"});
    for _ in 0..8 {
        bench.send("POST", "/redfish/v1/SessionService/Sessions", login.clone()).await.is(201);
    }
    let reply = bench.send("POST", "/redfish/v1/SessionService/Sessions", login).await.is(503);
    assert_eq!(reply.id(), "RAC0218");
}

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
                Some(no) if name == "On" || name == "ForceOn" => assert_eq!(reply.status.as_u16(), no.status),
                Some(_) | None => assert_eq!(reply.status, StatusCode::NO_CONTENT, "{}: {name}", p.name),
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
            assert!(reply.message().contains(&format!("{reset:?}")), "{}", reply.message());
        }
    }
}

#[tokio::test]
async fn boot_overrides_reach_the_chassis_and_are_read_back() {
    for p in ALL {
        let bench = bench(p);
        for (name, device) in p.boot_targets {
            for (enabled, lasting) in [("Once", Lasting::Once), ("Continuous", Lasting::Continuous)] {
                bench.boot(name, enabled).await.is(200);
                let want = device.map(|device| Override { device, lasting });
                assert_eq!(bench.bmc.server.view().boot, want, "{}: {name} {enabled}", p.name);
                let boot = &bench.system().await["Boot"];
                assert_eq!(boot["BootSourceOverrideEnabled"], if want.is_some() { enabled } else { "Disabled" });
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
    assert_eq!(bench.system().await["Boot"]["BootSourceOverrideTarget"], "UsbCd");
}

#[tokio::test]
async fn a_once_override_is_gone_after_the_boot_it_was_for() {
    let bench = bench(vendor("generic"));
    bench.boot("Cd", "Once").await.is(200);
    bench.reset("On").await.is(204);
    bench.powered(Power::On).await;
    let boot = &bench.system().await["Boot"];
    assert_eq!((&boot["BootSourceOverrideEnabled"], &boot["BootSourceOverrideTarget"]), (&json!("Disabled"), &json!("None")));
}

#[tokio::test]
async fn an_http_boot_address_and_the_firmware_are_set_with_the_target() {
    let bench = bench(vendor("generic"));
    let path = bench.path(Resource::System);
    let boot = json!({"Boot": {"BootSourceOverrideTarget": "UefiHttp", "HttpBootUri": "http://h/a.efi"}});
    bench.send("PATCH", &path, boot.clone()).await.is(200);
    assert_eq!(bench.bmc.server.view().http_uri.as_deref(), Some("http://h/a.efi"));
    bench.send("PATCH", &path, json!({"Boot": {"HttpBootUri": null, "BootSourceOverrideMode": "Legacy"}})).await.is(200);
    let view = bench.bmc.server.view();
    assert_eq!((view.http_uri, view.firmware), (None, Firmware::Bios));
    let reply = bench.send("PATCH", &path, boot).await.is(409);
    assert_eq!(reply.id(), "PropertyValueConflict");
    assert_eq!(bench.bmc.server.view().http_uri, None, "a refused change leaves nothing behind");
}

#[tokio::test]
async fn picky_vendors_want_the_whole_override() {
    for (name, missing) in [("supermicro", "BootSourceOverrideEnabled"), ("lenovo", "BootSourceOverrideMode")] {
        let bench = bench(vendor(name));
        let mut boot = json!({
            "BootSourceOverrideTarget": "Pxe",
            "BootSourceOverrideEnabled": "Once",
            "BootSourceOverrideMode": "UEFI",
        });
        boot.as_object_mut().unwrap().remove(missing);
        let reply = bench.send("PATCH", &bench.path(Resource::System), json!({"Boot": boot})).await.is(400);
        assert_eq!(reply.id(), "PropertyMissing");
        assert!(reply.message().contains(missing));
        assert_eq!(bench.bmc.server.view().boot, None);
    }
}

#[tokio::test]
async fn asset_tag_and_indicator_are_kept() {
    let bench = bench(vendor("generic"));
    let change = json!({"AssetTag": "rack 4", "IndicatorLED": "Blinking"});
    let reply = bench.send("PATCH", &bench.path(Resource::System), change).await.is(200);
    assert_eq!((&reply.body["AssetTag"], &reply.body["IndicatorLED"]), (&json!("rack 4"), &json!("Blinking")));
    let chassis = bench.path(Resource::Chassis);
    assert_eq!(bench.get(&chassis).await.body["IndicatorLED"], "Blinking");
    bench.send("PATCH", &chassis, json!({"IndicatorLED": "Off"})).await.is(200);
}

#[tokio::test]
async fn bad_requests_are_named_and_change_nothing() {
    let system = "/redfish/v1/Systems/1";
    let reset = "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset";
    let insert = "/redfish/v1/Systems/1/VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia";
    let settings = "/redfish/v1/Systems/1/Bios/Settings";
    let events = "/redfish/v1/EventService/Subscriptions";
    let update = "/redfish/v1/UpdateService/Actions/UpdateService.SimpleUpdate";
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
        let reply = bench.raw(request.body(HttpBody::from(body.to_string())).unwrap()).await;
        assert_eq!((reply.status.as_u16(), reply.id()), (*status, *id), "{name}: {}", reply.body);
        assert_eq!(bench.bmc.server.view(), before, "{name}");
        assert_eq!(bench.system().await["AssetTag"], "", "{name}");
        assert_eq!(bench.images(), 0, "{name}");
        let info = &reply.body["error"]["@Message.ExtendedInfo"][0];
        for field in ["MessageId", "Message", "Severity", "Resolution"] {
            assert!(info[field].is_string(), "{name}: {field}");
        }
        assert!(info["MessageArgs"].is_array(), "{name}");
        assert_eq!(*status == 405, !reply.header("allow").is_empty(), "{name}");
        assert!(messages::ALL.iter().any(|row| row.key == *id), "{name}: the registry explains it");
    }
}

#[tokio::test]
async fn malformed_json_is_refused_with_its_place() {
    let bench = bench(vendor("generic"));
    let request = Bench::request("PATCH", "/redfish/v1/Systems/1").header("content-type", "application/json");
    let reply = bench.raw(request.body(HttpBody::from("{\n \"AssetTag\" 5}")).unwrap()).await.is(400);
    assert!(reply.message().contains("line 2 column 13"), "{}", reply.message());
}

#[tokio::test]
async fn bodies_have_a_type_and_a_size() {
    let bench = bench(vendor("generic"));
    let system = "/redfish/v1/Systems/1";
    let text = Bench::request("PATCH", system).header("content-type", "text/plain");
    assert_eq!(bench.raw(text.body(HttpBody::from("{}")).unwrap()).await.is(415).id(), "UnsupportedMediaType");
    let json = || Bench::request("PATCH", system).header("content-type", "application/json; charset=utf-8");
    let large = format!(r#"{{"AssetTag": "{}"}}"#, "x".repeat(1 << 20));
    let reply = bench.raw(json().body(HttpBody::from(large.clone())).unwrap()).await.is(413);
    assert_eq!(reply.id(), "PayloadTooLarge");
    let declared = json().header("content-length", "99999999999");
    bench.raw(declared.body(HttpBody::empty()).unwrap()).await.is(413);
    let deep = "[".repeat(100_000);
    bench.raw(json().body(HttpBody::from(deep)).unwrap()).await.is(400);
}

#[tokio::test]
async fn a_stale_etag_is_refused_and_the_new_one_comes_with_the_change() {
    for p in ALL {
        let bench = bench(p);
        let path = bench.path(Resource::System);
        let first = bench.get(&path).await;
        let stale = first.header("etag").trim_start_matches("W/").to_string();
        assert_eq!(first.body["@odata.etag"], first.header("etag"));
        let changed = bench.send("PATCH", &path, json!({"AssetTag": "one"})).await.is(200);
        assert_ne!(changed.header("etag").trim_start_matches("W/"), stale);
        let request = Bench::request("PATCH", &path).header("content-type", "application/json").header("if-match", stale);
        let reply = bench.raw(request.body(HttpBody::from(r#"{"AssetTag": "two"}"#)).unwrap()).await.is(412);
        assert_eq!(reply.id(), "PreconditionFailed");
        assert_eq!(bench.system().await["AssetTag"], "one");
        let known = Bench::request("GET", &path).header("if-none-match", changed.header("etag"));
        bench.raw(known.body(HttpBody::empty()).unwrap()).await.is(304);
    }
}

#[tokio::test]
async fn a_strict_vendor_wants_an_etag() {
    let bench = bench(vendor("supermicro"));
    let request = Bench::request("PATCH", "/redfish/v1/Systems/1").header("content-type", "application/json");
    let reply = bench.raw(request.body(HttpBody::from(r#"{"AssetTag": "x"}"#)).unwrap()).await.is(428);
    assert_eq!(reply.id(), "PreconditionRequired");
}

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
        assert_eq!((&drive["Inserted"], &drive["Image"], &drive["ImageName"]), (&json!(true), &json!(image), &json!("image.iso")));

        let again = bench.insert(&image).await;
        match p.slot_occupied {
            Some(no) => assert_eq!(again.status.as_u16(), no.status, "{}", p.name),
            None => assert!(again.status.is_success(), "{}", p.name),
        }
        assert_eq!(bench.images(), 1, "{}: the old copy goes when a new one comes", p.name);

        if p.media.slots[bench.slot()].insert == Insert::Patch {
            bench.send("PATCH", &slot, json!({"Image": null, "Inserted": false})).await.is(200);
        } else {
            bench.send("POST", &bench.action(Action::Eject(bench.slot())), json!({})).await.is(204);
            let empty = bench.send("POST", &bench.action(Action::Eject(bench.slot())), json!({})).await;
            assert_eq!(empty.status.is_success(), p.slot_empty.is_none(), "{}", p.name);
        }
        assert_eq!((bench.bmc.server.view().media, bench.images()), (None, 0), "{}", p.name);
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
        assert!(reply.message().contains(says) && reply.message().contains(path), "{}", reply.message());
    }
    let plain_http = url.replace("http://", "https://");
    let reply = bench.insert(&format!("{plain_http}/image.iso")).await.is(502);
    assert!(reply.message().contains("connect to https://"), "{}", reply.message());
    assert_eq!((bench.bmc.server.view().media, bench.images()), (None, 0));
}

#[tokio::test]
async fn a_task_that_fails_says_why() {
    let bench = bench(vendor("supermicro"));
    let reply = bench.insert("http://127.0.0.1:1/a.iso").await.is(200);
    assert_eq!((&reply.body["TaskState"], &reply.body["TaskStatus"]), (&json!("Exception"), &json!("Critical")));
    assert!(reply.body["Messages"][0]["Message"].as_str().unwrap().contains("http://127.0.0.1:1/a.iso"));
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
    bench.send("POST", &insert, json!({"Image": inside})).await.is(204);
    let slot = bench.get(&bench.path(Resource::Slot(0))).await.body;
    assert!(!slot.to_string().contains("hush"), "{slot}");
    assert!(!format!("{:?}", bench.bmc.server.view()).contains("hush"));
}

#[tokio::test]
async fn what_a_slot_needs_is_asked_for() {
    let bench = bench(vendor("supermicro"));
    let insert = bench.action(Action::Insert(bench.slot()));
    let reply = bench.send("POST", &insert, json!({"Image": "http://h/a.iso"})).await.is(400);
    assert_eq!(reply.body["error"]["code"], "Base.1.18.ActionParameterMissing");
    assert_eq!(reply.body["error"]["@Message.ExtendedInfo"][0]["RelatedProperties"][0], "#/TransferProtocolType");
}

#[tokio::test]
async fn a_slot_that_is_not_the_drive_refuses() {
    for name in ["idrac", "ilo"] {
        let bench = bench(vendor(name));
        let other = 1 - bench.slot();
        let reply = bench.send("POST", &bench.action(Action::Insert(other)), json!({"Image": "http://h/a"})).await.is(400);
        assert_eq!(reply.id(), "ActionNotSupported");
    }
}

#[tokio::test]
async fn virtual_media_needs_a_licence_where_the_vendor_sells_one() {
    for (name, id) in [("supermicro", "OemLicenseNotPassed"), ("ilo", "LicenseKeyRequired")] {
        let bench = bench_with(vendor(name), |config| config.licensed = false);
        assert_eq!(bench.insert("http://h/a.iso").await.is(403).id(), id);
    }
}

#[tokio::test]
async fn an_action_without_a_body_is_refused_only_by_ilo() {
    for name in ["generic", "ilo"] {
        let bench = bench(vendor(name));
        let request = Bench::request("POST", &bench.action(Action::ResetBios)).body(HttpBody::empty()).unwrap();
        bench.raw(request).await.is(if name == "ilo" { 400 } else { 204 });
    }
}

#[tokio::test]
async fn bios_attributes_wait_for_a_boot() {
    let bench = bench(vendor("generic"));
    let (bios, settings) = (bench.path(Resource::Bios), bench.path(Resource::BiosSettings));
    let body = json!({"Attributes": {"MemTest": "Enabled"}, "@Redfish.SettingsApplyTime": {"ApplyTime": "OnReset"}});
    bench.send("PATCH", &settings, body).await.is(200);
    assert_eq!(bench.get(&settings).await.body["Attributes"], json!({"MemTest": "Enabled"}));
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
    bench.send("PATCH", &path, json!({"SecureBootEnable": true})).await.is(200);
    let now = bench.get(&path).await.body;
    assert_eq!((&now["SecureBootEnable"], &now["SecureBootCurrentBoot"]), (&json!(true), &json!("Disabled")));
    bench.reset("On").await.is(204);
    bench.powered(Power::On).await;
    assert_eq!(bench.get(&path).await.body["SecureBootCurrentBoot"], "Enabled");
    bench.send("PATCH", &bench.path(Resource::System), json!({"Boot": {"BootSourceOverrideMode": "Legacy"}})).await.is(200);
    let reply = bench.send("PATCH", &path, json!({"SecureBootEnable": true})).await.is(409);
    assert_eq!(reply.id(), "PropertyValueConflict");
    let keys = bench.action(Action::ResetKeys);
    bench.send("POST", &keys, json!({"ResetKeysType": "DeleteAllKeys"})).await.is(204);
    assert_eq!(bench.get(&path).await.body["SecureBootMode"], "SetupMode");
}

#[tokio::test]
async fn an_update_runs_as_a_task_and_ends_in_a_newer_version() {
    let url = image_server(b"firmware").await;
    let bench = bench(vendor("idrac"));
    let target = bench.path(Resource::Firmware("BMC"));
    assert_eq!(bench.get(&target).await.body["Version"], "7.00.60.00");
    let body = json!({"ImageURI": format!("{url}/image.iso"), "TransferProtocol": "HTTP", "Targets": [target]});
    let accepted = bench.send("POST", &bench.action(Action::Update), body).await.is(202);
    let done = bench.finished(&accepted).await.is(200);
    assert_eq!((&done.body["TaskState"], &done.body["PercentComplete"]), (&json!("Completed"), &json!(100)));
    assert_eq!(bench.get(&target).await.body["Version"], "7.00.60.01");
    assert_eq!(bench.get(&bench.path(Resource::Manager)).await.body["FirmwareVersion"], "7.00.60.01");
    assert_eq!(bench.images(), 0);
    let body = json!({"ImageURI": format!("{url}/none")});
    let accepted = bench.send("POST", &bench.action(Action::Update), body).await.is(202);
    assert_eq!(bench.finished(&accepted).await.body["TaskState"], "Exception");
}

#[tokio::test]
async fn a_bmc_that_is_reset_is_away_and_comes_back_without_sessions() {
    let bench = bench_with(vendor("idrac"), |config| config.restart = Duration::from_secs(600));
    let login = json!({"UserName": "admin", "Password": "s3cret:with colon"});
    bench.send("POST", "/redfish/v1/SessionService/Sessions", login).await.is(201);
    bench.send("POST", &bench.action(Action::ResetBmc), json!({"ResetType": "GracefulRestart"})).await.is(204);
    let reply = bench.get("/redfish/v1/").await.is(503);
    assert_eq!(reply.id(), "SYS518");
    assert!(reply.header("retry-after").parse::<u64>().unwrap() <= 600);
    bench.bmc.memory().away_until = None;
    let sessions = bench.get("/redfish/v1/SessionService/Sessions").await.is(200);
    assert_eq!(sessions.body["Members@odata.count"], 0);
}

#[tokio::test]
async fn the_clock_can_be_set() {
    let bench = bench(vendor("generic"));
    let path = bench.path(Resource::Manager);
    let reply = bench.send("PATCH", &path, json!({"DateTime": "2031-05-04T03:02:01Z"})).await.is(200);
    assert!(reply.body["DateTime"].as_str().unwrap().starts_with("2031-05-04T03:02:"), "{}", reply.body["DateTime"]);
}

#[tokio::test]
async fn a_collection_is_expanded_where_that_is_offered() {
    let generic = bench(vendor("generic"));
    let nics = format!("{}?$expand=.($levels=1)", generic.path(Resource::Nics));
    let members = &generic.get(&nics).await.is(200).body["Members"];
    assert_eq!(members[1]["MACAddress"], "52:54:00:00:00:02");
    let other = bench(vendor("supermicro"));
    other.get("/redfish/v1/Systems?$expand=.").await.is(501);
    other.get("/redfish/v1/Systems?cachebust=1").await.is(200);
}

#[tokio::test]
async fn heads_have_headers_and_no_body() {
    let bench = bench(vendor("generic"));
    let request = Bench::request("HEAD", "/redfish/v1/Systems/1").body(HttpBody::empty()).unwrap();
    let reply = bench.raw(request).await.is(200);
    assert!(!reply.header("etag").is_empty() && reply.body.is_null());
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
    for (status, id) in [(500, "InternalError"), (503, "ServiceTemporarilyUnavailable")] {
        bench.fault(Kind::BmcError { status });
        assert_eq!(bench.get("/redfish/v1/Systems").await.is(status).id(), id);
        bench.get("/redfish/v1/Systems").await.is(200);
    }
}

#[tokio::test]
async fn dropped_sessions_are_refused_and_a_new_login_works() {
    let bench = bench(vendor("generic"));
    let login = json!({"UserName": "admin", "Password": "s3cret:with colon"});
    let token = bench.send("POST", "/redfish/v1/SessionService/Sessions", login.clone()).await.header("x-auth-token").to_string();
    let with = |token: &str| {
        Request::get("/redfish/v1/Systems").header("x-auth-token", token).body(HttpBody::empty()).unwrap()
    };
    bench.raw(with(&token)).await.is(200);
    bench.fault(Kind::DropsSessions);
    assert_eq!(bench.raw(with(&token)).await.is(401).id(), "NoValidSession");
    bench.raw(with(&token)).await.is(401);
    let token = bench.send("POST", "/redfish/v1/SessionService/Sessions", login).await.header("x-auth-token").to_string();
    bench.raw(with(&token)).await.is(200);
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

#[tokio::test]
async fn a_lying_bmc_shows_the_wrong_power_and_a_pulled_cable_no_link() {
    let bench = bench(vendor("generic"));
    bench.bmc.server.faults().add(Order::new(Kind::LiesAboutPower));
    bench.bmc.server.faults().add(Order::new(Kind::LinkDown { network: Network::Baremetal }));
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

#[tokio::test]
async fn events_are_posted_to_a_subscriber_and_only_those_it_asked_for() {
    let (posted, mut letters) = tokio::sync::mpsc::channel::<(HeaderMap, Value)>(16);
    let app = axum::Router::new().route(
        "/hook",
        axum::routing::post(move |headers: HeaderMap, axum::Json(letter): axum::Json<Value>| {
            let posted = posted.clone();
            async move { posted.send((headers, letter)).await.unwrap() }
        }),
    );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });

    let bench = bench(vendor("generic"));
    let handle = super::spawn(TcpListener::bind("127.0.0.1:0").await.unwrap(), None, Arc::clone(&bench.bmc)).unwrap();
    let wanted = json!({
        "Destination": url,
        "Protocol": "Redfish",
        "Context": "mine",
        "EventTypes": ["StatusChange"],
        "HttpHeaders": [{"Authorization": "Bearer hush"}],
    });
    let created = bench.send("POST", "/redfish/v1/EventService/Subscriptions", wanted).await.is(201);
    let location = created.header("location").to_string();
    assert!(!bench.get(&location).await.is(200).body.to_string().contains("hush"));
    let test = json!({"MessageId": "Lab.1.0.Hello", "EventType": "Alert"});
    bench.send("POST", &bench.action(Action::TestEvent), test.clone()).await.is(204);
    let status_test = json!({"MessageId": "Lab.1.0.Hello", "EventType": "StatusChange"});
    bench.send("POST", &bench.action(Action::TestEvent), status_test).await.is(204);
    let wait = Duration::from_secs(5);
    let (headers, letter) = tokio::time::timeout(wait, letters.recv()).await.unwrap().unwrap();
    assert_eq!(headers["authorization"], "Bearer hush");
    assert_eq!(letter["Events"][0]["EventType"], "StatusChange", "the alert was not asked for");
    // The watcher looks at the server from its first turn on; the reset comes after that.
    tokio::net::TcpStream::connect(handle.address()).await.unwrap();
    bench.reset("On").await.is(204);
    loop {
        let (_, letter) = tokio::time::timeout(wait, letters.recv()).await.expect("an event of the power").unwrap();
        assert_eq!(letter["Context"], "mine");
        if letter["Events"][0]["MessageId"] == "ResourceEvent.1.3.ResourcePoweredOn" {
            break;
        }
    }
    bench.send("DELETE", &location, Value::Null).await.is(204);
    bench.send("DELETE", &location, Value::Null).await.is(404);
    handle.stop().await;
}

#[tokio::test]
async fn subscriptions_are_limited() {
    let bench = bench(vendor("generic"));
    let wanted = json!({"Destination": "http://127.0.0.1:1/", "Protocol": "Redfish"});
    for _ in 0..16 {
        bench.send("POST", "/redfish/v1/EventService/Subscriptions", wanted.clone()).await.is(201);
    }
    let reply = bench.send("POST", "/redfish/v1/EventService/Subscriptions", wanted).await.is(400);
    assert_eq!(reply.id(), "CreateLimitReachedForResource");
}

#[tokio::test]
async fn stopping_ends_open_connections_at_once_and_frees_the_address() {
    use tokio::io::AsyncReadExt as _;
    let bench = bench(vendor("generic"));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let handle = super::spawn(listener, None, Arc::clone(&bench.bmc)).unwrap();
    let address = handle.address();
    let mut idle = tokio::net::TcpStream::connect(address).await.unwrap();
    handle.stop().await;
    let mut byte = [0];
    let read = tokio::time::timeout(Duration::from_secs(5), idle.read(&mut byte)).await.expect("the connection ends");
    assert!(matches!(read, Ok(0) | Err(_)));
    TcpListener::bind(address).await.expect("the address is free");
}
