//! A host's name, from its config drive.
//!
//! A worker's configuration is the same for all of its pool; who it is stands in `meta_data.json` of the config drive
//! that it was provisioned with. A name in the host's own file is kept; one that DHCP lent it gives way.

mod drive;

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::config::is_node_name;
use crate::facts;

pub use drive::Error as DriveError;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Drive(#[from] DriveError),
    #[error("the config drive's meta_data.json names no host: {0}")]
    NoName(&'static str),
    #[error("could not write {}", path.display())]
    Write {
        path: PathBuf,
        source: std::io::Error,
    },
}

/// What was done.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It had a name.
    Kept(String),
    Set(String),
    /// There is no drive to learn it from.
    Unknown,
}

/// Sets the kernel's name and the file that outlives a reboot, unless that file has a name.
pub fn set(root: &Path, etc_hostname: &Path) -> Result<Outcome, Error> {
    let written = std::fs::read_to_string(etc_hostname).unwrap_or_default();
    if let Some(name) = facts::usable_name(&written) {
        return Ok(Outcome::Kept(name));
    }
    let Some(meta_data) = drive::meta_data(root)? else {
        return Ok(match facts::host_name(root) {
            Some(lent) => Outcome::Kept(lent),
            None => Outcome::Unknown,
        });
    };
    let name = parse(&meta_data).map_err(Error::NoName)?;
    let write = |path: PathBuf| {
        let done = std::fs::write(&path, format!("{name}\n"));
        done.map_err(|source| Error::Write { path, source })
    };
    write(etc_hostname.to_owned())?;
    write(root.join("proc/sys/kernel/hostname"))?;
    Ok(Outcome::Set(name))
}

/// The name in `meta_data.json`, under any of the keys that makers of config drives use.
pub fn parse(meta_data: &[u8]) -> Result<String, &'static str> {
    let parsed: Value = serde_json::from_slice(meta_data).map_err(|_| "it is not JSON")?;
    let keys = [
        "local-hostname",
        "local_hostname",
        "hostname",
        "metal3-name",
        "name",
    ];
    let found = keys.iter().filter_map(|key| parsed.get(key)?.as_str());
    let mut names = found
        .map(|name| name.trim().to_ascii_lowercase())
        .peekable();
    if names.peek().is_none() {
        return Err("it has neither local-hostname nor name");
    }
    let mut usable = names.filter(|name| is_node_name(name) && !name.starts_with("localhost"));
    usable.next().ok_or("what it has is not a host's name")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_name_is_found_under_its_many_keys() {
        for (text, expected) in [
            (
                r#"{"local-hostname": "worker-0", "name": "other"}"#,
                Ok("worker-0"),
            ),
            (r#"{"name": "Worker-1", "uuid": "x"}"#, Ok("worker-1")),
            (r#"{"hostname": "w.example.com"}"#, Ok("w.example.com")),
            (r#"{"local-hostname": "a b", "name": "fine"}"#, Ok("fine")),
            (
                r#"{"local-hostname": "localhost"}"#,
                Err("not a host's name"),
            ),
            (r#"{"local-hostname": "a/../b"}"#, Err("not a host's name")),
            (r#"{"name": 5}"#, Err("neither")),
            ("[]", Err("neither")),
            ("", Err("not JSON")),
        ] {
            match (parse(text.as_bytes()), expected) {
                (Ok(name), Ok(expected)) => assert_eq!(name, expected, "{text}"),
                (Err(why), Err(part)) => assert!(why.contains(part), "{text}: {why}"),
                (got, _) => panic!("{text}: {got:?}"),
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_good_name_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(name) = parse(&bytes) {
                prop_assert!(is_node_name(&name));
            }
        }
    }

    /// A root directory of a host that is called so, with these drives by device name.
    fn host(name: &str, drives: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a directory");
        for dir in ["proc/sys/kernel", "sys/class/block", "dev/disk/by-label"] {
            std::fs::create_dir_all(root.path().join(dir)).expect("a directory");
        }
        std::fs::write(kernel(root.path()), format!("{name}\n")).expect("a file");
        for (device, meta_data) in drives {
            let drive = media::config_drive::ConfigDrive {
                meta_data: Some((*meta_data).into()),
                ..media::config_drive::ConfigDrive::default()
            };
            let mut image = Vec::new();
            let nothing = |_: &_| Ok(std::io::empty());
            let layout = drive.layout(0).expect("a drive");
            layout.write_to(&mut image, nothing).expect("bytes");
            std::fs::write(root.path().join("dev").join(device), image).expect("a file");
            std::fs::write(root.path().join("sys/class/block").join(device), "").expect("a file");
        }
        root
    }

    fn kernel(root: &Path) -> PathBuf {
        root.join("proc/sys/kernel/hostname")
    }

    fn named(root: &Path) -> Result<Outcome, Error> {
        set(root, &root.join("hostname"))
    }

    #[test]
    fn a_host_takes_the_name_on_its_drive_once() {
        let root = host(
            "localhost",
            &[("sda4", r#"{"local-hostname": "worker-0"}"#)],
        );
        std::fs::write(root.path().join("dev/sda1"), "not a drive").expect("a file");
        std::fs::write(root.path().join("sys/class/block/sda1"), "").expect("a file");
        let first = named(root.path()).expect("it has a drive");
        assert_eq!(first, Outcome::Set("worker-0".into()));
        for path in [kernel(root.path()), root.path().join("hostname")] {
            assert_eq!(std::fs::read_to_string(path).expect("a file"), "worker-0\n");
        }
        let again = named(root.path()).expect("nothing to do");
        assert_eq!(again, Outcome::Kept("worker-0".into()));
    }

    #[test]
    fn the_drive_that_udev_names_is_the_one() {
        let root = host(
            "",
            &[
                ("sda4", r#"{"name": "old"}"#),
                ("sr0", r#"{"name": "new"}"#),
            ],
        );
        let label = root.path().join("dev/disk/by-label/config-2");
        std::os::unix::fs::symlink("../../sr0", label).expect("a link");
        let set = named(root.path()).expect("it has a drive");
        assert_eq!(set, Outcome::Set("new".into()));
    }

    #[test]
    fn without_a_drive_or_a_name_on_it_all_stays_as_it_is() {
        let root = host("localhost", &[]);
        assert_eq!(named(root.path()).expect("nothing to do"), Outcome::Unknown);
        let root = host("localhost", &[("sr0", "{}")]);
        let error = named(root.path()).expect_err("it names nobody");
        assert!(matches!(error, Error::NoName(_)), "{error}");
        assert!(!root.path().join("hostname").exists());
        let root = host("lent", &[]);
        let kept = named(root.path()).expect("nothing to do");
        assert_eq!(kept, Outcome::Kept("lent".into()));
    }

    #[test]
    fn a_name_of_its_own_is_kept_and_one_from_dhcp_gives_way() {
        let root = host("lent", &[("sr0", r#"{"name": "other"}"#)]);
        std::fs::write(root.path().join("hostname"), "mine\n").expect("a file");
        let kept = named(root.path()).expect("nothing to do");
        assert_eq!(kept, Outcome::Kept("mine".into()));
        std::fs::write(root.path().join("hostname"), "localhost\n").expect("a file");
        let set = named(root.path()).expect("it has a drive");
        assert_eq!(set, Outcome::Set("other".into()));
    }
}
