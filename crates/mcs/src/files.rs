//! Payload files by their checksum, whole or in part.

use std::io::SeekFrom;
use std::path::Path;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures::stream;
use model::payload::is_sha256;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};

use crate::payload;

const PIECE: usize = 256 << 10;

/// Where files are: by their checksum, or under the name that the payload's list gives for it.
pub struct Places<'a> {
    pub files: Option<&'a Path>,
    pub payload: &'a Path,
}

impl Places<'_> {
    async fn open(&self, sha256: &str) -> Option<tokio::fs::File> {
        if !is_sha256(sha256) {
            return None;
        }
        if let Some(files) = self.files
            && let Ok(file) = tokio::fs::File::open(files.join(sha256)).await
        {
            return Some(file);
        }
        let index = payload::read(self.payload).await?;
        let entry = index.by_sha256(sha256)?;
        let file = tokio::fs::File::open(self.payload.join(&entry.name)).await;
        file.ok()
    }
}

/// The file or the range asked for, and how many bytes that is.
pub async fn serve(
    places: &Places<'_>,
    name: &str,
    headers: &HeaderMap,
    head: bool,
) -> (Response, u64) {
    let missing = || (StatusCode::NOT_FOUND, "there is no such file here\n").into_response();
    let Some(mut file) = places.open(name).await else {
        return (missing(), 0);
    };
    let Ok(size) = file.metadata().await.map(|metadata| metadata.len()) else {
        return (missing(), 0);
    };
    let range = headers
        .get(header::RANGE)
        .and_then(|value| value.to_str().ok());
    let (status, start, length) = match range.map(|range| wanted(range, size)) {
        None | Some(Wanted::Whole) => (StatusCode::OK, 0, size),
        Some(Wanted::Part(start, length)) => (StatusCode::PARTIAL_CONTENT, start, length),
        Some(Wanted::Nothing) => {
            let unsatisfied = [(header::CONTENT_RANGE, format!("bytes */{size}"))];
            return (
                (StatusCode::RANGE_NOT_SATISFIABLE, unsatisfied).into_response(),
                0,
            );
        }
    };
    if file.seek(SeekFrom::Start(start)).await.is_err() {
        return (StatusCode::INTERNAL_SERVER_ERROR.into_response(), 0);
    }
    let body = if head {
        Body::empty()
    } else {
        Body::from_stream(pieces(file, length))
    };
    let mut response = (
        status,
        [
            (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
            (header::CONTENT_LENGTH, length.to_string()),
            (header::ACCEPT_RANGES, "bytes".to_owned()),
            (header::ETAG, format!("\"{name}\"")),
        ],
        body,
    )
        .into_response();
    if status == StatusCode::PARTIAL_CONTENT {
        let text = format!("bytes {start}-{}/{size}", start + length - 1);
        response.headers_mut().insert(
            header::CONTENT_RANGE,
            text.parse().expect("numbers make a header"),
        );
    }
    (response, length)
}

fn pieces(
    file: tokio::fs::File,
    length: u64,
) -> impl futures::Stream<Item = std::io::Result<Bytes>> {
    stream::try_unfold((file, length), |(mut file, left)| async move {
        if left == 0 {
            return Ok(None);
        }
        let mut piece = vec![0; PIECE.min(usize::try_from(left).unwrap_or(PIECE))];
        let read = file.read(&mut piece).await?;
        if read == 0 {
            return Err(std::io::Error::other("the file became shorter"));
        }
        piece.truncate(read);
        Ok(Some((Bytes::from(piece), (file, left - read as u64))))
    })
}

#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Whole,
    Part(u64, u64),
    Nothing,
}

/// One range (RFC 9110, 14.1.2); several, or what cannot be read, mean the whole.
fn wanted(range: &str, size: u64) -> Wanted {
    let Some(range) = range
        .strip_prefix("bytes=")
        .filter(|range| !range.contains(','))
    else {
        return Wanted::Whole;
    };
    let Some((first, last)) = range.split_once('-') else {
        return Wanted::Whole;
    };
    match (first.trim(), last.trim()) {
        ("", suffix) => match suffix.parse::<u64>() {
            Ok(0) => Wanted::Nothing,
            Ok(suffix) if size > 0 => Wanted::Part(size.saturating_sub(suffix), suffix.min(size)),
            Ok(_) => Wanted::Nothing,
            Err(_) => Wanted::Whole,
        },
        (first, last) => {
            let Ok(first) = first.parse::<u64>() else {
                return Wanted::Whole;
            };
            let last = match last {
                "" => size.saturating_sub(1),
                last => match last.parse::<u64>() {
                    Ok(last) if last >= first => last.min(size.saturating_sub(1)),
                    Ok(_) | Err(_) => return Wanted::Whole,
                },
            };
            if first < size {
                Wanted::Part(first, last - first + 1)
            } else {
                Wanted::Nothing
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_the_standard_says() {
        for (range, size, expected) in [
            ("bytes=0-3", 10, Wanted::Part(0, 4)),
            ("bytes=4-", 10, Wanted::Part(4, 6)),
            ("bytes=-3", 10, Wanted::Part(7, 3)),
            ("bytes=-30", 10, Wanted::Part(0, 10)),
            ("bytes=8-99", 10, Wanted::Part(8, 2)),
            ("bytes=10-", 10, Wanted::Nothing),
            ("bytes=0-", 0, Wanted::Nothing),
            ("bytes=-0", 10, Wanted::Nothing),
            ("bytes=3-1", 10, Wanted::Whole),
            ("bytes=0-1,3-4", 10, Wanted::Whole),
            ("lines=0-1", 10, Wanted::Whole),
        ] {
            assert_eq!(wanted(range, size), expected, "{range} of {size}");
        }
    }
}
