//! A host's name, from its config drive.
//!
//! A worker's configuration is the same for all of its pool; who it is stands in `meta_data.json` of the config drive
//! that it was provisioned with. A host that has a name keeps it.

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

/// Sets the kernel's name and the file that outlives a reboot, unless the host has a name.
pub fn set(root: &Path, etc_hostname: &Path) -> Result<Outcome, Error> {
    if let Some(name) = facts::host_name(root) {
        return Ok(Outcome::Kept(name));
    }
    let Some(meta_data) = drive::meta_data(root)? else {
        return Ok(Outcome::Unknown);
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

    #[test]
    fn a_host_with_a_name_keeps_it_and_one_without_a_drive_stays_nameless() {
        let root = tempfile::tempdir().expect("a directory");
        let kernel = root.path().join("proc/sys/kernel");
        std::fs::create_dir_all(&kernel).expect("a directory");
        let etc = root.path().join("hostname");
        std::fs::write(kernel.join("hostname"), "mine\n").expect("a file");
        let kept = set(root.path(), &etc).expect("nothing to do");
        assert_eq!(kept, Outcome::Kept("mine".into()));
        std::fs::write(kernel.join("hostname"), "localhost\n").expect("a file");
        let unknown = set(root.path(), &etc).expect("nothing to do");
        assert_eq!(unknown, Outcome::Unknown);
        assert!(!etc.exists());
    }
}
