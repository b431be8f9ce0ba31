//! A reader that hashes and counts what passes: the bytes as they were transferred, before anything unpacks them.

use std::cell::Cell;
use std::io::{self, Read};

use super::checksum::{Algorithm, Checksum, Hasher};

#[derive(Debug)]
pub struct Hashed<'a, R> {
    source: R,
    hasher: Option<Hasher>,
    /// Seen by whoever reports progress while the pipeline holds the reader.
    count: &'a Cell<u64>,
}

impl<'a, R: Read> Hashed<'a, R> {
    pub fn new(source: R, algorithm: Option<Algorithm>, count: &'a Cell<u64>) -> Self {
        Self {
            source,
            hasher: algorithm.map(Hasher::new),
            count,
        }
    }

    /// Reads what the unpacker left unread, for the checksum is over all of it.
    pub fn finish(mut self) -> io::Result<Option<Checksum>> {
        let mut rest = vec![0; 64 << 10];
        while self.read(&mut rest)? > 0 {}
        Ok(self.hasher.map(Hasher::finish))
    }
}

impl<R: Read> Read for Hashed<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let more = self.source.read(buffer)?;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&buffer[..more]);
        }
        self.count.set(self.count.get() + more as u64);
        Ok(more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_that_nobody_read_is_hashed_too() {
        let count = Cell::new(0);
        let mut hashed = Hashed::new(&b"image and rest"[..], Some(Algorithm::Sha256), &count);
        hashed.read_exact(&mut [0; 5]).unwrap();
        assert_eq!(count.get(), 5);
        let mut whole = Hasher::new(Algorithm::Sha256);
        whole.update(b"image and rest");
        assert_eq!(hashed.finish().unwrap(), Some(whole.finish()));
        assert_eq!(count.get(), 14);
    }
}
