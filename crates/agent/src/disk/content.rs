//! The disk that an image describes, block by block, whatever the image's format.

use std::fs::File;
use std::io::{self, Read};

use media::qcow2::{self, Cluster, Image};

use super::aligned::{BLOCK, is_zero};

pub enum Content<R> {
    Stream(R),
    Qcow2(Unpacked),
}

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    /// `len` bytes at the beginning of the block; only the last piece is shorter than a block.
    Data {
        len: usize,
    },
    Zeros {
        len: usize,
    },
    End,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Stream(io::Error),
    #[error(transparent)]
    Qcow2(qcow2::Error),
}

impl<R: Read> Content<R> {
    pub fn next(&mut self, block: &mut [u8]) -> Result<Piece, Error> {
        match self {
            Self::Stream(source) => read_block(source, block).map_err(Error::Stream),
            Self::Qcow2(image) => image.next(block).map_err(Error::Qcow2),
        }
    }
}

fn read_block(source: &mut impl Read, block: &mut [u8]) -> io::Result<Piece> {
    let mut len = 0;
    while len < block.len() {
        match source.read(&mut block[len..])? {
            0 => break,
            more => len += more,
        }
    }
    Ok(match len {
        0 => Piece::End,
        len if is_zero(&block[..len]) => Piece::Zeros { len },
        len => Piece::Data { len },
    })
}

/// A qcow2 image read from its beginning to its end.
pub struct Unpacked {
    image: Image<File>,
    at: u64,
    /// The last cluster read with data, for clusters may be larger than a block.
    cluster: Vec<u8>,
    in_cluster: Option<(u64, bool)>,
}

impl Unpacked {
    pub fn new(image: Image<File>) -> Self {
        let cluster = vec![0; image.cluster_size()];
        Self {
            image,
            at: 0,
            cluster,
            in_cluster: None,
        }
    }

    fn next(&mut self, block: &mut [u8]) -> Result<Piece, qcow2::Error> {
        let len = (self.image.size() - self.at).min(BLOCK as u64) as usize;
        if len == 0 {
            return Ok(Piece::End);
        }
        // Untouched while everything so far is a hole.
        let mut filled = None;
        let mut done = 0;
        while done < len {
            let size = self.cluster.len() as u64;
            let (number, skip) = (self.at / size, (self.at % size) as usize);
            let part = (self.cluster.len() - skip).min(len - done);
            if self.holds_data(number)? {
                if filled.is_none() {
                    block[..done].fill(0);
                }
                filled = Some(());
                block[done..done + part].copy_from_slice(&self.cluster[skip..skip + part]);
            } else if filled.is_some() {
                block[done..done + part].fill(0);
            }
            done += part;
            self.at += part as u64;
        }
        Ok(match filled {
            Some(()) if !is_zero(&block[..len]) => Piece::Data { len },
            Some(()) | None => Piece::Zeros { len },
        })
    }

    fn holds_data(&mut self, number: u64) -> Result<bool, qcow2::Error> {
        if let Some((read, data)) = self.in_cluster
            && read == number
        {
            return Ok(data);
        }
        let data = match self.image.read(number, &mut self.cluster)? {
            Cluster::Zero => false,
            Cluster::Data { .. } => true,
        };
        self.in_cluster = Some((number, data));
        Ok(data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_cut_into_blocks_and_holes() {
        let mut bytes = vec![1; BLOCK];
        bytes.extend(vec![0; BLOCK]);
        bytes.extend([0, 0, 5]);
        let mut content = Content::Stream(&bytes[..]);
        let mut block = vec![9; BLOCK];
        let mut pieces = vec![];
        loop {
            match content.next(&mut block).unwrap() {
                Piece::End => break,
                piece @ (Piece::Data { .. } | Piece::Zeros { .. }) => pieces.push(piece),
            }
        }
        assert_eq!(
            pieces,
            [
                Piece::Data { len: BLOCK },
                Piece::Zeros { len: BLOCK },
                Piece::Data { len: 3 }
            ]
        );
    }
}
