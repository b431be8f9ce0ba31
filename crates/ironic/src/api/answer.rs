//! The bytes and headers of answers.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use uuid::Uuid;

use super::auth::Refusal;
use super::fault::Fault;
use super::request::Reply;
use super::version::{self, Version};

pub fn finish(result: Result<Reply, Fault>, version: Option<Version>) -> Response<Body> {
    let (status, body, location) = match result {
        Ok(Reply {
            status,
            body,
            location,
        }) => (status, body, location),
        Err(fault) => {
            if fault.status().is_server_error() {
                tracing::warn!(
                    status = fault.status().as_u16(),
                    text = fault.text(),
                    "request failed"
                );
            }
            (fault.status(), Some(fault.body()), None)
        }
    };
    let refused = status == StatusCode::NOT_ACCEPTABLE;
    let mut answer = answer(status, body, version.filter(|_| !refused));
    if let Some(location) = location.and_then(|location| HeaderValue::try_from(location).ok()) {
        answer.headers_mut().insert(header::LOCATION, location);
    }
    answer
}

/// A guard's refusal is the bare document, not the text inside another.
pub fn plain(fault: &Fault, version: Version) -> Response<Body> {
    answer(
        fault.status(),
        Some(fault.document().to_string().into_bytes()),
        Some(version),
    )
}

pub fn refused(refusal: &Refusal) -> Response<Body> {
    let mut answer = answer(refusal.status, Some(refusal.body()), None);
    if refusal.status == StatusCode::UNAUTHORIZED {
        let realm = HeaderValue::from_static("Basic realm=\"Baremetal API\"");
        answer.headers_mut().insert(header::WWW_AUTHENTICATE, realm);
    }
    answer
}

fn answer(status: StatusCode, body: Option<Vec<u8>>, version: Option<Version>) -> Response<Body> {
    let has_body = body.is_some();
    let mut answer = Response::new(body.map_or_else(Body::empty, Body::from));
    *answer.status_mut() = status;
    let headers: &mut HeaderMap = answer.headers_mut();
    if has_body {
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
    }
    version::announce(headers, version);
    let id = HeaderValue::try_from(format!("req-{}", Uuid::new_v4()))
        .expect("hexadecimal digits and dashes");
    if version.is_some_and(|version| version.0 >= 107) {
        headers.insert("x-openstack-request-id", id.clone());
    }
    headers.insert("openstack-request-id", id);
    headers.insert(
        header::ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static(
            "X-OpenStack-Ironic-API-Version, X-OpenStack-Ironic-API-Minimum-Version, X-OpenStack-Ironic-API-Maximum-Version",
        ),
    );
    answer
}
