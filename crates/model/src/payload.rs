//! What a cluster carries with it: the program, the images and the loaders, each known by its checksum.

use serde::{Deserialize, Serialize};

/// The list of a payload's files, kept beside them under this name.
pub const INDEX: &str = "index.json";

/// The program that every node runs.
pub const PROGRAM: &str = "plinth";

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Index {
    pub files: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Relative, with `/` between its parts.
    pub name: String,
    pub sha256: String,
    pub size: u64,
}

/// No payload has more files, and no list of them is longer.
const MOST_FILES: usize = 1000;
const MOST_BYTES: usize = 1 << 20;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the list of the payload's files is longer than a mebibyte")]
    TooLong,
    #[error("the list of the payload's files cannot be read: {0}")]
    Unreadable(String),
    #[error("the list of the payload's files has {0} of them, more than a thousand")]
    TooMany(usize),
    #[error("{0:?} is not a name that a file of the payload can have")]
    Name(String),
    #[error("{name}: {sha256:?} is not a SHA-256 in hexadecimal digits")]
    Checksum { name: String, sha256: String },
    #[error("{0} is listed twice")]
    Twice(String),
}

impl Index {
    /// From the bytes of the list; every name in it stays below the payload's own directory.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() > MOST_BYTES {
            return Err(Error::TooLong);
        }
        let index: Self =
            serde_json::from_slice(bytes).map_err(|error| Error::Unreadable(error.to_string()))?;
        if index.files.len() > MOST_FILES {
            return Err(Error::TooMany(index.files.len()));
        }
        for (at, entry) in index.files.iter().enumerate() {
            if !is_name(&entry.name) {
                return Err(Error::Name(entry.name.clone()));
            }
            if !is_sha256(&entry.sha256) {
                let (name, sha256) = (entry.name.clone(), entry.sha256.clone());
                return Err(Error::Checksum { name, sha256 });
            }
            if index.files[..at]
                .iter()
                .any(|other| other.name == entry.name)
            {
                return Err(Error::Twice(entry.name.clone()));
            }
        }
        Ok(index)
    }

    pub fn by_sha256(&self, sha256: &str) -> Option<&Entry> {
        self.files.iter().find(|entry| entry.sha256 == sha256)
    }
}

/// 64 lower-case hexadecimal digits; nothing that could be a path.
pub fn is_sha256(text: &str) -> bool {
    text.len() == 64
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    name.len() <= 255
        && name != INDEX
        && name.split('/').all(|part| {
            // Neither hidden nor a way out of the directory.
            !part.is_empty() && !part.starts_with('.') && part.bytes().all(plain)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_leads_astray_is_refused() {
        let sum = "a".repeat(64);
        let list = |name: &str, sha256: &str| {
            format!(r#"{{"files": [{{"name": "{name}", "sha256": "{sha256}", "size": 1}}]}}"#)
        };
        assert!(Index::parse(list("images/os.qcow2", &sum).as_bytes()).is_ok());
        for (name, sha256) in [
            ("../etc/passwd", sum.as_str()),
            ("/etc/passwd", &sum),
            ("images//os", &sum),
            ("images/.hidden", &sum),
            ("", &sum),
            (INDEX, &sum),
            ("images/os", "../../x"),
            ("images/os", &"A".repeat(64)),
        ] {
            let parsed = Index::parse(list(name, sha256).as_bytes());
            assert!(parsed.is_err(), "{name:?} {sha256:?}");
        }
        let twice = format!(
            r#"{{"files": [{{"name": "a", "sha256": "{sum}", "size": 1}}, {{"name": "a", "sha256": "{sum}", "size": 1}}]}}"#
        );
        assert_eq!(
            Index::parse(twice.as_bytes()),
            Err(Error::Twice("a".into()))
        );
        assert_eq!(
            Index::parse(&vec![b' '; MOST_BYTES + 1]),
            Err(Error::TooLong)
        );
    }
}
