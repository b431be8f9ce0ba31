use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use vm::{Bus, Cause, CdromBus, Event, Format, Machine, State, accel, disk, guest};

use crate::{LIMIT, booted, expect_event, spec};

async fn send(machine: &Machine, letter: u8) {
    let mut console = machine.console().await.unwrap();
    console.write_all(&[letter]).await.unwrap();
    console.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_guest_boots_resets_and_switches_itself_off() {
    let dir = tempfile::tempdir().unwrap();
    let (machine, mut log) = booted(spec(dir.path())).await;
    assert_eq!(machine.state(), State::Running);
    let mut events = machine.events();

    send(&machine, guest::RESET).await;
    expect_event(
        &mut events,
        |event| *event == Event::Reset { guest: true },
        "guest reset",
    )
    .await;
    log.wait_for(guest::HELLO, LIMIT).await.unwrap();

    send(&machine, guest::POWER_OFF).await;
    expect_event(
        &mut events,
        |event| *event == Event::Shutdown { guest: true },
        "guest shutdown",
    )
    .await;
    let exited = expect_event(
        &mut events,
        |event| matches!(event, Event::Exited(_)),
        "exit",
    )
    .await;
    let exit = machine.wait_exit().await;
    assert_eq!(exited, Event::Exited(exit.clone()));
    assert_eq!((exit.cause, exit.status.code()), (Cause::Guest, Some(0)));
    assert_eq!(machine.state(), State::Exited(exit));
}

#[tokio::test]
async fn the_reset_button_resets_and_the_power_button_is_answered_by_the_guest() {
    let dir = tempfile::tempdir().unwrap();
    let (machine, mut log) = booted(spec(dir.path())).await;
    let mut events = machine.events();
    machine.reset().await.unwrap();
    expect_event(
        &mut events,
        |event| *event == Event::Reset { guest: false },
        "reset",
    )
    .await;
    log.wait_for(guest::HELLO, LIMIT).await.unwrap();

    machine.press_power_button().await.unwrap();
    expect_event(
        &mut events,
        |event| *event == Event::PowerButton,
        "power button",
    )
    .await;
    let exit = tokio::time::timeout(LIMIT, machine.wait_exit())
        .await
        .expect("the guest switches off");
    assert_eq!(exit.cause, Cause::Guest);
}

#[tokio::test]
async fn a_machine_is_paused_and_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let paused = vm::Spec {
        paused: true,
        ..spec(dir.path())
    };
    let machine = Machine::start(paused).await.unwrap();
    assert_eq!(machine.state(), State::Paused);
    let mut events = machine.events();
    machine.resume().await.unwrap();
    expect_event(&mut events, |event| *event == Event::Running, "running").await;
    machine.pause().await.unwrap();
    expect_event(&mut events, |event| *event == Event::Paused, "paused").await;
    machine.nmi().await.unwrap();
}

#[tokio::test]
async fn a_machine_quits_and_starts_again_with_its_log_continued() {
    let dir = tempfile::tempdir().unwrap();
    let (machine, mut log) = booted(spec(dir.path())).await;
    let exit = machine.quit(LIMIT).await.unwrap();
    assert_eq!((exit.cause, exit.status.code()), (Cause::Host, Some(0)));

    let again = Machine::start(spec(dir.path()))
        .await
        .expect("the run directory is free again");
    log.wait_for(guest::HELLO, LIMIT).await.unwrap();
    let exit = again.kill().await.unwrap();
    assert_eq!((exit.cause, exit.status.code()), (Cause::Host, None));
    assert_eq!(
        again.kill().await.unwrap(),
        exit,
        "killing the dead changes nothing"
    );
}

#[tokio::test]
async fn dropping_a_machine_ends_its_process() {
    let dir = tempfile::tempdir().unwrap();
    let (machine, _) = booted(spec(dir.path())).await;
    let process = linux::process::Id::of(machine.pid()).unwrap().unwrap();
    drop(machine);
    wait_until_gone(process).await;
}

