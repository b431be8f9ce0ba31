pub fn disk(name: &str, gib: u64) -> model::inventory::Disk {
    model::inventory::Disk {
        name: name.into(),
        model: "QEMU HARDDISK".into(),
        size: gib << 30,
        rotational: false,
        wwn: None,
        serial: None,
        vendor: None,
        wwn_with_extension: None,
        wwn_vendor_extension: None,
        hctl: None,
        by_path: None,
        logical_sectors: Some(512),
        physical_sectors: Some(512),
        tran: None,
    }
}

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use model::inventory::{
    Boot, BootMode, Cpu, Disk, Firmware, Interface, Inventory, Memory, SystemVendor,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::*;
use crate::http::Way;
use crate::parameters::Parameters;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const TOKEN: &str = "0123456789012345678901234567890123456789abc";

/// A server made of words.
#[derive(Default)]
struct Paper {
    done: Mutex<Vec<String>>,
    /// Held by a test that wants work to take time.
    hold: Mutex<()>,
}

impl Machine for Paper {
    fn inventory(&self) -> Result<Inventory, Failure> {
        Ok(inventory())
    }

    fn lldp(&self, _: Duration) -> BTreeMap<String, Vec<(u8, Vec<u8>)>> {
        BTreeMap::from([("eth0".into(), vec![(1, vec![4, 0xab])])])
    }

    fn logs(&self) -> Vec<u8> {
        b"tar".to_vec()
    }

    fn write_image(&self, disk: &Disk, image: &Image, job: &Job<'_>) -> Result<String, Failure> {
        (job.show)(Progress {
            phase: "writing",
            percent: Some(37),
            bytes: 37,
            total: Some(100),
            mb_per_s: 1.5,
        });
        drop(self.hold.lock().unwrap());
        self.note(format!("write {} to {}", image.name, disk.name));
        Ok("written".into())
    }

    fn erase(&self, disk: &Disk, how: Erase, _: &Job<'_>) -> Result<String, Failure> {
        self.note(format!("erase {} {how:?}", disk.name));
        if disk.name == "/dev/bad" {
            return Err(Failure::new("x", "it is broken"));
        }
        Ok("erased".into())
    }

    fn install_bootloader(&self, disk: &Disk) -> Result<String, Failure> {
        self.note(format!("boot {}", disk.name));
        Ok("first".into())
    }

    fn load_installed(&self, disk: &Disk) -> Result<String, Failure> {
        self.note(format!("load {}", disk.name));
        Ok("vmlinuz".into())
    }

    fn sync(&self) {
        self.note("sync".into());
    }
}

impl Paper {
    fn note(&self, text: String) {
        self.done.lock().unwrap().push(text);
    }
}

fn inventory() -> Inventory {
    let text = String::new;
    Inventory {
        interfaces: vec![Interface {
            name: "eth0".into(),
            mac_address: "52:54:00:00:00:01".parse().unwrap(),
            ipv4_address: None,
            ipv6_address: None,
            has_carrier: true,
            lldp: None,
            vendor: None,
            product: None,
            client_id: None,
            biosdevname: None,
            speed_mbps: None,
            pci_address: None,
            driver: None,
        }],
        cpu: Cpu {
            model_name: text(),
            frequency: text(),
            count: 1,
            architecture: "x86_64".into(),
            flags: vec![],
            socket_count: 1,
        },
        disks: vec![disk("/dev/vda", 10), disk("/dev/vdb", 20)],
        memory: Memory {
            total: 1 << 30,
            physical_mb: Some(1024),
        },
        bmc_address: None,
        bmc_v6address: None,
        bmc_mac: None,
        system_vendor: SystemVendor {
            product_name: text(),
            serial_number: text(),
            manufacturer: text(),
            firmware: Firmware {
                vendor: text(),
                version: text(),
                build_date: text(),
            },
        },
        boot: Boot {
            current_boot_mode: BootMode::Uefi,
            pxe_interface: None,
        },
        hostname: None,
    }
}

/// A call the agent made: `POST /v1/heartbeat/n1`, and its body.
type Call = (String, Value);

/// Ironic, as far as an agent sees it. Answers lookups with a token once, then with stars.
async fn ironic() -> (String, mpsc::UnboundedReceiver<Call>) {
    let listener = tokio::net::TcpListener::bind((LOOPBACK, 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (sender, calls) = mpsc::unbounded_channel();
    let handed_out = Arc::new(Mutex::new(false));
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let (sender, handed_out) = (sender.clone(), handed_out.clone());
            let serve =
                hyper::service::service_fn(move |request: Request<hyper::body::Incoming>| {
                    let (sender, handed_out) = (sender.clone(), handed_out.clone());
                    async move {
                        let name = format!("{} {}", request.method(), request.uri());
                        let body = request.into_body().collect().await.unwrap().to_bytes();
                        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                        let (status, answer) = answer(&name, &handed_out);
                        let _ = sender.send((name, body));
                        let mut response =
                            Response::new(Full::new(bytes::Bytes::from(answer.to_string())));
                        *response.status_mut() = status;
                        Ok::<_, std::convert::Infallible>(response)
                    }
                });
            tokio::spawn(
                hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(socket), serve),
            );
        }
    });
    (url, calls)
}

