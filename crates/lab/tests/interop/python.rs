//! A Python environment with what `REQUIREMENTS` asks for, made once and kept in the cache. Every interop test binary
//! uses this file, with requirements of its own.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::REQUIREMENTS;

/// The interpreter of an environment that has what `REQUIREMENTS` asks for.
///
/// # Panics
/// When it cannot be made: the tests need Python 3 with `venv`, and on the first run the package index.
pub fn interpreter() -> PathBuf {
    static READY: OnceLock<PathBuf> = OnceLock::new();
    READY.get_or_init(|| environment(REQUIREMENTS)).clone()
}

/// As [`interpreter`], with what this list asks for.
pub fn environment(requirements: &str) -> PathBuf {
    let home = cache().join("plinth/venv");
    let mut key = DefaultHasher::new();
    requirements.hash(&mut key);
    let ready = home.join(format!("interop-{:016x}", key.finish()));
    let python = ready.join("bin/python");
    if !python.exists() {
        std::fs::create_dir_all(&home).unwrap();
        // Made aside and moved, so that what is there is whole; the loser of a race uses the winner's.
        let making = tempfile::Builder::new()
            .prefix("making-")
            .tempdir_in(&home)
            .unwrap();
        make(making.path(), requirements);
        if let Err(error) = std::fs::rename(making.path(), &ready) {
            assert!(
                python.exists(),
                "move the environment to {}: {error}",
                ready.display()
            );
        }
    }
    python
}

fn make(at: &Path, requirements: &str) {
    let needs = "the interop tests need Python 3 with venv (Debian: python3-venv)";
    run(Command::new("python3").args(["-m", "venv"]).arg(at), needs);
    let list = at.join("requirements.txt");
    std::fs::write(&list, requirements).unwrap();
    let needs = "the interop tests need the package index on their first run";
    run(
        Command::new(at.join("bin/python"))
            .args(["-m", "pip", "install", "--quiet", "-r"])
            .arg(&list),
        needs,
    );
}

fn run(command: &mut Command, needs: &str) {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{needs}: {command:?}: {error}"));
    assert!(
        output.status.success(),
        "{needs}: {command:?} failed\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

fn cache() -> PathBuf {
    if let Some(cache) = std::env::var_os("XDG_CACHE_HOME") {
        return cache.into();
    }
    let home = std::env::var_os("HOME").expect("HOME or XDG_CACHE_HOME says where the cache is");
    PathBuf::from(home).join(".cache")
}
