//! Real QEMU machines, emulated: a boot-sector guest under BIOS, and OVMF.
//!
//! Needs qemu-system-x86, qemu-utils and ovmf; the network test needs root. Fails, and says so, without.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

#[path = "e2e/bios.rs"]
mod bios;
#[path = "e2e/failures.rs"]
mod failures;
#[path = "e2e/network.rs"]
mod network;
#[path = "e2e/uefi.rs"]
mod uefi;

use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

use tokio::sync::broadcast::Receiver;
use vm::console::Log;
use vm::{Accel, Bus, Cdrom, CdromBus, Disk, Event, Format, Machine, Spec, guest};

/// Generous: two cores may be shared with other tests.
const LIMIT: Duration = Duration::from_secs(25);

fn tcg() -> Accel {
    Accel::Tcg {
        why: "tests".into(),
    }
}

fn disk(dir: &Path, bus: Bus) -> Disk {
    let path = dir.join("guest.raw");
    std::fs::write(&path, guest::image()).unwrap();
    Disk {
        id: "disk0".into(),
        path,
        format: Format::Raw,
        size_mib: None,
        bus,
        serial: None,
        flush: true,
        faulty: false,
    }
}

/// A BIOS machine with the boot-sector guest on its disk and an empty CD drive.
fn spec(dir: &Path) -> Spec {
    Spec {
        disks: vec![disk(dir, Bus::Virtio)],
        cdroms: vec![Cdrom {
            id: "cd0".into(),
            bus: CdromBus::Sata,
        }],
        boot_order: vec!["disk0".into()],
        ..Spec::new("guest", dir.join("run"), tcg())
    }
}

/// Starts it and waits until the guest runs.
async fn booted(spec: Spec) -> (Machine, Log) {
    let machine = Machine::start(spec).await.expect("QEMU starts");
    let mut log = Log::open(&machine.console_log());
    log.wait_for(guest::HELLO, LIMIT).await.unwrap();
    (machine, log)
}

/// Waits for an event, whatever others come before it.
async fn expect_event(
    events: &mut Receiver<Event>,
    wanted: impl Fn(&Event) -> bool + Send,
    what: impl Debug,
) -> Event {
    let mut seen = Vec::new();
    let found = tokio::time::timeout(LIMIT, async {
        loop {
            let event = events.recv().await.expect("events go on until the end");
            if wanted(&event) {
                return event;
            }
            seen.push(event);
        }
    });
    found
        .await
        .unwrap_or_else(|_| panic!("no {what:?}; seen: {seen:?}"))
}
