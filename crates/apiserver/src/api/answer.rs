//! An answer on its way to the wire: shaped as the client asked, compressed where that pays.

use std::io::Write;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use objects::table::{self, IncludeObject};
use objects::{Kind, Status};
use serde_json::{Value, json};

use super::negotiate::{self, Shape};
use super::request;

/// What a handler gives back.
pub struct Answer {
    pub code: u16,
    pub content: Content,
    /// Shown to the person at the client, one `Warning` header each.
    pub warnings: Vec<String>,
}

pub enum Content {
    Json(Value),
    /// JSON that is already text.
    Text(Vec<u8>),
    /// Something a client may keep for as long as its tag stays the same.
    Document {
        media: &'static str,
        bytes: Bytes,
        etag: String,
    },
    /// A watch: one JSON document per line, without end.
    Stream(Body),
}

impl Answer {
    pub fn new(code: u16, content: Content) -> Self {
        Self {
            code,
            content,
            warnings: Vec::new(),
        }
    }

    pub fn json(value: Value) -> Self {
        Self::new(200, Content::Json(value))
    }

    pub fn with_warnings(mut self, warnings: Vec<String>) -> Self {
        self.warnings = warnings;
        self
    }
}

/// One object in the shape asked for.
pub fn object(kind: &Kind, object: Value, shape: Shape, query: &str, now: Timestamp) -> Value {
    match shape {
        Shape::Table => {
            let metadata =
                json!({ "resourceVersion": super::object::meta(&object, "resourceVersion") });
            table::table(kind, &[object], metadata, include(query), true, now)
        }
        Shape::Metadata => table::partial(&object),
        Shape::Object | Shape::Discovery(_) | Shape::OpenApiProtobuf => object,
    }
}

/// A list in the shape asked for.
pub fn list(
    kind: &Kind,
    items: Vec<Value>,
    metadata: Value,
    shape: Shape,
    query: &str,
    now: Timestamp,
) -> Value {
    let (api_version, list_kind, items) = match shape {
        Shape::Table => return table::table(kind, &items, metadata, include(query), true, now),
        Shape::Metadata => (
            "meta.k8s.io/v1".to_owned(),
            "PartialObjectMetadataList".to_owned(),
            items.iter().map(table::partial).collect(),
        ),
        Shape::Object | Shape::Discovery(_) | Shape::OpenApiProtobuf => {
            (kind.api_version(), kind.list_kind.clone(), items)
        }
    };
    json!({ "apiVersion": api_version, "kind": list_kind, "metadata": metadata, "items": Value::Array(items) })
}

/// What the rows of a table carry.
pub fn include(query: &str) -> IncludeObject {
    match request::value(query, "includeObject").as_deref() {
        Some("None") => IncludeObject::None,
        Some("Object") => IncludeObject::Object,
        _ => IncludeObject::Metadata,
    }
}

/// The response, whatever happened.
pub fn render(answer: Result<Answer, Status>, parts: &Parts) -> Response<Body> {
    let (answer, retry_after) = match answer {
        Ok(answer) => (answer, None),
        Err(status) => {
            let retry_after = status
                .details
                .as_ref()
                .map(|details| details.retry_after_seconds);
            (
                Answer::new(status.code, Content::Json(status.to_value())),
                retry_after.filter(|seconds| *seconds > 0),
            )
        }
    };
    let mut tag = None;
    let (media, body, encoding) = match answer.content {
        Content::Json(value) => {
            let text = serde_json::to_vec(&value).expect("a JSON value serialises");
            compressed("application/json", text.into(), parts)
        }
        Content::Text(text) => compressed("application/json", text.into(), parts),
        Content::Document { media, bytes, etag } => {
            tag = HeaderValue::from_str(&etag).ok();
            if answer.code == 304 {
                (media, Body::empty(), None)
            } else {
                compressed(media, bytes, parts)
            }
        }
        Content::Stream(body) => ("application/json", body, None),
    };
    let mut response = Response::new(body);
    *response.status_mut() =
        StatusCode::from_u16(answer.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, private"),
    );
    if let Some(tag) = tag {
        headers.insert(header::ETAG, tag);
        headers.append(header::VARY, HeaderValue::from_static("Accept"));
    }
    if let Some(encoding) = encoding {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
        headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    if let Some(seconds) = retry_after {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    for warning in answer.warnings.iter().filter_map(|text| warning(text)) {
        headers.append(HeaderName::from_static("warning"), warning);
    }
    response
}

/// `299 - "text"`, as RFC 7234 5.5 has it; what no header can carry is left out of it.
fn warning(text: &str) -> Option<HeaderValue> {
    let quoted: String = text.chars().filter(|letter| !letter.is_control()).collect();
    let quoted = quoted.replace('\\', "\\\\").replace('"', "\\\"");
    HeaderValue::from_str(&format!("299 - \"{quoted}\"")).ok()
}

/// Below this compression costs more than it saves: Kubernetes' own threshold.
const WORTH_IT: usize = 128 << 10;

fn compressed(
    media: &'static str,
    bytes: Bytes,
    parts: &Parts,
) -> (&'static str, Body, Option<&'static str>) {
    if bytes.len() < WORTH_IT || !negotiate::takes_gzip(&parts.headers) {
        return (media, Body::from(bytes), None);
    }
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 8), Compression::fast());
    match encoder.write_all(&bytes).and_then(|()| encoder.finish()) {
        Ok(smaller) => (media, Body::from(smaller), Some("gzip")),
        Err(_) => (media, Body::from(bytes), None),
    }
}
