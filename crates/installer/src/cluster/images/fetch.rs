//! An image from a URL, into the cache, if it is what was promised.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plan::assets::payload;
use plan::cluster::Image;
use plan::install::Problem;
use sha2::{Digest as _, Sha256};

use super::Lack;
use crate::progress::Tell;

const CONNECT: Duration = Duration::from_secs(10);
/// A first byte, and no longer pause than this between two.
const SILENCE: Duration = Duration::from_mins(1);
/// Between two words about how far it is.
const TOLD: Duration = Duration::from_secs(10);

/// Named by its checksum in `dir`; what is there already is not fetched again.
pub(super) async fn fetch(image: &Image, dir: &Path, tell: &mut dyn Tell) -> Result<PathBuf, Lack> {
    let source = &image.source;
    let unfit = |what: &str, remedy: &str| {
        Lack::Unfit(Problem {
            subject: source.clone(),
            what: what.to_owned(),
            remedy: remedy.to_owned(),
        })
    };
    let Some(sha256) = &image.sha256 else {
        let remedy = "add ?sha256=... to it in install-config.yaml";
        return Err(unfit("it has no checksum", remedy));
    };
    let format = payload::os_image(source).rsplit('.').next();
    let path = dir.join(format!("{sha256}.{}", format.unwrap_or_default()));
    if path.exists() {
        return Ok(path);
    }
    std::fs::create_dir_all(dir)?;
    tell.note(source);
    let client = reqwest::Client::builder()
        .connect_timeout(CONNECT)
        .read_timeout(SILENCE)
        .build()?;
    let mut answer = client.get(source).send().await?.error_for_status()?;
    let mut far = Far::new(answer.content_length());
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    let mut digest = Sha256::new();
    while let Some(chunk) = answer.chunk().await? {
        digest.update(&chunk);
        file.write_all(&chunk)?;
        if let Some(words) = far.more(chunk.len() as u64, Instant::now()) {
            tell.note(&format!("{source}: {words}"));
        }
    }
    let found = crate::dir::hex(&digest.finalize());
    if found != *sha256 {
        let what = format!("its checksum is {found}, not {sha256} as install-config.yaml says");
        let remedy =
            "give the image or its checksum, whichever is right, and run the same command again";
        return Err(unfit(&what, remedy));
    }
    file.as_file().sync_all()?;
    file.persist(&path)?;
    Ok(path)
}

/// How far it is, and when that was told last.
struct Far {
    all: Option<u64>,
    bytes: u64,
    told: (Instant, u64),
}

impl Far {
    fn new(all: Option<u64>) -> Self {
        Self {
            all: all.filter(|all| *all > 0),
            bytes: 0,
            told: (Instant::now(), 0),
        }
    }

    /// So much more has come; words about it if it is time for them.
    fn more(&mut self, bytes: u64, now: Instant) -> Option<String> {
        self.bytes += bytes;
        let (then, before) = self.told;
        let since = now.saturating_duration_since(then);
        if since < TOLD {
            return None;
        }
        self.told = (now, self.bytes);
        let rate = (self.bytes - before) as f64 / since.as_secs_f64() / 1e6;
        let far = match self.all {
            Some(all) => format!("{} %", self.bytes.saturating_mul(100) / all),
            None => format!("{} MB", self.bytes / 1_000_000),
        };
        Some(format!("{far}, {rate:.1} MB/s"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_far_it_is_is_told_now_and_then() {
        let mut far = Far::new(Some(400_000_000));
        let start = far.told.0;
        assert_eq!(far.more(50_000_000, start + TOLD / 2), None);
        let words = far.more(50_000_000, start + TOLD);
        assert_eq!(words.as_deref(), Some("25 %, 10.0 MB/s"));
        assert_eq!(far.more(1, start + TOLD), None);
        let mut unknown = Far::new(None);
        let start = unknown.told.0;
        let words = unknown.more(7_000_000, start + TOLD);
        assert_eq!(words.as_deref(), Some("7 MB, 0.7 MB/s"));
    }
}