fn answer(name: &str, handed_out: &Mutex<bool>) -> (StatusCode, Value) {
    if name.starts_with("GET /v1/lookup?") {
        let token = if std::mem::replace(&mut *handed_out.lock().unwrap(), true) {
            "******"
        } else {
            TOKEN
        };
        let node = json!({"uuid": "n1", "properties": {"root_device": {"name": "/dev/vdb"}}});
        let config =
            json!({"heartbeat_timeout": 300, "agent_token": token, "agent_token_required": true});
        return (StatusCode::OK, json!({"node": node, "config": config}));
    }
    (StatusCode::ACCEPTED, json!({"uuid": "n1"}))
}

async fn next(calls: &mut mpsc::UnboundedReceiver<Call>) -> Call {
    let wait = tokio::time::timeout(Duration::from_secs(20), calls.recv());
    wait.await.expect("the agent should call").unwrap()
}

fn settings(line: &str) -> Settings {
    let (parameters, problems) = Parameters::parse(line);
    assert_eq!(problems, []);
    Settings {
        name: "paper".into(),
        parameters,
        way: Way {
            source: Some(LOOPBACK),
            ..Way::default()
        },
        identity: None,
        set_clock: false,
        seed: 1,
    }
}

/// The conductor's side of a conversation with one agent.
struct Conductor {
    client: reqwest::Client,
    url: String,
    calls: mpsc::UnboundedReceiver<Call>,
    machine: Arc<Paper>,
    agent: tokio::task::JoinHandle<Result<End, Error>>,
}

