//! How simulated firmware fetches files: TFTP and HTTP, from its own address.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use futures::StreamExt;
use protocols::tftp::client::{Action, Client, Config, Event, Failure};
use tokio::net::UdpSocket;

use super::firmware::Source;
use crate::fault::Faults;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("GET {url}")]
    Http { url: String, source: reqwest::Error },
    #[error("GET {url}: status {status}")]
    Status { url: String, status: u16 },
    #[error("TFTP {path} from {server}")]
    Tftp {
        server: Ipv4Addr,
        path: String,
        source: Failure,
    },
    #[error("TFTP {path} from {server}")]
    TftpSocket {
        server: Ipv4Addr,
        path: String,
        source: io::Error,
    },
}

/// A transfer that says nothing for this long is over.
const STALLED: Duration = Duration::from_secs(10);

/// Fetches a file, keeps its beginning, and reads the rest as hardware would: to the end.
pub async fn fetch(
    source: &Source,
    from: Option<Ipv4Addr>,
    keep: usize,
    faults: &Faults,
) -> Result<Vec<u8>, Error> {
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
    let http = |source| Error::Http {
        url: url.into(),
        source,
    };
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
        return Err(Error::Status {
            url: url.into(),
            status: answer.status().as_u16(),
        });
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

async fn tftp(
    server: Ipv4Addr,
    path: &str,
    from: Option<Ipv4Addr>,
    keep: usize,
) -> Result<Vec<u8>, Error> {
    let at = || (server, path.to_string());
    let socket_failed = |source| {
        let (server, path) = at();
        Error::TftpSocket {
            server,
            path,
            source,
        }
    };
    let socket = UdpSocket::bind((from.unwrap_or(Ipv4Addr::UNSPECIFIED), 0))
        .await
        .map_err(socket_failed)?;
    let mut client = Client::new(Config::new(path));
    let mut actions = client.handle(Instant::now(), Event::Start);
    let mut head = vec![];
    let mut datagram = vec![0; 65536];
    loop {
        for action in actions.drain(..) {
            match action {
                Action::Send { port, bytes } => {
                    _ = socket
                        .send_to(&bytes, (server, port))
                        .await
                        .map_err(socket_failed)?;
                }
                Action::Write(bytes) => {
                    let room = keep.saturating_sub(head.len()).min(bytes.len());
                    head.extend_from_slice(&bytes[..room]);
                }
                Action::Done { .. } => return Ok(head),
                Action::Failed(source) => {
                    let (server, path) = at();
                    return Err(Error::Tftp {
                        server,
                        path,
                        source,
                    });
                }
            }
        }
        let wake = client.wake_at().unwrap_or_else(|| Instant::now() + STALLED);
        actions = tokio::select! {
            received = socket.recv_from(&mut datagram) => {
                let (length, peer) = received.map_err(socket_failed)?;
                if peer.ip() == IpAddr::V4(server) {
                    client.handle(Instant::now(), Event::Packet { port: peer.port(), bytes: &datagram[..length] })
                } else {
                    vec![]
                }
            }
            () = tokio::time::sleep_until(wake.into()) => client.handle(Instant::now(), Event::Timer),
        };
    }
}
