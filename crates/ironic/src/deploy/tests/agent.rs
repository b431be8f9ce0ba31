//! A host of fake hardware with an agent that really listens: it boots when the record says so and there is power, is
//! looked up, calls, and runs commands that take a moment.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{Request, StatusCode};
use axum::routing::get;
use axum::{Json, Router};
use http_body_util::BodyExt as _;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use lifecycle::node::{BootInto, Power};
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;
use uuid::Uuid;

use crate::config::Config;
use crate::server::Server;

pub const MAC: &str = "52:54:00:00:00:01";

/// How a host behaves.
#[derive(Clone, Default)]
pub struct Manners {
    /// Commands of this kind end so.
    pub fails: Option<(&'static str, &'static str)>,
    /// Steps never end.
    pub endless: bool,
    /// It does not say when a step is over.
    pub mute: bool,
    /// It says so once that its hardware managers are others.
    pub mismatch: bool,
    /// It never boots.
    pub dead: bool,
    /// A step that wants a reboot.
    pub reboots: bool,
    /// Its answer to being powered off is lost with it.
    pub leaves: bool,
}

#[derive(Default)]
pub struct Seen {
    pub manners: Manners,
    /// Every command and step it was given, in order, over all boots.
    pub log: Vec<String>,
    pub written: Vec<Value>,
    pub boots: u32,
    commands: Vec<Value>,
    running: Vec<(usize, Instant, Value)>,
    token: Option<String>,
    /// Of the order it was booted by.
    key: Option<Uuid>,
    calls: bool,
    /// It outlives the service.
    agent: Option<Agent>,
}

impl Seen {
    /// The agent is gone with the power. Off and on can be too quick to be seen; then another boot was ordered, or
    /// the service has forgotten the token.
    fn lose_power(&mut self, on: bool, key: Option<Uuid>, token: Option<&str>) {
        let ordered = key.is_some() && key != self.key;
        let forgotten = self.token.is_some() && token != self.token.as_deref();
        if (!on || ordered || forgotten) && self.agent.take().is_some() {
            self.commands.clear();
            self.running.clear();
            self.token = None;
        }
    }
}

#[derive(Clone)]
pub struct Host(Arc<Mutex<Seen>>);

impl Host {
    pub fn new(manners: Manners) -> Self {
        Self(Arc::new(Mutex::new(Seen {
            manners,
            ..Seen::default()
        })))
    }

    pub fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap()
    }

    /// Lives beside the service until it is dropped.
    pub fn plug(&self, server: &Arc<Server>) -> Plugged {
        let (host, server) = (self.clone(), Arc::clone(server));
        Plugged(tokio::spawn(async move { host.live(&server).await }))
    }

    async fn live(&self, server: &Server) {
        loop {
            tokio::time::sleep(Duration::from_millis(3)).await;
            let node = server.service().store.read().nodes.named("n0").cloned();
            let Some(node) = node else { continue };
            let on = node.hardware.power == Power::On;
            let order = node.boot_order.clone();
            let key = order.as_ref().map(|order| order.key);
            let known = node.driver_internal_info.get("agent_secret_token");
            self.seen()
                .lose_power(on, key, known.and_then(Value::as_str));
            if !on {
                continue;
            }
            let boots = self.seen().agent.is_none() && !self.seen().manners.dead;
            if boots && order.is_some() {
                let agent = Agent::listen(self.clone()).await;
                self.booted(agent);
                self.seen().key = key;
                if order.is_some_and(|order| order.into == BootInto::Inspection) {
                    let report = inventory();
                    let (status, answer) =
                        call(server, "POST /v1/continue_inspection", report).await;
                    assert_eq!(status, 202);
                    let token = answer["config"]["agent_token"].as_str().unwrap().to_owned();
                    let mut seen = self.seen();
                    (seen.token, seen.calls) = (Some(token), true);
                }
            }
            let Some((url, certificate)) = self.seen().agent.as_ref().map(Agent::known) else {
                continue;
            };
            if self.seen().token.is_none() {
                let ask = format!("GET /v1/lookup?addresses={MAC}");
                let (status, answer) = call(server, &ask, Value::Null).await;
                if status == 200 {
                    let token = answer["config"]["agent_token"].as_str().unwrap().to_owned();
                    let known = node.driver_internal_info.get("agent_secret_token");
                    let token = match known {
                        // It was in the kernel's command line.
                        Some(known) if token == "******" => known.as_str().unwrap().to_owned(),
                        _ => token,
                    };
                    let mut seen = self.seen();
                    seen.token = Some(token);
                    seen.calls = true;
                }
            }
            self.finish_commands();
            if let Some(token) = self.calling() {
                let beat = json!({"callback_url": url, "agent_token": token,
                                  "agent_version": "11.4.0", "agent_verify_ca": certificate});
                let path = format!("POST /v1/heartbeat/{}", node.uuid);
                if call(server, &path, beat).await.0 == 202 {
                    self.seen().calls = false;
                }
            }
        }
    }

    /// The token, if it wants to call.
    fn calling(&self) -> Option<String> {
        let seen = self.seen();
        seen.token.clone().filter(|_| seen.calls)
    }

    fn booted(&self, agent: Agent) {
        let mut seen = self.seen();
        seen.boots += 1;
        seen.agent = Some(agent);
    }

    fn finish_commands(&self) {
        let mut seen = self.seen();
        if seen.manners.endless {
            return;
        }
        let due = |(_, at, _): &(usize, Instant, Value)| at.elapsed() > Duration::from_millis(30);
        if let Some(place) = seen.running.iter().position(due) {
            let (at, _, result) = seen.running.remove(place);
            for (key, value) in result.as_object().unwrap() {
                seen.commands[at][key] = value.clone();
            }
            seen.calls = !seen.manners.mute;
        }
    }

    fn command(&self, name: &str, params: &Value) -> Value {
        let mut seen = self.seen();
        let bare = name.split('.').next_back().unwrap();
        let step = params["step"]["step"].as_str().unwrap_or_default();
        seen.log.push(format!("{bare} {step}").trim().to_owned());
        if step == "write_image" {
            seen.written.push(params["step"]["args"].clone());
        }
        let kind = name.split('.').next().unwrap().to_owned();
        let mut done = json!({"command_status": "SUCCEEDED", "command_result": {"result": "ok"}});
        if bare.starts_with("execute_") {
            done["command_result"] = json!({format!("{kind}_step"): params["step"]});
        }
        if let Some((what, why)) = seen.manners.fails
            && (step == what || bare == what)
        {
            done = json!({"command_status": "FAILED", "command_result": null,
                          "command_error": {"type": "X", "code": 500, "message": why, "details": why}});
        }
        if bare.starts_with("execute_") && std::mem::take(&mut seen.manners.mismatch) {
            done = json!({"command_status": "CLEAN_VERSION_MISMATCH", "command_result": null});
        }
        if bare.starts_with("get_") {
            done["command_result"] = offered(&kind, seen.manners.reboots);
        }
        if bare == "collect_system_logs" {
            done["command_result"] = json!({"system_logs": logs()});
        }
        let mut command = json!({"id": Uuid::new_v4(), "command_name": bare, "command_error": null,
                                 "command_status": "RUNNING",
                                 "command_result": {"progress": {"percent": 43.0, "bytes": 43, "total": 100,
                                                                 "mb_per_s": 210.5, "phase": "writing"}}});
        let lasts = bare.starts_with("execute_") || bare == "install_bootloader";
        let at = seen.commands.len();
        if lasts {
            seen.running.push((at, Instant::now(), done));
        } else {
            for (key, value) in done.as_object().unwrap() {
                command[key] = value.clone();
            }
        }
        seen.commands.push(command.clone());
        command
    }
}

