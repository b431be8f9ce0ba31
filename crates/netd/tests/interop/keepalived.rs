//! keepalived as the other node: each takes over from the other, in every dialect.

use std::fmt::Write as _;
use std::process::{Child, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::rack::{Rack, poll, wait};

/// keepalived's priority; ours is above or below.
const THEIRS: u8 = 100;

#[test]
fn version_2_by_multicast_with_a_password() {
    Dialect {
        version: 2,
        unicast: false,
        vip: "192.0.2.100",
        password: Some("mycluster_api_vip"),
    }
    .take_turns();
}

#[test]
fn version_2_by_unicast() {
    Dialect {
        version: 2,
        unicast: true,
        vip: "192.0.2.100",
        password: None,
    }
    .take_turns();
}

#[test]
fn version_3_by_multicast() {
    Dialect {
        version: 3,
        unicast: false,
        vip: "192.0.2.100",
        password: None,
    }
    .take_turns();
}

#[test]
fn version_3_by_unicast() {
    Dialect {
        version: 3,
        unicast: true,
        vip: "192.0.2.100",
        password: None,
    }
    .take_turns();
}

#[test]
fn version_3_over_ipv6_by_multicast() {
    Dialect {
        version: 3,
        unicast: false,
        vip: "2001:db8::100",
        password: None,
    }
    .take_turns();
}

#[test]
fn version_3_over_ipv6_by_unicast() {
    Dialect {
        version: 3,
        unicast: true,
        vip: "2001:db8::100",
        password: None,
    }
    .take_turns();
}

struct Dialect {
    version: u8,
    unicast: bool,
    vip: &'static str,
    password: Option<&'static str>,
}

impl Dialect {
    /// Node 0 runs keepalived, node 1 is ours.
    fn take_turns(&self) {
        let rack = Rack::new(2);
        let theirs = self.keepalived(&rack);
        self.held_by(&rack, 0);

        let ours = rack.start(1, &self.ours(150));
        self.held_by(&rack, 1); // we preempt
        ours.stop();
        self.held_by(&rack, 0); // they take over from us

        let ours = rack.start(1, &self.ours(50));
        let mut last = None;
        let followed = poll(|| {
            let status = ours.status().vips[0].clone();
            let follows = status.leader.is_some();
            last = Some(status);
            follows
        });
        assert!(followed, "we do not follow keepalived: {last:#?}");
        assert!(rack.holds(0, self.vip));
        drop(theirs);
        self.held_by(&rack, 1); // we take over from them

        let _theirs = self.keepalived(&rack);
        self.held_by(&rack, 0); // they preempt
        let status = ours.status().vips[0].clone();
        // Frames and adverts come by two sockets: on a busy machine the new holder's ARP may be read first.
        let strange: Vec<_> = status
            .reports
            .iter()
            .filter(|report| !report.contains("claims our virtual address"))
            .collect();
        assert!(strange.is_empty(), "{strange:?}");
        assert!(status.refused.is_empty(), "{:?}", status.refused);
    }

    fn held_by(&self, rack: &Rack, holder: usize) {
        wait(&format!("only node {holder} holds {}", self.vip), || {
            (0..2).all(|at| rack.holds(at, self.vip) == (at == holder))
        });
    }

    fn ours(&self, priority: u8) -> String {
        let mut vip = format!(
            "name: api, id: 7, address: '{}', priority: {priority}, version: {}, swift: false",
            self.vip, self.version
        );
        if self.version == 3 {
            vip += ", advertise_ms: 100";
        }
        if self.unicast {
            write!(vip, ", peers: ['{}']", self.own(0)).unwrap();
        }
        if let Some(password) = self.password {
            write!(vip, ", auth: {password}").unwrap();
        }
        format!("real_time: false\nvips: [{{{vip}}}]\n")
    }

    fn own(&self, at: usize) -> String {
        if self.vip.contains(':') {
            format!("2001:db8::1{at}")
        } else {
            format!("192.0.2.1{at}")
        }
    }

    fn keepalived(&self, rack: &Rack) -> Keepalived {
        let interval = if self.version == 2 { "1" } else { "0.1" };
        let prefix = if self.vip.contains(':') { 128 } else { 32 };
        let mut instance = format!(
            "state BACKUP\ninterface eth0\nvirtual_router_id 7\npriority {THEIRS}\nversion {}\nadvert_int {interval}\n",
            self.version
        );
        if self.unicast {
            let (from, to) = (self.own(0), self.own(1));
            write!(
                instance,
                "unicast_src_ip {from}\nunicast_peer {{\n{to}\n}}\n"
            )
            .unwrap();
        }
        if let Some(password) = self.password {
            write!(
                instance,
                "authentication {{\nauth_type PASS\nauth_pass {password}\n}}\n"
            )
            .unwrap();
        }
        let vip = self.vip;
        let config = format!(
            "global_defs {{\nmax_auto_priority -1\n}}\nvrrp_instance api {{\n{instance}virtual_ipaddress {{\n{vip}/{prefix} dev eth0\n}}\n}}\n"
        );
        Keepalived::start(rack, &config)
    }
}

/// Stops, with a goodbye, when dropped.
struct Keepalived {
    child: Child,
    _folder: tempfile::TempDir,
}

impl Keepalived {
    fn start(rack: &Rack, config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        std::fs::write(file("keepalived.conf"), config).unwrap();
        let log = std::fs::File::create(file("log")).unwrap();
        let child = rack.hosts[0]
            .command("keepalived")
            .args(["--dont-fork", "--vrrp", "--log-console", "--use-file"])
            .arg(file("keepalived.conf"))
            .arg("--pid")
            .arg(file("pid"))
            .arg("--vrrp_pid")
            .arg(file("vrrp_pid"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("keepalived (Debian package keepalived)");
        Self {
            child,
            _folder: folder,
        }
    }
}

impl Drop for Keepalived {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        let _ = self.child.wait();
    }
}
