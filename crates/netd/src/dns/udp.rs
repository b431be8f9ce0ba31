//! Questions by datagram: one thread per socket, 32 questions per system call.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linux::mmsg::{self, Batch, Stop};
use protocols::dns::Transport;
use protocols::dns::forward::Asker;

use super::Error;
use super::desk::Desk;

/// A socket that fails at once again and again must not eat the processor.
const ERROR_PAUSE: Duration = Duration::from_millis(100);

/// A thread; dropping it ends it and waits for that.
#[derive(Debug)]
pub struct Worker {
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub fn bind(address: SocketAddr) -> Result<UdpSocket, Error> {
    mmsg::bind_shared(address).map_err(|source| Error::Listen {
        address,
        how: "UDP",
        source,
    })
}

/// One thread per socket; answers that come later are sent by others from clones of the same sockets.
pub fn start(desk: &Arc<Desk>, sockets: &[UdpSocket]) -> Result<Vec<Worker>, Error> {
    let failed = |source| Error::Thread { source };
    let stop = Stop::new().map_err(failed)?;
    let mut workers = Vec::new();
    for (number, socket) in sockets.iter().enumerate() {
        let socket = socket.try_clone().map_err(failed)?;
        let (desk, seen) = (Arc::clone(desk), stop.clone());
        let thread = std::thread::Builder::new()
            .name(format!("dns-{number}"))
            .spawn(move || work(&desk, number, &socket, &seen))
            .map_err(failed)?;
        workers.push(Worker {
            stop: stop.clone(),
            thread: Some(thread),
        });
    }
    Ok(workers)
}

fn work(desk: &Desk, number: usize, socket: &UdpSocket, stop: &Stop) {
    let mut view = desk.view();
    let mut batch = Batch::default();
    loop {
        desk.refresh(&mut view);
        let now = Instant::now();
        let served = batch.serve(socket, |query, peer, out| {
            let from = || Asker::Udp {
                socket: number,
                from: peer.address(),
            };
            desk.serve(&view, now, query, from, Transport::Udp, out);
        });
        let problem = match served {
            Ok(_) => continue,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                match mmsg::wait(socket, stop) {
                    Ok(true) => continue,
                    Ok(false) => return,
                    Err(error) => error,
                }
            }
            Err(error) => error,
        };
        // An ICMP error of an earlier answer ends up here too.
        tracing::debug!(error = %problem, "DNS socket");
        if problem.kind() != io::ErrorKind::ConnectionRefused {
            std::thread::sleep(ERROR_PAUSE);
        }
    }
}
