//! One look at a service.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;

use linux::netlink::Netlink;
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::sync::watch;
use tokio::time::Interval;

use crate::config::{LbBackend, Probe};
use crate::lb::Serving;

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
    Lb {
        listener: String,
        backend: Option<LbBackend>,
        serving: watch::Receiver<Serving>,
    },
}

impl Prober {
    pub fn new(probe: &Probe, serving: &watch::Receiver<Serving>) -> Result<Self, Error> {
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
            Probe::Lb { listener, backend } => Self::Lb {
                listener: listener.clone(),
                backend: backend.clone(),
                serving: serving.clone(),
            },
        })
    }

    /// Waits until the next look is worth it.
    pub async fn due(&mut self, beat: &mut Interval) {
        match self {
            Self::Lb { serving, .. } => tokio::select! {
                // An end of the balancer is the end of us too.
                _ = serving.changed() => {}
                _ = beat.tick() => {}
            },
            Self::Http { .. } | Self::Tcp(_) | Self::File(_) | Self::Command(_) => {
                beat.tick().await;
            }
        }
    }

    /// The caller limits the time.
    pub async fn probe(&self) -> Result<(), String> {
        match self {
            Self::Http {
                client,
                url,
                status,
            } => {
                let mut answer = client.get(url).send().await.map_err(told)?;
                let found = answer.status().as_u16();
                // Read to its end (health pages are short), so that the connection can be used again.
                for _ in 0..16 {
                    if !matches!(answer.chunk().await, Ok(Some(_))) {
                        break;
                    }
                }
                yes(found == *status, || format!("status {found}, not {status}"))
            }
            Self::Tcp(to) => TcpStream::connect(to).await.map(drop).map_err(told),
            Self::File(path) => tokio::fs::metadata(path).await.map(drop).map_err(told),
            Self::Lb {
                listener,
                backend,
                serving,
            } => {
                let state = serving.borrow().get(listener).cloned().unwrap_or_default();
                yes(state.ready, || format!("{listener} does not serve"))?;
                let up = match backend {
                    None => true,
                    Some(LbBackend::At(address)) => state.up.contains(address),
                    Some(LbBackend::Local) => is_local(&state.up).await?,
                };
                yes(up, || format!("the backend of {listener} is not up"))
            }
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

/// Is one of these on this node?
async fn is_local(up: &BTreeSet<SocketAddr>) -> Result<bool, String> {
    if up.iter().any(|address| address.ip().is_loopback()) {
        return Ok(true);
    }
    let netlink = Netlink::connect().map_err(told)?;
    let own = netlink.addresses().await.map_err(told)?;
    let ours = |address: &SocketAddr| own.iter().any(|own| own.net.addr() == address.ip());
    Ok(up.iter().any(ours))
}

/// Follows nothing and asks no proxy. Keeps its connection, as the balancer does: a handshake ten times a
/// second would cost the server more than its clients do.
fn client(url: &str, insecure: bool) -> Result<reqwest::Client, Error> {
    reqwest::Client::builder()
        .no_proxy()
        .pool_max_idle_per_host(1)
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
