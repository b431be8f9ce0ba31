//! What this machine must have before a lab can come up: all that is missing, at once, with the remedy.

use std::fs;
use std::path::{Path, PathBuf};

use crate::hardware::Firmware;
use crate::rack::{Kind, Rack};

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    #[error("not root: the lab makes network namespaces and bridges; run it as root or with sudo")]
    Root,
    #[error("{program} is not installed; install the Debian package {package}")]
    Program {
        program: &'static str,
        package: &'static str,
    },
    #[error("{path} is not there; install the Debian package {package}")]
    File {
        path: &'static str,
        package: &'static str,
    },
    #[error("/dev/net/tun is not there: load the kernel module tun")]
    Tun,
    #[error(
        "{dir}: {free_mib} MiB free, and this rack needs {needed_mib} MiB to start; free some, or choose another --dir"
    )]
    Space {
        dir: PathBuf,
        free_mib: u64,
        needed_mib: u64,
    },
    #[error(
        "{free_mib} MiB of memory free, and {servers} servers of {each_mib} MiB want {needed_mib}; use fewer --servers or less --memory"
    )]
    Memory {
        free_mib: u64,
        servers: usize,
        each_mib: u64,
        needed_mib: u64,
    },
}

pub fn missing(rack: &Rack, dir: &Path) -> Vec<Missing> {
    let mut missing = vec![];
    if !nix::unistd::geteuid().is_root() {
        missing.push(Missing::Root);
    }
    if rack.kind == Kind::Qemu {
        missing.extend(qemu(rack));
    }
    missing.extend(space(rack, dir));
    missing
}

fn qemu(rack: &Rack) -> Vec<Missing> {
    let mut missing = vec![];
    let programs = [
        ("qemu-system-x86_64", "qemu-system-x86"),
        ("qemu-img", "qemu-utils"),
        ("nft", "nftables"),
    ];
    for (program, package) in programs {
        if !installed(program) {
            missing.push(Missing::Program { program, package });
        }
    }
    let uefi = rack
        .places
        .iter()
        .any(|place| place.firmware == Firmware::Uefi);
    let ovmf = "/usr/share/OVMF/OVMF_CODE_4M.fd";
    if uefi && !Path::new(ovmf).exists() {
        missing.push(Missing::File {
            path: ovmf,
            package: "ovmf",
        });
    }
    if !Path::new("/dev/net/tun").exists() {
        missing.push(Missing::Tun);
    }
    let each_mib = rack
        .places
        .iter()
        .map(|place| place.hardware.memory_mib)
        .max()
        .unwrap_or(0);
    let needed_mib = rack
        .places
        .iter()
        .map(|place| place.hardware.memory_mib)
        .sum();
    if let Some(free_mib) = free_memory_mib()
        && free_mib < needed_mib
    {
        missing.push(Missing::Memory {
            free_mib,
            servers: rack.places.len(),
            each_mib,
            needed_mib,
        });
    }
    missing
}

fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

pub fn free_memory_mib() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? / 1024)
}

/// Disks are sparse: what must be there is room to begin with, not their full size.
const EACH_QEMU_MIB: u64 = 256;
const EACH_SIM_MIB: u64 = 1;

fn space(rack: &Rack, dir: &Path) -> Option<Missing> {
    let each = match rack.kind {
        Kind::Qemu => EACH_QEMU_MIB,
        Kind::Sim => EACH_SIM_MIB,
    };
    let needed_mib = each * rack.places.len() as u64;
    let there = dir.ancestors().find(|path| path.exists())?;
    let stat = nix::sys::statvfs::statvfs(there).ok()?;
    let free_mib = stat.blocks_available() * stat.fragment_size() / (1 << 20);
    (free_mib < needed_mib).then(|| Missing::Space {
        dir: there.to_path_buf(),
        free_mib,
        needed_mib,
    })
}
