//! An install that cannot go on says why, and what is gathered of it shows why.

use std::process::Output;

use crate::harness::{Lab, PLINTH, said, stripped, text};

/// 10, and the phase: `control-plane-deploy`.
const DEPLOY_FAILED: i32 = 14;

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
        let mut tar = std::process::Command::new("tar");
        tar.args(["-xzOf", archive, "--wildcards", name]);
        tar.output().unwrap()
    };
    let console = said(&part("*consoles/*.log"));
    assert!(console.contains("plinth-agent"), "{console}");
    let log = said(&part("*install/install.log"));
    assert!(log.contains("sda"), "{log}");
    let nodes = said(&part("*ironic*"));
    assert!(nodes.contains("sda"), "Ironic's own reason: {nodes}");
}
