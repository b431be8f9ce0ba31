//! A log of what was written since the database file was last brought up to date.
//!
//! ```text
//!   frame: length (4) | epoch (16) | digest (16) | payload
//! ```
//!
//! One write and one sync make a change durable, where a tree needs many. Frames follow one another from the start of
//! the file, which keeps its size, so that a sync has no metadata to write. The database file names the epoch whose
//! frames are newer than itself; naming another one makes all of them void at once.

use std::io;

use redb::StorageBackend;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

const HEAD: usize = 4 + 16 + DIGEST;
/// Of a SHA-256: enough to tell a frame from a torn one.
const DIGEST: usize = 16;

pub struct Log {
    file: Box<dyn StorageBackend>,
    capacity: u64,
    epoch: Uuid,
    end: u64,
}

impl Log {
    /// Opens the file, and gives what it holds of this epoch. Frames are added behind it.
    pub fn open(
        file: Box<dyn StorageBackend>,
        capacity: u64,
        epoch: Uuid,
    ) -> io::Result<(Self, Vec<Vec<u8>>)> {
        let mut log = Self {
            file,
            capacity,
            epoch,
            end: 0,
        };
        let mut frames = Vec::new();
        while let Some(frame) = log.frame()? {
            log.end += (HEAD + frame.len()) as u64;
            frames.push(frame);
        }
        // Blocks are given to a file when they are first written: do that now.
        if log.file.len()? < capacity {
            let from = log.file.len()?;
            log.file.set_len(capacity)?;
            log.file.write(from, &vec![0; (capacity - from) as usize])?;
            log.file.sync_data()?;
        }
        Ok((log, frames))
    }

    /// Whether a frame of so many bytes has room.
    pub fn has_room(&self, length: usize) -> bool {
        self.end + (HEAD + length) as u64 <= self.capacity
    }

    /// Returns when it will survive a power cut.
    pub fn append(&mut self, payload: &[u8]) -> io::Result<()> {
        let mut frame = Vec::with_capacity(HEAD + payload.len());
        frame.extend((payload.len() as u32).to_le_bytes());
        frame.extend(self.epoch.as_bytes());
        frame.extend(digest(self.epoch, payload));
        frame.extend(payload);
        self.file.write(self.end, &frame)?;
        self.file.sync_data()?;
        self.end += frame.len() as u64;
        Ok(())
    }

    pub fn is_empty(&self) -> bool {
        self.end == 0
    }

    /// All frames so far are void; the next is the first of this epoch.
    pub fn begin(&mut self, epoch: Uuid) {
        self.epoch = epoch;
        self.end = 0;
    }

    /// The next frame, if there is one and it is whole.
    fn frame(&self) -> io::Result<Option<Vec<u8>>> {
        let left = self.file.len()?.saturating_sub(self.end);
        if left < HEAD as u64 {
            return Ok(None);
        }
        let mut head = [0; HEAD];
        self.file.read(self.end, &mut head)?;
        let (length, rest) = head.split_at(4);
        let (epoch, told) = rest.split_at(16);
        let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]);
        if epoch != self.epoch.as_bytes() || u64::from(length) > left - HEAD as u64 {
            return Ok(None);
        }
        let mut payload = vec![0; length as usize];
        self.file.read(self.end + HEAD as u64, &mut payload)?;
        Ok((told == digest(self.epoch, &payload)).then_some(payload))
    }
}

fn digest(epoch: Uuid, payload: &[u8]) -> [u8; DIGEST] {
    let full = Sha256::new()
        .chain_update(epoch.as_bytes())
        .chain_update(payload)
        .finalize();
    let mut short = [0; DIGEST];
    short.copy_from_slice(&full[..DIGEST]);
    short
}
