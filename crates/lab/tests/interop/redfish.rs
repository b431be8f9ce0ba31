//! OpenStack's sushy drives every personality over TLS, as Ironic would. The steps are in `redfish.py`.

use std::net::{IpAddr, Ipv4Addr};
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
use tokio::process::Command;
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
    let dir = tempfile::tempdir().unwrap();
    let bmc = bmc(vendor, dir.path());
    let (tls, certificate) = self_signed();
    let ca = dir.path().join("bmc.pem");
    std::fs::write(&ca, certificate).unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let served = redfish::spawn(listener, Some(tls), bmc).unwrap();

    let input = json!({
        "vendor": vendor,
        "url": format!("https://{}", served.address()),
        "ca": ca,
        "user": "admin",
        "password": PASSWORD,
        "http_image": format!("{}/image.iso", image_server(None).await),
        "https_image": format!("{}/image.iso", image_server(Some(self_signed().0)).await),
    });
    let python = tokio::task::spawn_blocking(python::interpreter)
        .await
        .unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop/redfish.py");
    let mut child = Command::new(python)
        .arg("-B")
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.to_string().as_bytes())
        .await
        .unwrap();
    let output = tokio::time::timeout(LIMIT, child.wait_with_output())
        .await
        .expect("sushy is done in time")
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(
        output.status.success(),
        "{vendor}: sushy is not satisfied\n{}",
        String::from_utf8_lossy(&said)
    );
    served.stop().await;
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
        trusted: RootCertStore::empty(),
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
