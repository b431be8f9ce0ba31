use linux::{mount, sysctl};

use crate::host;

#[test]
fn a_setting_under_net_belongs_to_the_namespace() {
    let (one, two) = (host("one"), host("two"));
    one.run(|| async { sysctl::set("net.ipv4.ip_forward", "1").unwrap() });
    assert_eq!(
        one.run(|| async { sysctl::get("net.ipv4.ip_forward").unwrap() }),
        "1"
    );
    assert_eq!(
        two.run(|| async { sysctl::get("net.ipv4.ip_forward").unwrap() }),
        "0"
    );
}

#[test]
fn a_setting_that_is_not_there_or_not_that_value_is_named() {
    let host = host("bad");
    let error = host.run(|| async { sysctl::set("net.ipv4.ip_forward", "many").unwrap_err() });
    assert_eq!(
        error.to_string(),
        "could not set kernel setting net.ipv4.ip_forward to \"many\""
    );
    assert!(matches!(
        sysctl::get("net.nosuch"),
        Err(sysctl::Error::Read { .. })
    ));
}

#[test]
fn a_tmpfs_is_mounted_seen_and_unmounted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("with space");
    let tmpfs = mount::Mount {
        source: "tmpfs",
        path: &path,
        fstype: "tmpfs",
        flags: mount::MsFlags::MS_NODEV,
        options: "size=64k",
    };
    tmpfs.mount().expect("mounting (this needs root)");
    assert!(mount::is_mounted(&path).unwrap());
    mount::unmount(&path, false).unwrap();
    assert!(!mount::is_mounted(&path).unwrap());
    mount::unmount(&path, false).unwrap();
}

#[test]
fn a_mount_that_fails_says_what_and_where() {
    let dir = tempfile::tempdir().unwrap();
    let flags = mount::MsFlags::empty();
    let wrong = mount::Mount {
        source: "none",
        path: dir.path(),
        fstype: "nosuchfs",
        flags,
        options: "",
    };
    let error = wrong.mount().unwrap_err().to_string();
    assert!(
        error.contains("nosuchfs") && error.contains(dir.path().to_str().unwrap()),
        "{error}"
    );
}
