//! Every vendor of the lab over TLS: whatever the habit, the same calls do the same.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use clients::redfish::{Auth, BootDevice, Client, Config, Error, Limits, Reset, Verify};
use clients::{BootMode, Lasting, Power};
use lab::bmc::{Bmc, redfish};
use lab::fault::{Kind, Order};
use model::Secret;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use serde_json::json;
use tokio::net::TcpListener;

use crate::bmc::{PASSWORD, USER, bmc};

struct Served {
    _dir: tempfile::TempDir,
    bmc: Arc<Bmc>,
    url: String,
    pem: String,
    _handle: redfish::Handle,
}

async fn serve(vendor: &str) -> Served {
    serve_licensed(vendor, true).await
}

async fn serve_licensed(vendor: &str, licensed: bool) -> Served {
    let dir = tempfile::tempdir().unwrap();
    let bmc = bmc(vendor, dir.path(), licensed);
    let (tls, pem) = self_signed();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let served = redfish::spawn(listener, Some(tls), Arc::clone(&bmc)).unwrap();
    let url = format!("https://{}", served.address());
    Served {
        _dir: dir,
        bmc,
        url,
        pem,
        _handle: served,
    }
}

impl Served {
    fn config(&self) -> Config {
        let mut config = Config::new(&self.url, USER, Secret::new(PASSWORD.into())).unwrap();
        config.verify = Verify::Pem(self.pem.clone().into_bytes());
        config.limits = Limits {
            tries: 5,
            pause: Duration::from_millis(20),
            poll: Duration::from_millis(20),
            power_change: Duration::from_secs(20),
            ..Limits::default()
        };
        config
    }

    fn client(&self) -> Client {
        Client::new(self.config()).unwrap()
    }

    fn strike(&self, kind: Kind, count: u32) {
        self.bmc.server().faults().add(Order {
            count: Some(count),
            ..Order::new(kind)
        });
    }
}

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
pub async fn image_server() -> String {
    let app = Router::new().route("/image.iso", get(|| async { vec![0x5a_u8; 300_000] }));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    format!("http://{address}/image.iso")
}

#[tokio::test]
async fn a_generic_bmc_does_all_of_it() {
    drive("generic").await;
}

#[tokio::test]
async fn an_idrac_does_all_of_it() {
    drive("idrac").await;
}

#[tokio::test]
async fn an_ilo_does_all_of_it() {
    drive("ilo").await;
}

#[tokio::test]
async fn a_supermicro_bmc_does_all_of_it() {
    drive("supermicro").await;
}

#[tokio::test]
async fn a_lenovo_xcc_does_all_of_it() {
    drive("lenovo").await;
}

#[tokio::test]
async fn a_fujitsu_irmc_does_all_of_it() {
    drive("fujitsu").await;
}

async fn drive(vendor: &str) {
    let served = serve(vendor).await;
    let client = served.client();
    let system = client.system().await.unwrap();
    assert_eq!(system.serial.as_deref(), Some("LAB0001"));
    assert_eq!(
        (system.power, system.memory_mib),
        (Some(Power::Off), Some(8192))
    );

    boot(&client, vendor).await;
    power(&client).await;
    update(&client).await;
    media(&client).await;
    settings(&client).await;
    look(&client).await;
    client.close().await;
}

async fn power(client: &Client) {
    client.set_power(Power::On).await.unwrap();
    client.set_power(Power::On).await.unwrap();
    // Asked for although it is so: refused by some, and fine.
    client.reset(Reset::On).await.unwrap();
    assert_eq!(client.power().await.unwrap(), Some(Power::On));
    client.reset(Reset::ForceRestart).await.unwrap();
    client.power_cycle().await.unwrap();
    client.set_power(Power::Off).await.unwrap();
    client.reset(Reset::ForceOff).await.unwrap();
    assert_eq!(client.power().await.unwrap(), Some(Power::Off));
}

