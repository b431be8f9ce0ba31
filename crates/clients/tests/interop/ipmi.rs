//! IPMI: the lab's BMC, and `ipmi_sim` of OpenIPMI, which knows cipher suite 3 but not 17.

use std::time::Duration;

use clients::ipmi::{BootDevice, Client, Config, Error, Limits};
use clients::{BootMode, Lasting, Power};
use lab::fault::{Kind, Order};
use model::Secret;
use tokio::net::UdpSocket;

use crate::bmc::{PASSWORD, USER, bmc};
use crate::emulator::simulator;

fn limits() -> Limits {
    Limits {
        patience: Duration::from_millis(100),
        pause: Duration::from_millis(50),
        poll: Duration::from_millis(20),
        power_change: Duration::from_secs(20),
        ..Limits::default()
    }
}

async fn client(address: &str, user: &str, password: &str) -> Client {
    let mut config = Config::new(address, user, Secret::new(password.into()));
    config.limits = limits();
    Client::new(config).await.unwrap()
}

#[tokio::test]
async fn the_labs_bmc_is_driven_by_ipmi() {
    let dir = tempfile::tempdir().unwrap();
    let bmc = bmc("supermicro", dir.path(), true);
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap().to_string();
    let served = tokio::spawn(lab::bmc::ipmi::serve(socket, bmc.clone()));

    let client = client(&address, USER, PASSWORD).await;

    assert_eq!(client.device_id().await.unwrap().ipmi_version, 0x20);
    assert_eq!(client.power().await.unwrap(), Power::Off);
    for (device, lasting, mode) in [
        (BootDevice::Pxe, Lasting::Once, BootMode::Uefi),
        (BootDevice::Cdrom, Lasting::Once, BootMode::Bios),
        (BootDevice::Disk, Lasting::Continuous, BootMode::Uefi),
    ] {
        client.set_boot_device(device, lasting, mode).await.unwrap();
        assert_eq!(client.boot_device().await.unwrap(), Some((device, lasting)));
    }
    client.set_power(Power::On).await.unwrap();
    client.set_power(Power::On).await.unwrap();
    client.power_cycle().await.unwrap();
    client.set_power(Power::Off).await.unwrap();
    client.power_cycle().await.unwrap();
    assert_eq!(client.power().await.unwrap(), Power::On);

    // Slow, but not so slow as not to be waited for.
    bmc.server().faults().add(Order {
        count: Some(5),
        ..Order::new(Kind::BmcSlow { millis: 150 })
    });
    assert_eq!(client.power().await.unwrap(), Power::On);
    client.close().await;
    served.abort();
}

#[tokio::test]
async fn many_askers_share_one_session() {
    let dir = tempfile::tempdir().unwrap();
    let bmc = bmc("generic", dir.path(), true);
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap().to_string();
    let served = tokio::spawn(lab::bmc::ipmi::serve(socket, bmc));
    let client = client(&address, USER, PASSWORD).await;
    let answers = futures::future::join_all((0..20).map(|_| client.power())).await;
    assert!(
        answers
            .into_iter()
            .all(|power| matches!(power, Ok(Power::Off)))
    );
    served.abort();
}

#[tokio::test]
async fn a_bmc_that_is_not_there_is_given_up_after_the_tries() {
    let gone = UdpSocket::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    let mut config = Config::new(&gone, USER, Secret::new("x".into()));
    config.limits = Limits {
        attempts: 2,
        patience: Duration::from_millis(10),
        tries: 2,
        ..limits()
    };
    let error = Client::new(config)
        .await
        .unwrap()
        .power()
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Talk { tries: 2, .. }), "{error:?}");
    assert!(
        error.may_pass() && model::chain(&error).contains("does not answer"),
        "{}",
        model::chain(&error)
    );
}

#[tokio::test]
async fn ipmi_sim_is_driven_as_any_other_bmc() {
    let simulator = simulator();
    let client = client(&simulator.address, "admin", "s3cret").await;
    let id = client.device_id().await.unwrap();
    assert_eq!((id.manufacturer, id.product), (0x1291, 0xf02));
    assert_eq!(client.power().await.unwrap(), Power::Off);
    client.set_power(Power::On).await.unwrap();
    client
        .set_boot_device(BootDevice::Pxe, Lasting::Continuous, BootMode::Uefi)
        .await
        .unwrap();
    let written = std::fs::read_to_string(simulator.directory.path().join("boot")).unwrap();
    assert_eq!(written.trim(), "pxe");
    // It does not mark its flags as valid, so to a reader nothing is set.
    assert_eq!(client.boot_device().await.unwrap(), None);
    client.set_power(Power::Off).await.unwrap();
    client.close().await;
}

#[tokio::test]
async fn ipmi_sim_refuses_a_wrong_password_and_we_say_so() {
    let simulator = simulator();
    let error = client(&simulator.address, "admin", "guess")
        .await
        .power()
        .await
        .unwrap_err();
    assert!(
        !error.may_pass() && model::chain(&error).contains("another password"),
        "{}",
        model::chain(&error)
    );
}
