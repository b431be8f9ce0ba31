//! A look at the first bytes of an image, so that what is plainly wrong is told before a host is touched.

use std::time::Duration;

use futures::StreamExt as _;
use tracing::warn;

use super::checksum::Checksum;
use super::image::Image;

const PATIENCE: Duration = Duration::from_secs(30);
/// A checksum file lists some images, not all there are.
pub const MOST_OF_A_LIST: usize = 4 << 20;

/// What is wrong with bytes that are to be an image, if that can be seen at their beginning.
pub fn wrong(image: &Image, beginning: &[u8]) -> Option<String> {
    let start = String::from_utf8_lossy(&beginning[..beginning.len().min(512)]).to_lowercase();
    let start = start.trim_start();
    if start.starts_with("<!doctype") || start.starts_with("<html") || start.starts_with("<?xml") {
        return Some(format!("{} is a web page, not an image", image.source));
    }
    let qcow2 = beginning.starts_with(b"QFI\xfb");
    match image.format.as_deref() {
        Some("qcow2") if !qcow2 && beginning.len() >= 4 => Some(format!(
            "instance_info.image_disk_format says qcow2, but {} is not one",
            image.source
        )),
        Some("raw") if qcow2 => Some(format!(
            "instance_info.image_disk_format says raw, but {} is a qcow2",
            image.source
        )),
        Some(_) | None => None,
    }
}

/// Looks at an image that the agent is to fetch. That we cannot reach it need not mean that the agent cannot.
pub async fn remote(image: &Image, http: &reqwest::Client) -> Result<(), String> {
    let asked = http
        .get(&image.source)
        .header(reqwest::header::RANGE, "bytes=0-511")
        .timeout(PATIENCE)
        .send()
        .await;
    let answer = match asked {
        Ok(answer) => answer,
        Err(error) => {
            warn!(
                error = model::chain(&error.without_url()),
                "the image's server could not be asked"
            );
            return Ok(());
        }
    };
    let status = answer.status();
    if status.is_client_error() {
        return Err(format!("the server of {} answers {status}", image.source));
    }
    if !status.is_success() {
        warn!(%status, "the image's server could not be asked");
        return Ok(());
    }
    let mut beginning = Vec::new();
    let mut stream = answer.bytes_stream();
    while beginning.len() < 512
        && let Some(Ok(chunk)) = stream.next().await
    {
        beginning.extend_from_slice(&chunk);
    }
    if beginning.is_empty() {
        return Err(format!("{} is empty", image.source));
    }
    wrong(image, &beginning).map_or(Ok(()), Err)
}

/// The image's checksum from the file it is listed in.
pub async fn listed(image: &Image, list: &str, http: &reqwest::Client) -> Result<Checksum, String> {
    let about = |problem: String| format!("the checksum file {list}: {problem}");
    let answer = http
        .get(list)
        .timeout(PATIENCE)
        .send()
        .await
        .map_err(|error| about(model::chain(&error.without_url())))?;
    if !answer.status().is_success() {
        return Err(about(format!("its server answers {}", answer.status())));
    }
    let mut text = Vec::new();
    let mut stream = answer.bytes_stream();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| about(model::chain(&error.without_url())))?;
        if text.len() + chunk.len() > MOST_OF_A_LIST {
            return Err(about("it is too large to be one".into()));
        }
        text.extend_from_slice(&chunk);
    }
    Checksum::in_file(&String::from_utf8_lossy(&text), image.name()).map_err(about)
}
