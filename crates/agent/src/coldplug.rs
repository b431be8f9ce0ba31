//! Drivers: every device says by its modalias what it is; the modules' aliases say which of them drives it.
//!
//! A driver brings new devices (a controller its disks), so it goes round until nothing new appears. Loading a
//! module returns when its probes are done, except where a controller looks for its disks in the background.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use linux::kmod::Modules;

use crate::console::say;

/// Everything that is there must have been there this long.
const QUIET: Duration = Duration::from_millis(200);
/// RAID, SAS and Fibre Channel controllers find their disks long after their driver has come up.
const SLOW_CONTROLLER: Duration = Duration::from_secs(20);
const LIMIT: Duration = Duration::from_mins(1);

/// Loads what the machine needs and waits until its devices are there. Never fails: a server with half its
/// drivers can still say what is wrong with it.
pub async fn run(sys: &Path) {
    let modules = match Modules::of_running_kernel() {
        Ok(modules) => modules,
        Err(error) => {
            say(&format!(
                "no modules, built-in drivers only: {}",
                model::chain(&error)
            ));
            return;
        }
    };
    // Nothing asks for these by a modalias of a device.
    for wanted in ["af_packet", "efivarfs", "ipmi_devintf"] {
        let _ = modules.load(wanted);
    }
    let started = Instant::now();
    let mut known = Seen::default();
    let mut changed_at = started;
    let mut loaded = BTreeSet::new();
    let mut told = None;
    loop {
        let seen = Seen::look(sys);
        for modalias in seen.modaliases.difference(&known.modaliases) {
            for (name, result) in modules.load_for(modalias) {
                match result {
                    Ok(true) => drop(loaded.insert(name)),
                    Ok(false) => {}
                    Err(error) => say(&model::chain(&error)),
                }
            }
        }
        if seen != known {
            changed_at = Instant::now();
        }
        known = seen;
        match next(&known, started.elapsed(), changed_at.elapsed()) {
            Next::Settled => break,
            Next::GiveUp(why) => {
                say(&format!(
                    "devices did not settle in {} s: {why}",
                    LIMIT.as_secs()
                ));
                break;
            }
            Next::Wait(why) => {
                if told.as_ref() != Some(&why) && started.elapsed() > Duration::from_secs(2) {
                    say(&format!("waiting for {why}"));
                    told = Some(why);
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let names: Vec<_> = loaded.into_iter().collect();
    say(&format!("drivers: {}", names.join(" ")));
}

#[derive(Debug, PartialEq, Eq)]
enum Next {
    Settled,
    Wait(String),
    GiveUp(String),
}

fn next(seen: &Seen, since_start: Duration, since_change: Duration) -> Next {
    let why = if since_change < QUIET {
        "devices to settle".to_owned()
    } else if let Some(controller) = &seen.slow_controller
        && seen.disks.is_empty()
        && since_start < SLOW_CONTROLLER
    {
        format!("disks behind controller {controller}")
    } else {
        return Next::Settled;
    };
    if since_start < LIMIT {
        Next::Wait(why)
    } else {
        Next::GiveUp(why)
    }
}

/// What the kernel shows at one moment.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    modaliases: BTreeSet<String>,
    disks: BTreeSet<String>,
    nics: BTreeSet<String>,
    /// A storage controller whose disks may come late.
    slow_controller: Option<String>,
}

impl Seen {
    fn look(sys: &Path) -> Self {
        let mut modaliases = BTreeSet::new();
        walk(&sys.join("devices"), 0, &mut modaliases);
        Self {
            modaliases,
            disks: names(&sys.join("block")),
            nics: names(&sys.join("class/net")),
            slow_controller: slow_controller(sys),
        }
    }
}

fn names(dir: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names
        .filter(|name| !name.starts_with("loop") && !name.starts_with("sr"))
        .collect()
}

/// Depth is bounded for safety only; devices nest about ten deep behind USB hubs.
fn walk(dir: &Path, depth: usize, found: &mut BTreeSet<String>) {
    if depth > 24 {
        return;
    }
    if let Ok(text) = fs::read_to_string(dir.join("modalias")) {
        let text = text.trim();
        if !text.is_empty() {
            found.insert(text.to_owned());
        }
    }
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        // Links lead elsewhere in the same tree.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            walk(&entry.path(), depth + 1, found);
        }
    }
}

/// PCI classes: RAID 0x0104, SAS 0x0107, Fibre Channel 0x0c04.
fn slow_controller(sys: &Path) -> Option<String> {
    let devices = fs::read_dir(sys.join("bus/pci/devices")).ok()?;
    let mut slow: Vec<_> = devices
        .flatten()
        .filter(|entry| {
            let class = fs::read_to_string(entry.path().join("class")).unwrap_or_default();
            let slow = ["0x0104", "0x0107", "0x0c04"]
                .iter()
                .any(|c| class.starts_with(c));
            slow && entry.path().join("driver").exists()
        })
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    slow.sort();
    slow.into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen() -> Seen {
        Seen::default()
    }

    #[test]
    fn modaliases_are_gathered_from_the_whole_tree_but_not_through_links() {
        let sys = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = sys.path().join("devices").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(
            "pci0000:00/0000:00:03.0/modalias",
            "pci:v00001AF4d00001000\n",
        );
        write(
            "pci0000:00/0000:00:03.0/virtio0/modalias",
            "virtio:d00000001v00001AF4\n",
        );
        write("platform/empty/modalias", "\n");
        std::os::unix::fs::symlink(
            sys.path().join("devices"),
            sys.path().join("devices/platform/loop"),
        )
        .unwrap();
        let found: Vec<_> = Seen::look(sys.path()).modaliases.into_iter().collect();
        assert_eq!(
            found,
            ["pci:v00001AF4d00001000", "virtio:d00000001v00001AF4"]
        );
    }

    #[test]
    fn nothing_new_for_a_while_means_settled() {
        let long = Duration::from_secs(1);
        assert_eq!(
            next(&seen(), long, Duration::from_millis(10)),
            Next::Wait("devices to settle".into())
        );
        assert_eq!(next(&seen(), long, QUIET), Next::Settled);
        assert!(matches!(
            next(&seen(), LIMIT, Duration::ZERO),
            Next::GiveUp(_)
        ));
    }

    #[test]
    fn raid_controller_gets_time_to_find_its_disks() {
        let mut seen = seen();
        seen.slow_controller = Some("0000:03:00.0".into());
        let second = Duration::from_secs(1);
        assert_eq!(
            next(&seen, second, second),
            Next::Wait("disks behind controller 0000:03:00.0".into())
        );
        assert_eq!(next(&seen, SLOW_CONTROLLER, second), Next::Settled);
        seen.disks.insert("sda".into());
        assert_eq!(next(&seen, second, second), Next::Settled);
    }
}
