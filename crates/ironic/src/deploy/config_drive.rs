//! The config drive of an instance, as the agent takes it: base64 of a gzipped ISO.

use std::io::Write as _;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt as _;
use media::config_drive::{self, ConfigDrive};
use serde_json::Value;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the config drive is neither a text nor an object")]
    Kind,
    #[error(transparent)]
    Drive(#[from] config_drive::Error),
    #[error("fetch the config drive")]
    Fetch(#[source] reqwest::Error),
    #[error("the config drive's server answers {0}")]
    Status(u16),
    #[error("the config drive is larger than {} MiB", config_drive::MAX_MIB)]
    TooLarge,
    #[error("pack the config drive")]
    Pack(#[source] std::io::Error),
}

/// Makes it from what the client sent: an object, a URL, or a text that is one already.
pub async fn pack(given: Value, modified: u64, http: &reqwest::Client) -> Result<String, Error> {
    let drive = match given {
        Value::Object(object) => {
            let part = |key: &str| match object.get(key) {
                None | Some(Value::Null) => None,
                Some(Value::String(text)) => Some(text.clone().into_bytes()),
                Some(value) => Some(value.to_string().into_bytes()),
            };
            Given::Parts(ConfigDrive {
                meta_data: part("meta_data"),
                user_data: part("user_data"),
                network_data: part("network_data"),
                vendor_data: part("vendor_data"),
            })
        }
        Value::String(text) if text.contains("://") => Given::Packed(fetch(&text, http).await?),
        Value::String(text) => Given::Packed(text.into_bytes()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            return Err(Error::Kind);
        }
    };
    // Tens of megabytes: not among the tasks that must answer soon.
    let packed = tokio::task::spawn_blocking(move || repack(&drive, modified)).await;
    packed.expect("packing does not panic")
}

enum Given {
    Parts(ConfigDrive),
    Packed(Vec<u8>),
}

fn repack(given: &Given, modified: u64) -> Result<String, Error> {
    let mut iso = Vec::new();
    match given {
        Given::Parts(drive) => {
            let layout = drive.layout(modified)?;
            layout
                .write_to(&mut iso, |never| -> std::io::Result<std::io::Empty> {
                    match *never {}
                })
                .map_err(|error| Error::Pack(std::io::Error::other(error)))?;
        }
        Given::Packed(bytes) => iso = config_drive::unpack(bytes)?,
    }
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&iso).map_err(Error::Pack)?;
    Ok(STANDARD.encode(gzip.finish().map_err(Error::Pack)?))
}

async fn fetch(url: &str, http: &reqwest::Client) -> Result<Vec<u8>, Error> {
    // Base64 is a third longer than what it says.
    const MOST: usize = (config_drive::MAX_MIB as usize) << 21;
    // The address may hold a secret.
    let failed = |error: reqwest::Error| Error::Fetch(error.without_url());
    let answer = http
        .get(url)
        .timeout(PATIENCE)
        .send()
        .await
        .map_err(failed)?;
    if !answer.status().is_success() {
        return Err(Error::Status(answer.status().as_u16()));
    }
    let mut bytes = Vec::new();
    let mut stream = answer.bytes_stream();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(failed)?;
        if bytes.len() + chunk.len() > MOST {
            return Err(Error::TooLarge);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

const PATIENCE: Duration = Duration::from_mins(2);
