use vm::console::Log;
use vm::{Firmware, Machine, Nic, NicEnd, Spec};

use crate::{LIMIT, spec};

/// The guest's disk holds no EFI loader, so OVMF says that it failed to load it and goes on to the network.
#[tokio::test]
async fn ovmf_starts_and_follows_a_changed_boot_order_after_a_reset() {
    let dir = tempfile::tempdir().unwrap();
    let nic = Nic {
        id: "nic0".into(),
        mac: "52:54:00:00:00:01".parse().unwrap(),
        end: NicEnd::Isolated,
        rom: None,
    };
    let spec = Spec {
        firmware: Firmware::ovmf(),
        nics: vec![nic],
        boot_order: vec!["nic0".into(), "disk0".into()],
        ..spec(dir.path())
    };
    let mut machine = Machine::start(spec).await.unwrap();
    let mut log = Log::open(&machine.console_log());
    log.wait_for("Start PXE over IPv4", LIMIT).await.unwrap();
    let first = std::fs::read(machine.console_log()).unwrap();
    assert!(
        !String::from_utf8_lossy(&first).contains("failed to load"),
        "the network card comes first"
    );

    machine
        .set_boot_order(&["disk0".into(), "nic0".into()])
        .await
        .unwrap();
    machine.reset().await.unwrap();
    log.wait_for("failed to load Boot", LIMIT)
        .await
        .expect("the disk comes first now");
    assert!(dir.path().join("run/nvram.fd").exists());
}

#[tokio::test]
async fn ovmf_with_secure_boot_starts() {
    let dir = tempfile::tempdir().unwrap();
    let firmware = Firmware::ovmf_secure();
    let machine = Machine::start(Spec {
        firmware,
        ..spec(dir.path())
    })
    .await
    .unwrap();
    let mut log = Log::open(&machine.console_log());
    log.wait_for("failed to load Boot", LIMIT).await.unwrap();
}
