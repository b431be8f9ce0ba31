//! Whether a disk may be touched at all: decided over what the kernel says, before it is opened.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;

/// Everything that speaks for leaving disks alone.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Uses {
    /// `/proc/mounts` and `/proc/swaps`; both name the device first.
    pub mounts: String,
    /// What is built upon each disk or partition: RAID sets, volume groups, by `/sys/block/*/holders`.
    pub holders: Vec<Holder>,
    /// Names the user wants left alone, such as `/dev/sdb`.
    pub skip: BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The disk or partition: `sda2`.
    pub held: String,
    /// What holds it: `md127`.
    pub by: String,
}

/// Why a disk is left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    Skipped,
    Mounted { device: String, on: String },
    Held { device: String, by: String },
}

impl Uses {
    /// Reads `proc` and `sys` below `root`. Links such as `/dev/disk/by-id/…` are followed.
    pub fn look(root: &Path, skip: &BTreeSet<String>) -> Self {
        let text = |path| fs::read_to_string(root.join(path)).unwrap_or_default();
        Self {
            mounts: text("proc/mounts") + &text("proc/swaps"),
            holders: holders(&root.join("sys/block")),
            skip: skip.iter().map(|name| resolve(root, name)).collect(),
        }
    }

    /// Why the disk called `name` (`sda`, without `/dev/`) must not be written, if so.
    pub fn of(&self, name: &str) -> Option<Reason> {
        if self.skip.iter().any(|skip| short(skip) == name) {
            return Some(Reason::Skipped);
        }
        for line in self.mounts.lines() {
            let mut fields = line.split_whitespace();
            let (Some(device), Some(on)) = (fields.next(), fields.next()) else {
                continue;
            };
            if device.starts_with("/dev/") && is_part_of(short(device), name) {
                return Some(Reason::Mounted {
                    device: device.to_owned(),
                    on: on.to_owned(),
                });
            }
        }
        let holder = self
            .holders
            .iter()
            .find(|holder| is_part_of(&holder.held, name))?;
        Some(Reason::Held {
            device: holder.held.clone(),
            by: holder.by.clone(),
        })
    }
}

/// What a device is called in the end; the name as it is if there is no such device.
fn resolve(root: &Path, name: &str) -> String {
    let found = fs::canonicalize(root.join(name.trim_start_matches('/')));
    match found.as_deref().map(Path::file_name) {
        Ok(Some(last)) => last.to_string_lossy().into_owned(),
        Ok(None) | Err(_) => name.to_owned(),
    }
}

fn short(device: &str) -> &str {
    device.strip_prefix("/dev/").unwrap_or(device)
}

/// Whether `name` is the disk or one of its partitions: sda1 of sda, nvme0n1p1 of nvme0n1.
fn is_part_of(name: &str, disk: &str) -> bool {
    let Some(rest) = name.strip_prefix(disk) else {
        return false;
    };
    let ends_in_digit = disk.ends_with(|c: char| c.is_ascii_digit());
    let number = if ends_in_digit {
        rest.strip_prefix('p')
    } else {
        Some(rest)
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    rest.is_empty() || number.is_some_and(is_number)
}

fn holders(block: &Path) -> Vec<Holder> {
    let mut found = vec![];
    for disk in names(block) {
        let dir = block.join(&disk);
        for by in names(&dir.join("holders")) {
            let held = disk.clone();
            found.push(Holder { held, by });
        }
        let partitions = names(&dir)
            .into_iter()
            .filter(|name| is_part_of(name, &disk));
        for held in partitions {
            for by in names(&dir.join(&held).join("holders")) {
                let held = held.clone();
                found.push(Holder { held, by });
            }
        }
    }
    found
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Skipped => f.write_str("it is listed as not to be touched"),
            Self::Mounted { device, on } => write!(f, "{device} is in use on {on}"),
            Self::Held { device, by } => write!(f, "{device} is part of {by}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_belong_to_their_own_disk_only() {
        for (name, disk, answer) in [
            ("sda", "sda", true),
            ("sda1", "sda", true),
            ("sda12", "sda", true),
            ("sdaa", "sda", false),
            ("sdaa1", "sda", false),
            ("sdb1", "sda", false),
            ("nvme0n1p3", "nvme0n1", true),
            ("nvme0n11", "nvme0n1", false),
            ("nvme0n1p", "nvme0n1", false),
            ("mmcblk0boot0", "mmcblk0", false),
        ] {
            assert_eq!(is_part_of(name, disk), answer, "{name} of {disk}");
        }
    }

    #[test]
    fn mounted_swapped_held_and_listed_disks_are_left_alone() {
        let uses = Uses {
            mounts: "proc /proc proc rw 0 0\n/dev/sda2 / ext4 rw 0 0\n\
                     Filename Type Size Used Priority\n/dev/nvme0n1p2 partition 1 0 -2\n"
                .into(),
            holders: vec![Holder {
                held: "sdb1".into(),
                by: "md127".into(),
            }],
            skip: BTreeSet::from(["/dev/sdc".to_owned()]),
        };
        let said = |name: &str| uses.of(name).map(|reason| reason.to_string());
        assert_eq!(said("sda").as_deref(), Some("/dev/sda2 is in use on /"));
        assert_eq!(
            said("nvme0n1").as_deref(),
            Some("/dev/nvme0n1p2 is in use on partition")
        );
        assert_eq!(said("sdb").as_deref(), Some("sdb1 is part of md127"));
        assert_eq!(
            said("sdc").as_deref(),
            Some("it is listed as not to be touched")
        );
        assert_eq!(said("sdd"), None);
        assert_eq!(said("nvme1n1"), None);
    }

    #[test]
    fn a_disk_listed_by_a_link_is_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let by_id = root.path().join("dev/disk/by-id");
        fs::create_dir_all(&by_id).unwrap();
        fs::write(root.path().join("dev/sdq"), "").unwrap();
        std::os::unix::fs::symlink("../../sdq", by_id.join("wwn-1")).unwrap();
        let skip = ["/dev/disk/by-id/wwn-1", "/dev/sdx"].map(str::to_owned);
        let uses = Uses::look(root.path(), &BTreeSet::from(skip));
        assert_eq!(uses.of("sdq"), Some(Reason::Skipped));
        assert_eq!(uses.of("sdx"), Some(Reason::Skipped));
        assert_eq!(uses.of("sdr"), None);
    }

    #[test]
    fn holders_are_found_on_disks_and_partitions() {
        let root = tempfile::tempdir().unwrap();
        for dir in [
            "sda/holders/dm-0",
            "sdb/sdb1/holders/md0",
            "sdb/queue",
            "sdc/holders",
        ] {
            fs::create_dir_all(root.path().join("sys/block").join(dir)).unwrap();
        }
        let uses = Uses::look(root.path(), &BTreeSet::new());
        let held: Vec<_> = uses
            .holders
            .iter()
            .map(|h| (h.held.as_str(), h.by.as_str()))
            .collect();
        assert_eq!(held, [("sda", "dm-0"), ("sdb1", "md0")]);
        assert_eq!(uses.of("sdc"), None);
    }
}