/// Runs itself again as the parent, reads QEMU's pid from it, and kills it.
#[tokio::test]
async fn qemu_does_not_outlive_a_killed_parent() {
    const AS_PARENT: &str = "PLINTH_TEST_AS_PARENT";
    let dir = tempfile::tempdir().unwrap();
    if let Ok(dir) = std::env::var(AS_PARENT) {
        let (machine, _) = booted(spec(dir.as_ref())).await;
        println!("\nqemu {}", machine.pid());
        return std::future::pending().await;
    }
    let mut parent = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "bios::qemu_does_not_outlive_a_killed_parent",
            "--nocapture",
        ])
        .env(AS_PARENT, dir.path())
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(parent.stdout.take().unwrap()).lines();
    let pid = async {
        loop {
            let line = lines
                .next_line()
                .await
                .unwrap()
                .expect("the parent says the pid before it ends");
            if let Some(pid) = line.strip_prefix("qemu ") {
                return pid.parse().unwrap();
            }
        }
    };
    let pid = tokio::time::timeout(LIMIT, pid)
        .await
        .expect("the parent starts QEMU");
    let qemu = linux::process::Id::of(pid).unwrap().expect("QEMU runs");
    parent.kill().await.unwrap();
    wait_until_gone(qemu).await;
}

async fn wait_until_gone(process: linux::process::Id) {
    let gone = async {
        while process.is_alive() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LIMIT, gone)
        .await
        .expect("QEMU is gone");
}

#[tokio::test]
async fn a_process_killed_by_others_counts_as_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let (machine, _) = booted(spec(dir.path())).await;
    let process = linux::process::Id::of(machine.pid()).unwrap().unwrap();
    process.signal(linux::process::Signal::SIGKILL).unwrap();
    let exit = tokio::time::timeout(LIMIT, machine.wait_exit())
        .await
        .unwrap();
    assert_eq!(exit.cause, Cause::Crash);
    assert!(matches!(
        machine.reset().await,
        Err(vm::Error::Monitor { .. })
    ));
}

