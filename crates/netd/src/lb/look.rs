//! One look at a backend.
//!
//! A look over HTTP keeps its connection: a handshake ten times a second would cost the API server more
//! than its clients do, and a broken connection tells of a death before the next look is due.

use std::net::SocketAddr;

use protocols::balance::Outcome;
use tokio::net::TcpStream;

use crate::config::{LookAt, LookKind};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not read {path}")]
    Read {
        path: std::path::PathBuf,
        source: std::io::Error,
    },
    #[error("could not set up an HTTP client for {url}")]
    Client { url: String, source: reqwest::Error },
}

pub enum Looker {
    Http {
        client: reqwest::Client,
        url: String,
        status: u16,
    },
    Tcp(SocketAddr),
}

impl Looker {
    pub fn new(look: &LookAt, address: SocketAddr) -> Result<Self, Error> {
        let (scheme, path, status, ca) = match &look.kind {
            LookKind::Tcp => return Ok(Self::Tcp(address)),
            LookKind::Http { path, status } => ("http", path, *status, None),
            LookKind::Https { path, status, ca } => ("https", path, *status, ca.as_ref()),
        };
        let url = format!("{scheme}://{address}{path}");
        let build = reqwest::Client::builder()
            .no_proxy()
            .pool_max_idle_per_host(1)
            .redirect(reqwest::redirect::Policy::none());
        let client = |source| Error::Client {
            url: url.clone(),
            source,
        };
        let build = match ca {
            // Without an authority there is nothing to hold the certificate against: the question is
            // whether it answers, not who it is. No secret is sent.
            None => build.tls_danger_accept_invalid_certs(true),
            Some(path) => {
                let pem = std::fs::read(path).map_err(|source| Error::Read {
                    path: path.clone(),
                    source,
                })?;
                let certificates = reqwest::Certificate::from_pem_bundle(&pem).map_err(client)?;
                build.tls_certs_only(certificates)
            }
        };
        Ok(Self::Http {
            client: build.build().map_err(client)?,
            url,
            status,
        })
    }

    /// The caller limits the time.
    pub async fn look(&self) -> Outcome {
        match self {
            Self::Http {
                client,
                url,
                status,
            } => match client.get(url).send().await {
                Ok(answer) if answer.status().as_u16() == *status => {
                    read_out(answer).await;
                    Outcome::Well
                }
                Ok(answer) => {
                    read_out(answer).await;
                    Outcome::Unready
                }
                Err(_) => Outcome::Dead,
            },
            Self::Tcp(to) => match TcpStream::connect(to).await {
                Ok(_) => Outcome::Well,
                Err(_) => Outcome::Dead,
            },
        }
    }
}

/// Only an answer that was read to its end lets the connection be used again; a long one is not worth it.
async fn read_out(mut answer: reqwest::Response) {
    let mut left = 64 * 1024_usize;
    while let Ok(Some(chunk)) = answer.chunk().await {
        let Some(less) = left.checked_sub(chunk.len()) else {
            return;
        };
        left = less;
    }
}
