//! Images: can they be fetched, how large are they, and are they the right ones?

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use futures::StreamExt as _;
use plan::preflight::{Fact, Image};
use reqwest::header::{CONTENT_LENGTH, CONTENT_RANGE, RANGE};
use reqwest::{Client, Response, StatusCode};
use sha2::{Digest, Sha256};

use super::within;

/// To hear that it is there.
const LOOK: Duration = Duration::from_secs(15);
/// To read it from end to end.
const READ: Duration = Duration::from_mins(20);

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("fetch it")]
    Fetch(#[source] reqwest::Error),
    #[error("the server answers {0}")]
    Refused(StatusCode),
    #[error("read the file")]
    File(#[source] std::io::Error),
}

pub async fn look(
    images: &BTreeMap<String, Option<String>>,
    verify: bool,
) -> BTreeMap<String, Fact<Image>> {
    let looks = images.keys().map(|source| async move {
        let (limit, image) = if verify { (READ, true) } else { (LOOK, false) };
        (source.clone(), within(limit, one(source, image)).await)
    });
    futures::future::join_all(looks).await.into_iter().collect()
}

async fn one(source: &str, verify: bool) -> Result<Image, Error> {
    if !source.starts_with("http://") && !source.starts_with("https://") {
        return file(Path::new(source.trim_start_matches("file://")), verify).await;
    }
    let client = Client::builder()
        .connect_timeout(LOOK)
        .read_timeout(LOOK)
        .build()
        .map_err(Error::Fetch)?;
    if verify {
        return whole(&client, source).await;
    }
    let head = client.head(source).send().await.map_err(Error::Fetch)?;
    if head.status().is_success() {
        return Ok(Image {
            size: size(&head),
            sha256: None,
        });
    }
    // Some servers know GET alone; one byte of it is enough.
    let first = client.get(source).header(RANGE, "bytes=0-0").send().await;
    let first = good(first.map_err(Error::Fetch)?)?;
    Ok(Image {
        size: size(&first),
        sha256: None,
    })
}

async fn whole(client: &Client, source: &str) -> Result<Image, Error> {
    let answer = good(client.get(source).send().await.map_err(Error::Fetch)?)?;
    let mut bytes = answer.bytes_stream();
    let mut sum = Sha256::new();
    let mut size = 0;
    while let Some(chunk) = bytes.next().await {
        let chunk = chunk.map_err(Error::Fetch)?;
        size += chunk.len() as u64;
        sum.update(&chunk);
    }
    Ok(Image {
        size: Some(size),
        sha256: Some(hex(&sum.finalize())),
    })
}

async fn file(path: &Path, verify: bool) -> Result<Image, Error> {
    let size = tokio::fs::metadata(path).await.map_err(Error::File)?.len();
    let sha256 = if verify {
        let path = path.to_owned();
        let summed = tokio::task::spawn_blocking(move || {
            let mut file = std::fs::File::open(path)?;
            let mut sum = Sha256::new();
            let mut buffer = vec![0; 1 << 20];
            loop {
                match file.read(&mut buffer)? {
                    0 => return Ok(hex(&sum.finalize())),
                    length => sum.update(&buffer[..length]),
                }
            }
        });
        let summed = summed.await.map_err(std::io::Error::other);
        Some(
            summed
                .and_then(|sum: std::io::Result<String>| sum)
                .map_err(Error::File)?,
        )
    } else {
        None
    };
    Ok(Image {
        size: Some(size),
        sha256,
    })
}

fn good(answer: Response) -> Result<Response, Error> {
    if answer.status().is_success() {
        Ok(answer)
    } else {
        Err(Error::Refused(answer.status()))
    }
}

/// Of the whole, also where a part was asked for: `bytes 0-0/12345`.
fn size(answer: &Response) -> Option<u64> {
    let header = |name| answer.headers().get(name)?.to_str().ok();
    match header(CONTENT_RANGE) {
        Some(range) => range.rsplit('/').next()?.parse().ok(),
        None => header(CONTENT_LENGTH)?.parse().ok(),
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut hex, byte| {
        _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// Whether the cache has an entry of the kind that each source names.
pub fn cached(sources: &[String]) -> Fact<BTreeMap<String, bool>> {
    let dir = match image::cache_dir() {
        Ok(dir) => dir,
        Err(error) => return Fact::Unknown(model::chain(&error)),
    };
    let entries: Vec<String> = match std::fs::read_dir(&dir) {
        Ok(entries) => entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect(),
        // No cache yet: nothing in it.
        Err(_) => Vec::new(),
    };
    let has = |source: &String| {
        let kind = format!("{}-", source.trim_start_matches("cache:"));
        entries.iter().any(|entry| entry.starts_with(&kind))
    };
    Fact::Known(
        sources
            .iter()
            .map(|source| (source.clone(), has(source)))
            .collect(),
    )
}