#[tokio::test]
async fn media_go_in_and_out_of_either_kind_of_drive() {
    for bus in [CdromBus::Sata, CdromBus::Scsi] {
        let dir = tempfile::tempdir().unwrap();
        let (first, second) = (
            dir.path().join("first, with comma.iso"),
            dir.path().join("second.iso"),
        );
        for path in [&first, &second] {
            std::fs::write(path, vec![0; 4096]).unwrap();
        }
        let mut spec = spec(dir.path());
        spec.cdroms[0].bus = bus;
        let (machine, _) = booted(spec).await;
        assert_eq!(machine.medium("cd0").await.unwrap(), None);
        machine
            .eject("cd0")
            .await
            .expect("an empty drive may be ejected");
        machine.insert("cd0", &first).await.unwrap();
        assert_eq!(
            machine.medium("cd0").await.unwrap().as_deref(),
            Some(first.as_path())
        );
        machine.insert("cd0", &second).await.unwrap();
        assert_eq!(
            machine.medium("cd0").await.unwrap().as_deref(),
            Some(second.as_path())
        );
        machine.eject("cd0").await.unwrap();
        machine.eject("cd0").await.unwrap();
        assert_eq!(machine.medium("cd0").await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_guest_sees_disk_errors_while_they_are_switched_on() {
    let dir = tempfile::tempdir().unwrap();
    let (machine, mut log) = booted(spec(dir.path())).await;
    let mut events = machine.events();
    send(&machine, guest::READ_DISK).await;
    log.wait_for(guest::DISK_GOOD, LIMIT).await.unwrap();

    machine.fail_io("disk0", true).await.unwrap();
    send(&machine, guest::READ_DISK).await;
    log.wait_for(guest::DISK_BAD, LIMIT).await.unwrap();
    let failed = Event::IoError {
        disk: "disk0".into(),
        write: false,
    };
    expect_event(&mut events, |event| *event == failed, "I/O error").await;

    machine.fail_io("disk0", false).await.unwrap();
    send(&machine, guest::READ_DISK).await;
    log.wait_for(guest::DISK_GOOD, LIMIT).await.unwrap();
}

#[tokio::test]
async fn the_guest_boots_from_every_bus_and_from_qcow2() {
    for bus in [Bus::Virtio, Bus::Sata, Bus::Nvme, Bus::Scsi] {
        let dir = tempfile::tempdir().unwrap();
        let mut spec = spec(dir.path());
        let over = dir.path().join("over.qcow2");
        disk::create_over(&over, &spec.disks[0].path, Format::Raw, Some(64))
            .await
            .unwrap();
        spec.disks[0].path = over;
        spec.disks[0].format = Format::Qcow2;
        spec.disks[0].bus = bus;
        spec.disks[0].serial = Some("WD-1".into());
        let (machine, _) = booted(spec).await;
        machine.fail_io("disk0", true).await.unwrap();
        machine.fail_io("disk0", false).await.unwrap();
    }
}

#[tokio::test]
async fn bios_text_is_shown_on_the_serial_console_when_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let firmware = vm::Firmware::Bios {
        text_on_serial: true,
    };
    let machine = Machine::start(vm::Spec {
        firmware,
        ..spec(dir.path())
    })
    .await
    .unwrap();
    let mut log = vm::console::Log::open(&machine.console_log());
    log.wait_for("SeaBIOS", LIMIT).await.unwrap();
}

#[tokio::test]
async fn kvm_is_believed_only_if_a_guest_runs() {
    let first = accel::probe().await;
    assert!(std::ptr::eq(first, accel::probe().await), "asked once");
    match first {
        accel::Accel::Kvm => {
            let dir = tempfile::tempdir().unwrap();
            booted(vm::Spec {
                accel: accel::Accel::Kvm,
                ..spec(dir.path())
            })
            .await;
        }
        accel::Accel::Tcg { why } => assert!(why.contains("kvm") || why.contains("KVM"), "{why}"),
    }
}

#[tokio::test]
async fn qemu_accepts_every_device_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut spec = spec(dir.path());
    let stick = dir.path().join("stick");
    std::fs::write(&stick, guest::image()).unwrap();
    let ignition = dir.path().join("config, with comma.ign");
    std::fs::write(&ignition, "{}").unwrap();
    for (n, bus) in [Bus::Sata, Bus::Nvme, Bus::Scsi].into_iter().enumerate() {
        let id = format!("extra{n}");
        spec.disks.push(vm::Disk {
            path: dir.path().join(&id),
            id,
            format: Format::Qcow2,
            size_mib: Some(16),
            bus,
            serial: Some(format!("SN{n}")),
            flush: false,
            faulty: n == 1,
        });
    }
    spec.cdroms.push(vm::Cdrom {
        id: "cd1".into(),
        bus: CdromBus::Scsi,
    });
    spec.usb_drives.push(vm::UsbDrive {
        id: "usb0".into(),
        path: stick,
        read_only: true,
    });
    let uuid = "11111111-2222-3333-4444-555555555555";
    spec.smbios = vm::Smbios {
        uuid: Some(uuid.into()),
        serial: Some("SN, 1".into()),
        manufacturer: Some("Plinth".into()),
        product: Some("Lab".into()),
        ..vm::Smbios::default()
    };
    spec.fw_cfg = vec![
        vm::FwCfg {
            name: "opt/com.coreos/config".into(),
            value: vm::FwCfgValue::File(ignition),
        },
        vm::FwCfg {
            name: "opt/org.plinth/word".into(),
            value: vm::FwCfgValue::Text("a, b".into()),
        },
    ];
    spec.boot_order
        .extend(["cd1".into(), "usb0".into(), "extra0".into()]);
    let (machine, _) = booted(spec).await;
    let answer = machine
        .qmp()
        .execute("query-uuid", serde_json::json!({}))
        .await
        .unwrap();
    assert_eq!(answer["UUID"], uuid);
}

/// QEMU refused it: the kernel's loader and the first boot device both wanted the first place.
#[tokio::test]
async fn a_kernel_may_be_started_beside_a_boot_order() {
    let dir = tempfile::tempdir().unwrap();
    let kernel = dir.path().join("vmlinuz");
    std::fs::write(&kernel, vec![0; 1 << 16]).unwrap();
    let kernel = vm::Kernel {
        kernel,
        initrd: None,
        cmdline: "console=ttyS0".into(),
    };
    let spec = vm::Spec {
        kernel: Some(kernel),
        paused: true,
        ..spec(dir.path())
    };
    Machine::start(spec).await.unwrap();
}
