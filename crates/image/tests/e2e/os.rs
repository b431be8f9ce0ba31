//! The OS image boots, and Ignition finishes it exactly once.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use image::os::OsImage;
use media::{Content, iso};

use crate::guest::{Firmware, Guest, overlay, turn};

/// Emulated, with Ignition, on a machine that others use too.
const LIMIT: Duration = Duration::from_mins(5);

fn os_image() -> OsImage {
    let options = image::os::Options::default();
    image::os::build(&options, |progress| {
        eprintln!(
            "{:>6.1} s {}",
            progress.elapsed.as_secs_f32(),
            progress.step
        );
    })
    .unwrap_or_else(|error| panic!("{error}: {:?}", std::error::Error::source(&error)))
}

/// Writes a file and enables a unit that reports, changes the file, and switches off.
fn config(dir: &Path, content: &str) -> PathBuf {
    let script = "echo REPORT file=$(cat /etc/marker) host=$(hostname) \
                  firstboot=$(grep -o ignition.firstboot=1 /proc/cmdline || echo no) \
                  flag=$(ls /boot/ignition.firstboot 2>/dev/null || echo none) \
                  root_mib=$(df -m --output=size / | tail -n 1 | tr -d \" \") failed=$(systemctl --failed --no-legend | wc -l); \
                  echo changed >/etc/marker; sync; systemctl --no-block poweroff";
    let unit = format!(
        "[Unit]\nAfter=ignition-firstboot-complete.service\n[Service]\nType=oneshot\nStandardOutput=journal+console\n\
         ExecStart=/bin/sh -c '{script}'\n[Install]\nWantedBy=multi-user.target\n"
    );
    let file = |path: &str, text: &str| {
        serde_json::json!({
            "path": path, "mode": 0o644, "overwrite": true, "contents": { "source": format!("data:,{text}%0A") },
        })
    };
    let config = serde_json::json!({
        "ignition": { "version": "3.3.0" },
        "storage": { "files": [file("/etc/marker", content), file("/etc/hostname", "node-a")] },
        "systemd": { "units": [{ "name": "report.service", "enabled": true, "contents": unit }] },
    });
    let path = dir.join(format!("{content}.ign"));
    std::fs::write(&path, config.to_string()).unwrap();
    let valid = Command::new("ignition-validate").arg(&path).output();
    let valid = valid.expect("ignition-validate cannot run; install the Debian package ignition");
    assert!(
        valid.status.success(),
        "{}",
        String::from_utf8_lossy(&valid.stderr)
    );
    path
}

fn config_drive(config: &Path) -> PathBuf {
    let layout = iso::Image::<()> {
        label: "config-2".into(),
        publisher: String::new(),
        files: vec![
            iso::File {
                path: "openstack/latest/user_data".into(),
                content: Content::Bytes(std::fs::read(config).unwrap()),
            },
            iso::File {
                path: "openstack/latest/meta_data.json".into(),
                content: Content::Bytes(b"{}".to_vec()),
            },
        ],
        joliet: true,
        boot: iso::Boot::default(),
        modified: 0,
    }
    .layout()
    .unwrap();
    let path = config.with_extension("iso");
    layout
        .write_to(&mut File::create(&path).unwrap(), |()| Ok(std::io::empty()))
        .unwrap();
    path
}

/// The words after REPORT, on a console where kernel and journal put other things before it.
fn report(console: &str) -> String {
    let line = console.lines().find_map(|line| line.split_once("REPORT "));
    line.unwrap_or_else(|| panic!("no report on the console:\n{console}"))
        .1
        .trim()
        .to_owned()
}

fn boot(firmware: Firmware, disk: &Path, more: &[&str]) -> String {
    let drive = format!("file={},if=virtio,format=qcow2", disk.display());
    let mut arguments = vec![
        "-drive",
        &drive,
        "-netdev",
        "user,id=n0",
        "-device",
        "virtio-net-pci,netdev=n0",
    ];
    arguments.extend(more);
    report(&Guest::start(firmware, &arguments).wait_for_power_off(LIMIT))
}

#[test]
fn ignition_applies_a_config_drive_on_the_first_boot_and_never_again() {
    let image = os_image();
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let disk = dir.path().join("disk.qcow2");
    overlay(&image.raw, &disk, "4G");
    let cd = |content| {
        format!(
            "file={},media=cdrom,format=raw",
            config_drive(&config(dir.path(), content)).display()
        )
    };

    let first = boot(Firmware::Bios, &disk, &["-drive", &cd("first")]);
    assert!(
        first.starts_with("file=first host=node-a firstboot=ignition.firstboot=1 flag=none"),
        "{first}"
    );
    assert!(first.ends_with("failed=0"), "{first}");
    let root_mib: u64 = first
        .split("root_mib=")
        .nth(1)
        .and_then(|rest| rest.split(' ').next())
        .unwrap()
        .parse()
        .unwrap();
    assert!(
        root_mib > 3500,
        "the root did not grow to the disk's 4 GiB: {first}"
    );

    let second = boot(Firmware::Bios, &disk, &["-drive", &cd("second")]);
    assert!(
        second.starts_with("file=changed host=node-a firstboot=no flag=none"),
        "{second}"
    );
}

#[test]
fn config_that_ignition_refuses_is_told_on_the_console_and_the_next_boot_tries_again() {
    let image = os_image();
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let disk = dir.path().join("disk.qcow2");
    overlay(&image.raw, &disk, "4G");
    let bad = dir.path().join("bad.ign");
    std::fs::write(&bad, r#"{"ignition":{"version":"9.9.9"}}"#).unwrap();
    let drive = format!("file={},if=virtio,format=qcow2", disk.display());
    let cd = |config: &Path| {
        format!(
            "file={},media=cdrom,format=raw",
            config_drive(config).display()
        )
    };
    let bad_cd = cd(&bad);
    let mut guest = Guest::start(
        Firmware::Bios,
        &[
            "-drive",
            &drive,
            "-drive",
            &bad_cd,
            "-netdev",
            "user,id=n0",
            "-device",
            "virtio-net-pci,netdev=n0",
        ],
    );
    let console = guest.wait_for("BOOT FAILED", LIMIT);
    assert!(console.contains("unsupported config version"), "{console}");
    drop(guest);

    let report = boot(
        Firmware::Bios,
        &disk,
        &["-drive", &cd(&config(dir.path(), "good"))],
    );
    assert!(
        report.starts_with("file=good host=node-a firstboot=ignition.firstboot=1 flag=none"),
        "{report}"
    );
}

#[test]
fn config_in_the_firmware_is_used_when_smbios_asks_for_it_under_uefi() {
    let image = os_image();
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let disk = dir.path().join("disk.qcow2");
    overlay(&image.raw, &disk, "4G");
    let config = format!(
        "name=opt/com.coreos/config,file={}",
        config(dir.path(), "firmware").display()
    );
    let smbios = "type=11,value=ignition.platform.id=qemu";
    let report = boot(
        Firmware::Uefi,
        &disk,
        &["-smbios", smbios, "-fw_cfg", &config],
    );
    assert!(
        report.starts_with("file=firmware host=node-a firstboot=ignition.firstboot=1"),
        "{report}"
    );
}
