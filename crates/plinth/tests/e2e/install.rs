//! An install that cannot go on says why, what is gathered of it shows why, and its hosts can be cleaned.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use crate::harness::{Lab, PLINTH, said, stripped, text};

/// 10, and the phase: `control-plane-deploy`.
const DEPLOY_FAILED: i32 = 14;
const SOON: Duration = Duration::from_secs(30);

#[test]
fn a_disk_that_takes_no_data_ends_the_install_with_a_reason_and_gather_has_the_hosts_console() {
    let lab = Lab::up(&["--servers", "1"]);
    let program = stripped(&lab);
    lab.ok(&["fault", "add", "server-0", "disk-errors"]);
    let site = lab.dir().join("site");
    std::fs::create_dir_all(&site).unwrap();
    let config = lab.ok(&["install-config", "--masters", "1", "--workers", "0"]);
    std::fs::write(site.join("install-config.yaml"), config).unwrap();

    let dir = site.to_str().unwrap();
    let create = ["create", "cluster", "--ramdisk", "lab", "--dir", dir];
    let mut created = lab.command(&[&["exec", "--", PLINTH][..], &create].concat());
    let created = created.env("PLINTH_BINARY", &program).output().unwrap();
    let told = text(&created);
    assert_eq!(created.status.code(), Some(DEPLOY_FAILED), "{told}");
    let errors = String::from_utf8_lossy(&created.stderr);
    let reason = errors.lines().find(|line| line.contains("master-0"));
    let reason = reason.unwrap_or_else(|| panic!("the host is not named: {told}"));
    assert!(reason.contains("sda"), "nor its disk: {told}");

    let archive = lab.dir().join("gathered.tar.gz");
    let archive = archive.to_str().unwrap();
    let gather = ["gather", "--dir", dir, "--output", archive];
    said(&lab.try_exec(&[&[PLINTH][..], &gather].concat()));
    let part = |name: &str| -> Output {
        let mut tar = Command::new("tar");
        tar.args(["-xzOf", archive, "--wildcards", name]);
        tar.output().unwrap()
    };
    let console = said(&part("*consoles/*.log"));
    assert!(console.contains("plinth-agent"), "{console}");
    let log = said(&part("*install/install.log"));
    assert!(log.contains("sda"), "{log}");
    let nodes = said(&part("*ironic*"));
    assert!(nodes.contains("sda"), "Ironic's own reason: {nodes}");

    // With a disk that takes data again, the host is cleaned and off, and nothing of the install is left running.
    lab.ok(&["fault", "clear", "server-0"]);
    lab.ok(&["power", "server-0", "off"]);
    lab.wait_power(0, "Off", SOON);
    let disk = lab.dir().join("servers/server-0/disk0.qcow2");
    on_disk(&disk, "write -P 90 0 16k");
    let destroy = [
        "destroy",
        "cluster",
        "--clean",
        "--yes",
        "--ramdisk",
        "lab",
        "--dir",
        dir,
    ];
    let mut cleaned = lab.command(&[&["exec", "--", PLINTH][..], &destroy].concat());
    let cleaned = cleaned.env("PLINTH_BINARY", &program).output().unwrap();
    assert!(cleaned.status.success(), "{}", text(&cleaned));
    lab.wait_power(0, "Off", SOON);
    on_disk(&disk, "read -P 0 0 16k");
    for left in [
        "bootstrap/disk.qcow2",
        "cleaning/disk.qcow2",
        "cleaning/cleaner.ign",
    ] {
        assert!(!site.join(left).exists(), "{left}");
    }
}

/// Of a server that is off.
fn on_disk(disk: &Path, command: &str) {
    let mut io = Command::new("qemu-io");
    let done = io
        .args(["-f", "qcow2", "-c", command])
        .arg(disk)
        .output()
        .unwrap();
    let told = text(&done);
    // It exits well whatever it read.
    assert!(
        done.status.success() && !told.contains("failed"),
        "{command}: {told}"
    );
}
