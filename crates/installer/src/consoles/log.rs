//! A file that grows at its end and loses its beginning.

use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// When a file is this large, its older half is dropped.
const LIMIT: u64 = 16 << 20;

#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    file: File,
    size: u64,
    limit: u64,
}

impl Log {
    /// For its owner alone: a console shows what is typed on it.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Self::with_limit(path, LIMIT)
    }

    fn with_limit(path: &Path, limit: u64) -> io::Result<Self> {
        if let Some(dir) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        }
        let file = append(path)?;
        Ok(Self {
            path: path.to_owned(),
            size: file.metadata()?.len(),
            file,
            limit,
        })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.size + bytes.len() as u64 > self.limit {
            self.drop_older_half()?;
        }
        self.file.write_all(bytes)?;
        self.size += bytes.len() as u64;
        Ok(())
    }

    /// A crash on the way leaves the old file.
    fn drop_older_half(&mut self) -> io::Result<()> {
        let mut old = File::open(&self.path)?;
        old.seek(SeekFrom::Start(self.size.saturating_sub(self.limit / 2)))?;
        let mut kept = Vec::new();
        old.take(self.limit / 2).read_to_end(&mut kept)?;
        // From the beginning of a line, if there is one.
        let line = kept.iter().position(|byte| *byte == b'\n');
        let kept = &kept[line.map_or(0, |at| at + 1)..];
        let beside = self.path.with_extension("log.new");
        // What an earlier crash may have left.
        _ = std::fs::remove_file(&beside);
        let mut new = append(&beside)?;
        new.write_all(kept)?;
        std::fs::rename(&beside, &self.path)?;
        (self.file, self.size) = (new, kept.len() as u64);
        Ok(())
    }
}

fn append(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.create(true).append(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn it_is_appended_to_and_is_its_owners_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("consoles/master-0.log");
        Log::open(&path).unwrap().write(b"one\n").unwrap();
        Log::open(&path).unwrap().write(b"two\n").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"one\ntwo\n");
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
    }

    #[test]
    fn at_its_limit_the_older_half_goes_line_by_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.log");
        let mut log = Log::with_limit(&path, 100).unwrap();
        for line in 0..1000 {
            log.write(format!("line {line}\r\n").as_bytes()).unwrap();
            let size = std::fs::metadata(&path).unwrap().len();
            assert!(size <= 100 && size == log.size, "{size}");
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("line ") && text.ends_with("line 999\r\n"));
        assert!(text.len() > 40, "{text}");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
