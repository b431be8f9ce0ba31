//! Looking at the first bytes of a reader without losing them.

use std::io::{self, BufReader, Chain, Cursor, Read};

/// A reader that gives the peeked bytes again, then the rest.
pub type Peeked<R> = Chain<Cursor<Vec<u8>>, BufReader<R>>;

const BUFFER: usize = 256 << 10;

/// The first bytes, fewer than `most` only if there are no more.
pub fn peek<R: Read>(mut source: R, most: usize) -> io::Result<(Vec<u8>, Peeked<R>)> {
    let mut head = vec![];
    (&mut source).take(most as u64).read_to_end(&mut head)?;
    let whole = Cursor::new(head.clone()).chain(BufReader::with_capacity(BUFFER, source));
    Ok((head, whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peeked_bytes_are_read_again() {
        for (text, head) in [(&b"abcdef"[..], &b"abc"[..]), (b"a", b"a"), (b"", b"")] {
            let (peeked, mut whole) = peek(text, 3).unwrap();
            let mut all = vec![];
            whole.read_to_end(&mut all).unwrap();
            assert_eq!((peeked.as_slice(), all.as_slice()), (head, text));
        }
    }
}