pub struct Plugged(tokio::task::JoinHandle<()>);

impl Drop for Plugged {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The agent's server, gone when it is dropped.
struct Agent {
    url: String,
    certificate: String,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Agent {
    fn known(&self) -> (String, String) {
        (self.url.clone(), self.certificate.clone())
    }

    async fn listen(host: Host) -> Self {
        let made = rcgen::generate_simple_self_signed(["somebody".to_owned()]).unwrap();
        let certificate = made.cert.pem();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let tls = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let app = Router::new()
            .route("/v1/commands/", get(list).post(run))
            .with_state(host);
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (tls, app) = (tls.clone(), app.clone());
                connections.spawn(async move {
                    let Ok(stream) = tls.accept(stream).await else {
                        return;
                    };
                    let service = TowerToHyperService::new(app);
                    _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Self {
            url,
            certificate,
            task,
        }
    }
}

type Args = Query<std::collections::HashMap<String, String>>;

fn refused(host: &Host, args: &Args) -> Option<(StatusCode, Json<Value>)> {
    let token = host.seen().token.clone();
    let right = token.is_some() && args.get("agent_token") == token.as_ref();
    let fault = json!({"faultcode": "Client", "faultstring": "Token invalid"});
    (!right).then_some((StatusCode::UNAUTHORIZED, Json(fault)))
}

async fn list(State(host): State<Host>, args: Args) -> (StatusCode, Json<Value>) {
    refused(&host, &args).unwrap_or_else(|| {
        (
            StatusCode::OK,
            Json(json!({"commands": host.seen().commands})),
        )
    })
}

async fn run(State(host): State<Host>, args: Args, body: Json<Value>) -> (StatusCode, Json<Value>) {
    if let Some(refused) = refused(&host, &args) {
        return refused;
    }
    let busy = !host.seen().running.is_empty();
    if busy {
        let fault = json!({"faultcode": "Client", "faultstring": "Agent is busy"});
        return (StatusCode::CONFLICT, Json(fault));
    }
    let name = body["name"].as_str().unwrap().to_owned();
    if name == "standby.power_off" && host.seen().manners.leaves {
        std::future::pending::<()>().await;
    }
    (StatusCode::OK, Json(host.command(&name, &body["params"])))
}

fn offered(kind: &str, reboots: bool) -> Value {
    let step = |name: &str, priority: u32, args: Value| {
        json!({"step": name, "priority": priority, "interface": "deploy", "reboot_requested": false,
               "abortable": true, "argsinfo": args, "requires_ramdisk": true})
    };
    let mut steps = match kind {
        "deploy" => vec![
            step(
                "write_image",
                0,
                json!({"image_info": {"required": true}, "configdrive": {"required": false}}),
            ),
            step("install_coreos", 0, json!({})),
        ],
        _ => vec![
            step("erase_devices", 10, json!(null)),
            step("erase_devices_metadata", 99, json!(null)),
            step(
                "burnin_cpu",
                0,
                json!({"agent_burnin_cpu_timeout": {"required": true}}),
            ),
        ],
    };
    if reboots && kind != "deploy" {
        let mut step = step("flash", 50, json!(null));
        step["reboot_requested"] = true.into();
        steps.push(step);
    }
    // What is not the agent's on this node.
    steps.push(json!({"step": "create_configuration", "priority": 90, "interface": "raid"}));
    json!({format!("{kind}_steps"): {"generic_hardware_manager": steps},
           "hardware_manager_version": {"generic_hardware_manager": "1.2"}})
}

/// A tar of one file, as an agent packs it.
fn logs() -> String {
    use base64::Engine as _;
    use std::io::Write as _;
    let text = b"first\nsecond\nI/O error on sda\nwrite failed\n";
    let mut header = [0_u8; 512];
    header[..7].copy_from_slice(b"journal");
    header[124..135].copy_from_slice(format!("{:011o}", text.len()).as_bytes());
    let mut tar = header.to_vec();
    tar.extend_from_slice(text);
    tar.resize(512 * 4, 0);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&tar).unwrap();
    base64::engine::general_purpose::STANDARD.encode(gzip.finish().unwrap())
}

fn inventory() -> Value {
    json!({"inventory": {
        "interfaces": [{"name": "eth0", "mac_address": MAC}, {"name": "eth1", "mac_address": "52:54:00:00:00:02"}],
        "cpu": {"count": 8, "architecture": "x86_64"},
        "memory": {"total": 8_000_000_000_u64, "physical_mb": 8192},
        "disks": [{"name": "/dev/sda", "model": "m", "size": 64_u64 << 30, "rotational": false}],
        "boot": {"current_boot_mode": "uefi", "pxe_interface": MAC},
    }, "boot_interface": MAC, "error": null, "logs": "H4sI"})
}

pub async fn call(server: &Server, call: &str, body: Value) -> (u16, Value) {
    let (method, path) = call.split_once(' ').unwrap();
    let body = if body.is_null() {
        Body::empty()
    } else {
        Body::from(body.to_string())
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("x-openstack-ironic-api-version", "1.110");
    let answer = server
        .router()
        .oneshot(request.body(body).unwrap())
        .await
        .unwrap();
    let status = answer.status().as_u16();
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

pub async fn start(dir: &std::path::Path, settings: &str) -> Arc<Server> {
    let quick =
        "deploy: {agent_power_off: 0.05, progress: 0.05, images_url: 'http://boot.test/images'}\n";
    let settings = if settings.contains("deploy:") {
        settings.to_owned()
    } else {
        format!("{quick}{settings}")
    };
    let mut config = Config::parse(&settings, "test".as_ref()).unwrap();
    config.state = dir.join("ironic.redb");
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        match Server::start(&config).await {
            Ok(server) => return Arc::new(server),
            Err(error) => assert!(Instant::now() < deadline, "{}", model::chain(&error)),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub async fn verb(server: &Server, body: Value) {
    let (status, answer) = call(server, "PUT /v1/nodes/n0/states/provision", body).await;
    assert_eq!(status, 202, "{answer}");
}

pub async fn reaches(server: &Server, state: &str) -> Value {
    until(server, |node| {
        node["provision_state"] == state && node["reservation"].is_null()
    })
    .await
}

pub async fn until(server: &Server, wanted: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let (_, node) = call(server, "GET /v1/nodes/n0", Value::Null).await;
        if wanted(&node) {
            return node;
        }
        assert!(
            Instant::now() < deadline,
            "it never came; last seen: {node:#}"
        );
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A node with an agent's interfaces on hardware that is not there, managed, with one port.
pub async fn enrol(server: &Server, boot: &str) {
    let body = json!({"driver": "fake-hardware", "name": "n0", "boot_interface": boot,
                      "deploy_interface": "direct", "inspect_interface": "agent"});
    let (status, answer) = call(server, "POST /v1/nodes", body).await;
    assert_eq!(status, 201, "{answer}");
    let port = json!({"address": MAC, "node_ident": "n0"});
    assert_eq!(call(server, "POST /v1/ports", port).await.0, 201);
    verb(server, json!({"target": "manage"})).await;
    reaches(server, "manageable").await;
}

/// What to write: a file that really is served.
pub async fn image(server: &Server, source: &str, checksum: Value) {
    let patch = json!([
        {"op": "add", "path": "/instance_info/image_source", "value": source},
        {"op": "add", "path": "/instance_info/image_checksum", "value": checksum},
    ]);
    let (status, answer) = call(server, "PATCH /v1/nodes/n0", patch).await;
    assert_eq!(status, 200, "{answer}");
}