impl Conductor {
    async fn new() -> Self {
        let (ironic, mut calls) = ironic().await;
        let machine = Arc::new(Paper::default());
        let line = format!("ipa-api-url={ironic} ipa-listen-port=0");
        let agent = tokio::spawn(run(settings(&line), machine.clone()));
        let (lookup, _) = next(&mut calls).await;
        assert_eq!(
            lookup,
            "GET /v1/lookup?addresses=52%3A54%3A00%3A00%3A00%3A01"
        );
        let (name, beat) = next(&mut calls).await;
        assert_eq!(name, "POST /v1/heartbeat/n1");
        assert_eq!(beat["agent_token"], TOKEN);
        let way = Way {
            authorities: Some(beat["agent_verify_ca"].as_str().unwrap().to_owned()),
            ..Way::default()
        };
        Self {
            client: way.client().unwrap(),
            url: beat["callback_url"].as_str().unwrap().to_owned(),
            calls,
            machine,
            agent,
        }
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        let answer = self.client.get(format!("{}{path}", self.url)).send().await;
        let answer = answer.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    async fn post(&self, query: &str, body: Value) -> (u16, Value) {
        let request = self
            .client
            .post(format!("{}/v1/commands/?{query}", self.url))
            .json(&body);
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    async fn command(&self, name: &str, params: Value) -> Value {
        let query = format!("wait=false&agent_token={TOKEN}");
        let (status, answer) = self
            .post(&query, json!({"name": name, "params": params}))
            .await;
        assert_eq!(status, 200, "{answer}");
        answer
    }

    async fn finished(&self, id: &str) -> Value {
        let path = format!("/v1/commands/{id}?wait=true&agent_token={TOKEN}");
        self.get(&path).await.1
    }

    async fn heartbeat(&mut self) {
        loop {
            if next(&mut self.calls)
                .await
                .0
                .starts_with("POST /v1/heartbeat")
            {
                return;
            }
        }
    }
}

fn write_image() -> Value {
    let info = json!({
        "id": "os.raw", "urls": ["http://127.0.0.1:1/os.raw"], "disk_format": "raw",
        "os_hash_algo": "sha256", "os_hash_value": "ab".repeat(32),
    });
    let step = json!({"interface": "deploy", "step": "write_image", "args": {"image_info": info}});
    json!({"step": step, "ports": [], "deploy_version": {"plinth_agent": "1"}})
}

#[tokio::test]
async fn an_inspection_is_reported_before_the_server_is_looked_up() {
    let (ironic, mut calls) = ironic().await;
    let line = format!(
        "ipa-api-url={ironic} ipa-inspection-callback-url={ironic}/v1/continue_inspection ipa-listen-port=0 \
         ipa-collect-lldp=1 BOOTIF=01-52-54-00-00-00-01"
    );
    let agent = tokio::spawn(run(settings(&line), Arc::new(Paper::default())));
    let (name, report) = next(&mut calls).await;
    assert_eq!(name, "POST /v1/continue_inspection");
    assert_eq!(report["error"], Value::Null);
    assert_eq!(report["boot_interface"], "52:54:00:00:00:01");
    assert_eq!(report["root_disk"]["name"], "/dev/vda");
    assert_eq!(report["lldp_raw"], json!({"eth0": [[1, "04ab"]]}));
    assert_eq!(
        report["inventory"]["interfaces"][0]["lldp"],
        json!([[1, "04ab"]])
    );
    assert_eq!(report["logs"], "dGFy");
    let (name, _) = next(&mut calls).await;
    assert!(name.ends_with("&node_uuid=n1"), "{name}");
    agent.abort();
}

#[tokio::test]
async fn a_whole_deployment_is_done_by_command_and_told_by_heartbeat() {
    let mut ironic = Conductor::new().await;
    let steps = ironic
        .command("deploy.get_deploy_steps", json!({"node": {"uuid": "n1"}}))
        .await;
    assert_eq!(steps["command_status"], "SUCCEEDED");
    let offered = &steps["command_result"]["deploy_steps"]["plinth_agent"][0];
    assert_eq!(offered["step"], "write_image");

    let machine = ironic.machine.clone();
    let (taken, is_taken) = std::sync::mpsc::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let holder = std::thread::spawn(move || {
        let _held = machine.hold.lock().unwrap();
        taken.send(()).unwrap();
        let _ = released.recv();
    });
    is_taken.recv().unwrap();
    let begun = ironic
        .command("deploy.execute_deploy_step", write_image())
        .await;
    assert_eq!(begun["command_status"], "RUNNING");
    let id = begun["id"].as_str().unwrap().to_owned();
    // It shows how far it is, and takes nothing else meanwhile.
    let shown = loop {
        let (_, shown) = ironic
            .get(&format!("/v1/commands/{id}?agent_token={TOKEN}"))
            .await;
        if !shown["command_result"].is_null() {
            break shown;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(shown["command_result"]["progress"]["percent"], 37);
    let query = format!("agent_token={TOKEN}");
    let (status, busy) = ironic.post(&query, json!({"name": "standby.sync"})).await;
    assert_eq!(status, 409);
    assert!(
        busy["faultstring"]
            .as_str()
            .unwrap()
            .contains("agent is busy")
    );
    release.send(()).unwrap();
    holder.join().unwrap();

    let ended = ironic.finished(&id).await;
    assert_eq!(ended["command_status"], "SUCCEEDED", "{ended}");
    assert_eq!(
        ended["command_result"]["deploy_step"]["step"],
        "write_image"
    );
    ironic.heartbeat().await;
    let boot = ironic
        .command("image.install_bootloader", json!({"root_uuid": null}))
        .await;
    let boot = ironic.finished(boot["id"].as_str().unwrap()).await;
    assert_eq!(boot["command_status"], "SUCCEEDED", "{boot}");
    ironic.command("standby.power_off", json!({})).await;
    let end = tokio::time::timeout(Duration::from_secs(10), &mut ironic.agent).await;
    assert_eq!(end.unwrap().unwrap().unwrap(), End::PowerOff);
    let done = ironic.machine.done.lock().unwrap().clone();
    // get_deploy_steps sent a node without hints, which is the one that counts.
    assert_eq!(done, ["write os.raw to /dev/vda", "boot /dev/vda", "sync"]);
}

#[tokio::test]
async fn the_installed_system_takes_the_agents_place() {
    let mut ironic = Conductor::new().await;
    let done = ironic
        .command("standby.kexec", json!({"node": {"uuid": "n1"}}))
        .await;
    assert_eq!(done["command_status"], "SUCCEEDED", "{done}");
    assert_eq!(done["command_result"]["result"], "vmlinuz");
    let end = tokio::time::timeout(Duration::from_secs(10), &mut ironic.agent).await;
    assert_eq!(end.unwrap().unwrap().unwrap(), End::Kexec);
    let done = ironic.machine.done.lock().unwrap().clone();
    assert_eq!(done, ["load /dev/vda", "sync"]);
}

#[tokio::test]
async fn strangers_and_nonsense_are_refused() {
    let ironic = Conductor::new().await;
    assert_eq!(ironic.get("/").await.1["default_version"]["id"], "v1");
    assert_eq!(ironic.get("/v1/").await.0, 200);
    assert!(ironic.get("/v1/status").await.1["started_at"].is_number());
    assert_eq!(ironic.get("/v1/commands/").await.0, 200);
    let sync = json!({"name": "standby.sync"});
    for query in ["", "agent_token=wrong"] {
        let (status, fault) = ironic.post(query, sync.clone()).await;
        assert_eq!(
            (status, &fault["faultstring"]),
            (401, &json!("Token invalid."))
        );
    }
    let token = format!("agent_token={TOKEN}");
    for body in [
        json!({"name": "standby.dance"}),
        json!({}),
        json!([]),
        json!({"name": "standby.sync", "params": 7}),
    ] {
        assert_eq!(ironic.post(&token, body).await.0, 400);
    }
    assert_eq!(ironic.get("/v1/commands/").await.0, 401);
    assert_eq!(ironic.get(&format!("/v1/commands/x?{token}")).await.0, 404);
    assert_eq!(ironic.get(&format!("/v2?{token}")).await.0, 404);
    let rescue = ironic.command("rescue.finalize_rescue", json!({})).await;
    assert_eq!(rescue["command_status"], "FAILED");
    let logs = ironic.command("log.collect_system_logs", json!({})).await;
    assert_eq!(logs["command_result"]["system_logs"], "dGFy");
    ironic.agent.abort();
}

#[tokio::test]
async fn steps_of_another_version_and_unknown_steps_are_told_apart() {
    let ironic = Conductor::new().await;
    let step = |step: &str, version: Value| json!({"step": {"interface": "deploy", "step": step}, "clean_version": version});
    for (params, status) in [
        (
            step("erase_devices_metadata", json!({"other": "1"})),
            "CLEAN_VERSION_MISMATCH",
        ),
        (step("erase_devices_metadata", Value::Null), "SUCCEEDED"),
        (step("make_coffee", Value::Null), "FAILED"),
    ] {
        let begun = ironic.command("clean.execute_clean_step", params).await;
        let ended = ironic.finished(begun["id"].as_str().unwrap()).await;
        assert_eq!(ended["command_status"], status, "{ended}");
    }
    let mut done = ironic.machine.done.lock().unwrap().clone();
    done.sort();
    assert_eq!(done, ["erase /dev/vda Metadata", "erase /dev/vdb Metadata"]);
    ironic.agent.abort();
}

#[tokio::test]
async fn an_agent_with_nobody_to_work_for_says_so() {
    let error = run(settings("quiet"), Arc::new(Paper::default()))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("ipa-api-url"), "{error}");
    let error = run(
        settings("ipa-api-url=https://192.0.2.1"),
        Arc::new(Paper::default()),
    );
    let error = error.await.unwrap_err().to_string();
    assert!(error.contains("ipa-insecure"), "{error}");
}
