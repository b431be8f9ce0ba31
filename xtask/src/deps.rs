//! Debian packages the project needs, to build, to run the lab and to test against strangers.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::{qemu, sh};

const PACKAGES: &[(&str, &[&str])] = &[
    ("build", &["build-essential", "git", "ca-certificates"]),
    (
        "virtual machines",
        &[
            "qemu-system-x86",
            "qemu-utils",
            "ovmf",
            "seabios",
            "ipxe",
            "ipxe-qemu",
            "nftables",
        ],
    ),
    (
        "images",
        &[
            "mmdebstrap",
            "debian-archive-keyring",
            "arch-test",
            "grub-common",
            "grub-pc-bin",
            "grub-efi-amd64-bin",
            "dosfstools",
            "mtools",
            "e2fsprogs",
            "fdisk",
            "gdisk",
            "cpio",
            "xz-utils",
            "kmod",
            "zstd",
        ],
    ),
    (
        "strangers in tests",
        &[
            "atftp",
            "avahi-daemon",
            "avahi-utils",
            "bsdutils",
            "curl",
            "dbus-daemon",
            "dnsmasq-base",
            "dnsperf",
            "dnsutils",
            "etcd-client",
            "etcd-server",
            "freeipmi-tools",
            "genisoimage",
            "haproxy",
            "ignition",
            "ipmitool",
            "iproute2",
            "isc-dhcp-client",
            "keepalived",
            KUBECTL,
            "ndisc6",
            "openipmi",
            "openssl",
            "python3",
            "python3-venv",
            "tftp-hpa",
            "udhcpc",
            "util-linux",
            "xorriso",
        ],
    ),
];

/// Debian's package of kubectl. Whoever has a newer one from elsewhere keeps it: the two cannot be installed together.
const KUBECTL: &str = "kubernetes-client";

/// Those to measure ourselves beside; tests do without.
const BENCH_PACKAGES: &[(&str, &[&str])] = &[
    (
        "incumbents",
        &[
            "dnsmasq-base",
            "haproxy",
            "keepalived",
            "kea-dhcp4-server",
            "knot",
            "tftpd-hpa",
            "unbound",
        ],
    ),
    ("load", &["dnsperf", "kea-admin", "wrk"]),
];

/// Installs what is missing, as root or through sudo. Says nothing when nothing is.
pub fn install() -> Result<()> {
    install_missing(&missing()?)?;
    qemu::renew();
    Ok(())
}

/// The same, for benchmarks.
pub fn install_bench() -> Result<()> {
    install_missing(&missing_of(BENCH_PACKAGES)?)
}

/// A package that cannot be installed beside the others, unpacked into this directory.
pub fn unpack(package: &str, dir: &Path) -> Result<()> {
    if dir.join("usr").exists() {
        return Ok(());
    }
    std::fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
    sh::run(
        Command::new("apt-get")
            .args(["download", "-qq", package])
            .current_dir(dir),
    )?;
    let script = format!("dpkg-deb --extract {package}_*.deb . && rm {package}_*.deb");
    sh::run(Command::new("sh").args(["-c", &script]).current_dir(dir))
}

fn install_missing(missing: &[&str]) -> Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    println!(
        "installing {} Debian packages: {}",
        missing.len(),
        missing.join(" ")
    );
    sh::run(as_root("apt-get").args(["update", "-qq"]))?;
    apt_install(missing).context("install Debian packages; `cargo xtask deps` tries again")
}

pub fn apt_install(arguments: &[&str]) -> Result<()> {
    let flags = [
        "install",
        "-y",
        "-qq",
        "--no-install-recommends",
        "-o",
        "Dpkg::Use-Pty=0",
    ];
    sh::run(
        as_root("apt-get")
            .args(flags)
            .args(arguments)
            .stdout(Stdio::null()),
    )
}

/// Packages that are not installed, in the order of the list.
pub fn missing() -> Result<Vec<&'static str>> {
    missing_of(PACKAGES)
}

fn missing_of(packages: &[(&str, &[&'static str])]) -> Result<Vec<&'static str>> {
    let listed =
        sh::output(Command::new("dpkg-query").args(["-W", "-f=${Package} ${db:Status-Status}\n"]))
            .context(
                "ask dpkg what is installed; Plinth's chores need Debian or a descendant of it",
            )?;
    let installed: BTreeSet<&str> = listed
        .lines()
        .filter_map(|line| line.strip_suffix(" installed"))
        .map(str::trim)
        .collect();
    let wanted = packages.iter().flat_map(|(_, names)| names.iter().copied());
    let there = |name: &str| installed.contains(name) || (name == KUBECTL && has_kubectl());
    Ok(wanted.filter(|name| !there(name)).collect())
}

fn has_kubectl() -> bool {
    sh::output(Command::new("kubectl").args(["version", "--client"])).is_ok()
}

pub fn as_root(program: &str) -> Command {
    let root = sh::output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    let mut command = if root {
        Command::new(program)
    } else {
        let mut sudo = Command::new("sudo");
        sudo.arg(program);
        sudo
    };
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}
