//! Boot files over HTTP: what iPXE and UEFI fetch kernels, ramdisks and scripts with. Whole or in part.

use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream;

use super::shelf::{self, Item, Shelf};

/// The shelf as an application.
pub fn app(shelf: Shelf) -> Router {
    Router::new().fallback(get).with_state(shelf)
}

/// Told where each piece that was sent ends.
pub type Watch = Box<dyn FnMut(u64) + Send>;

async fn get(State(shelf): State<Shelf>, request: Request) -> Response {
    if let Some(refusal) = refuse_method(&request) {
        return refusal;
    }
    let name = decode(request.uri().path());
    from_shelves(vec![shelf], name, request, None).await
}

/// Anything but reading is refused.
pub fn refuse_method(request: &Request) -> Option<Response> {
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return None;
    }
    let allow = [(header::ALLOW, "GET, HEAD")];
    let refusal = (
        StatusCode::METHOD_NOT_ALLOWED,
        allow,
        "files are read here\n",
    );
    Some(refusal.into_response())
}

/// A file by its decoded name, from the first shelf that has it.
pub async fn from_shelves(
    shelves: Vec<Shelf>,
    name: String,
    request: Request,
    watch: Option<Watch>,
) -> Response {
    let find = move || {
        let mut found = Err(shelf::Error::NotFound(name.clone()));
        for shelf in shelves {
            found = shelf.open(&name);
            if !matches!(found, Err(shelf::Error::NotFound(_))) {
                break;
            }
        }
        found
    };
    let found = tokio::task::spawn_blocking(find).await;
    match found {
        Ok(Ok(item)) => answer(&request, item, watch),
        Ok(Err(error)) => refuse(&error),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

fn refuse(error: &shelf::Error) -> Response {
    let status = match error {
        shelf::Error::NotFound(_) => StatusCode::NOT_FOUND,
        shelf::Error::Outside(_) => StatusCode::FORBIDDEN,
        shelf::Error::Read(..) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    (status, format!("{error}\n")).into_response()
}

/// The item, or the part of it that is asked for.
pub fn answer(request: &Request, item: Item, watch: Option<Watch>) -> Response {
    let size = item.size();
    let (status, range) = match wanted(request.headers(), size) {
        Wanted::Whole => (StatusCode::OK, 0..=size.saturating_sub(1)),
        Wanted::Part(range) => (StatusCode::PARTIAL_CONTENT, range),
        Wanted::Nothing => {
            let unsatisfied = [(header::CONTENT_RANGE, format!("bytes */{size}"))];
            return (StatusCode::RANGE_NOT_SATISFIABLE, unsatisfied).into_response();
        }
    };
    let length = if size == 0 {
        0
    } else {
        range.end() - range.start() + 1
    };
    let mut response = Response::new(match *request.method() {
        Method::HEAD => Body::empty(),
        _ => Body::from_stream(pieces(item, *range.start(), length, watch)),
    });
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/octet-stream"),
    );
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if status == StatusCode::PARTIAL_CONTENT {
        let text = format!("bytes {}-{}/{size}", range.start(), range.end());
        let value = HeaderValue::from_str(&text).expect("numbers and dashes make a header");
        headers.insert(header::CONTENT_RANGE, value);
    }
    response
}

#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Whole,
    Part(RangeInclusive<u64>),
    /// A part that is not there.
    Nothing,
}

/// What of the file is asked for (RFC 9110, 14). Several ranges, or ones that cannot be read, mean the whole.
fn wanted(headers: &HeaderMap, size: u64) -> Wanted {
    let Some(text) = headers
        .get(header::RANGE)
        .and_then(|value| value.to_str().ok())
    else {
        return Wanted::Whole;
    };
    let Some((first, last)) = text
        .strip_prefix("bytes=")
        .and_then(|range| range.trim().split_once('-'))
    else {
        return Wanted::Whole;
    };
    match (first.parse::<u64>(), last.parse::<u64>()) {
        (Ok(first), Ok(last)) if first > last => Wanted::Whole,
        (Ok(first), _) if first >= size && (last.is_empty() || last.parse::<u64>().is_ok()) => {
            Wanted::Nothing
        }
        (Ok(first), Ok(last)) => Wanted::Part(first..=last.min(size - 1)),
        (Ok(first), Err(_)) if last.is_empty() => Wanted::Part(first..=size - 1),
        (Err(_), Ok(0)) if first.is_empty() => Wanted::Nothing,
        (Err(_), Ok(_)) if first.is_empty() && size == 0 => Wanted::Nothing,
        (Err(_), Ok(suffix)) if first.is_empty() => {
            Wanted::Part(size.saturating_sub(suffix)..=size - 1)
        }
        (Ok(_) | Err(_), Ok(_) | Err(_)) => Wanted::Whole,
    }
}

/// Read as the client takes it, a piece at a time.
const PIECE: u64 = 64 << 10;

fn pieces(
    item: Item,
    offset: u64,
    length: u64,
    watch: Option<Watch>,
) -> impl futures::Stream<Item = io::Result<Bytes>> {
    stream::unfold(
        (Arc::new(item), offset, length, watch),
        |(item, offset, left, mut watch)| async move {
            if left == 0 {
                return None;
            }
            let length = left.min(PIECE);
            let source = item.clone();
            let read = tokio::task::spawn_blocking(move || {
                let mut buffer = vec![0; length as usize];
                source
                    .read(offset, &mut buffer)
                    .map(|()| Bytes::from(buffer))
            });
            let piece = read
                .await
                .unwrap_or_else(|error| Err(io::Error::other(error)));
            // After an error the connection breaks: the client sees that the file is not whole.
            let left = if piece.is_ok() { left - length } else { 0 };
            if let Some(watch) = watch.as_mut().filter(|_| piece.is_ok()) {
                watch(offset + length);
            }
            Some((piece, (item, offset + length, left, watch)))
        },
    )
}

/// `%2e` and its like, as far as they are well-formed.
pub fn decode(path: &str) -> String {
    let mut bytes = vec![];
    let mut rest = path.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let hex = tail
            .get(..2)
            .and_then(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok());
        match hex {
            Some(value) if byte == b'%' => {
                bytes.push(value);
                rest = &tail[2..];
            }
            Some(_) | None => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    async fn ask(method: &str, path: &str, range: Option<&str>) -> (u16, HeaderMap, Vec<u8>) {
        let shelf = Shelf::new("/nonexistent".into());
        let content: Vec<u8> = (0..600_000_u32).map(|n| (n % 251) as u8).collect();
        shelf.put("file", content);
        shelf.put("empty", *b"");
        let mut request = Request::builder().method(method).uri(path);
        if let Some(range) = range {
            request = request.header(header::RANGE, range);
        }
        let response = app(shelf)
            .oneshot(request.body(Body::empty()).unwrap())
            .await
            .unwrap();
        let (head, body) = response.into_parts();
        (
            head.status.as_u16(),
            head.headers,
            body.collect().await.unwrap().to_bytes().to_vec(),
        )
    }

    #[tokio::test]
    async fn ranges_give_the_bytes_they_name() {
        for (range, status, from, to) in [
            (None, 200, 0, 600_000),
            (Some("bytes=0-0"), 206, 0, 1),
            (Some("bytes=100-199"), 206, 100, 200),
            (Some("bytes=599990-"), 206, 599_990, 600_000),
            (Some("bytes=-10"), 206, 599_990, 600_000),
            (Some("bytes=0-99999999"), 206, 0, 600_000),
            (Some("bytes=5-2"), 200, 0, 600_000),
            (Some("bytes=0-1,5-6"), 200, 0, 600_000),
            (Some("lines=1-2"), 200, 0, 600_000),
        ] {
            let (got, headers, body) = ask("GET", "/file", range).await;
            assert_eq!(got, status, "{range:?}");
            assert_eq!(
                headers[header::CONTENT_LENGTH],
                (to - from).to_string(),
                "{range:?}"
            );
            let right = body
                .iter()
                .enumerate()
                .all(|(n, byte)| *byte == ((n + from) % 251) as u8);
            assert!(right && body.len() == to - from, "{range:?}");
        }
        let (status, headers, _) = ask("GET", "/file", Some("bytes=600000-")).await;
        assert_eq!(
            (status, headers[header::CONTENT_RANGE].to_str().unwrap()),
            (416, "bytes */600000")
        );
        assert_eq!(ask("GET", "/empty", None).await.2.len(), 0);
        assert_eq!(ask("GET", "/empty", Some("bytes=0-1")).await.0, 416);
    }

    #[tokio::test]
    async fn head_and_refusals_have_their_status() {
        let (status, headers, body) = ask("HEAD", "/file", None).await;
        assert_eq!((status, body.len()), (200, 0));
        assert_eq!(headers[header::CONTENT_LENGTH], "600000");
        for (method, path, status) in [
            ("POST", "/file", 405),
            ("GET", "/nothing", 404),
            ("GET", "/%2e%2e/etc/passwd", 403),
            ("GET", "/", 404),
            ("GET", "/%zz", 404),
        ] {
            assert_eq!(ask(method, path, None).await.0, status, "{method} {path}");
        }
    }
}
