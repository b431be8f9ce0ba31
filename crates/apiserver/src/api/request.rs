//! What a request asks for, read from its method and address alone.
//!
//! ```text
//! /api/v1/namespaces/{ns}/{plural}/{name}/{subresource}
//! /apis/{group}/{version}/namespaces/{ns}/{plural}/{name}/{subresource}
//! /apis/{group}/{version}/{plural}/{name}/{subresource}
//! ```
//!
//! Routing, access checks and the audit log all use this one reading, so they cannot disagree.

use axum::http::{Method, Uri};

/// The question a request asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestInfo {
    pub verb: Verb,
    pub path: String,
    /// `None` for addresses that name no resource: discovery, health, OpenAPI.
    pub resource: Option<Resource>,
}

/// Where a resource request points.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Resource {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    pub plural: String,
    pub subresource: Option<String>,
    pub namespace: Option<String>,
    pub name: Option<String>,
}

/// Kubernetes' verbs; the last four are methods on addresses that are not resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
    Post,
    Put,
    Head,
    Options,
}

impl Verb {
    /// The word rules, audit lines and metrics use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Post => "post",
            Self::Put => "put",
            Self::Head => "head",
            Self::Options => "options",
        }
    }
}

/// Reads a request's method and address. Total: every address means something, if only "not a resource".
pub fn parse(method: &Method, uri: &Uri) -> RequestInfo {
    let path = uri.path().to_owned();
    match resource(&path) {
        Some((mut resource, watched)) => {
            let verb = resource_verb(method, uri.query().unwrap_or(""), watched, &mut resource);
            RequestInfo {
                verb,
                path,
                resource: Some(resource),
            }
        }
        None => RequestInfo {
            verb: plain_verb(method),
            path,
            resource: None,
        },
    }
}

/// The resource a path names, and whether it was asked through the old `/watch/` prefix.
fn resource(path: &str) -> Option<(Resource, bool)> {
    let decoded: Vec<String> = path
        .split('/')
        .filter(|part| !part.is_empty())
        .map(percent_decode)
        .collect();
    let mut parts = decoded.into_iter().peekable();
    let (group, version) = match parts.next()?.as_str() {
        "api" => (String::new(), parts.next()?),
        "apis" => (parts.next()?, parts.next()?),
        _ => return None,
    };
    let watched = parts.next_if(|part| part == "watch").is_some();
    let mut rest: Vec<String> = parts.collect();
    if rest.is_empty() {
        return None;
    }
    let mut namespace = None;
    // `namespaces/x` and `namespaces/x/status` are the namespace itself; anything longer is inside it.
    let is_namespace_itself =
        rest.len() < 3 || (rest.len() == 3 && matches!(rest[2].as_str(), "status" | "finalize"));
    if rest[0] == "namespaces" && is_namespace_itself {
        namespace = rest.get(1).cloned();
    } else if rest[0] == "namespaces" {
        namespace = Some(rest[1].clone());
        rest.drain(..2);
    }
    if rest.len() > 3 {
        // Proxy addresses (`/proxy/a/b`) carry a tail; nothing here serves them, but they are still the subresource's.
        rest.truncate(3);
    }
    let mut rest = rest.into_iter();
    let plural = rest.next()?;
    let resource = Resource {
        group,
        version,
        plural,
        namespace,
        name: rest.next(),
        subresource: rest.next(),
    };
    Some((resource, watched))
}

fn resource_verb(method: &Method, query: &str, watched: bool, resource: &mut Resource) -> Verb {
    match *method {
        Method::GET | Method::HEAD => {
            let wants_watch = watched || flag(query, "watch");
            if resource.name.is_some()
                && !watched
                && !(wants_watch && resource.subresource.is_none())
            {
                return Verb::Get;
            }
            if resource.name.is_none() {
                resource.name = name_in_field_selector(query);
            }
            if wants_watch { Verb::Watch } else { Verb::List }
        }
        Method::POST => Verb::Create,
        Method::PUT => Verb::Update,
        Method::PATCH => Verb::Patch,
        Method::DELETE if resource.name.is_some() => Verb::Delete,
        Method::DELETE => Verb::DeleteCollection,
        _ => plain_verb(method),
    }
}

fn plain_verb(method: &Method) -> Verb {
    match *method {
        Method::GET => Verb::Get,
        Method::HEAD => Verb::Head,
        Method::POST => Verb::Post,
        Method::PUT => Verb::Put,
        Method::PATCH => Verb::Patch,
        Method::DELETE => Verb::Delete,
        _ => Verb::Options,
    }
}

