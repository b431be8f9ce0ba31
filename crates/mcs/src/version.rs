//! Ignition spec versions: which one a client asks for, and a config in that version.

use serde_json::Value;

/// `3.<minor>.0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Minor(pub u64);

pub const OLDEST: Minor = Minor(1);
pub const NEWEST: Minor = Minor(5);
pub const MEDIA_TYPE: &str = "application/vnd.coreos.ignition+json";

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the Accept header cannot be read: {0:?}")]
    Accept(String),
    #[error("version {0:?} is not served; there are 3.1.0 to 3.5.0")]
    Version(String),
    #[error("the config has no version of 3.x.0")]
    NoVersion,
    #[error("the config uses {path}, which version 3.{wanted}.0 does not have")]
    TooNew { path: &'static str, wanted: u64 },
}

/// Which version to answer with; `None` if anything will do.
///
/// Ignition sends its newest version and `*/*` with a lower weight. A client newer than us gets our newest.
pub fn asked(accept: Option<&str>) -> Result<Option<Minor>, Error> {
    let Some(accept) = accept else {
        return Ok(None);
    };
    let mut best: Option<(f32, Minor)> = None;
    let mut refused = None;
    let mut anything = false;
    for item in accept.split(',') {
        let mut parts = item.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        if !kind.contains('/') {
            return Err(Error::Accept(accept.chars().take(200).collect()));
        }
        let (mut weight, mut version) = (1.0_f32, None);
        for part in parts {
            match part.split_once('=') {
                Some(("q", q)) => {
                    let bad = || Error::Accept(accept.chars().take(200).collect());
                    weight = q
                        .parse()
                        .ok()
                        .filter(|q| (0.0..=1.0).contains(q))
                        .ok_or_else(bad)?;
                }
                Some(("version", text)) => version = Some(text.trim_matches('"')),
                _ => {}
            }
        }
        match (kind, version) {
            (MEDIA_TYPE, Some(text)) => match parse(text) {
                Some(minor) if minor >= OLDEST => {
                    let candidate = (weight, minor.min(NEWEST));
                    if weight > 0.0 && best.is_none_or(|best| candidate > best) {
                        best = Some(candidate);
                    }
                }
                Some(_) | None => refused = Some(text.chars().take(40).collect()),
            },
            (MEDIA_TYPE | "*/*" | "application/*" | "application/json", _) => anything = true,
            _ => {}
        }
    }
    match (best, refused) {
        (Some((_, minor)), _) => Ok(Some(minor)),
        (None, Some(refused)) => Err(Error::Version(refused)),
        (None, None) if anything => Ok(None),
        (None, None) => Err(Error::Accept(accept.chars().take(200).collect())),
    }
}

fn parse(text: &str) -> Option<Minor> {
    let numbers: Vec<u64> = text
        .split('.')
        .map(|part| part.parse().ok())
        .collect::<Option<_>>()?;
    match numbers[..] {
        [3, minor, _] => Some(Minor(minor)),
        // Older than all of ours.
        [2, _, _] => Some(Minor(0)),
        _ => None,
    }
}

/// What came with which version; a star is every item of a list.
const SINCE: [(u64, &str); 16] = [
    (1, "ignition.proxy"),
    (1, "ignition.config.merge.*.httpHeaders"),
    (1, "ignition.config.merge.*.compression"),
    (1, "storage.files.*.contents.httpHeaders"),
    (2, "storage.luks"),
    (2, "storage.disks.*.partitions.*.resize"),
    (2, "passwd.users.*.shouldExist"),
    (2, "passwd.groups.*.shouldExist"),
    (3, "kernelArguments"),
    (3, "storage.raid.*.options"),
    (3, "storage.luks.*.clevis.custom.config"),
    (4, "storage.luks.*.discard"),
    (4, "storage.luks.*.openOptions"),
    (4, "storage.luks.*.clevis.tang.*.advertisement"),
    (5, "storage.luks.*.cex"),
    (5, "storage.luks.*.cex.enabled"),
];

/// The config in another version. Newer versions read what older ones wrote; the other way nothing may be lost.
pub fn convert(mut config: Value, wanted: Option<Minor>) -> Result<Value, Error> {
    let now = config["ignition"]["version"]
        .as_str()
        .and_then(parse)
        .filter(|minor| *minor >= Minor(0));
    let now = now.ok_or(Error::NoVersion)?;
    let Some(wanted) = wanted else {
        return Ok(config);
    };
    if wanted < now {
        for (since, path) in SINCE {
            if since > wanted.0 && present(&config, path.split('.')) {
                return Err(Error::TooNew {
                    path,
                    wanted: wanted.0,
                });
            }
        }
    }
    config["ignition"]["version"] = format!("3.{}.0", wanted.0).into();
    Ok(config)
}

fn present<'a>(value: &Value, mut path: impl Iterator<Item = &'a str> + Clone) -> bool {
    match path.next() {
        None => !value.is_null(),
        Some("*") => value
            .as_array()
            .is_some_and(|items| items.iter().any(|item| present(item, path.clone()))),
        Some(step) => value.get(step).is_some_and(|inner| present(inner, path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn the_accept_header_says_which_version() {
        for (accept, expected) in [
            (None, Ok(None)),
            (Some("*/*"), Ok(None)),
            (
                Some("application/vnd.coreos.ignition+json;version=3.2.0, */*;q=0.1"),
                Ok(Some(2)),
            ),
            (
                Some("application/vnd.coreos.ignition+json; version=\"3.5.0\""),
                Ok(Some(5)),
            ),
            (
                Some("application/vnd.coreos.ignition+json;version=3.9.0"),
                Ok(Some(5)),
            ),
            (
                Some(
                    "application/vnd.coreos.ignition+json;version=3.1.0;q=0.2, application/vnd.coreos.ignition+json;version=3.4.0;q=0.9",
                ),
                Ok(Some(4)),
            ),
            (
                Some("application/vnd.coreos.ignition+json;version=2.2.0"),
                Err(Error::Version("2.2.0".into())),
            ),
            (
                Some("application/vnd.coreos.ignition+json;version=3.0.0, */*;q=0.1"),
                Err(Error::Version("3.0.0".into())),
            ),
            (Some("nonsense"), Err(Error::Accept("nonsense".into()))),
            (Some("text/html"), Err(Error::Accept("text/html".into()))),
            (Some("*/*;q=7"), Err(Error::Accept("*/*;q=7".into()))),
        ] {
            assert_eq!(
                asked(accept),
                expected.map(|minor| minor.map(Minor)),
                "{accept:?}"
            );
        }
    }

    #[test]
    fn a_config_is_converted_where_nothing_is_lost() {
        let config = json!({"ignition": {"version": "3.2.0"}});
        for minor in 1..=5 {
            let converted = convert(config.clone(), Some(Minor(minor))).unwrap();
            assert_eq!(converted["ignition"]["version"], format!("3.{minor}.0"));
        }
        let newer = json!({"ignition": {"version": "3.3.0"}, "kernelArguments": {"shouldExist": ["quiet"]}});
        let error = convert(newer, Some(Minor(1))).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the config uses kernelArguments, which version 3.1.0 does not have"
        );
        assert_eq!(convert(json!({}), None), Err(Error::NoVersion));
    }

    proptest! {
        #[test]
        fn any_header_is_read_without_panic(text in "\\PC{0,120}") {
            _ = asked(Some(&text));
        }
    }
}
