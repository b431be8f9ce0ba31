//! Bodies of requests: read within limits, before anything looks into them.

use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};

use super::fault::Fault;

/// How large a body may be: config drives and inventories are larger than the rest.
pub fn limit(path: &[String]) -> usize {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    match path.as_slice() {
        ["nodes", _, "states", "provision"] => 64 << 20,
        ["continue_inspection"] => 16 << 20,
        _ => 1 << 20,
    }
}

/// How deep JSON may be nested, and how long a client may take to send it.
const DEPTH: usize = 25;
const BODY_TIME: Duration = Duration::from_mins(1);

pub async fn read(body: Body, limit: usize) -> Result<Bytes, Fault> {
    let read = tokio::time::timeout(BODY_TIME, Limited::new(body, limit).collect()).await;
    let read = read.map_err(|_| {
        Fault::new(
            StatusCode::REQUEST_TIMEOUT,
            "The body took too long to arrive.",
        )
    })?;
    let body = match read {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            return Err(Fault::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("The body is larger than {limit} bytes."),
            ));
        }
        Err(_) => return Err(Fault::bad_request("The body did not arrive whole.")),
    };
    if too_deep(&body) {
        return Err(Fault::bad_request(format!(
            "The body is nested deeper than {DEPTH} levels."
        )));
    }
    Ok(body)
}

/// Counts brackets outside of texts, so that a parser is never given what could exhaust it.
fn too_deep(body: &[u8]) -> bool {
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    for byte in body {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'{' | b'[' if !in_text => {
                depth += 1;
                if depth > DEPTH {
                    return true;
                }
            }
            b'}' | b']' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}
