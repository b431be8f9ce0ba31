//! What every request passes before it reaches a resource: faults, the login, and the reading of its body.

use std::time::{Duration, Instant};

use axum::body::Body as HttpBody;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt as _;
use serde_json::{Map, Value};

use super::messages::{self as m, Problem};
use super::vendor;
use crate::bmc::{Bmc, lock};
use crate::fault::Kind;

/// The faults of this level: the BMC is away, slow, or broken.
pub async fn suffer_faults(bmc: &Bmc) -> Result<(), Problem> {
    let slow = bmc.server.faults().strikes(|kind| {
        if let Kind::BmcSlow { millis } = kind {
            Some(millis)
        } else {
            None
        }
    });
    if let Some(millis) = slow {
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }
    let broken = bmc.server.faults().strikes(|kind| {
        if let Kind::BmcError { status } = kind {
            Some(status)
        } else {
            None
        }
    });
    if let Some(status) = broken {
        let message = if status == 503 {
            m::UNAVAILABLE.with(&["5"])
        } else {
            m::INTERNAL_ERROR.with(&[])
        };
        return Err(Problem::of(status, message));
    }
    let away = bmc
        .memory()
        .away_until
        .map(|until| until.saturating_duration_since(Instant::now()));
    match away {
        Some(left) if !left.is_zero() => Err(Problem {
            retry_after: Some(left.as_secs() + 1),
            ..vendor(&bmc.personality.not_ready)
        }),
        Some(_) | None => Ok(()),
    }
}

/// A client that says which OData it speaks must speak ours.
pub fn check_version(headers: &HeaderMap) -> Result<(), Problem> {
    match headers.get("odata-version") {
        Some(version) if version != "4.0" => {
            Err(Problem::new(&m::PRECONDITION_FAILED, &[]).because("OData-Version is 4.0."))
        }
        Some(_) | None => Ok(()),
    }
}

pub fn log_in(bmc: &Bmc, headers: &HeaderMap, path: &str) -> Result<(), Problem> {
    if let Some(token) = headers.get("x-auth-token") {
        let mut sessions = lock(&bmc.sessions);
        if !sessions.admit(Instant::now(), token.to_str().unwrap_or_default()) {
            return Err(Problem::new(&m::NO_VALID_SESSION, &[]));
        }
        if bmc.server.faults().hits(Kind::DropsSessions) {
            sessions.forget_all();
            return Err(Problem::new(&m::NO_VALID_SESSION, &[]));
        }
        return Ok(());
    }
    let Some(basic) = headers.get(header::AUTHORIZATION) else {
        return Err(Problem::new(&m::NO_VALID_SESSION, &[]));
    };
    let admitted = basic
        .to_str()
        .ok()
        .and_then(|text| text.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("basic"))
        .and_then(|(_, encoded)| STANDARD.decode(encoded.trim()).ok())
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .and_then(|text| {
            text.split_once(':')
                .map(|(user, password)| bmc.credentials.admit(user, password))
        });
    if admitted == Some(true) {
        Ok(())
    } else {
        Err(Problem::new(&m::UNAUTHORIZED, &[path]))
    }
}

/// The most a body may hold.
const BODY_LIMIT: usize = 1 << 20;
const BODY_TIME: Duration = Duration::from_secs(30);

/// A body is one JSON object, or where that is enough, nothing.
pub async fn read_object(
    bmc: &Bmc,
    parts: &Parts,
    body: HttpBody,
) -> Result<Map<String, Value>, Problem> {
    let too_large = || Problem::new(&m::PAYLOAD_TOO_LARGE, &[&BODY_LIMIT.to_string()]);
    let length = parts
        .headers
        .get(header::CONTENT_LENGTH)
        .and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > BODY_LIMIT as u64) {
        return Err(too_large());
    }
    let arriving = async {
        let (mut bytes, mut body) = (vec![], body.into_data_stream());
        while let Some(chunk) = body.next().await {
            let broke_off =
                |error| Problem::new(&m::MALFORMED_JSON, &[&format!("it broke off ({error})")]);
            let chunk = chunk.map_err(broke_off)?;
            if bytes.len() + chunk.len() > BODY_LIMIT {
                return Err(too_large());
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    };
    let too_slow = |_| Problem::of(408, m::MALFORMED_JSON.with(&["it did not arrive in time"]));
    let bytes = tokio::time::timeout(BODY_TIME, arriving)
        .await
        .map_err(too_slow)??;
    if bytes.is_empty() {
        if bmc.personality.empty_body_refused || parts.method == Method::PATCH {
            return Err(Problem::new(&m::MALFORMED_JSON, &["it is empty"]));
        }
        return Ok(Map::new());
    }
    let declared = parts
        .headers
        .get(header::CONTENT_TYPE)
        .and_then(|v| v.to_str().ok())
        .unwrap_or_default();
    let media_type = declared.split(';').next().unwrap_or_default().trim();
    if !media_type.eq_ignore_ascii_case("application/json") {
        return Err(Problem::new(
            &m::MEDIA_TYPE,
            &[if declared.is_empty() {
                "nothing"
            } else {
                declared
            }],
        ));
    }
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(Problem::new(&m::MALFORMED_JSON, &["it is not an object"])),
        Err(error) => Err(Problem::new(&m::MALFORMED_JSON, &[&error.to_string()])),
    }
}
