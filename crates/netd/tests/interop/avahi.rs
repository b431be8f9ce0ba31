//! avahi resolves us, we find what avahi publishes, and both live on one machine.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};

use linux::netns::Host;
use netd::config::mdns as config;
use netd::members::Members;
use tokio::sync::watch;

use crate::rack::{Rack, wait};

/// avahi-daemon with a message bus of its own, in a host's network and a mount namespace of its own.
struct Avahi {
    bus: Child,
    daemon: Child,
    address: String,
}

impl Avahi {
    fn start(host: &Host, folder: &Path, name: &str, service: Option<&str>) -> Self {
        let socket = folder.join(format!("bus-{name}"));
        let address = format!("unix:path={}", socket.display());
        let bus_config = folder.join(format!("bus-{name}.conf"));
        fs::write(
            &bus_config,
            format!(
                "<busconfig><type>system</type><listen>{address}</listen><auth>EXTERNAL</auth>\
                 <policy context=\"default\"><allow user=\"*\"/><allow own=\"*\"/>\
                 <allow send_destination=\"*\"/><allow receive_sender=\"*\"/></policy></busconfig>"
            ),
        )
        .unwrap();
        let bus = host
            .command("dbus-daemon")
            .arg(format!("--config-file={}", bus_config.display()))
            .args(["--nofork", "--nopidfile"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("dbus-daemon (Debian package dbus-daemon)");
        wait("the bus listens", || socket.exists());
        let avahi_config = folder.join(format!("avahi-{name}.conf"));
        fs::write(
            &avahi_config,
            format!("[server]\nhost-name={name}\nallow-interfaces=eth0\nuse-ipv6=yes\n[publish]\npublish-workstation=no\n"),
        )
        .unwrap();
        let services = folder.join(format!("services-{name}"));
        fs::create_dir(&services).unwrap();
        if let Some(service) = service {
            let text = format!(
                "<service-group><name>{service}</name><service><type>_workstation._tcp</type><port>42424</port></service></service-group>"
            );
            fs::write(services.join("one.service"), text).unwrap();
        }
        // Its folders are fixed: give it ours in their place, where only it sees them.
        let script = format!(
            "mount --make-rprivate / && mount -t tmpfs none /run && mount --bind {} /etc/avahi/services && \
             exec avahi-daemon --no-drop-root --no-chroot --no-rlimits -f {}",
            services.display(),
            avahi_config.display()
        );
        let daemon = host
            .command("unshare")
            .args(["--mount", "sh", "-c", &script])
            .env("DBUS_SYSTEM_BUS_ADDRESS", &address)
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.join(format!("avahi-{name}.log"))).unwrap())
            .spawn()
            .expect("unshare (Debian package util-linux)");
        Self {
            bus,
            daemon,
            address,
        }
    }

    fn ask(&self, host: &Host, program: &str, args: &[&str]) -> String {
        let output = host
            .command("timeout")
            .args(["10", program])
            .args(args)
            .env("DBUS_SYSTEM_BUS_ADDRESS", &self.address)
            .output()
            .unwrap_or_else(|error| panic!("{program}: {error} (Debian package avahi-utils)"));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Avahi {
    fn drop(&mut self) {
        for child in [&mut self.daemon, &mut self.bus] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn start(host: &Host, text: &str) -> (netd::mdns::Handle, watch::Receiver<Members>) {
    let written: config::Written = serde_saphyr::from_str(text).unwrap();
    let mut problems = Vec::new();
    let config = config::resolve(&written, Some("c1"), &[], "mdns", &mut problems).unwrap();
    let (publish, members) = watch::channel(Members::new());
    let handle = host.run(move || async move { netd::mdns::start(config, publish).unwrap() });
    (handle, members)
}

#[test]
fn avahi_resolves_us_and_we_find_what_avahi_publishes() {
    let rack = Rack::new(2);
    let folder = tempfile::tempdir().unwrap();
    let (handle, members) = start(&rack.hosts[0], "{host: ours}");
    let other = &rack.hosts[1];
    let avahi = Avahi::start(
        other,
        folder.path(),
        "theirs",
        Some("c1 Workstation-theirs"),
    );
    let log = || fs::read_to_string(folder.path().join("avahi-theirs.log")).unwrap();
    wait("we find avahi's node", || {
        members.borrow().contains_key("theirs")
    });
    let theirs = members.borrow()["theirs"].clone();
    assert!(
        theirs.addresses.contains(&"192.0.2.11".parse().unwrap()),
        "{theirs:?}"
    );
    let mut said = String::new();
    wait("avahi resolves us by IPv4", || {
        said = avahi.ask(other, "avahi-resolve", &["-4", "-n", "ours.local"]);
        said.contains("192.0.2.10")
    });
    let v6 = avahi.ask(other, "avahi-resolve", &["-6", "-n", "ours.local"]);
    assert!(v6.contains("2001:db8::10"), "{v6}\n{}", log());
    let browsed = avahi.ask(
        other,
        "avahi-browse",
        &["-p", "-t", "-r", "_workstation._tcp"],
    );
    let line = browsed
        .lines()
        .find(|line| line.starts_with('=') && line.contains("Workstation-ours"))
        .unwrap_or_else(|| panic!("{browsed}\n{}", log()));
    assert!(
        line.contains("ours.local") && line.contains("42424"),
        "{line}"
    );
    // It hears our goodbye too.
    rack.hosts[0].run(move || async move { handle.stop().await.unwrap() });
    wait("avahi forgets us", || {
        !avahi
            .ask(
                other,
                "avahi-browse",
                &["-p", "-t", "-c", "_workstation._tcp"],
            )
            .contains("Workstation-ours")
    });
}

#[test]
fn beside_avahi_on_one_machine_under_one_name_both_are_heard() {
    let rack = Rack::new(2);
    let folder = tempfile::tempdir().unwrap();
    let host = &rack.hosts[0];
    let avahi = Avahi::start(host, folder.path(), "same", None);
    wait("avahi is up", || {
        avahi
            .ask(host, "avahi-resolve", &["-4", "-n", "same.local"])
            .contains("192.0.2.10")
    });
    let (handle, members) = start(host, "{host: same}");
    let (_other, far) = start(&rack.hosts[1], "{host: far}");
    wait("both see both", || {
        [&members, &far]
            .iter()
            .all(|seen| seen.borrow().keys().eq(["far", "same"].iter()))
    });
    let status = handle.status();
    assert_eq!(status.links[0].host, "same", "{status:?}");
    // avahi kept its name, and answers.
    let fqdn = avahi.ask(host, "avahi-resolve", &["-4", "-n", "far.local"]);
    assert!(fqdn.contains("192.0.2.11"), "{fqdn}");
    let log = fs::read_to_string(folder.path().join("avahi-same.log")).unwrap();
    assert!(!log.contains("conflict"), "{log}");
}
