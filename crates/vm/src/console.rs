//! The serial console: a socket with bytes both ways, and a file with everything the guest ever wrote.

use std::io::{self, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio::time::Instant;

/// The text did not come.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not read the console log {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{text:?} did not appear on the console within {} s; last: {last:?}", waited.as_secs())]
    NotSeen {
        text: String,
        waited: Duration,
        last: String,
    },
}

/// Reads a console log as it grows.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    /// Where to go on reading.
    at: u64,
    /// Read, but not yet passed by a match; a bounded piece of the end.
    held: Vec<u8>,
}

/// How much unmatched text is kept: more than any one line worth waiting for.
const HELD: usize = 64 << 10;

impl Log {
    /// From the beginning of the file, which need not exist yet.
    pub fn open(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            at: 0,
            held: Vec::new(),
        }
    }

    /// Waits until the guest writes `text`, and goes on behind it: two waits find two occurrences.
    pub async fn wait_for(&mut self, text: &str, limit: Duration) -> Result<(), Error> {
        let deadline = Instant::now() + limit;
        loop {
            self.read_more().await.map_err(|source| Error::Read {
                path: self.path.clone(),
                source,
            })?;
            if let Some(end) = find(&self.held, text.as_bytes()) {
                self.held.drain(..end);
                return Ok(());
            }
            let excess = self.held.len().saturating_sub(HELD);
            self.held.drain(..excess);
            if Instant::now() >= deadline {
                let tail = &self.held[self.held.len().saturating_sub(400)..];
                let last = String::from_utf8_lossy(tail).into_owned();
                return Err(Error::NotSeen {
                    text: text.to_owned(),
                    waited: limit,
                    last,
                });
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn read_more(&mut self) -> io::Result<()> {
        let mut file = match File::open(&self.path).await {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        file.seek(SeekFrom::Start(self.at)).await?;
        self.at += file.take(1 << 20).read_to_end(&mut self.held).await? as u64;
        Ok(())
    }
}

/// Where the first occurrence ends.
fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    if needle.is_empty() {
        return Some(0);
    }
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
        .map(|start| start + needle.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[tokio::test]
    async fn each_wait_finds_the_next_occurrence() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut log = Log::open(file.path());
        file.write_all(b"hello hel").unwrap();
        log.wait_for("hello", Duration::ZERO).await.unwrap();
        let error = log.wait_for("hello", Duration::ZERO).await.unwrap_err();
        assert!(error.to_string().contains("last: \" hel\""), "{error}");
        file.write_all(b"lo").unwrap();
        log.wait_for("hello", Duration::ZERO).await.unwrap();
    }

    #[tokio::test]
    async fn a_log_that_is_not_there_is_only_empty() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = Log::open(&dir.path().join("none"));
        assert!(matches!(
            log.wait_for("x", Duration::ZERO).await,
            Err(Error::NotSeen { .. })
        ));
    }
}
