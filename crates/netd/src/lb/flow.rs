//! One direction of one connection: bytes from a socket to a socket.
//!
//! A little is copied through one buffer that all connections share; a lot goes through a borrowed pipe
//! without a copy. An idle connection owns neither.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

use linux::splice::Pipe;
use linux::stream;

/// What is copied at once; a read that fills it is the start of a lot.
const CHUNK: usize = 16 * 1024;
/// What a client may have said before its backend is there. Kept, so less than what is copied.
const GREETING: usize = 2 * 1024;
/// What goes through a pipe at once.
const PIPE: usize = 1024 * 1024;
/// Pipes kept for later.
const SPARE: usize = 16;
/// Pipes in use at once; beyond, bytes are copied.
const PIPES: usize = 256;
/// Turns before others have theirs.
const TURNS: usize = 16;

/// What the connections of one thread share.
pub struct Tools {
    buffer: Box<[u8]>,
    spare: Vec<Pipe>,
    lent: usize,
}

#[derive(Debug, Default)]
pub struct Flow {
    pub readable: bool,
    /// The sender has said that it sends no more; there may be bytes before that.
    pub ending: bool,
    pub writable: bool,
    ended: bool,
    bulk: bool,
    pending: Option<Pending>,
    pub bytes: u64,
}

/// Read, and not written yet.
#[derive(Debug)]
enum Pending {
    Bytes { bytes: Box<[u8]>, from: usize },
    Piped { pipe: Pipe, len: usize },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// For the sockets.
    Waits,
    /// It was long enough for one turn.
    Again,
    /// Everything is through, and so is the end.
    Ended,
}

impl Tools {
    pub fn new() -> Self {
        Self {
            buffer: vec![0; CHUNK].into_boxed_slice(),
            spare: Vec::new(),
            lent: 0,
        }
    }

    fn borrow(&mut self) -> Option<Pipe> {
        if self.lent >= PIPES {
            return None;
        }
        let pipe = self.spare.pop().or_else(|| Pipe::new(PIPE).ok())?;
        self.lent += 1;
        Some(pipe)
    }

    /// An empty one only.
    fn give_back(&mut self, pipe: Pipe) {
        self.lent -= 1;
        if self.spare.len() < SPARE {
            self.spare.push(pipe);
        }
    }

    /// When a connection breaks, its pipe goes with what is in it.
    pub fn discard(&mut self, flow: &Flow) {
        if let Some(Pending::Piped { .. }) = flow.pending {
            self.lent -= 1;
        }
    }
}

impl Flow {
    /// Takes what has been said already; an end or an error is told again later.
    pub fn greet(&mut self, from: &TcpStream, tools: &mut Tools) {
        let greeting = &mut tools.buffer[..GREETING];
        if let Ok(len @ 1..) = (&*from).read(greeting) {
            self.bytes += len as u64;
            self.keep(greeting[..len].into());
        }
    }

    /// Something waits to be sent.
    pub fn has_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Goes before everything else. Nothing was sent yet.
    pub fn prepend(&mut self, mut bytes: Vec<u8>) {
        if let Some(Pending::Bytes { bytes: after, .. }) = self.pending.take() {
            bytes.extend(after);
        }
        self.keep(bytes.into_boxed_slice());
    }

    fn keep(&mut self, bytes: Box<[u8]>) {
        self.pending = Some(Pending::Bytes { bytes, from: 0 });
    }

    pub fn is_over(&self) -> bool {
        self.ended && self.pending.is_none()
    }

    /// As far as the sockets allow.
    pub fn pump(
        &mut self,
        from: &TcpStream,
        to: &TcpStream,
        tools: &mut Tools,
    ) -> io::Result<Step> {
        self.turns(TURNS, from, to, tools)
    }

    fn turns(
        &mut self,
        turns: usize,
        from: &TcpStream,
        to: &TcpStream,
        tools: &mut Tools,
    ) -> io::Result<Step> {
        for _ in 0..turns {
            if !self.flush(to, tools)? {
                return Ok(Step::Waits);
            }
            if self.ended {
                return Ok(Step::Ended);
            }
            if !self.readable || !self.writable {
                return Ok(Step::Waits);
            }
            match self.bulk.then(|| tools.borrow()).flatten() {
                Some(pipe) => self.splice(from, pipe, tools)?,
                None => self.copy(from, to, tools)?,
            }
        }
        // An end that comes with the last turn is told now: nobody would ask again.
        Ok(if self.is_over() {
            Step::Ended
        } else {
            Step::Again
        })
    }

