//! Which shape of an answer the client wants: the object, a table, its metadata only, or a discovery document.

use axum::http::{HeaderMap, header};

/// How an answer is to be shaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// The object as it is.
    Object,
    /// Rows and columns for a person (`kubectl get`).
    Table,
    /// `PartialObjectMetadata` or its list.
    Metadata,
    /// Aggregated discovery, with the version of that API.
    Discovery(&'static str),
    /// OpenAPI v2 in protobuf, the only form old clients ask for.
    OpenApiProtobuf,
}

/// The first shape in the client's list that this server can make; `None` means 406.
///
/// Weights are ignored, as Kubernetes' own clients write their preference as order.
pub fn shape(headers: &HeaderMap) -> Option<Shape> {
    let mut ranges = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .peekable();
    if ranges.peek().is_none() {
        return Some(Shape::Object);
    }
    ranges
        .flat_map(|line| line.split(','))
        .find_map(|range| one(range.trim()))
}

fn one(range: &str) -> Option<Shape> {
    let mut parts = range.split(';').map(str::trim);
    let media = parts.next()?.to_ascii_lowercase();
    let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
    let parameter = |key: &str| {
        parameters
            .iter()
            .find(|(name, _)| *name == key)
            .map(|(_, value)| *value)
    };
    match media.as_str() {
        "application/json" | "application/*" | "*/*" | "" => {}
        // Old clients name the OpenAPI v2 message in the media type itself.
        "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
        | "application/com.github.proto-openapi.spec.v2.v1.0+protobuf" => {
            return Some(Shape::OpenApiProtobuf);
        }
        _ => return None,
    }
    match (parameter("as"), parameter("g"), parameter("v")) {
        (None, ..) => Some(Shape::Object),
        (Some("Table"), Some("meta.k8s.io"), Some("v1" | "v1beta1")) => Some(Shape::Table),
        (
            Some("PartialObjectMetadata" | "PartialObjectMetadataList"),
            Some("meta.k8s.io"),
            Some("v1" | "v1beta1"),
        ) => Some(Shape::Metadata),
        (Some("APIGroupDiscoveryList"), Some("apidiscovery.k8s.io"), Some("v2")) => {
            Some(Shape::Discovery("v2"))
        }
        (Some("APIGroupDiscoveryList"), Some("apidiscovery.k8s.io"), Some("v2beta1")) => {
            Some(Shape::Discovery("v2beta1"))
        }
        _ => None,
    }
}

/// Whether the client takes gzip.
pub fn takes_gzip(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .any(|line| {
            line.split(',').any(|coding| {
                let mut parts = coding.split(';').map(str::trim);
                let named = parts
                    .next()
                    .is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
                named && !parts.any(|part| part.replace(' ', "") == "q=0")
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(accept: &str) -> Option<Shape> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept.parse().expect("a header"));
        shape(&headers)
    }

    #[test]
    fn the_first_shape_we_can_make_wins() {
        let table = [
            ("application/json", Some(Shape::Object)),
            ("*/*", Some(Shape::Object)),
            (
                "application/vnd.kubernetes.protobuf, */*",
                Some(Shape::Object),
            ),
            (
                "application/vnd.kubernetes.protobuf,application/json",
                Some(Shape::Object),
            ),
            ("application/vnd.kubernetes.protobuf", None),
            (
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
                Some(Shape::Table),
            ),
            (
                "application/json;as=Chart;v=v1;g=meta.k8s.io,application/json",
                Some(Shape::Object),
            ),
            (
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                Some(Shape::Metadata),
            ),
            (
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
                Some(Shape::Metadata),
            ),
            (
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json",
                Some(Shape::Discovery("v2")),
            ),
            (
                "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
                Some(Shape::OpenApiProtobuf),
            ),
            ("application/json;stream=watch", Some(Shape::Object)),
        ];
        for (accept, expected) in table {
            assert_eq!(asked(accept), expected, "{accept}");
        }
        assert_eq!(shape(&HeaderMap::new()), Some(Shape::Object));
    }

    #[test]
    fn gzip_is_used_only_where_it_is_welcome() {
        for (text, expected) in [
            ("gzip", true),
            ("br, gzip;q=0.5", true),
            ("gzip;q=0", false),
            ("identity", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, text.parse().expect("a header"));
            assert_eq!(takes_gzip(&headers), expected, "{text}");
        }
    }
}
