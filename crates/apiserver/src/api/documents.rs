//! What the server says of itself: discovery, OpenAPI and its version.
//!
//! These are large and seldom change: each is made once per set of kinds, and clients that have it already are told so.

use axum::http::{HeaderMap, header};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use objects::Status;
use objects::kinds::{Registry, Resource, discovery, openapi};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::answer::{Answer, Content};
use super::kinds::Kinds;
use super::negotiate::Shape;
use super::openapi_v2;
use super::request::{RequestInfo, Verb};

/// The Kubernetes version whose behaviour this server follows; clients choose features by it.
const MAJOR: &str = "1";
const MINOR: &str = "33";

const JSON: &str = "application/json";
const AGGREGATED_V2: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const AGGREGATED_V2BETA1: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

pub fn answer(
    kinds: &Kinds,
    info: &RequestInfo,
    shape: Shape,
    headers: &HeaderMap,
) -> Result<Answer, Status> {
    if !matches!(info.verb, Verb::Get | Verb::Head) {
        return Err(Status::method_not_supported(
            &Resource::default(),
            info.verb.as_str(),
        ));
    }
    let parts: Vec<&str> = info
        .path
        .split('/')
        .filter(|part| !part.is_empty())
        .collect();
    let media = media(&parts, shape);
    let name = format!("{} {media}", parts.join("/"));
    let bytes = kinds.document(&name, |registry| {
        if media == openapi_v2::MEDIA {
            return Some(openapi_v2::protobuf(&openapi::v2(registry)));
        }
        let document = document(registry, &parts, media)?;
        Some(serde_json::to_vec(&document).expect("a JSON value serialises"))
    });
    let bytes = bytes.ok_or_else(Status::no_such_path)?;
    let etag = format!(
        "\"{}\"",
        URL_SAFE_NO_PAD.encode(&Sha256::digest(&bytes)[..18])
    );
    let known = headers
        .get(header::IF_NONE_MATCH)
        .and_then(|tags| tags.to_str().ok());
    let unchanged = known.is_some_and(|tags| tags.split(',').any(|tag| tag.trim() == etag));
    let code = if unchanged { 304 } else { 200 };
    Ok(Answer::new(code, Content::Document { media, bytes, etag }))
}

fn media(parts: &[&str], shape: Shape) -> &'static str {
    match (parts, shape) {
        (["api" | "apis"], Shape::Discovery("v2")) => AGGREGATED_V2,
        (["api" | "apis"], Shape::Discovery(_)) => AGGREGATED_V2BETA1,
        (["openapi", "v2"], Shape::OpenApiProtobuf) => openapi_v2::MEDIA,
        _ => JSON,
    }
}

fn document(registry: &Registry, parts: &[&str], media: &str) -> Option<Value> {
    match parts {
        ["api" | "apis"] if media != JSON => {
            let version = if media == AGGREGATED_V2 {
                "v2"
            } else {
                "v2beta1"
            };
            Some(discovery::aggregated(registry, parts == ["api"], version))
        }
        ["api"] => Some(discovery::core_versions(registry)),
        ["apis"] => Some(discovery::groups(registry)),
        ["api", version] => discovery::resources(registry, "", version),
        ["apis", group] => discovery::group(registry, group),
        ["apis", group, version] => discovery::resources(registry, group, version),
        ["openapi", "v2"] => Some(openapi::v2(registry)),
        ["openapi", "v3"] => Some(openapi::index(registry)),
        ["openapi", "v3", "api", version] => openapi::v3(registry, "", version),
        ["openapi", "v3", "apis", group, version] => openapi::v3(registry, group, version),
        ["version"] => Some(version()),
        [] => Some(json!({ "paths": ["/api", "/apis", "/openapi/v2", "/openapi/v3", "/version"] })),
        _ => None,
    }
}

/// `/version`, which also answers who has not said who they are.
pub fn version() -> Value {
    json!({
        "major": MAJOR,
        "minor": MINOR,
        "gitVersion": format!("v{MAJOR}.{MINOR}.0+plinth.{}", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}