    /// True if nothing is pending.
    fn flush(&mut self, to: &TcpStream, tools: &mut Tools) -> io::Result<bool> {
        while let Some(pending) = &mut self.pending {
            if !self.writable {
                return Ok(false);
            }
            let written = match pending {
                Pending::Bytes { bytes, from } => (&*to).write(&bytes[*from..]),
                Pending::Piped { pipe, len } => pipe.drain(to, *len),
            };
            let written = match written {
                Ok(written) => written,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.writable = false;
                    return Ok(false);
                }
                Err(error) => return Err(error),
            };
            let over = match pending {
                Pending::Bytes { bytes, from } => {
                    *from += written;
                    *from >= bytes.len()
                }
                Pending::Piped { len, .. } => {
                    *len -= written.min(*len);
                    *len == 0
                }
            };
            if over && let Some(Pending::Piped { pipe, .. }) = self.pending.take() {
                tools.give_back(pipe);
            }
        }
        Ok(true)
    }

    fn splice(&mut self, from: &TcpStream, pipe: Pipe, tools: &mut Tools) -> io::Result<()> {
        match pipe.fill(from) {
            Ok(0) => {
                self.ended = true;
                tools.give_back(pipe);
            }
            Ok(len) => {
                self.bytes += len as u64;
                self.bulk = len >= CHUNK;
                self.pending = Some(Pending::Piped { pipe, len });
            }
            Err(error) => {
                tools.give_back(pipe);
                match error.kind() {
                    ErrorKind::WouldBlock => (self.readable, self.bulk) = (false, false),
                    ErrorKind::Interrupted => {}
                    _ => return Err(error),
                }
            }
        }
        Ok(())
    }

    fn copy(&mut self, from: &TcpStream, to: &TcpStream, tools: &mut Tools) -> io::Result<()> {
        let mut len = match (&*from).read(&mut tools.buffer) {
            Ok(0) => {
                self.ended = true;
                return Ok(());
            }
            Ok(len) => len,
            Err(error) => {
                match error.kind() {
                    ErrorKind::WouldBlock => self.readable = false,
                    ErrorKind::Interrupted => {}
                    _ => return Err(error),
                }
                return Ok(());
            }
        };
        self.bulk = len == tools.buffer.len();
        // An end that was announced and comes right behind travels along.
        let mut broken = None;
        if self.ending && !self.bulk {
            match (&*from).read(&mut tools.buffer[len..]) {
                Ok(0) => self.ended = true,
                Ok(more) => len += more,
                Err(error) if comes_back(&error) => {}
                Err(error) => broken = Some(error),
            }
        }
        self.bytes += len as u64;
        // A short read has emptied the socket; what comes later is told (epoll(7), questions 9).
        self.readable = self.bulk || self.ending;
        let bytes = &tools.buffer[..len];
        let written = if self.ended {
            stream::send_last(to, bytes)
        } else {
            (&*to).write(bytes)
        };
        let written = match written {
            Ok(written) => written,
            Err(error) if comes_back(&error) => 0,
            Err(error) => return Err(error),
        };
        if written < len {
            self.keep(tools.buffer[written..len].into());
        }
        broken.map_or(Ok(()), Err)
    }
}

/// It can be tried again.
fn comes_back(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use std::net::{Shutdown, TcpListener};

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    /// One turn's worth of what is there.
    fn heard() -> Flow {
        Flow {
            readable: true,
            ending: true,
            writable: true,
            ..Flow::default()
        }
    }

    #[test]
    fn an_end_that_comes_with_the_last_turn_is_told_at_once() {
        let ((mut sender, from), (to, mut receiver)) = (pair(), pair());
        sender.write_all(b"x").unwrap();
        sender.shutdown(Shutdown::Write).unwrap();
        let mut tools = Tools::new();
        let step = heard().turns(1, &from, &to, &mut tools).unwrap();
        assert_eq!(step, Step::Ended);
        drop(to);
        let mut got = Vec::new();
        receiver.read_to_end(&mut got).unwrap();
        assert_eq!(got, b"x");
    }

    #[test]
    fn what_was_said_early_comes_after_what_is_put_before_it() {
        let ((mut sender, from), (to, mut receiver)) = (pair(), pair());
        let mut tools = Tools::new();
        let mut flow = heard();
        sender.write_all(b"hello ").unwrap();
        flow.greet(&from, &mut tools);
        assert!(flow.has_pending());
        flow.prepend(b"PROXY ".to_vec());
        sender.write_all(b"world").unwrap();
        sender.shutdown(Shutdown::Write).unwrap();
        assert_eq!(flow.pump(&from, &to, &mut tools).unwrap(), Step::Ended);
        assert_eq!(flow.bytes, 11, "what is put before is not the client's");
        drop(to);
        let mut got = String::new();
        receiver.read_to_string(&mut got).unwrap();
        assert_eq!(got, "PROXY hello world");
    }
}
