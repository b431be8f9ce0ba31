//! OpenStack's sushy drives every personality over TLS, as Ironic would; the steps are in `redfish.py`. And the
//! DMTF's own validator has a look at the protocol.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use lab::bmc::{Bmc, Config, Personality, media, redfish};
use lab::fault::Faults;
use lab::hardware::{Disk, Firmware, Hardware, Network, Nic};
use lab::server::{Server, sim};
use model::Secret;
use rustls::pki_types::PrivateKeyDer;
use rustls::{RootCertStore, ServerConfig};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio_rustls::TlsAcceptor;

use crate::python;

#[tokio::test]
async fn sushy_drives_a_generic_bmc() {
    drive("generic").await;
}

#[tokio::test]
async fn sushy_drives_an_idrac() {
    drive("idrac").await;
}

#[tokio::test]
async fn sushy_drives_an_ilo() {
    drive("ilo").await;
}

#[tokio::test]
async fn sushy_drives_a_supermicro_bmc() {
    drive("supermicro").await;
}

#[tokio::test]
async fn sushy_drives_a_lenovo_xcc() {
    drive("lenovo").await;
}

#[tokio::test]
async fn sushy_drives_a_fujitsu_irmc() {
    drive("fujitsu").await;
}

const PASSWORD: &str = "pa55:word with spaces";
const LIMIT: Duration = Duration::from_mins(2);

async fn drive(vendor: &str) {
    let bmc = serve(vendor).await;
    let input = json!({
        "vendor": vendor,
        "url": bmc.url,
        "ca": bmc.ca,
        "user": "admin",
        "password": PASSWORD,
        "http_image": format!("{}/image.iso", image_server(None).await),
        "https_image": format!("{}/image.iso", image_server(Some(self_signed().0)).await),
    });
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop/redfish.py");
    let mut python = python().await;
    let mut child = python.arg(script).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.to_string().as_bytes()).await.unwrap();
    drop(stdin);
    succeeds(child, &format!("{vendor}: sushy is not satisfied")).await;
    bmc.handle.stop().await;
}

/// What cannot be tested without a second account or server-sent events is left out by the validator itself.
#[tokio::test]
async fn the_protocol_validator_of_the_dmtf_finds_no_fault() {
    let bmc = serve("generic").await;
    let mut python = python().await;
    // The validator gives its CA to some of its requests only; the environment reaches all of them.
    python
        .env("REQUESTS_CA_BUNDLE", &bmc.ca)
        .args(["-m", "redfish_protocol_validator.console_scripts"])
        .args([
            "--user",
            "admin",
            "--password",
            PASSWORD,
            "--rhost",
            &bmc.url,
        ])
        .args(["--report-type", "tsv", "--avoid-http-redirect"])
        .arg("--ca-bundle")
        .arg(&bmc.ca)
        .arg("--report-dir")
        .arg(bmc.dir.path());
    let said = succeeds(python.spawn().unwrap(), "the validator found faults").await;
    let summary = said
        .lines()
        .find(|line| line.starts_with("Summary"))
        .unwrap_or(&said);
    assert!(summary.contains("FAIL: 0"), "{said}");
    bmc.handle.stop().await;
}

/// A BMC on loopback, and all that a client has to know of it.
struct Served {
    dir: tempfile::TempDir,
    url: String,
    ca: PathBuf,
    handle: redfish::Handle,
}

async fn serve(vendor: &str) -> Served {
    let dir = tempfile::tempdir().unwrap();
    let bmc = bmc(vendor, dir.path());
    let (tls, certificate) = self_signed();
    let ca = dir.path().join("bmc.pem");
    std::fs::write(&ca, certificate).unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let handle = redfish::spawn(listener, Some(tls), bmc).unwrap();
    let url = format!("https://{}", handle.address());
    Served {
        dir,
        url,
        ca,
        handle,
    }
}

/// An interpreter to which only its arguments are missing.
async fn python() -> Command {
    let interpreter = tokio::task::spawn_blocking(python::interpreter)
        .await
        .unwrap();
    let mut command = Command::new(interpreter);
    command
        .arg("-B")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

async fn succeeds(child: Child, otherwise: &str) -> String {
    let ended = tokio::time::timeout(LIMIT, child.wait_with_output()).await;
    let output = ended.expect("the client is done in time").unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{otherwise}\n{said}");
    said
}

fn bmc(vendor: &str, dir: &std::path::Path) -> Arc<Bmc> {
    let hardware = Hardware {
        name: "server-0".into(),
        uuid: uuid::Uuid::from_u128(0x1234),
        serial: "LAB0001".into(),
        cpus: 4,
        memory_mib: 8192,
        nics: vec![
            Nic {
                network: Network::Provisioning,
                mac: "52:54:00:00:00:01".parse().unwrap(),
                port: "p0".into(),
            },
            Nic {
                network: Network::Baremetal,
                mac: "52:54:00:00:00:02".parse().unwrap(),
                port: "b0".into(),
            },
        ],
        disks: vec![
            Disk {
                serial: "D1".into(),
                size_bytes: 20 << 30,
            },
            Disk {
                serial: "D2".into(),
                size_bytes: 40 << 30,
            },
        ],
    };
    let faults = Faults::default();
    let board = sim::spawn(&hardware, dir, None, faults.clone());
    // The server's task ends with the last handle, which the BMC holds.
    let (server, _task) = Server::spawn(hardware, Firmware::Uefi, faults, board);
    let media_dir = dir.join("media");
    std::fs::create_dir(&media_dir).unwrap();
    Bmc::new(Config {
        server,
        personality: Personality::named(vendor).unwrap(),
        user: "admin".into(),
        password: Secret::new(PASSWORD.into()),
        mac: "52:54:00:00:01:01".parse().unwrap(),
        addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
        media_dir,
        media_limits: media::Limits::default(),
        clients: media::Clients::new(RootCertStore::empty()),
        licensed: true,
        restart: Duration::from_millis(300),
    })
}

/// TLS for a server on loopback, and its certificate as PEM.
fn self_signed() -> (Arc<ServerConfig>, String) {
    let made =
        rcgen::generate_simple_self_signed(vec!["localhost".into(), "127.0.0.1".into()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    (Arc::new(config), made.cert.pem())
}

/// Serves `/image.iso` until the test ends.
async fn image_server(tls: Option<Arc<ServerConfig>>) -> String {
    let app = Router::new().route("/image.iso", get(|| async { vec![0x5a_u8; 300_000] }));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let Some(tls) = tls else {
        tokio::spawn(async move { axum::serve(listener, app).await });
        return format!("http://{address}");
    };
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (tls, app) = (TlsAcceptor::from(tls.clone()), app.clone());
            tokio::spawn(async move {
                // A client that does not believe the certificate hangs up here.
                let Ok(stream) = tls.accept(stream).await else {
                    return;
                };
                let served = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), TowerToHyperService::new(app));
                _ = served.await;
            });
        }
    });
    format!("https://{address}")
}