async fn boot(client: &Client, vendor: &str) {
    for (device, lasting) in [
        (BootDevice::Pxe, Lasting::Once),
        (BootDevice::Cdrom, Lasting::Once),
        (BootDevice::Pxe, Lasting::Continuous),
    ] {
        client.set_boot_device(&device, lasting).await.unwrap();
        let set = client.boot_device().await.unwrap();
        assert_eq!(
            (set.device(), set.lasting),
            (Some(device), Some(lasting)),
            "{vendor}"
        );
    }
    let kept = client
        .set_boot_device(&BootDevice::Disk, Lasting::Continuous)
        .await
        .unwrap();
    assert_eq!(kept, Lasting::Continuous);
    let set = client.boot_device().await.unwrap();
    // Lenovo's firmware does that by itself.
    let expected = if vendor == "lenovo" {
        None
    } else {
        Some(Lasting::Continuous)
    };
    assert_eq!(set.lasting, expected, "{set:?}");
    for mode in [BootMode::Bios, BootMode::Uefi] {
        client.set_boot_mode(mode).await.unwrap();
        assert_eq!(client.boot_mode().await.unwrap(), Some(mode), "{vendor}");
    }
    let http = BootDevice::UefiHttp("http://192.0.2.1/boot.iso".into());
    client.set_boot_device(&http, Lasting::Once).await.unwrap();
    assert_eq!(
        client.boot_device().await.unwrap().target.as_deref(),
        Some("UefiHttp")
    );
}

async fn media(client: &Client) {
    let image = image_server().await;
    let slot = client.insert_cd(&image).await.unwrap();
    assert_eq!(
        (slot.image.as_deref(), slot.inserted),
        (Some(image.as_str()), true)
    );
    // Occupied is no hindrance, nor is empty.
    client.insert_cd(&image).await.unwrap();
    client.eject_cds().await.unwrap();
    client.eject_cds().await.unwrap();
    assert!(
        client
            .virtual_media()
            .await
            .unwrap()
            .iter()
            .all(|slot| !slot.inserted)
    );
    let error = client
        .insert_cd("http://127.0.0.1:9/none.iso")
        .await
        .unwrap_err();
    assert!(model::chain(&error).contains("none.iso"), "{error}");
}

async fn update(client: &Client) {
    let version = |components: &[clients::redfish::Component]| {
        let bios = components.iter().find(|component| component.id == "BIOS");
        bios.and_then(|bios| bios.version.clone()).unwrap()
    };
    let before = client.firmware().await.unwrap();
    let bios = before
        .iter()
        .find(|component| component.id == "BIOS")
        .unwrap();
    let targets = [bios.path.clone()];
    client
        .update_firmware(&image_server().await, &targets)
        .await
        .unwrap();
    assert_ne!(version(&client.firmware().await.unwrap()), version(&before));
}

async fn settings(client: &Client) {
    assert!(!client.secure_boot().await.unwrap().unwrap().enabled);
    assert!(client.set_secure_boot(true).await.unwrap());
    assert!(
        !client.set_secure_boot(true).await.unwrap(),
        "it is so already"
    );
    assert!(client.secure_boot().await.unwrap().unwrap().enabled);
    client.set_secure_boot(false).await.unwrap();

    let bios = client.bios().await.unwrap().unwrap();
    let (name, old) = bios
        .attributes
        .iter()
        .find(|(_, value)| **value == "Enabled")
        .unwrap();
    assert!(
        !client
            .set_bios(&[(name.clone(), old.clone())].into())
            .await
            .unwrap()
    );
    assert!(
        client
            .set_bios(&[(name.clone(), json!("Disabled"))].into())
            .await
            .unwrap()
    );
    let waiting = client.bios().await.unwrap().unwrap();
    assert_eq!(
        (&waiting.attributes[name], &waiting.pending[name]),
        (old, &json!("Disabled"))
    );
    let registry = client.bios_registry().await.unwrap();
    let info = registry.iter().find(|info| info.name == *name).unwrap();
    assert_eq!(info.allowed, ["Enabled", "Disabled"]);
    client.power_cycle().await.unwrap();
    assert_eq!(
        client.bios().await.unwrap().unwrap().attributes[name],
        "Disabled"
    );
    client.reset_bios().await.unwrap();
    client.power_cycle().await.unwrap();
    assert_eq!(client.bios().await.unwrap().unwrap().attributes[name], *old);
}

