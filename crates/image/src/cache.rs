//! Finished builds, each in a folder named for what it was made from.
//!
//! A build happens in a hidden folder beside its final place and is renamed at the end, under a lock: an entry is
//! there as a whole or not at all.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::progress::Reporter;
use crate::{Error, manifest};

/// `$XDG_CACHE_HOME/plinth`, or `~/.cache/plinth`.
pub fn cache_dir() -> Result<PathBuf, Error> {
    let set = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let base = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    Ok(base.ok_or(Error::NoCacheDir)?.join("plinth"))
}

/// What an entry is made from, as a name.
pub struct Key(Sha256);

impl Key {
    pub fn new(recipe: &str) -> Self {
        Self(Sha256::new()).with(recipe)
    }

    pub fn with(mut self, part: &str) -> Self {
        // The length keeps two parts from being mistaken for one.
        self.0.update((part.len() as u64).to_le_bytes());
        self.0.update(part);
        self
    }

    pub fn name(self, kind: &str) -> String {
        format!("{kind}-{}", &manifest::hex(&self.0.finalize())[..16])
    }
}

pub struct Entry<'a> {
    pub cache: &'a Path,
    pub kind: &'a str,
    pub name: String,
    pub refresh: bool,
    pub needed_mib: u64,
}

impl Entry<'_> {
    /// The entry's folder, built by `make` if it is not there.
    pub fn get(
        &self,
        reporter: &mut Reporter,
        make: impl FnOnce(&Path, &mut Reporter) -> Result<(), Error>,
    ) -> Result<PathBuf, Error> {
        let place = self.cache.join(&self.name);
        if place.is_dir() && !self.refresh {
            return Ok(place);
        }
        fs::create_dir_all(self.cache).map_err(Error::file("creating", self.cache))?;
        let _lock = self.lock(reporter)?;
        if place.is_dir() && !self.refresh {
            return Ok(place);
        }
        self.check_space()?;
        self.remove_leftovers();
        let work = self
            .cache
            .join(format!("{}{}", self.work_prefix(), std::process::id()));
        fs::create_dir(&work).map_err(Error::file("creating", &work))?;
        match make(&work, reporter) {
            Ok(()) => self.publish(&work, &place),
            Err(error) => {
                let log = failed_log(self.cache, self.kind);
                let _ = fs::rename(work.join(LOG), &log);
                let _ = fs::remove_dir_all(&work);
                Err(error.with_log(log))
            }
        }
    }

    fn lock(&self, reporter: &mut Reporter) -> Result<File, Error> {
        let path = self.cache.join(format!(".{}.lock", self.kind));
        let file = File::create(&path).map_err(Error::file("opening", &path))?;
        if file.try_lock().is_err() {
            reporter.step(&format!("{}: waiting for another build", self.kind));
            file.lock().map_err(Error::file("locking", &path))?;
        }
        Ok(file)
    }

    fn check_space(&self) -> Result<(), Error> {
        let stat = nix::sys::statvfs::statvfs(self.cache)
            .map_err(|errno| Error::file("asking for free space on", self.cache)(errno.into()))?;
        let free_mib = stat.blocks_available() * stat.fragment_size() / (1 << 20);
        if free_mib < self.needed_mib {
            return Err(Error::NoSpace {
                path: self.cache.to_owned(),
                free_mib,
                needed_mib: self.needed_mib,
            });
        }
        Ok(())
    }

    fn work_prefix(&self) -> String {
        format!(".{}.build-", self.kind)
    }

    /// A builder that was killed leaves its folder; we hold the lock, so nobody works in it.
    fn remove_leftovers(&self) {
        for entry in fs::read_dir(self.cache).into_iter().flatten().flatten() {
            if entry
                .file_name()
                .to_string_lossy()
                .starts_with(&self.work_prefix())
            {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    fn publish(&self, work: &Path, place: &Path) -> Result<PathBuf, Error> {
        if place.is_dir() {
            let old = self.cache.join(format!("{}old", self.work_prefix()));
            fs::rename(place, &old).map_err(Error::file("moving aside", place))?;
            fs::rename(work, place).map_err(Error::file("moving into place", place))?;
            let _ = fs::remove_dir_all(&old);
        } else {
            fs::rename(work, place).map_err(Error::file("moving into place", place))?;
        }
        Ok(place.to_owned())
    }
}

pub const LOG: &str = "build.log";

/// The log is what a failed build is understood by, so it outlives the folder.
pub fn failed_log(cache: &Path, kind: &str) -> PathBuf {
    cache.join(format!("{kind}-failed.log"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(cache: &Path) -> Entry<'_> {
        Entry {
            cache,
            kind: "test",
            name: Key::new("recipe").name("test"),
            refresh: false,
            needed_mib: 1,
        }
    }

    fn get(entry: &Entry, make: impl FnOnce(&Path) -> Result<(), Error>) -> Result<PathBuf, Error> {
        let mut listen = |_| ();
        entry.get(&mut Reporter::new(&mut listen), |dir, _| make(dir))
    }

    fn visible(cache: &Path) -> Vec<String> {
        let names = fs::read_dir(cache)
            .unwrap()
            .flatten()
            .map(|e| e.file_name().into_string().unwrap());
        names.filter(|name| *name != ".test.lock").collect()
    }

    #[test]
    fn second_time_nothing_is_built() {
        let cache = tempfile::tempdir().unwrap();
        let entry = entry(cache.path());
        let place = get(&entry, |dir| {
            fs::write(dir.join("x"), "1").map_err(Error::file("writing", dir))
        })
        .unwrap();
        assert_eq!(fs::read_to_string(place.join("x")).unwrap(), "1");
        assert_eq!(get(&entry, |_| panic!("built again")).unwrap(), place);
    }

    #[test]
    fn refresh_replaces_what_was_there() {
        let cache = tempfile::tempdir().unwrap();
        let mut entry = entry(cache.path());
        for text in ["old", "new"] {
            let place = get(&entry, |dir| {
                fs::write(dir.join("x"), text).map_err(Error::file("writing", dir))
            });
            assert_eq!(fs::read_to_string(place.unwrap().join("x")).unwrap(), text);
            entry.refresh = true;
        }
        assert_eq!(visible(cache.path()).len(), 1);
    }

    #[test]
    fn failed_build_leaves_its_log_and_nothing_else() {
        let cache = tempfile::tempdir().unwrap();
        let result = get(&entry(cache.path()), |dir| {
            fs::write(dir.join(LOG), "why").unwrap();
            fs::write(dir.join("half"), "made").unwrap();
            Err(Error::NotRoot)
        });
        assert!(matches!(result, Err(Error::NotRoot)));
        assert_eq!(visible(cache.path()), ["test-failed.log"]);
    }

    #[test]
    fn leftovers_of_a_killed_builder_are_removed() {
        let cache = tempfile::tempdir().unwrap();
        fs::create_dir(cache.path().join(".test.build-1")).unwrap();
        get(&entry(cache.path()), |_| Ok(())).unwrap();
        assert_eq!(visible(cache.path()), [entry(cache.path()).name]);
    }

    #[test]
    fn too_little_space_is_said_before_building() {
        let cache = tempfile::tempdir().unwrap();
        let mut entry = entry(cache.path());
        entry.needed_mib = u64::MAX;
        assert!(matches!(
            get(&entry, |_| panic!("built")),
            Err(Error::NoSpace { .. })
        ));
    }

    #[test]
    fn keys_tell_parts_apart() {
        let name = |a, b| Key::new(a).with(b).name("k");
        assert_ne!(name("ab", "c"), name("a", "bc"));
    }
}
