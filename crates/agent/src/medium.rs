//! Configuration that came with the ramdisk: files in the initrd, and on the CD of a virtual-media boot.

use std::fmt::Write;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use agent::disk::signature;
use linux::kmod::Modules;
use linux::mount::{self, Mount};
use nix::mount::MsFlags;
use serde_json::Value;

use crate::console::say;

const AUTHORITIES: &str = "etc/ironic-python-agent/ironic.crt";
const NETWORK: &str = "openstack/latest/network_data.json";
const MOUNT: &str = "/run/medium";
/// BMCs show their CD as a USB device, which takes a while to come up.
const WAIT: Duration = Duration::from_secs(20);
/// Larger disks are the server's own; an old config drive on them is not ours to believe.
const LARGEST_STICK: u64 = 4 << 30;

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Medium {
    /// PEM.
    pub authorities: Option<String>,
    pub network_data: Option<Value>,
    /// Settings of configuration files, written like kernel parameters.
    pub parameters: String,
}

impl Medium {
    /// What the initrd holds and, if the server came up from virtual media, what its CD holds.
    pub async fn look(virtual_media: bool) -> Self {
        let mut found = Self::read(Path::new("/"));
        if virtual_media {
            match find().await {
                Some(device) => match on(&device) {
                    Ok(medium) => found = medium.or(found),
                    Err(error) => say(&format!("{}: {}", device.display(), model::chain(&error))),
                },
                None => say("no configuration: no CD labelled VMEDIA_BOOT_ISO or config-2"),
            }
        }
        found
    }

    fn read(root: &Path) -> Self {
        let text = |path: &str| fs::read_to_string(root.join(path)).ok();
        let parsed = text(NETWORK).map(|text| serde_json::from_str(&text));
        if let Some(Err(error)) = &parsed {
            say(&format!("{NETWORK}: {error}"));
        }
        let mut files = vec![root.join("etc/ironic-python-agent/ironic-python-agent.conf")];
        let entries = fs::read_dir(root.join("etc/ironic-python-agent.d"));
        let mut more: Vec<_> = entries
            .into_iter()
            .flatten()
            .flatten()
            .map(|e| e.path())
            .collect();
        more.sort();
        files.extend(more);
        let settings = files
            .iter()
            .filter_map(|file| fs::read_to_string(file).ok());
        Self {
            authorities: text(AUTHORITIES),
            network_data: parsed.and_then(Result::ok),
            parameters: settings.map(|text| as_parameters(&text)).collect(),
        }
    }

    fn or(self, other: Self) -> Self {
        Self {
            authorities: self.authorities.or(other.authorities),
            network_data: self.network_data.or(other.network_data),
            parameters: other.parameters + &self.parameters,
        }
    }
}

/// `api_url = http://…` in a file is `ipa-api-url=http://…` on the kernel line.
fn as_parameters(conf: &str) -> String {
    let mut all = String::new();
    for line in conf.lines() {
        let line = line.trim();
        if line.starts_with(['#', ';', '[']) {
            continue;
        }
        if let Some((name, value)) = line.split_once('=') {
            let (name, value) = (name.trim().replace('_', "-"), value.trim().replace('"', ""));
            let _ = write!(all, "\"ipa-{name}={value}\" ");
        }
    }
    all
}

async fn find() -> Option<PathBuf> {
    let started = Instant::now();
    let mut told = false;
    loop {
        let found = candidates(Path::new("/sys/block"))
            .into_iter()
            .find(|name| {
                let label = label(&Path::new("/dev").join(name));
                label.is_some_and(|label| is_ours(&label))
            });
        if let Some(name) = found {
            return Some(Path::new("/dev").join(name));
        }
        if started.elapsed() > WAIT {
            return None;
        }
        if !told && started.elapsed() > Duration::from_secs(2) {
            say("waiting for the CD this ramdisk came from");
            told = true;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn is_ours(label: &str) -> bool {
    label.eq_ignore_ascii_case("VMEDIA_BOOT_ISO") || label.eq_ignore_ascii_case("config-2")
}

/// CD drives and small USB disks, never partitions.
fn candidates(block: &Path) -> Vec<String> {
    let entries = fs::read_dir(block).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries
        .filter(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let on_usb = || {
                fs::canonicalize(entry.path())
                    .is_ok_and(|path| path.to_string_lossy().contains("/usb"))
            };
            let sectors = || {
                let text = fs::read_to_string(entry.path().join("size")).unwrap_or_default();
                text.trim().parse::<u64>().unwrap_or(u64::MAX)
            };
            name.starts_with("sr") || (on_usb() && sectors() < LARGEST_STICK / 512)
        })
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn label(device: &Path) -> Option<String> {
    let mut head = vec![];
    File::open(device)
        .ok()?
        .take(64 << 10)
        .read_to_end(&mut head)
        .ok()?;
    signature::label(&head)
}

fn on(device: &Path) -> Result<Medium, mount::Error> {
    if let Ok(modules) = Modules::of_running_kernel() {
        for wanted in ["isofs", "vfat", "nls_cp437", "nls_ascii", "nls_iso8859-1"] {
            let _ = modules.load(wanted);
        }
    }
    let source = device.to_string_lossy();
    let mount = |fstype| {
        Mount {
            source: &source,
            path: Path::new(MOUNT),
            fstype,
            flags: MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC,
            options: "",
        }
        .mount()
    };
    mount("iso9660").or_else(|_| mount("vfat"))?;
    let found = Medium::read(Path::new(MOUNT));
    mount::unmount(Path::new(MOUNT), true)?;
    say(&format!("configuration read from {source}"));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_the_usual_places_are_read() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put(AUTHORITIES, "PEM");
        put(NETWORK, "{\"links\": []}");
        put(
            "etc/ironic-python-agent.d/a.conf",
            "[DEFAULT]\n# x\napi_url = http://192.0.2.1:6385\ninsecure = false\n",
        );
        let found = Medium::read(root.path());
        assert_eq!(found.authorities.as_deref(), Some("PEM"));
        assert!(found.network_data.is_some());
        assert_eq!(
            found.parameters,
            "\"ipa-api-url=http://192.0.2.1:6385\" \"ipa-insecure=false\" "
        );
        assert_eq!(Medium::read(&root.path().join("none")), Medium::default());
    }
}
