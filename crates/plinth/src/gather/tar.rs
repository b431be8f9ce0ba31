//! An archive as tar reads it (POSIX.1-1988, ustar), from files in memory.

use std::io::{self, Write};

use jiff::Timestamp;

use super::File;

const BLOCK: usize = 512;

pub fn write(out: &mut impl Write, files: &[File], modified: Timestamp) -> io::Result<()> {
    for file in files {
        out.write_all(&header(&file.path, file.bytes.len() as u64, modified)?)?;
        out.write_all(&file.bytes)?;
        let rest = file.bytes.len() % BLOCK;
        if rest > 0 {
            out.write_all(&[0; BLOCK][rest..])?;
        }
    }
    // Two empty blocks end it.
    out.write_all(&[0; 2 * BLOCK])
}

/// ```text
///   0 name   100 mode   108 uid   116 gid   124 size   136 mtime   148 checksum   156 type   257 magic   345 prefix
/// ```
fn header(path: &str, size: u64, modified: Timestamp) -> io::Result<[u8; BLOCK]> {
    let mut header = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    let (prefix, name) = split(path).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{path:?} is too long a name"),
        )
    })?;
    put(0, name.as_bytes());
    put(100, b"0000600\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    // Eleven octal digits: 8 GiB, and more than a century from now.
    put(124, format!("{size:011o}\0").as_bytes());
    put(
        136,
        format!("{:011o}\0", modified.as_second().max(0)).as_bytes(),
    );
    put(148, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    put(345, prefix.as_bytes());
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(header)
}

/// A name of up to 100 bytes, and what is before a slash if it is longer.
fn split(path: &str) -> Option<(&str, &str)> {
    if path.len() <= 100 {
        return Some(("", path));
    }
    let slashes = path.match_indices('/').map(|(at, _)| at);
    let mut fitting = slashes.filter(|at| *at <= 155 && path.len() - at - 1 <= 100);
    fitting.next().map(|at| (&path[..at], &path[at + 1..]))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn tar_reads_what_was_written() {
        let long = format!("{}/{}", "d".repeat(90), "n".repeat(90));
        let files = [
            ("a", vec![]),
            ("b/c.json", b"{}\n".to_vec()),
            (long.as_str(), vec![7; 1024]),
        ]
        .map(|(path, bytes)| File {
            path: path.into(),
            bytes,
        });
        let mut archive = Vec::new();
        write(&mut archive, &files, Timestamp::UNIX_EPOCH).unwrap();
        let mut child = Command::new("tar")
            .args(["-tvf", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(&archive).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        let listed = String::from_utf8(output.stdout).unwrap();
        let sizes: Vec<_> = listed
            .lines()
            .map(|line| line.split_whitespace().nth(2).unwrap())
            .collect();
        assert_eq!(sizes, ["0", "3", "1024"]);
        assert!(
            listed.contains(&long) && listed.starts_with("-rw------- 0/0"),
            "{listed}"
        );
    }

    #[test]
    fn a_name_that_cannot_be_written_is_an_error() {
        assert!(header(&"x".repeat(101), 0, Timestamp::UNIX_EPOCH).is_err());
        assert_eq!(split("short"), Some(("", "short")));
    }
}
