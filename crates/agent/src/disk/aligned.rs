//! A block of memory that begins where direct I/O wants it to.

/// One unit of writing.
pub const BLOCK: usize = 1 << 20;

/// No device or file system asks for more.
pub const ALIGNMENT: usize = 4096;

/// `BLOCK` bytes at an address that is a multiple of `ALIGNMENT`.
#[derive(Debug)]
pub struct Block {
    memory: Vec<u8>,
    start: usize,
}

impl Block {
    pub fn new() -> Self {
        let memory = vec![0; BLOCK + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        Self { memory, start }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + BLOCK]
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + BLOCK]
    }
}

impl Default for Block {
    fn default() -> Self {
        Self::new()
    }
}

pub fn is_aligned(bytes: &[u8]) -> bool {
    bytes.as_ptr().align_offset(ALIGNMENT) == 0 && bytes.len().is_multiple_of(ALIGNMENT)
}

/// Whether there is nothing but zeros; in pieces, which the compiler turns into wide compares.
pub fn is_zero(bytes: &[u8]) -> bool {
    let (pieces, rest) = bytes.as_chunks::<128>();
    let any = |piece: &[u8]| piece.iter().fold(0, |any, byte| any | byte);
    pieces.iter().all(|piece| any(piece) == 0) && any(rest) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_whole_and_aligned() {
        let block = Block::new();
        assert_eq!(block.bytes().len(), BLOCK);
        assert!(is_aligned(block.bytes()));
        assert!(!is_aligned(&block.bytes()[1..]));
    }

    #[test]
    fn a_single_bit_anywhere_is_not_zero() {
        let mut bytes = vec![0; 300];
        assert!(is_zero(&bytes) && is_zero(&[]));
        for at in 0..bytes.len() {
            bytes[at] = 1;
            assert!(!is_zero(&bytes), "{at}");
            bytes[at] = 0;
        }
    }
}
