//! How simulated firmware fetches files: TFTP and HTTP, from its own address.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use futures::StreamExt;

use super::firmware::Source;
use crate::fault::Faults;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("GET {url}")]
    Http { url: String, source: reqwest::Error },
    #[error("GET {url}: status {status}")]
    Status { url: String, status: u16 },
    #[error("{what}: nothing came for {} s", STALLED.as_secs())]
    Stalled { what: String },
    #[error("TFTP {path} from {server}")]
    Tftp { server: Ipv4Addr, path: String, source: io::Error },
}

/// A transfer that says nothing for this long is over.
const STALLED: Duration = Duration::from_secs(10);

/// Fetches a file, keeps its beginning, and reads the rest as hardware would: to the end.
pub async fn fetch(source: &Source, from: Option<Ipv4Addr>, keep: usize, faults: &Faults) -> Result<Vec<u8>, Error> {
    let mut head = match source {
        Source::Http { url } => http(url, from, keep).await?,
        Source::Tftp { server, path } => tftp(*server, path, from, keep).await?,
    };
    if super::corrupts(faults) {
        head.iter_mut().step_by(97).for_each(|byte| *byte ^= 0x20);
    }
    Ok(head)
}

async fn http(url: &str, from: Option<Ipv4Addr>, keep: usize) -> Result<Vec<u8>, Error> {
    let http = |source| Error::Http { url: url.into(), source };
    let client = reqwest::Client::builder()
        .local_address(from.map(IpAddr::V4))
        .connect_timeout(STALLED)
        .read_timeout(STALLED)
        // Firmware knows no certificate authorities.
        .tls_danger_accept_invalid_certs(true)
        .no_proxy()
        .build()
        .map_err(http)?;
    let answer = client.get(url).send().await.map_err(http)?;
    if !answer.status().is_success() {
        return Err(Error::Status { url: url.into(), status: answer.status().as_u16() });
    }
    let mut head = vec![];
    let mut body = answer.bytes_stream();
    while let Some(chunk) = body.next().await {
        let chunk = chunk.map_err(http)?;
        let room = keep.saturating_sub(head.len()).min(chunk.len());
        head.extend_from_slice(&chunk[..room]);
    }
    Ok(head)
}

async fn tftp(server: Ipv4Addr, path: &str, _from: Option<Ipv4Addr>, _keep: usize) -> Result<Vec<u8>, Error> {
    Err(Error::Tftp { server, path: path.into(), source: io::ErrorKind::Unsupported.into() })
}