/// `fieldSelector=metadata.name=x` on a list is a request for x: a rule with resourceNames may allow it.
fn name_in_field_selector(query: &str) -> Option<String> {
    let selector = value(query, "fieldSelector")?;
    selector.split(',').find_map(|term| {
        let (key, name) = term.split_once("==").or_else(|| term.split_once('='))?;
        (key == "metadata.name" && !name.is_empty()).then(|| name.to_owned())
    })
}

/// Kubernetes' reading of a boolean parameter: present and not `0` or `false`.
pub(super) fn flag(query: &str, key: &str) -> bool {
    value(query, key)
        .is_some_and(|text| !matches!(text.to_ascii_lowercase().as_str(), "0" | "false"))
}

pub(super) fn value(query: &str, key: &str) -> Option<String> {
    url::form_urlencoded::parse(query.as_bytes())
        .find(|(name, _)| name == key)
        .map(|(_, text)| text.into_owned())
}

/// Decodes `%41`; what is no valid escape or no UTF-8 stays as it was written.
fn percent_decode(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        let mut ahead = bytes.clone();
        let pair = (byte == b'%')
            .then(|| Some((hex(ahead.next()?)?, hex(ahead.next()?)?)))
            .flatten();
        if let Some((high, low)) = pair {
            out.push(high << 4 | low);
            bytes = ahead;
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| text.to_owned())
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(method: &str, uri: &str) -> RequestInfo {
        parse(
            &method.parse().expect("a method"),
            &uri.parse().expect("an address"),
        )
    }

    /// verb, group/version, namespace, plural, name, subresource with `-` for none.
    fn line(info: &RequestInfo) -> String {
        let Some(at) = &info.resource else {
            return format!("{} {}", info.verb.as_str(), info.path);
        };
        let or = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
        let version = format!("{}/{}", at.group, at.version);
        [
            info.verb.as_str().to_owned(),
            version,
            or(&at.namespace),
            at.plural.clone(),
            or(&at.name),
            or(&at.subresource),
        ]
        .join(" ")
    }

    #[test]
    fn every_form_of_address_is_understood() {
        let table = [
            ("GET", "/api/v1/pods", "list /v1 - pods - -"),
            ("GET", "/api/v1/namespaces", "list /v1 - namespaces - -"),
            ("GET", "/api/v1/namespaces/a", "get /v1 a namespaces a -"),
            (
                "PUT",
                "/api/v1/namespaces/a/finalize",
                "update /v1 a namespaces a finalize",
            ),
            (
                "GET",
                "/api/v1/namespaces/a/secrets",
                "list /v1 a secrets - -",
            ),
            (
                "GET",
                "/api/v1/namespaces/a/secrets/b",
                "get /v1 a secrets b -",
            ),
            (
                "PATCH",
                "/apis/metal3.io/v1alpha1/namespaces/a/baremetalhosts/b/status",
                "patch metal3.io/v1alpha1 a baremetalhosts b status",
            ),
            (
                "DELETE",
                "/apis/metal3.io/v1alpha1/namespaces/a/baremetalhosts",
                "deletecollection metal3.io/v1alpha1 a baremetalhosts - -",
            ),
            ("DELETE", "/api/v1/nodes/n", "delete /v1 - nodes n -"),
            ("GET", "/api/v1/nodes?watch=true", "watch /v1 - nodes - -"),
            ("GET", "/api/v1/nodes?watch=0", "list /v1 - nodes - -"),
            ("GET", "/api/v1/watch/nodes/n", "watch /v1 - nodes n -"),
            (
                "GET",
                "/api/v1/nodes?fieldSelector=metadata.name%3Dn1",
                "list /v1 - nodes n1 -",
            ),
            (
                "POST",
                "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                "create authorization.k8s.io/v1 - selfsubjectaccessreviews - -",
            ),
            (
                "GET",
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
                "get rbac.authorization.k8s.io/v1 - clusterroles system:node -",
            ),
            (
                "GET",
                "/apis/metal3.io/v1alpha1",
                "get /apis/metal3.io/v1alpha1",
            ),
            ("GET", "/apis", "get /apis"),
            ("POST", "/healthz", "post /healthz"),
        ];
        for (method, uri, expected) in table {
            assert_eq!(line(&read(method, uri)), expected, "{method} {uri}");
        }
    }

    proptest! {
        #[test]
        fn any_path_is_read_without_panic(path in "/[ -~]{0,60}") {
            let Ok(uri) = path.parse::<Uri>() else { return Ok(()) };
            let info = parse(&Method::GET, &uri);
            prop_assert_eq!(info.path, uri.path());
        }
    }
}
