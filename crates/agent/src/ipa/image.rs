//! `image_info`: what Ironic says of the image to write.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::Secret;
use serde::Deserialize;
use serde_json::Value;

use super::machine::Failure;
use crate::disk::{self, Checksum, Format};
use crate::fetch::Download;
use crate::http::{Way, shown};
use crate::parameters;

/// An image, ready to be fetched.
#[derive(Debug, Clone)]
pub struct Image {
    pub name: String,
    pub download: Download,
    /// Checksum and format; the length is the server's to say.
    pub options: disk::Options,
    pub config_drive: Option<Vec<u8>>,
}

/// As it comes; keys we do not use are left alone.
#[derive(Debug, Deserialize)]
struct Info {
    id: Option<String>,
    #[serde(default)]
    urls: Vec<String>,
    disk_format: Option<String>,
    checksum: Option<String>,
    os_hash_algo: Option<String>,
    os_hash_value: Option<String>,
    image_server_auth_strategy: Option<String>,
    image_server_user: Option<String>,
    image_server_password: Option<Secret<String>>,
    image_request_authorization: Option<Secret<String>>,
    image_type: Option<String>,
    proxies: Option<Value>,
    configdrive: Option<Value>,
}

/// Where images and config drives come from.
#[derive(Debug, Clone)]
pub struct Sources {
    pub way: Way,
    pub client: reqwest::Client,
    pub patience: parameters::Download,
    pub md5: bool,
}

const CHECKSUM_FILE: usize = 1 << 20;
/// 64 MiB as base64, with line ends.
const CONFIG_DRIVE: usize = 90 << 20;

impl Sources {
    /// Reads `image_info` and fetches what it only points to: the checksum file and the config drive.
    pub async fn image(&self, info: &Value, drive: Option<&Value>) -> Result<Image, Failure> {
        let bad = |why: String| Failure::invalid(format!("image_info: {why}"));
        let info: Info = Info::deserialize(info).map_err(|error| bad(error.to_string()))?;
        let [url] = info.urls.as_slice() else {
            return Err(bad(format!(
                "urls has {} entries, not one",
                info.urls.len()
            )));
        };
        self.way
            .check(url)
            .map_err(|error| bad(error.to_string()))?;
        if info.image_type.as_deref() == Some("partition") {
            return Err(bad(
                "partition images are not supported; give a whole-disk image".into(),
            ));
        }
        if info
            .proxies
            .as_ref()
            .is_some_and(|proxies| !is_empty(proxies))
        {
            return Err(bad(
                "proxies are not supported; give a URL that is reachable directly".into(),
            ));
        }
        let format = match info.disk_format.as_deref() {
            None | Some("") => None,
            Some("raw" | "gpt" | "iso") => Some(Format::Raw),
            Some("qcow2") => Some(Format::Qcow2),
            Some(other) => {
                return Err(bad(format!(
                    "disk_format {other:?} is not known; raw and qcow2 are"
                )));
            }
        };
        let download = Download {
            client: self.client.clone(),
            url: url.clone(),
            authorization: authorization(&info).map_err(bad)?,
            patience: self.patience,
        };
        let checksum = self.checksum(&info, &download).await?;
        let config_drive = match drive.or(info.configdrive.as_ref()) {
            None | Some(Value::Null) => None,
            Some(given) => Some(self.config_drive(given).await?),
        };
        Ok(Image {
            name: info.id.unwrap_or_else(|| last_element(url)),
            download,
            options: disk::Options {
                length: None,
                checksum: Some(checksum),
                compression: None,
                format,
            },
            config_drive,
        })
    }

    async fn checksum(&self, info: &Info, image: &Download) -> Result<Checksum, Failure> {
        let wrong = |error: disk::checksum::Error| {
            Failure::new("ImageChecksumError", format!("image checksum: {error}"))
        };
        let filled = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        if let (Some(algorithm), Some(value)) =
            (filled(&info.os_hash_algo), filled(&info.os_hash_value))
        {
            return if is_url(&value) {
                self.listed_checksum(&value, image).await
            } else {
                self.allowed(Checksum::parse_as(&algorithm, &value))
                    .map_err(wrong)
            };
        }
        match filled(&info.checksum) {
            Some(url) if is_url(&url) => self.listed_checksum(&url, image).await,
            Some(hex) => self.allowed(Checksum::parse(&hex)).map_err(wrong),
            None => Err(Failure::new(
                "ImageChecksumError",
                "the image has no checksum: give image_checksum, or image_os_hash_algo and image_os_hash_value",
            )),
        }
    }

