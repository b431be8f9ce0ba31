//! TFTP on the provisioning network: one socket for requests, one for each transfer. The machine is
//! `protocols::tftp::server`; this carries packets and reads files.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use protocols::tftp::server::{Action, Event, Limits, Outcome, Transfer};
use protocols::tftp::{ErrorCode, Packet};
use tokio::net::UdpSocket;
use tokio::task::JoinSet;
use tracing::{debug, info, warn};

use super::blocks::{Block, Blocks};
use super::shelf::{self, Item, Shelf};

/// More clients than this at once have to ask again, which their firmware does.
const MOST: usize = 1024;
/// Requests are short.
const MAX_REQUEST: usize = 1500;
/// After which a transfer that waits for nothing is looked at.
const SILENCE: Duration = Duration::from_mins(1);

/// Told who has fetched which file.
pub type Fetched = Arc<dyn Fn(IpAddr, &str) + Send + Sync>;

/// Answers requests on the socket until dropped. The socket is bound to one address, for transfers come from it too.
pub async fn serve(socket: UdpSocket, shelf: Shelf, limits: Limits) -> io::Result<()> {
    serve_watched(socket, shelf, limits, Arc::new(|_, _| {})).await
}

/// The same, telling of every file that was fetched whole.
pub async fn serve_watched(
    socket: UdpSocket,
    shelf: Shelf,
    limits: Limits,
    fetched: Fetched,
) -> io::Result<()> {
    let from = socket.local_addr()?.ip();
    let mut transfers = JoinSet::new();
    let busy = Busy::default();
    let mut buffer = vec![0; MAX_REQUEST];
    loop {
        tokio::select! {
            Some(_) = transfers.join_next(), if !transfers.is_empty() => {}
            received = socket.recv_from(&mut buffer) => {
                let (length, client) = match received {
                    Ok(received) => received,
                    Err(error) => {
                        debug!(%error, "TFTP socket");
                        continue;
                    }
                };
                match request(&buffer[..length], &shelf) {
                    Ok(Some(asked)) if transfers.len() < MOST => {
                        // Firmware that waits too long asks again: it has its transfer already.
                        if let Some(place) = busy.enter(client) {
                            transfers.spawn(transfer(from, client, asked, limits.clone(), place, Arc::clone(&fetched)));
                        }
                    }
                    Ok(Some(_)) => warn!(peer = %client, "TFTP: {MOST} transfers at once; this one must wait"),
                    Ok(None) => {}
                    Err(refusal) => {
                        info!(peer = %client, error = %model::chain(&refusal), "TFTP request refused");
                        _ = socket.send_to(&refusal.encode(), client).await;
                    }
                }
            }
        }
    }
}

/// A request that can be served.
struct Asked {
    file: String,
    item: Item,
    options: Vec<(String, String)>,
}

#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error(transparent)]
    File(#[from] shelf::Error),
    #[error("{0:?}: files are read here, not written")]
    Write(String),
    #[error("{file:?}: transfer mode {mode:?} is not supported; octet is")]
    Mode { file: String, mode: String },
}

impl Refusal {
    fn encode(&self) -> Vec<u8> {
        let code = match self {
            Self::File(shelf::Error::NotFound(_)) => ErrorCode::NOT_FOUND,
            Self::File(shelf::Error::Outside(_) | shelf::Error::Read(..)) | Self::Write(_) => {
                ErrorCode::ACCESS
            }
            Self::Mode { .. } => ErrorCode::ILLEGAL,
        };
        Transfer::refuse(code, &self.to_string())
    }
}

/// `None` for packets that are no requests: they are dropped.
fn request(bytes: &[u8], shelf: &Shelf) -> Result<Option<Asked>, Refusal> {
    match Packet::decode(bytes) {
        Ok(Packet::Read { file, mode, .. }) if !mode.eq_ignore_ascii_case("octet") => {
            Err(Refusal::Mode { file, mode })
        }
        Ok(Packet::Read { file, options, .. }) => {
            let item = shelf.open(&file)?;
            Ok(Some(Asked {
                file,
                item,
                options,
            }))
        }
        Ok(Packet::Write { file, .. }) => Err(Refusal::Write(file)),
        Ok(
            Packet::Data { .. }
            | Packet::Ack { .. }
            | Packet::Error { .. }
            | Packet::OptionAck { .. },
        )
        | Err(_) => Ok(None),
    }
}

