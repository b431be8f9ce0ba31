//! Which tokens were used, by whom, when. On disk before the answer leaves.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The first use of a one-time token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Use {
    pub token_sha256: String,
    pub host: String,
    pub peer: IpAddr,
    pub at: Timestamp,
}

/// Something that was given out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    pub at: Timestamp,
    pub peer: IpAddr,
    /// `config/worker` or `files/<sha256>`.
    pub what: String,
    /// The host by its token, or the pool.
    pub to: String,
    pub bytes: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not open {path}")]
    Open { path: PathBuf, source: io::Error },
    #[error("could not write {path}")]
    Write { path: PathBuf, source: io::Error },
    #[error(
        "{path} is damaged in line {line}: a used token might be forgotten. Restore it, or give every host a new token"
    )]
    Damaged { path: PathBuf, line: usize },
}

/// Whether a token opens its config.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    Fresh,
    /// The same client comes again soon: its answer may have been lost.
    Retry,
    Used(Use),
}

pub struct Ledger {
    used: BTreeMap<String, Use>,
    file: File,
    path: PathBuf,
    served: PathBuf,
}

const USED: &str = "used.jsonl";
const SERVED: &str = "served.jsonl";
const LARGEST_LOG: u64 = 1 << 20;

impl Ledger {
    pub fn open(dir: &Path) -> Result<Self, Error> {
        let path = dir.join(USED);
        let error = |source| Error::Open {
            path: path.clone(),
            source,
        };
        std::fs::create_dir_all(dir).map_err(error)?;
        let (used, whole) = read_used(&path)?;
        let mut options = OpenOptions::new();
        let file = options
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&path)
            .map_err(error)?;
        // A line that a crash cut off was never answered: the host will come again.
        file.set_len(whole).map_err(error)?;
        Ok(Self {
            used,
            file,
            served: dir.join(SERVED),
            path,
        })
    }

    pub fn verdict(
        &self,
        token_sha256: &str,
        peer: IpAddr,
        now: Timestamp,
        window: Duration,
    ) -> Verdict {
        match self.used.get(token_sha256) {
            None => Verdict::Fresh,
            Some(first) => {
                let age = now.duration_since(first.at);
                let soon = !age.is_negative() && age.unsigned_abs() <= window;
                if soon && first.peer == peer {
                    Verdict::Retry
                } else {
                    Verdict::Used(first.clone())
                }
            }
        }
    }

    /// Remembers the first use, and returns when it cannot be forgotten.
    pub fn spend(&mut self, first: Use) -> Result<(), Error> {
        let error = |source| Error::Write {
            path: self.path.clone(),
            source,
        };
        let mut line = serde_json::to_vec(&first).expect("plain data");
        line.push(b'\n');
        self.file.write_all(&line).map_err(error)?;
        self.file.sync_data().map_err(error)?;
        self.used.insert(first.token_sha256.clone(), first);
        Ok(())
    }

    /// For people; losing a line of it harms nobody.
    pub fn note(&self, served: &Served) -> Result<(), Error> {
        let error = |source| Error::Write {
            path: self.served.clone(),
            source,
        };
        let mut options = OpenOptions::new();
        let mut file = options
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&self.served)
            .map_err(error)?;
        let mut line = serde_json::to_vec(served).expect("plain data");
        line.push(b'\n');
        file.write_all(&line).map_err(error)?;
        if file.metadata().map_err(error)?.len() > LARGEST_LOG {
            std::fs::rename(&self.served, self.served.with_extension("jsonl.1")).map_err(error)?;
        }
        Ok(())
    }
}

/// The tokens, and how many bytes of the file are whole lines.
fn read_used(path: &Path) -> Result<(BTreeMap<String, Use>, u64), Error> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((BTreeMap::new(), 0)),
        Err(source) => {
            return Err(Error::Open {
                path: path.to_owned(),
                source,
            });
        }
    };
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    let mut used = BTreeMap::new();
    for (at, line) in text[..whole].lines().enumerate() {
        let first: Use = serde_json::from_str(line).map_err(|_| Error::Damaged {
            path: path.to_owned(),
            line: at + 1,
        })?;
        used.insert(first.token_sha256.clone(), first);
    }
    Ok((used, whole as u64))
}

/// What a directory knows, without opening it for writing.
pub fn look(dir: &Path) -> Result<(Vec<Use>, Vec<Served>), Error> {
    let (used, _) = read_used(&dir.join(USED))?;
    let mut served = Vec::new();
    for name in [format!("{SERVED}.1"), SERVED.into()] {
        let text = std::fs::read_to_string(dir.join(name)).unwrap_or_default();
        served.extend(
            text.lines()
                .filter_map(|line| serde_json::from_str(line).ok()),
        );
    }
    Ok((used.into_values().collect(), served))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn first(token: &str) -> Use {
        Use {
            token_sha256: token.into(),
            host: "master-0".into(),
            peer: "192.0.2.1".parse().unwrap(),
            at: at(0),
        }
    }

    const WINDOW: Duration = Duration::from_mins(15);

    #[test]
    fn a_used_token_stays_used_over_a_restart_and_its_client_may_retry_for_a_while() {
        let dir = tempfile::tempdir().unwrap();
        let (same, other) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let mut ledger = Ledger::open(dir.path()).unwrap();
        assert_eq!(ledger.verdict("t", same, at(0), WINDOW), Verdict::Fresh);
        ledger.spend(first("t")).unwrap();
        drop(ledger);
        let ledger = Ledger::open(dir.path()).unwrap();
        assert_eq!(ledger.verdict("t", same, at(60), WINDOW), Verdict::Retry);
        assert_eq!(
            ledger.verdict("t", other, at(60), WINDOW),
            Verdict::Used(first("t"))
        );
        assert_eq!(
            ledger.verdict("t", same, at(1000), WINDOW),
            Verdict::Used(first("t"))
        );
        assert_eq!(
            ledger.verdict("t", same, at(-60), WINDOW),
            Verdict::Used(first("t"))
        );
    }

    #[test]
    fn a_line_that_was_cut_off_is_dropped_and_a_damaged_one_stops_us() {
        let dir = tempfile::tempdir().unwrap();
        Ledger::open(dir.path()).unwrap().spend(first("a")).unwrap();
        let path = dir.path().join(USED);
        let whole = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{whole}{{\"token_sha")).unwrap();
        let mut ledger = Ledger::open(dir.path()).unwrap();
        ledger.spend(first("b")).unwrap();
        let ledger = Ledger::open(dir.path()).unwrap();
        assert_eq!(ledger.used.keys().collect::<Vec<_>>(), ["a", "b"]);
        std::fs::write(&path, format!("nonsense\n{whole}")).unwrap();
        assert!(matches!(
            Ledger::open(dir.path()),
            Err(Error::Damaged { line: 1, .. })
        ));
    }
}
