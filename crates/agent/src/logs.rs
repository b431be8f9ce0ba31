//! What a person needs when a server misbehaves, as a gzipped tar archive.

use std::fs;
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::console;

/// What the kernel tells about itself; what is not there is left out.
const FILES: [&str; 14] = [
    "proc/cmdline",
    "proc/cpuinfo",
    "proc/meminfo",
    "proc/mounts",
    "proc/modules",
    "proc/partitions",
    "proc/mdstat",
    "proc/interrupts",
    "proc/uptime",
    "proc/version",
    "proc/net/dev",
    "proc/net/route",
    "proc/net/ipv6_route",
    "etc/resolv.conf",
];
const LARGEST: usize = 4 << 20;

/// Never fails: half a log is better than none.
pub fn archive(root: &Path) -> Vec<u8> {
    let mut tar = vec![];
    add(&mut tar, "agent.log", console::said().as_bytes());
    add(&mut tar, "dmesg", &linux::kernel_log::read());
    for name in FILES {
        if let Ok(mut bytes) = fs::read(root.join(name)) {
            if name == "proc/cmdline" {
                bytes = without_token(&bytes);
            }
            add(&mut tar, &name.replace('/', "_"), &bytes);
        }
    }
    tar.extend([0; 1024]);
    let mut gzip = GzEncoder::new(vec![], Compression::default());
    let packed = gzip.write_all(&tar).and_then(|()| gzip.finish());
    packed.unwrap_or_default()
}

/// The kernel line may carry the agent's password.
fn without_token(line: &[u8]) -> Vec<u8> {
    let line = String::from_utf8_lossy(line);
    let words = line.split(' ').map(|word| match word.split_once('=') {
        Some((name, _)) if name.contains("token") || name.contains("pwd") => {
            format!("{name}=******")
        }
        _ => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ").into_bytes()
}

/// One file of a tar archive (POSIX ustar): a header of 512 bytes, then the data, filled up to 512.
fn add(tar: &mut Vec<u8>, name: &str, data: &[u8]) {
    let data = &data[..data.len().min(LARGEST)];
    let mut header = [0_u8; 512];
    let mut put =
        |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, &name[..name.len().min(99)]);
    put(100, "0000644\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{:011o}\0", data.len()));
    put(136, "00000000000\0");
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    tar.extend(header);
    tar.extend(data);
    tar.resize(tar.len().next_multiple_of(512), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_is_one_that_tar_reads() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc")).unwrap();
        fs::write(
            root.path().join("proc/cmdline"),
            "quiet ipa-agent-token=secret x=y",
        )
        .unwrap();
        console::say("hello");
        let packed = root.path().join("logs.tar.gz");
        fs::write(&packed, archive(root.path())).unwrap();
        let tar = std::process::Command::new("tar")
            .args(["-xzOf"])
            .arg(&packed)
            .output()
            .expect("tar is part of every Debian");
        let text = String::from_utf8_lossy(&tar.stdout);
        assert!(
            tar.status.success(),
            "{}",
            String::from_utf8_lossy(&tar.stderr)
        );
        assert!(text.contains("hello") && text.contains("quiet ipa-agent-token=****** x=y"));
    }
}
