//! This machine: is it fit to run the bootstrap VM?

use std::path::{Path, PathBuf};
use std::time::Duration;

use plan::preflight::{Fact, Here};
use vm::Accel;

/// A probe guest is booted to see whether KVM works.
const KVM: Duration = Duration::from_secs(20);

/// What running and making VMs needs.
const PROGRAMS: [&str; 2] = ["qemu-system-x86_64", "qemu-img"];

pub async fn look() -> Fact<Here> {
    let no_kvm = match tokio::time::timeout(KVM, vm::accel::probe()).await {
        Ok(Accel::Kvm) => None,
        Ok(Accel::Tcg { why }) => Some(why.clone()),
        Err(_) => Some(format!("a guest did not run within {} s", KVM.as_secs())),
    };
    let cache = image::cache_dir().unwrap_or_else(|_| std::env::temp_dir());
    let place = existing(&cache);
    let disk = nix::sys::statvfs::statvfs(&place);
    let memory = tokio::fs::read_to_string("/proc/meminfo").await;
    let (disk, memory) = match (disk, memory) {
        (Ok(disk), Ok(memory)) => (disk, memory),
        (Err(error), _) => return Fact::Unknown(format!("measure {}: {error}", place.display())),
        (_, Err(error)) => return Fact::Unknown(format!("read /proc/meminfo: {error}")),
    };
    let mut missing: Vec<String> = PROGRAMS
        .into_iter()
        .filter(|program| !on_path(program))
        .map(Into::into)
        .collect();
    if let vm::Firmware::Uefi { code, .. } = vm::Firmware::ovmf()
        && !code.exists()
    {
        missing.push(code.display().to_string());
    }
    Fact::Known(Here {
        root: nix::unistd::geteuid().is_root(),
        cpus: std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
        memory_mib: available_mib(&memory),
        disk_mib: disk.blocks_available().saturating_mul(disk.fragment_size()) >> 20,
        disk_path: place.display().to_string(),
        no_kvm,
        missing,
    })
}

/// The path, or the nearest directory above it that exists.
fn existing(path: &Path) -> PathBuf {
    let found = path.ancestors().find(|above| above.exists());
    found.unwrap_or(Path::new("/")).to_owned()
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// `MemAvailable`: what programs can have without swapping.
fn available_mib(meminfo: &str) -> u64 {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) >> 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_out_of_meminfo() {
        let text = "MemTotal:       16316412 kB\nMemAvailable:    8158206 kB\n";
        assert_eq!(available_mib(text), 7966);
        assert_eq!(available_mib("nonsense"), 0);
    }

    #[test]
    fn space_is_measured_where_a_directory_is() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(existing(&dir.path().join("a/b")), dir.path());
    }
}
