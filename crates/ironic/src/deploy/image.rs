//! What `instance_info` says is to be written, and what the agent is told of it.

use serde_json::{Value, json};

use super::checksum::Checksum;
use super::{Settings, Source};
use crate::record::{Node, Object};

/// The image of an instance, as the client described it.
#[derive(Debug, Clone, PartialEq)]
pub struct Image {
    pub source: String,
    pub kind: Kind,
    pub format: Option<String>,
    pub check: Check,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The agent fetches it from where it is.
    Remote,
    /// We fetch it and serve it.
    Served,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Check {
    Known(Checksum),
    /// A file of checksums beside the image.
    Listed(String),
    /// Nobody said; only for files of our own.
    Unknown,
}

impl Image {
    /// Everything that is wrong with it, or the image.
    pub fn of(node: &Node, settings: &Settings) -> Result<Self, Vec<String>> {
        let info = &node.instance_info;
        let mut problems = Vec::new();
        let text = |key: &str| {
            let text = info.get(key).and_then(Value::as_str).map(str::trim);
            text.filter(|text| !text.is_empty())
        };
        let source = text("image_source").unwrap_or_default().to_string();
        let scheme = source
            .split("://")
            .next()
            .unwrap_or_default()
            .to_lowercase();
        match scheme.as_str() {
            "http" | "https" | "file" if source.contains("://") => {}
            _ if source.is_empty() => {
                problems.push("instance_info.image_source: is required".into());
            }
            _ => problems.push(format!(
                "instance_info.image_source: {source:?} must begin with http://, https:// or file://"
            )),
        }
        if text("image_type").is_some_and(|kind| kind != "whole-disk") {
            problems.push("instance_info.image_type: only whole-disk images can be written".into());
        }
        let check = check(&text, &mut problems);
        if check == Check::Unknown && scheme != "file" && problems.is_empty() {
            problems.push(
                "instance_info.image_checksum: is required for an image from the network; or image_os_hash_algo and image_os_hash_value".into(),
            );
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let chosen = [&node.instance_info, &node.driver_info]
            .into_iter()
            .find_map(|info| info.get("image_download_source").and_then(Value::as_str));
        let local = match chosen {
            Some(chosen) => chosen == "local",
            None => settings.image_download_source == Source::Local,
        };
        Ok(Self {
            kind: if local || scheme == "file" {
                Kind::Served
            } else {
                Kind::Remote
            },
            format: text("image_disk_format").map(str::to_lowercase),
            source,
            check,
        })
    }

    /// The last element of the address.
    pub fn name(&self) -> &str {
        let path = self.source.split(['?', '#']).next().unwrap_or_default();
        path.trim_end_matches('/')
            .rsplit('/')
            .next()
            .unwrap_or(path)
    }
}

fn check<'a>(text: &impl Fn(&str) -> Option<&'a str>, problems: &mut Vec<String>) -> Check {
    match (text("image_os_hash_algo"), text("image_os_hash_value")) {
        (Some(algorithm), Some(value)) => match Checksum::parse_as(algorithm, value) {
            Ok(checksum) => return Check::Known(checksum),
            Err(problem) => problems.push(format!("instance_info.image_os_hash_algo: {problem}")),
        },
        (Some(_), None) => problems.push("instance_info.image_os_hash_value: is required".into()),
        (None, Some(_)) => problems.push("instance_info.image_os_hash_algo: is required".into()),
        (None, None) => {}
    }
    match text("image_checksum") {
        None => Check::Unknown,
        Some(url) if url.contains("://") => Check::Listed(url.to_string()),
        Some(hex) => match Checksum::parse(hex) {
            Ok(checksum) => Check::Known(checksum),
            Err(problem) => {
                problems.push(format!("instance_info.image_checksum: {problem}"));
                Check::Unknown
            }
        },
    }
}

/// Where the agent finds the image, and its checksum: settled before the host is touched, and kept with the node.
#[derive(Debug, Clone, PartialEq)]
pub struct Ready {
    pub url: String,
    pub checksum: Checksum,
}

/// Under which it is kept in `instance_info`; the API shows stars in its place.
const URL: &str = "image_url";
/// Under which it is kept in `driver_internal_info`.
const CHECKSUM: &str = "image_checksum";

impl Ready {
    pub fn keep(&self, node: &mut Node) {
        node.instance_info
            .insert(URL.into(), self.url.clone().into());
        let info = &mut node.driver_internal_info;
        info.insert(CHECKSUM.into(), self.checksum.hex.clone().into());
        info.insert("is_whole_disk_image".into(), true.into());
    }

    fn kept(node: &Node) -> Option<Self> {
        let url = node.instance_info.get(URL)?.as_str()?.to_string();
        let checksum = node.driver_internal_info.get(CHECKSUM)?.as_str()?;
        let checksum = Checksum::parse(checksum).ok()?;
        Some(Self { url, checksum })
    }
}

/// The `image_info` of the agent's `write_image`.
pub fn image_info(node: &Node) -> Result<Value, String> {
    let ready = Ready::kept(node).ok_or("the image was not prepared")?;
    let text = |key: &str| node.instance_info.get(key).and_then(Value::as_str);
    let name = ready.url.split(['?', '#']).next().unwrap_or_default();
    let mut info = json!({
        "id": name.rsplit('/').next(),
        "urls": [ready.url],
        "disk_format": text("image_disk_format"),
        "container_format": "bare",
        "stream_raw_images": true,
        "os_hash_algo": ready.checksum.algorithm.as_str(),
        "os_hash_value": ready.checksum.hex,
        "image_type": "whole-disk",
        "node_uuid": node.uuid,
    });
    let mut proxies = Object::new();
    for (scheme, key) in [("http", "image_http_proxy"), ("https", "image_https_proxy")] {
        if let Some(proxy) = text(key) {
            proxies.insert(scheme.into(), proxy.into());
        }
    }
    if !proxies.is_empty() {
        info["proxies"] = proxies.into();
    }
    if let Some(hosts) = text("image_no_proxy") {
        info["no_proxy"] = hosts.into();
    }
    Ok(info)
}
