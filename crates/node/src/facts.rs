//! What this machine is: read from the kernel and the OS, once for what stays and again for what may change.

use std::collections::BTreeMap;
use std::path::Path;

use k8s_openapi::api::core::v1::NodeSystemInfo;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// What the Node says of the machine. A file that is missing leaves its field empty: no reason not to register.
pub fn info(root: &Path) -> NodeSystemInfo {
    let text = |path: &str| {
        let text = std::fs::read_to_string(root.join(path)).unwrap_or_default();
        text.trim().to_owned()
    };
    let release = std::fs::read_to_string(root.join("etc/os-release"))
        .or_else(|_| std::fs::read_to_string(root.join("usr/lib/os-release")))
        .unwrap_or_default();
    NodeSystemInfo {
        architecture: architecture().to_owned(),
        boot_id: text("proc/sys/kernel/random/boot_id"),
        kernel_version: text("proc/sys/kernel/osrelease"),
        kubelet_version: concat!("v", env!("CARGO_PKG_VERSION"), "+plinth").to_owned(),
        machine_id: text("etc/machine-id"),
        operating_system: "linux".to_owned(),
        os_image: os_name(&release),
        system_uuid: text("sys/class/dmi/id/product_uuid"),
        ..NodeSystemInfo::default()
    }
}

/// As Kubernetes spells it.
pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// CPUs, memory, and the space of the file system that holds `state`.
pub fn capacity(root: &Path, state: &Path) -> BTreeMap<String, Quantity> {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_default();
    let mut capacity = BTreeMap::new();
    let mut put = |name: &str, amount: Option<String>| {
        if let Some(amount) = amount {
            capacity.insert(name.to_owned(), Quantity(amount));
        }
    };
    let cpus = count(&read("sys/devices/system/cpu/online"));
    put("cpu", cpus.map(|count| count.to_string()));
    let memory = memory_kib(&read("proc/meminfo"));
    put("memory", memory.map(|kib| format!("{kib}Ki")));
    let space = nix::sys::statvfs::statvfs(state).ok().map(|space| {
        let bytes = u128::from(space.blocks()) * u128::from(space.fragment_size());
        format!("{}Ki", bytes / 1024)
    });
    put("ephemeral-storage", space);
    capacity
}

/// The host's name, unless it is none.
pub fn host_name(root: &Path) -> Option<String> {
    usable_name(&std::fs::read_to_string(root.join("proc/sys/kernel/hostname")).ok()?)
}

/// What a file says a host is called, unless that is nothing.
pub fn usable_name(text: &str) -> Option<String> {
    let name = text.trim().to_ascii_lowercase();
    let none = ["", "(none)", "localhost", "localhost.localdomain"];
    (!none.contains(&name.as_str())).then_some(name)
}

/// How many numbers a list such as `0-3,8` names.
fn count(list: &str) -> Option<u64> {
    let mut total = 0_u64;
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        total += u64::from(last.checked_sub(first)?) + 1;
    }
    Some(total)
}

fn memory_kib(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// `PRETTY_NAME` of os-release(5), without its quotes.
fn os_name(release: &str) -> String {
    let line = release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let quoted = line.unwrap_or("Linux").trim();
    let plain = |quote: char| quoted.strip_prefix(quote)?.strip_suffix(quote);
    plain('"')
        .or_else(|| plain('\''))
        .unwrap_or(quoted)
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_of_cpus_are_counted() {
        for (list, expected) in [
            ("0\n", Some(1)),
            ("0-3\n", Some(4)),
            ("0-1,4,6-7", Some(5)),
            ("", None),
            ("3-1", None),
            ("many", None),
        ] {
            assert_eq!(count(list), expected, "{list:?}");
        }
    }

    #[test]
    fn a_machine_is_described() {
        let root = tempfile::tempdir().expect("a directory");
        for (path, text) in [
            (
                "etc/os-release",
                "NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 13\"\n",
            ),
            ("etc/machine-id", "abc\n"),
            ("proc/sys/kernel/hostname", "Worker-0\n"),
            ("proc/sys/kernel/osrelease", "6.12\n"),
            ("proc/meminfo", "MemTotal:        2048 kB\nMemFree: 1 kB\n"),
            ("sys/devices/system/cpu/online", "0-1\n"),
        ] {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("it has one")).expect("a directory");
            std::fs::write(path, text).expect("a file");
        }
        let info = info(root.path());
        assert_eq!(info.os_image, "Debian GNU/Linux 13");
        assert_eq!(
            (info.machine_id.as_str(), info.kernel_version.as_str()),
            ("abc", "6.12")
        );
        assert_eq!(info.system_uuid, "");
        let capacity = capacity(root.path(), root.path());
        assert_eq!(capacity["cpu"].0, "2");
        assert_eq!(capacity["memory"].0, "2048Ki");
        assert!(capacity.contains_key("ephemeral-storage"));
        assert_eq!(host_name(root.path()).as_deref(), Some("worker-0"));
    }

    proptest! {
        #[test]
        fn whatever_the_kernel_says_is_read_or_left(text in ".{0,200}") {
            _ = count(&text);
            _ = memory_kib(&text);
            _ = os_name(&text);
        }
    }
}
