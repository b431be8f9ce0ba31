//! Kernel settings under `/proc/sys`; those under `net` are the calling thread's namespace's.

use std::fs;
use std::io;
use std::path::PathBuf;

/// What went wrong with a setting.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{key:?} is not the name of a kernel setting")]
    Key { key: String },
    #[error("could not read kernel setting {key}")]
    Read { key: String, source: io::Error },
    #[error("could not set kernel setting {key} to {value:?}")]
    Write {
        key: String,
        value: String,
        source: io::Error,
    },
}

/// Reads a setting, such as `net.ipv4.ip_forward`.
///
/// Written with slashes, a part may contain dots: `net/ipv4/conf/eth0.5/rp_filter`.
pub fn get(key: &str) -> Result<String, Error> {
    let text = fs::read_to_string(path(key)?).map_err(|source| Error::Read {
        key: key.to_owned(),
        source,
    })?;
    Ok(text.trim_end().to_owned())
}

/// Sets it; see [`get`] for the name.
pub fn set(key: &str, value: &str) -> Result<(), Error> {
    let path = path(key)?;
    fs::write(path, value).map_err(|source| Error::Write {
        key: key.to_owned(),
        value: value.to_owned(),
        source,
    })
}

fn path(key: &str) -> Result<PathBuf, Error> {
    let parts: Vec<&str> = key
        .split(if key.contains('/') { '/' } else { '.' })
        .collect();
    if parts
        .iter()
        .any(|part| part.is_empty() || *part == "." || *part == "..")
    {
        return Err(Error::Key {
            key: key.chars().take(128).collect(),
        });
    }
    let mut path = PathBuf::from("/proc/sys");
    path.extend(parts);
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_or_slashes_separate_the_parts() {
        assert_eq!(
            path("net.ipv4.ip_forward").unwrap(),
            PathBuf::from("/proc/sys/net/ipv4/ip_forward")
        );
        assert_eq!(
            path("net/ipv4/conf/e.5/x").unwrap(),
            PathBuf::from("/proc/sys/net/ipv4/conf/e.5/x")
        );
    }

    #[test]
    fn a_name_cannot_leave_proc_sys() {
        for key in ["", "a..b", "/etc/passwd", "net/../../etc", "net/./x", "a."] {
            assert!(matches!(path(key), Err(Error::Key { .. })), "{key:?}");
        }
    }

    #[test]
    fn the_kernel_name_can_be_read() {
        assert_eq!(get("kernel.ostype").unwrap(), "Linux");
    }
}
