//! A stranger's Redfish: OpenStack's sushy-tools with its fake driver, behind a password. It has no sessions, no
//! ETags, and takes its time.

use std::time::Duration;

use clients::redfish::{BootDevice, Client, Config, Error, Limits};
use clients::{BootMode, Lasting, Power};
use model::Secret;

use crate::emulator::{Emulator, UUID, emulator};
use crate::lab_redfish::image_server;

fn client(emulator: &Emulator, password: &str) -> Client {
    let mut config = Config::new(&emulator.url, "admin", Secret::new(password.into())).unwrap();
    config.limits = Limits {
        tries: 3,
        pause: Duration::from_millis(50),
        poll: Duration::from_millis(100),
        ..Limits::default()
    };
    Client::new(config).unwrap()
}

#[tokio::test]
async fn sushy_tools_is_driven_as_any_other_bmc() {
    let emulator = emulator().await;
    let client = client(&emulator, "s3cret");
    let system = client.system().await.unwrap();
    assert_eq!(system.uuid.as_deref(), Some(UUID));

    client.set_power(Power::On).await.unwrap();
    assert_eq!(client.power().await.unwrap(), Some(Power::On));
    client.set_power(Power::Off).await.unwrap();

    // It knows no `Once`, and says Continuous whatever it was told.
    for device in [BootDevice::Pxe, BootDevice::Cdrom, BootDevice::Disk] {
        client
            .set_boot_device(&device, Lasting::Continuous)
            .await
            .unwrap();
        assert_eq!(client.boot_device().await.unwrap().device(), Some(device));
    }
    client.set_boot_mode(BootMode::Bios).await.unwrap();
    assert_eq!(client.boot_mode().await.unwrap(), Some(BootMode::Bios));
    client.set_boot_mode(BootMode::Uefi).await.unwrap();

    let image = image_server().await;
    let slot = client.insert_cd(&image).await.unwrap();
    assert!(slot.inserted, "{slot:?}");
    client.eject_cds().await.unwrap();
    assert!(
        client
            .virtual_media()
            .await
            .unwrap()
            .iter()
            .all(|slot| !slot.inserted)
    );

    client.set_secure_boot(true).await.unwrap();
    assert!(client.secure_boot().await.unwrap().unwrap().enabled);

    let inventory = client.inventory().await.unwrap();
    assert_eq!(
        inventory.interfaces[0].mac_address.to_string(),
        "00:5c:52:31:3a:9c"
    );
    client.firmware().await.unwrap();
    client.close().await;
}

#[tokio::test]
async fn sushy_tools_refuses_a_wrong_password_and_we_say_so() {
    let emulator = emulator().await;
    let error = client(&emulator, "guess").power().await.unwrap_err();
    assert!(matches!(error, Error::Login { .. }), "{error}");
}
