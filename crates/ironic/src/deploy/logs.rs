//! The logs of agents whose work failed: kept for a person to read, the oldest dropped first.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

/// A host's whole journal compresses well; what is larger is not a log.
const MOST_BYTES: usize = 32 << 20;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the agent sent no logs")]
    Missing,
    #[error("the agent's logs are larger than {} MiB", MOST_BYTES >> 20)]
    TooLarge,
    #[error("keep the agent's logs in {path}")]
    Keep {
        path: PathBuf,
        source: std::io::Error,
    },
}

/// What was kept: where, and how the agent's own log ends.
pub struct Kept {
    pub path: PathBuf,
    pub last: Option<String>,
}

/// Keeps what `collect_system_logs` gave. Blocks.
pub fn keep(dir: &Path, node: Uuid, answer: &Value, most: usize) -> Result<Kept, Error> {
    let text = answer.get("system_logs").and_then(Value::as_str);
    let text = text.ok_or(Error::Missing)?;
    if text.len() > MOST_BYTES / 3 * 4 {
        return Err(Error::TooLarge);
    }
    let bare: String = text.split_ascii_whitespace().collect();
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(bare)
        .map_err(|_| Error::Missing)?;
    let time = Timestamp::now().strftime("%Y%m%dT%H%M%S%.3fZ");
    let path = dir.join(format!("{time}_{node}.tar.gz"));
    let failed = |source| Error::Keep {
        path: path.clone(),
        source,
    };
    std::fs::create_dir_all(dir).map_err(failed)?;
    write_private(&path, &bytes).map_err(failed)?;
    drop_oldest(dir, most);
    Ok(Kept {
        last: last_lines(&bytes),
        path,
    })
}

/// Logs of a host may hold what is no one else's business.
fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)
}

fn drop_oldest(dir: &Path, most: usize) {
    let mut names: Vec<_> = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name())
        .filter(|name| name.to_string_lossy().ends_with(".tar.gz"))
        .collect();
    // They begin with the time.
    names.sort();
    let surplus = names.len().saturating_sub(most);
    for name in names.into_iter().take(surplus) {
        _ = std::fs::remove_file(dir.join(name));
    }
}

const LINES: usize = 3;
/// Of an unpacked archive, this much is looked at.
const MOST_UNPACKED: u64 = 128 << 20;
const BLOCK: usize = 512;

/// How the journal in the archive ends, or else the kernel's messages.
fn last_lines(archive: &[u8]) -> Option<String> {
    let mut tar = Vec::new();
    let gunzip = flate2::read::GzDecoder::new(archive);
    // What can be read of a broken archive may still say why.
    _ = gunzip.take(MOST_UNPACKED).read_to_end(&mut tar);
    let mut best: Option<(usize, &[u8])> = None;
    let mut rest = tar.as_slice();
    while rest.len() >= BLOCK && rest[0] != 0 {
        let (header, after) = rest.split_at(BLOCK);
        let name = header[..100]
            .split(|byte| *byte == 0)
            .next()
            .unwrap_or_default();
        let name = String::from_utf8_lossy(name).to_lowercase();
        let size = std::str::from_utf8(&header[124..135]).unwrap_or_default();
        let size = usize::from_str_radix(size.trim_matches([' ', '\0']), 8).ok()?;
        let Some(content) = after.get(..size.min(after.len())) else {
            break;
        };
        let rank = ["agent", "journal", "messages", "dmesg"]
            .iter()
            .position(|word| name.contains(word));
        if let Some(rank) = rank
            && best.is_none_or(|(other, _)| rank < other)
            && !content.is_empty()
        {
            best = Some((rank, content));
        }
        let whole = size.div_ceil(BLOCK) * BLOCK;
        rest = after.get(whole..).unwrap_or_default();
    }
    let (_, content) = best?;
    let tail = &content[content.len().saturating_sub(4096)..];
    let text = String::from_utf8_lossy(tail);
    let lines: Vec<String> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(|line| line.chars().filter(|c| !c.is_control()).take(300).collect())
        .collect();
    let from = lines.len().saturating_sub(LINES);
    (!lines.is_empty()).then(|| lines[from..].join(" | "))
}
