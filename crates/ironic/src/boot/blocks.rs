//! Blocks of a file on their way to a TFTP client: read a window at a time, and given to the kernel in one piece.
//!
//! ```text
//!   header 7 | block 7 | header 8 | block 8 | header 9 | the rest      one call; the kernel cuts it into datagrams
//! ```

use std::io::{self, IoSlice};
use std::os::fd::AsRawFd as _;

use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use protocols::tftp::data_header;
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tracing::debug;

use super::shelf::Item;

/// A part of the file, and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    pub number: u16,
    pub offset: u64,
    pub length: usize,
}

impl Block {
    /// Whether it may follow this one, which is like the first of them.
    fn follows(&self, before: &Self, first: &Self) -> bool {
        before.length == first.length
            && self.length <= first.length
            && self.offset == before.offset + before.length as u64
    }
}

/// Datagrams that the kernel cuts from one piece, at most; and the bytes of one.
const MOST: usize = 64;
const LARGEST: usize = 65_000;
const HEADER: usize = 4;

/// Sends to one client.
pub struct Blocks<'a> {
    socket: &'a UdpSocket,
    item: &'a Item,
    /// The kernel cuts pieces for us, as far as is known.
    cuts: bool,
    waiting: Vec<Block>,
    data: Vec<u8>,
}

impl<'a> Blocks<'a> {
    pub fn new(socket: &'a UdpSocket, item: &'a Item) -> Self {
        Self {
            socket,
            item,
            cuts: true,
            waiting: Vec::new(),
            data: Vec::new(),
        }
    }

    pub fn push(&mut self, block: Block) {
        self.waiting.push(block);
    }

    /// Sends all that was pushed.
    pub async fn flush(&mut self) -> io::Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        let mut rest = waiting.as_slice();
        while !rest.is_empty() {
            let (run, more) = rest.split_at(run(rest));
            self.send(run).await?;
            rest = more;
        }
        self.waiting = waiting;
        self.waiting.clear();
        Ok(())
    }

    /// Sends blocks that lie one behind the other.
    async fn send(&mut self, run: &[Block]) -> io::Result<()> {
        let length = run.iter().map(|block| block.length).sum();
        self.data.resize(length, 0);
        self.item.read(run[0].offset, &mut self.data)?;
        let headers: Vec<[u8; HEADER]> =
            run.iter().map(|block| data_header(block.number)).collect();
        let mut parts = Vec::with_capacity(2 * run.len());
        let mut data = self.data.as_slice();
        for (block, header) in run.iter().zip(&headers) {
            let (ours, rest) = data.split_at(block.length);
            parts.extend([IoSlice::new(header), IoSlice::new(ours)]);
            data = rest;
        }
        if self.cuts && run.len() > 1 {
            let size = (HEADER + run[0].length) as u16;
            let sent = self
                .socket
                .async_io(Interest::WRITABLE, || cut(self.socket, &parts, size));
            match sent.await {
                Ok(()) => return Ok(()),
                Err(error) if is_refusal(&error) => {
                    debug!(%error, "the kernel does not cut datagrams on this way");
                    self.cuts = false;
                }
                Err(error) => return Err(error),
            }
        }
        for pair in parts.chunks(2) {
            let send = || {
                Ok(sendmsg::<()>(
                    self.socket.as_raw_fd(),
                    pair,
                    &[],
                    FLAGS,
                    None,
                )?)
            };
            self.socket.async_io(Interest::WRITABLE, send).await?;
        }
        Ok(())
    }
}

/// How many of these, from the first, may go in one piece.
fn run(blocks: &[Block]) -> usize {
    let first = &blocks[0];
    let most = (LARGEST / (HEADER + first.length)).clamp(1, MOST);
    let pairs = blocks.windows(2).take(most - 1);
    1 + pairs
        .take_while(|pair| pair[1].follows(&pair[0], first))
        .count()
}

const FLAGS: MsgFlags = MsgFlags::MSG_DONTWAIT;

fn cut(socket: &UdpSocket, parts: &[IoSlice<'_>], size: u16) -> io::Result<()> {
    let segments = [ControlMessage::UdpGsoSegments(&size)];
    sendmsg::<()>(socket.as_raw_fd(), parts, &segments, FLAGS, None)?;
    Ok(())
}

/// Blocks larger than the link takes at once, or a link without the arithmetic for it: each is sent by itself.
fn is_refusal(error: &io::Error) -> bool {
    let refusals = [
        Errno::EINVAL,
        Errno::EIO,
        Errno::EMSGSIZE,
        Errno::EOPNOTSUPP,
        Errno::ENOPROTOOPT,
    ];
    refusals
        .iter()
        .any(|errno| error.raw_os_error() == Some(*errno as i32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn blocks(size: usize, length: usize) -> Vec<Block> {
        (0..=size / length)
            .map(|at| Block {
                number: at as u16 + 1,
                offset: (at * length) as u64,
                length: length.min(size - at * length),
            })
            .collect()
    }

    #[test]
    fn a_piece_ends_where_the_file_does_not_go_on_and_where_it_is_large_enough() {
        assert_eq!(
            run(&blocks(10_000, 1000)),
            11,
            "with the empty one at the end"
        );
        assert_eq!(run(&blocks(200_000, 1468)), 44);
        assert_eq!(run(&blocks(100_000, 100)), MOST);
        assert_eq!(run(&blocks(200_000, 65_464)), 1);
        let mut gap = blocks(10_000, 1000);
        gap.remove(3);
        assert_eq!(run(&gap), 3);
        // A short block can only be the last.
        let mut again = blocks(1500, 1000);
        again.extend(blocks(1500, 1000));
        assert_eq!(run(&again), 2);
    }

    #[tokio::test]
    async fn every_block_arrives_as_a_datagram_whether_the_kernel_cuts_or_not() {
        let content: Arc<[u8]> = (0..100_000_u32).map(|n| (n % 251) as u8).collect();
        let item = Item::Made(content.clone());
        let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket.connect(client.local_addr().unwrap()).await.unwrap();
        for cuts in [true, false] {
            let mut sender = Blocks::new(&socket, &item);
            sender.cuts = cuts;
            // No more than a socket's buffer takes.
            for window in blocks(100_000, 1468).chunks(16) {
                for block in window {
                    sender.push(*block);
                }
                sender.flush().await.unwrap();
                for block in window {
                    let mut datagram = [0; 2000];
                    let length = client.recv(&mut datagram).await.unwrap();
                    let (header, data) = datagram[..length].split_at(HEADER);
                    assert_eq!(header, data_header(block.number));
                    let from = block.offset as usize;
                    assert!(*data == content[from..from + block.length], "{block:?}");
                }
            }
            assert_eq!(sender.cuts, cuts, "it does so on the loopback");
        }
    }
}
