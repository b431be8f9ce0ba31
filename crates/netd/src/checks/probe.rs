//! One look at a service.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;

use tokio::net::TcpStream;
use tokio::process::Command;

use crate::config::Probe;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not set up an HTTP client for {url}")]
    Client { url: String, source: reqwest::Error },
}

/// A probe that is ready to be asked.
#[derive(Debug)]
pub enum Prober {
    Http {
        client: reqwest::Client,
        url: String,
        status: u16,
    },
    Tcp(SocketAddr),
    File(PathBuf),
    Command(Vec<String>),
}

impl Prober {
    pub fn new(probe: &Probe) -> Result<Self, Error> {
        Ok(match probe {
            Probe::Http {
                url,
                status,
                insecure,
            } => Self::Http {
                client: client(url, *insecure)?,
                url: url.clone(),
                status: *status,
            },
            Probe::Tcp(to) => Self::Tcp(*to),
            Probe::File(path) => Self::File(path.clone()),
            Probe::Command(words) => Self::Command(words.clone()),
        })
    }

    /// The caller limits the time.
    pub async fn probe(&self) -> Result<(), String> {
        match self {
            Self::Http {
                client,
                url,
                status,
            } => {
                let answer = client.get(url).send().await.map_err(told)?;
                let found = answer.status().as_u16();
                yes(found == *status, || format!("status {found}, not {status}"))
            }
            Self::Tcp(to) => TcpStream::connect(to).await.map(drop).map_err(told),
            Self::File(path) => tokio::fs::metadata(path).await.map(drop).map_err(told),
            Self::Command(words) => {
                let (program, arguments) = words.split_first().ok_or("no command")?;
                let status = Command::new(program)
                    .args(arguments)
                    .stdin(Stdio::null())
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .kill_on_drop(true)
                    .status()
                    .await
                    .map_err(told)?;
                yes(status.success(), || status.to_string())
            }
        }
    }
}

/// Without a memory: every look connects anew, follows nothing and asks no proxy.
fn client(url: &str, insecure: bool) -> Result<reqwest::Client, Error> {
    reqwest::Client::builder()
        .no_proxy()
        .pool_max_idle_per_host(0)
        .redirect(reqwest::redirect::Policy::none())
        .tls_danger_accept_invalid_certs(insecure)
        .build()
        .map_err(|source| Error::Client {
            url: url.to_owned(),
            source,
        })
}

fn yes(fine: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if fine { Ok(()) } else { Err(otherwise()) }
}

/// The whole chain in one line.
fn told(error: impl std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
