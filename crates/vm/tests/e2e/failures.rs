use vm::{Bus, Cdrom, CdromBus, Error, Machine, Spec, SpecError};

use crate::{booted, disk, spec, tcg};

/// The whole chain of causes.
fn text(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", text(source)),
        None => error.to_string(),
    }
}

#[tokio::test]
async fn what_qemu_says_before_it_gives_up_is_in_the_error() {
    let dir = tempfile::tempdir().unwrap();
    let mut spec = spec(dir.path());
    std::fs::write(&spec.disks[0].path, "not a qcow2").unwrap();
    spec.disks[0].format = vm::Format::Qcow2;
    let error = Machine::start(spec).await.unwrap_err();
    assert!(matches!(error, Error::Exited { .. }), "{error:?}");
    assert!(
        text(&error).contains("not in qcow2 format"),
        "{}",
        text(&error)
    );
}

#[tokio::test]
async fn a_disk_in_use_by_another_machine_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (_first, _) = booted(spec(dir.path())).await;
    let disk = vm::Disk {
        path: dir.path().join("guest.raw"),
        ..disk(&dir.path().join(""), Bus::Virtio)
    };
    let second = Spec {
        disks: vec![disk],
        ..Spec::new("second", dir.path().join("second"), tcg())
    };
    let error = Machine::start(second).await.unwrap_err();
    assert!(text(&error).contains("lock"), "{}", text(&error));
}

#[tokio::test]
async fn a_run_directory_in_use_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (_first, _) = booted(spec(dir.path())).await;
    let error = Machine::start(spec(dir.path())).await.unwrap_err();
    assert!(
        text(&error).contains("in use by another machine"),
        "{}",
        text(&error)
    );
}

#[tokio::test]
async fn a_tap_that_cannot_be_opened_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let nic = vm::Nic {
        id: "nic0".into(),
        mac: "52:54:00:00:00:01".parse().unwrap(),
        end: vm::NicEnd::Tap {
            name: "much-too-long-a-name".into(),
            namespace: None,
        },
        rom: None,
    };
    let error = Machine::start(Spec {
        nics: vec![nic],
        ..spec(dir.path())
    })
    .await
    .unwrap_err();
    let text = text(&error);
    assert!(
        text.contains("network card nic0") && text.contains("much-too-long-a-name"),
        "{text}"
    );
}

#[tokio::test]
async fn devices_and_media_that_are_not_there_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let (mut machine, _) = booted(spec(dir.path())).await;
    let error = machine.insert("cd7", dir.path()).await.unwrap_err();
    assert_eq!(error.to_string(), "machine guest has no CD drive \"cd7\"");
    let error = machine
        .insert("cd0", &dir.path().join("none.iso"))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::NoMedium { .. }), "{error}");
    assert!(matches!(
        machine.set_link("nic7", true).await,
        Err(Error::NoSuchDevice { .. })
    ));
    assert!(matches!(
        machine.fail_io("disk7", true).await,
        Err(Error::NoSuchDevice { .. })
    ));
    let error = machine.set_boot_order(&["disk7".into()]).await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Spec {
                source: SpecError::BootDevice { .. },
                ..
            }
        ),
        "{error}"
    );
}

#[tokio::test]
async fn a_machine_that_cannot_be_built_is_refused_before_anything_is_touched() {
    let dir = tempfile::tempdir().unwrap();
    let cdroms = vec![Cdrom {
        id: "a b".into(),
        bus: CdromBus::Sata,
    }];
    let error = Machine::start(Spec {
        cdroms,
        ..spec(dir.path())
    })
    .await
    .unwrap_err();
    assert!(matches!(error, Error::Spec { .. }), "{error}");
    assert!(!dir.path().join("run").exists());
}