    async fn listed_checksum(&self, url: &str, image: &Download) -> Result<Checksum, Failure> {
        let failed = |why: String| {
            Failure::new(
                "ImageChecksumError",
                format!("checksum file {}: {why}", shown(url)),
            )
        };
        self.way
            .check(url)
            .map_err(|error| failed(error.to_string()))?;
        let file = Download {
            url: url.to_owned(),
            ..image.clone()
        };
        let bytes = file
            .whole(CHECKSUM_FILE)
            .await
            .map_err(|error| failed(model::chain(&error)))?;
        let text = String::from_utf8_lossy(&bytes);
        self.allowed(Checksum::from_file(&text, &last_element(&image.url)))
            .map_err(|error| failed(error.to_string()))
    }

    fn allowed(
        &self,
        given: Result<Checksum, disk::checksum::Error>,
    ) -> Result<Checksum, disk::checksum::Error> {
        if self.md5 { given } else { given?.strong() }
    }

    /// Base64 of a gzipped ISO, the URL of one, or an object to make one of.
    async fn config_drive(&self, given: &Value) -> Result<Vec<u8>, Failure> {
        let failed = |why: String| Failure::new("ConfigDriveError", format!("config drive: {why}"));
        match given {
            Value::String(url) if is_url(url) => {
                self.way
                    .check(url)
                    .map_err(|error| failed(error.to_string()))?;
                let download = Download {
                    client: self.client.clone(),
                    url: url.clone(),
                    authorization: None,
                    patience: self.patience,
                };
                let bytes = download
                    .whole(CONFIG_DRIVE)
                    .await
                    .map_err(|error| failed(model::chain(&error)))?;
                unpack(&bytes).map_err(failed)
            }
            Value::String(text) => unpack(text.as_bytes()).map_err(failed),
            Value::Object(_) => build(given).map_err(failed),
            _ => Err(failed("neither text nor an object".into())),
        }
    }
}

fn unpack(bytes: &[u8]) -> Result<Vec<u8>, String> {
    media::config_drive::unpack(bytes).map_err(|error| model::chain(&error))
}

fn build(given: &Value) -> Result<Vec<u8>, String> {
    // Objects are written as JSON, text as it is.
    let part = |name: &str| match given.get(name) {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text.clone().into_bytes()),
        Some(other) => Some(other.to_string().into_bytes()),
    };
    let drive = media::config_drive::ConfigDrive {
        meta_data: part("meta_data"),
        user_data: part("user_data"),
        network_data: part("network_data"),
        vendor_data: part("vendor_data"),
    };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let layout = drive
        .layout(now.map_or(0, |since| since.as_secs()))
        .map_err(|error| model::chain(&error))?;
    let mut volume = vec![];
    layout
        .write_to(&mut volume, |_| -> std::io::Result<std::io::Empty> {
            Ok(std::io::empty())
        })
        .map_err(|error| model::chain(&error))?;
    Ok(volume)
}

fn authorization(info: &Info) -> Result<Option<Secret<String>>, String> {
    if let Some(encoded) = &info.image_request_authorization {
        let bytes = STANDARD
            .decode(encoded.expose())
            .map_err(|_| "image_request_authorization is not base64")?;
        let text =
            String::from_utf8(bytes).map_err(|_| "image_request_authorization is not text")?;
        return Ok(Some(Secret::new(text)));
    }
    match info.image_server_auth_strategy.as_deref() {
        None | Some("" | "noauth") => Ok(None),
        Some("http_basic") => match (&info.image_server_user, &info.image_server_password) {
            (Some(user), Some(password)) => {
                let pair = STANDARD.encode(format!("{user}:{}", password.expose()));
                Ok(Some(Secret::new(format!("Basic {pair}"))))
            }
            _ => Err("http_basic needs image_server_user and image_server_password".into()),
        },
        Some(other) => Err(format!("image_server_auth_strategy {other:?} is not known")),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().all(Value::is_null),
        _ => false,
    }
}

fn is_url(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

fn last_element(url: &str) -> String {
    let path = url.split(['?', '#']).next().unwrap_or(url);
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

#[cfg(test)]
#[path = "image_tests.rs"]
mod tests;
