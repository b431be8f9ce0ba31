//! What this machine can and cannot do for a lab, found out by doing it.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::Path;

use linux::netlink::Netlink;
use linux::netns::Namespace;
use vm::accel::{self, Accel};

/// One thing looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub name: &'static str,
    pub good: bool,
    pub finding: String,
}

pub async fn examine() -> Vec<Check> {
    let mut checks = vec![
        root(),
        memory(),
        namespaces().await,
        tun(),
        accelerator().await,
    ];
    checks.extend(
        PORTS
            .iter()
            .map(|(port, udp, used_for)| self::port(*port, *udp, used_for)),
    );
    checks
}

fn check(name: &'static str, result: Result<String, String>) -> Check {
    match result {
        Ok(finding) => Check {
            name,
            good: true,
            finding,
        },
        Err(finding) => Check {
            name,
            good: false,
            finding,
        },
    }
}

fn root() -> Check {
    let root = nix::unistd::geteuid().is_root();
    check(
        "root",
        if root {
            Ok("yes".into())
        } else {
            Err("no; the lab needs it for namespaces and bridges".into())
        },
    )
}

fn memory() -> Check {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mib = crate::needs::free_memory_mib().unwrap_or(0);
    let finding = format!(
        "{cores} cores, {mib} MiB of memory free: {} servers of 2048 MiB",
        mib / 2048
    );
    check(
        "size",
        if mib >= 2048 {
            Ok(finding)
        } else {
            Err(finding)
        },
    )
}

/// Makes a namespace with a bridge and a pair of cables in it, and takes it away again.
async fn namespaces() -> Check {
    let name = format!("plinth-doctor-{}", std::process::id());
    let made = async {
        let namespace = Namespace::create(&name).map_err(|e| model::chain(&e))?;
        let netlink = Netlink::connect_in(&namespace).map_err(|e| model::chain(&e))?;
        netlink
            .ensure_bridge("doctor")
            .await
            .map_err(|e| model::chain(&e))?;
        netlink
            .ensure_veth("one", "two")
            .await
            .map_err(|e| model::chain(&e))?;
        netlink
            .set_master("two", Some("doctor"))
            .await
            .map_err(|e| model::chain(&e))?;
        Ok::<_, String>("namespace, bridge and veth made and removed".to_string())
    };
    let result = made.await;
    let removed = Namespace::remove(&name).map_err(|e| model::chain(&e));
    check(
        "namespaces",
        result.and_then(|finding| removed.map(|()| finding)),
    )
}

fn tun() -> Check {
    let there = Path::new("/dev/net/tun").exists();
    check(
        "taps",
        if there {
            Ok("/dev/net/tun is there".into())
        } else {
            Err("no /dev/net/tun: load the module tun".into())
        },
    )
}

async fn accelerator() -> Check {
    check(
        "KVM",
        match accel::probe().await {
            Accel::Kvm => Ok("a probe guest booted under it".into()),
            Accel::Tcg { why } => Err(format!("{why}; guests are emulated, about 12 times slower")),
        },
    )
}

/// Ports that Plinth's daemons use when they run outside a lab's namespace.
const PORTS: &[(u16, bool, &str)] = &[
    (67, true, "DHCP"),
    (69, true, "TFTP"),
    (5353, true, "mDNS"),
    (6180, false, "boot files over HTTP"),
    (6183, false, "virtual media over TLS"),
    (6385, false, "the Ironic API"),
    (6443, false, "the Kubernetes API"),
    (22623, false, "Ignition configs"),
];

fn port(port: u16, udp: bool, used_for: &str) -> Check {
    let at = (Ipv4Addr::UNSPECIFIED, port);
    let bound = if udp {
        UdpSocket::bind(at).map(drop)
    } else {
        TcpListener::bind(at).map(drop)
    };
    let kind = if udp { "udp" } else { "tcp" };
    check(
        "port",
        match bound {
            Ok(()) => Ok(format!("{port}/{kind} ({used_for}) is free")),
            Err(error) => Err(format!("{port}/{kind} ({used_for}) cannot be had: {error}")),
        },
    )
}