async fn look(client: &Client) {
    let inventory = client.inventory().await.unwrap();
    let macs: Vec<String> = inventory
        .interfaces
        .iter()
        .map(|nic| nic.mac_address.to_string())
        .collect();
    assert_eq!(macs, ["52:54:00:00:00:01", "52:54:00:00:00:02"]);
    let disks: Vec<_> = inventory
        .disks
        .iter()
        .map(|disk| (disk.serial.as_deref(), disk.size))
        .collect();
    assert_eq!(disks, [(Some("D1"), 20 << 30), (Some("D2"), 40 << 30)]);
    assert_eq!(
        (inventory.cpu.count, inventory.cpu.architecture.as_str()),
        (4, "x86_64")
    );
    assert_eq!(inventory.memory.physical_mb, Some(8192));
    assert_eq!(inventory.system_vendor.serial_number, "LAB0001");

    let firmware = client.firmware().await.unwrap();
    assert!(
        firmware.iter().any(|component| component.version.is_some()),
        "{firmware:?}"
    );
    let sensors = client.sensors().await.unwrap();
    assert!(
        sensors.iter().any(|reading| reading.value.is_some()),
        "{sensors:?}"
    );
}

#[tokio::test]
async fn a_bmc_that_stumbles_is_asked_again() {
    let served = serve("idrac").await;
    let client = served.client();
    served.strike(Kind::BmcError { status: 503 }, 3);
    assert_eq!(client.power().await.unwrap(), Some(Power::Off));
    served.strike(Kind::DropsSessions, 1);
    assert_eq!(client.power().await.unwrap(), Some(Power::Off));
    served.strike(Kind::BmcError { status: 500 }, 100);
    let error = client.power().await.unwrap_err();
    assert!(
        error.may_pass() && error.to_string().contains("asked 5 times"),
        "{error}"
    );
}

#[tokio::test]
async fn a_server_that_ignores_its_bmc_is_told_by_what_it_still_is() {
    let served = serve("generic").await;
    let mut config = served.config();
    config.limits.power_change = Duration::from_millis(200);
    served.strike(Kind::IgnoresReset, 1);
    let error = Client::new(config)
        .unwrap()
        .set_power(Power::On)
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("the power is Off, not on"),
        "{error}"
    );
}

#[tokio::test]
async fn sessions_are_given_back() {
    let served = serve("idrac").await;
    // It has eight.
    for _ in 0..12 {
        let client = Client::new(Config {
            auth: Auth::Session,
            ..served.config()
        })
        .unwrap();
        client.power().await.unwrap();
        client.close().await;
    }
    // Kept ones fill it up, and then the password does.
    let mut kept = Vec::new();
    for _ in 0..12 {
        let client = served.client();
        client.power().await.unwrap();
        kept.push(client);
    }
    for client in &kept {
        client.close().await;
    }
}

#[tokio::test]
async fn a_missing_licence_is_told_in_the_vendors_words() {
    for vendor in ["ilo", "supermicro"] {
        let served = serve_licensed(vendor, false).await;
        let error = served
            .client()
            .insert_cd(&image_server().await)
            .await
            .unwrap_err();
        assert_eq!(error.status(), Some(403));
        assert!(
            error.to_string().to_lowercase().contains("licen"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_certificate_nobody_vouches_for_is_refused_unless_told_otherwise() {
    let served = serve("generic").await;
    let (_, stranger) = self_signed();
    let mut config = served.config();
    config.limits.tries = 1;
    config.verify = Verify::Pem(stranger.into_bytes());
    let error = Client::new(config.clone())
        .unwrap()
        .power()
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    assert!(
        model::chain(&error).contains("certificate"),
        "{}",
        model::chain(&error)
    );
    config.verify = Verify::Nobody;
    assert!(Client::new(config).unwrap().power().await.is_ok());
}

#[tokio::test]
async fn a_wrong_password_is_not_let_in() {
    let served = serve("ilo").await;
    let config = Config {
        password: Secret::new("guess".into()),
        ..served.config()
    };
    let error = Client::new(config).unwrap().power().await.unwrap_err();
    assert!(matches!(error, Error::Login { .. }), "{error}");
    assert!(!format!("{error:?}").contains("guess"));
}
