//! The order in which a disk is written, so that it boots only when it is whole.
//!
//! ```text
//!   begin:   ends := 0          sync     what was there before no longer boots
//!   write:   the middle                  ends are kept in memory
//!   finish:  sync, last MiB     sync     the backup of a GPT boots under UEFI, too
//!            first MiB          sync
//! ```
//!
//! A power cut at any line leaves a first MiB of zeros, or a whole disk.

use std::io;

use super::aligned::{ALIGNMENT, BLOCK, Block};
use super::target::Store;

pub struct Writer<'a, S: Store> {
    store: &'a mut S,
    first: Vec<u8>,
    /// Blocks that touch the last MiB of the disk, with their places.
    last: Vec<(u64, Vec<u8>)>,
    at: u64,
    /// Zeros before `at` that are not written yet.
    zeros: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("write the disk at byte {at}")]
    Write { at: u64, source: io::Error },
    #[error("flush the disk")]
    Sync(#[source] io::Error),
    #[error("the image needs at least {needed} bytes, the disk has {disk}")]
    TooLarge { needed: u64, disk: u64 },
}

/// Zeros are written in runs, short enough that progress is seen.
const LONGEST_RUN: u64 = 64 << 20;

impl<'a, S: Store> Writer<'a, S> {
    pub fn begin(store: &'a mut S) -> Result<Self, Error> {
        wipe_ends(store)?;
        Ok(Self {
            store,
            first: vec![],
            last: vec![],
            at: 0,
            zeros: 0,
        })
    }

    /// Whether that many bytes have a place.
    pub fn make_room(&self, needed: u64) -> Result<(), Error> {
        let disk = self.store.size();
        if needed > disk {
            return Err(Error::TooLarge { needed, disk });
        }
        Ok(())
    }

    /// The next `len` bytes of the disk: a whole block, or the last piece.
    pub fn data(&mut self, block: &mut Block, len: usize) -> Result<(), Error> {
        let at = self.at;
        self.make_room(at + len as u64)?;
        self.flush_zeros()?;
        self.at += len as u64;
        if at == 0 {
            self.first = block.bytes()[..len].to_vec();
        } else if at + 2 * BLOCK as u64 > self.store.size() {
            self.last.push((at, block.bytes()[..len].to_vec()));
        } else {
            // Whole sectors; this is not near the end of the disk, so there is room.
            let padded = len.next_multiple_of(ALIGNMENT);
            block.bytes_mut()[len..padded].fill(0);
            self.write(at, &block.bytes()[..padded])?;
        }
        Ok(())
    }

    /// The next `len` bytes are zeros.
    pub fn zeros(&mut self, len: usize) -> Result<(), Error> {
        self.make_room(self.at + len as u64)?;
        self.at += len as u64;
        self.zeros += len as u64;
        if self.zeros >= LONGEST_RUN {
            self.flush_zeros()?;
        }
        Ok(())
    }

    /// Makes the disk what it shall be. The caller has verified everything by now.
    pub fn finish(mut self) -> Result<u64, Error> {
        self.flush_zeros()?;
        self.sync()?;
        if !self.last.is_empty() {
            for (at, data) in std::mem::take(&mut self.last) {
                self.write(at, &data)?;
            }
            self.sync()?;
        }
        let first = std::mem::take(&mut self.first);
        self.write(0, &first)?;
        self.sync()?;
        Ok(self.at)
    }

    fn flush_zeros(&mut self) -> Result<(), Error> {
        let (start, len) = (self.at - self.zeros, self.zeros);
        self.zeros = 0;
        // Sectors only: the image's last one may end before the disk's does, and what follows it is the image's.
        let end = (start + len)
            .next_multiple_of(ALIGNMENT as u64)
            .min(self.store.size());
        if len == 0 {
            return Ok(());
        }
        self.store
            .zero(start, end - start)
            .map_err(|source| Error::Write { at: start, source })
    }

    fn write(&mut self, at: u64, data: &[u8]) -> Result<(), Error> {
        self.store
            .write(at, data)
            .map_err(|source| Error::Write { at, source })
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.store.sync().map_err(Error::Sync)
    }
}

/// Zeros in the first and the last MiB: nothing on the disk boots, and no partition table is left.
pub fn wipe_ends(store: &mut impl Store) -> Result<(), Error> {
    let (size, block) = (store.size(), BLOCK as u64);
    for (at, len) in [
        (0, size.min(block)),
        (size.saturating_sub(block), size.min(block)),
    ] {
        store
            .zero(at, len)
            .map_err(|source| Error::Write { at, source })?;
    }
    store.sync().map_err(Error::Sync)
}
