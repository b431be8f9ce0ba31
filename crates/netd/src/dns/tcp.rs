//! Questions by connection: several at once, answered as they are known (RFC 7766).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use protocols::dns::Transport;
use protocols::dns::forward::Asker;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::Error;
use super::desk::Desk;
use crate::config::dns::Dns;

const BACKLOG: i32 = 256;
/// Questions of one connection that wait for others.
const IN_FLIGHT: usize = 64;
const WRITE_WITHIN: Duration = Duration::from_secs(5);
const ERROR_PAUSE: Duration = Duration::from_millis(250);
/// No honest question is longer.
const LONGEST: usize = 4096;

/// Where answers for connections go, by their number.
#[derive(Debug, Default)]
pub struct Connections(Mutex<Numbered>);

/// The next number, and who has one.
type Numbered = (u64, BTreeMap<u64, mpsc::Sender<Vec<u8>>>);

impl Connections {
    /// Hands an answer to its connection, if that is still there and takes it.
    pub fn deliver(&self, connection: u64, bytes: Vec<u8>) {
        let open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = open.1.get(&connection) {
            let _ = open.try_send(bytes);
        }
    }

    fn open(&self, send: mpsc::Sender<Vec<u8>>) -> Open<'_> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = open.0;
        open.0 += 1;
        open.1.insert(number, send);
        Open { all: self, number }
    }
}

pub fn bind(address: SocketAddr) -> Result<TcpListener, Error> {
    let listen = || {
        let domain = socket2::Domain::for_address(address);
        let kind = socket2::Type::STREAM.nonblocking();
        let socket = socket2::Socket::new(domain, kind, Some(socket2::Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        match address {
            SocketAddr::V4(_) => socket.set_freebind_v4(true)?,
            SocketAddr::V6(_) => {
                socket.set_only_v6(true)?;
                socket.set_freebind_v6(true)?;
            }
        }
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        TcpListener::from_std(socket.into())
    };
    listen().map_err(|source| Error::Listen {
        address,
        how: "TCP",
        source,
    })
}

pub async fn run(desk: Arc<Desk>, listener: TcpListener, config: Dns) {
    let places = Arc::new(Semaphore::new(config.max_connections));
    let mut tasks = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = tasks.join_next() => continue,
        };
        match accepted {
            Ok((stream, from)) => {
                let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                    tracing::debug!(peer = %from, "too many DNS connections: closed");
                    continue;
                };
                let (desk, idle) = (Arc::clone(&desk), config.idle);
                tasks.spawn(async move {
                    serve(&desk, stream, from, idle).await;
                    drop(place);
                });
            }
            Err(error) => {
                // Out of descriptors, most likely: go on serving those who are here.
                tracing::warn!(%error, "could not accept a DNS connection");
                sleep(ERROR_PAUSE).await;
            }
        }
    }
}

async fn serve(desk: &Desk, mut stream: TcpStream, from: SocketAddr, idle: Duration) {
    let (send, mut answers) = mpsc::channel(IN_FLIGHT);
    let open = desk.connections.open(send);
    let mut buffer = Vec::new();
    let mut waiting = 0usize;
    let mut reading = true;
    let mut until = Instant::now() + idle;
    loop {
        tokio::select! {
            read = stream.read_buf(&mut buffer), if reading && waiting < IN_FLIGHT => match read {
                Ok(0) => reading = false,
                Ok(_) => {}
                Err(_) => return,
            },
            Some(bytes) = answers.recv() => {
                waiting = waiting.saturating_sub(1);
                until = Instant::now() + idle;
                if !write(&mut stream, &bytes).await {
                    return;
                }
            }
            () = sleep_until(until) => return,
        }
        while waiting < IN_FLIGHT
            && let Some(query) = frame(&mut buffer)
        {
            // Only a whole question counts as a sign of life.
            until = Instant::now() + idle;
            let mut out = Vec::new();
            let asker = || Asker::Tcp {
                connection: open.number,
                from,
            };
            let now = std::time::Instant::now();
            let passed = desk.serve(&desk.view(), now, &query, asker, Transport::Tcp, &mut out);
            if passed {
                waiting += 1;
            } else if out.is_empty() || !write(&mut stream, &out).await {
                return;
            }
        }
        let oversized = buffer
            .first_chunk()
            .is_some_and(|len| usize::from(u16::from_be_bytes(*len)) > LONGEST);
        if oversized || (!reading && waiting == 0) {
            return;
        }
    }
}

/// Takes the next whole question off the buffer.
fn frame(buffer: &mut Vec<u8>) -> Option<Vec<u8>> {
    let len = usize::from(u16::from_be_bytes(*buffer.first_chunk()?));
    (buffer.len() >= 2 + len && len <= LONGEST).then(|| {
        let query = buffer[2..2 + len].to_vec();
        buffer.drain(..2 + len);
        query
    })
}

async fn write(stream: &mut TcpStream, bytes: &[u8]) -> bool {
    let mut framed = Vec::with_capacity(2 + bytes.len());
    framed.extend((bytes.len() as u16).to_be_bytes());
    framed.extend_from_slice(bytes);
    matches!(
        timeout(WRITE_WITHIN, stream.write_all(&framed)).await,
        Ok(Ok(()))
    )
}

/// A place in the list of connections, as long as it lives.
struct Open<'a> {
    all: &'a Connections,
    number: u64,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let mut open = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.1.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_come_whole_whatever_the_pieces() {
        let mut buffer = Vec::new();
        let mut got = Vec::new();
        for byte in [0, 2, 7, 8, 0, 0, 0, 1, 9, 0] {
            buffer.push(byte);
            got.extend(frame(&mut buffer));
        }
        assert_eq!(got, [vec![7, 8], vec![], vec![9]]);
        assert_eq!(buffer, [0]);
    }
}