async fn transfer(
    from: IpAddr,
    client: SocketAddr,
    asked: Asked,
    limits: Limits,
    _place: Place,
    fetched: Fetched,
) {
    let begin = Instant::now();
    match send(from, client, &asked, &limits).await {
        Ok(Outcome::Complete) => {
            let seconds = begin.elapsed().as_secs_f64();
            info!(peer = %client, file = asked.file, bytes = asked.item.size(), seconds, "TFTP file sent");
            fetched(client.ip(), &asked.file);
        }
        // Clients often ask for the size alone, and stop.
        Ok(Outcome::Aborted { message, .. }) => {
            debug!(peer = %client, file = asked.file, message, "TFTP transfer stopped");
        }
        Ok(Outcome::TimedOut) => {
            warn!(peer = %client, file = asked.file, "TFTP client fell silent");
        }
        Err(error) => warn!(peer = %client, file = asked.file, %error, "TFTP transfer failed"),
    }
}

async fn send(
    from: IpAddr,
    client: SocketAddr,
    asked: &Asked,
    limits: &Limits,
) -> io::Result<Outcome> {
    let socket = UdpSocket::bind((from, 0)).await?;
    socket.connect(client).await?;
    let (mut machine, mut actions) =
        Transfer::start(Instant::now(), asked.item.size(), &asked.options, limits);
    let mut blocks = Blocks::new(&socket, &asked.item);
    let mut buffer = vec![0; MAX_REQUEST];
    // One timer for all blocks: to put it off costs nothing, where a new one would wake the runtime for every block.
    let mut timer = pin!(tokio::time::sleep(SILENCE));
    loop {
        for action in actions.drain(..) {
            match action {
                Action::Send { bytes } => _ = socket.send(&bytes).await?,
                Action::SendBlock {
                    block: number,
                    offset,
                    length,
                } => blocks.push(Block {
                    number,
                    offset,
                    length,
                }),
                Action::Done(outcome) => return Ok(outcome),
            }
        }
        blocks.flush().await?;
        let wake = machine
            .wake_at()
            .unwrap_or_else(|| Instant::now() + SILENCE);
        timer.as_mut().reset(wake.into());
        // On a busy machine an answer and the timer may be due together. The answer goes first: some clients (atftp) give
        // up when the options they have confirmed are said again.
        let received = tokio::select! {
            biased;
            received = socket.recv(&mut buffer) => Some(received),
            () = timer.as_mut() => {
                // Lets the runtime look at the socket, which it may not have done since before we were held up.
                tokio::task::yield_now().await;
                socket.recv(&mut buffer).now_or_never()
            }
        };
        let event = match received {
            Some(Ok(length)) => Event::Packet {
                bytes: &buffer[..length],
            },
            // The client's port is closed: it has gone.
            Some(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
                return Ok(Outcome::TimedOut);
            }
            Some(Err(error)) => return Err(error),
            None => Event::Timer,
        };
        actions = machine.handle(Instant::now(), event);
    }
}

/// Clients with a transfer under way.
#[derive(Clone, Default)]
struct Busy(Arc<Mutex<BTreeSet<SocketAddr>>>);

/// One client's place among them, given up when dropped.
struct Place {
    busy: Busy,
    client: SocketAddr,
}

impl Busy {
    fn enter(&self, client: SocketAddr) -> Option<Place> {
        let new = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(client);
        new.then(|| Place {
            busy: self.clone(),
            client,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.busy
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.client);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine so busy that the server is held up for longer than it waits for an answer.
    #[test]
    fn options_that_were_confirmed_meanwhile_are_not_said_again() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let socket = runtime.block_on(UdpSocket::bind("127.0.0.1:0")).unwrap();
        let server = socket.local_addr().unwrap();
        let shelf = Shelf::new("/nonexistent".into());
        shelf.put("file", vec![7; 100]);
        let limits = Limits {
            wait: Duration::from_millis(50),
            ..Limits::default()
        };
        runtime.spawn(serve(socket, shelf, limits));
        for round in 0..20 {
            let client = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            client
                .set_read_timeout(Some(Duration::from_secs(20)))
                .unwrap();
            let ask = Packet::Read {
                file: "file".into(),
                mode: "octet".into(),
                options: vec![("windowsize".into(), "16".into())],
            };
            client.send_to(&ask.encode(), server).unwrap();
            let mut buffer = [0; 600];
            let (length, transfer) = client.recv_from(&mut buffer).unwrap();
            assert!(matches!(
                Packet::decode(&buffer[..length]),
                Ok(Packet::OptionAck { .. })
            ));
            let (held, hold) = std::sync::mpsc::channel();
            runtime.spawn(async move {
                held.send(()).unwrap();
                std::thread::sleep(Duration::from_millis(120));
            });
            hold.recv().unwrap();
            let ack = |block| Packet::Ack { block }.encode();
            client.send_to(&ack(0), transfer).unwrap();
            let (length, _) = client.recv_from(&mut buffer).unwrap();
            let got = Packet::decode(&buffer[..length]);
            assert!(
                matches!(got, Ok(Packet::Data { block: 1, data }) if data.len() == 100),
                "round {round}: {got:?}"
            );
            client.send_to(&ack(1), transfer).unwrap();
        }
    }
}
