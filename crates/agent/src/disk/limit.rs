//! The first reader of the pipeline: a source that must be as long as was said, not a byte less or more.

use std::io::{self, Read};

/// What is wrong with the source itself. It travels inside an `io::Error` and is taken out with [`Error::of`], so
/// that a broken transfer is not mistaken for broken contents.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the source ended after {got} of {expected} bytes")]
    Short { expected: u64, got: u64 },
    #[error("the source goes on after the expected {expected} bytes")]
    Long { expected: u64 },
    #[error("the source failed after {got} bytes")]
    Source { got: u64, source: io::Error },
}

impl Error {
    /// The source's error, if that is what the pipeline failed with.
    pub fn of(error: io::Error) -> Result<Self, io::Error> {
        error.downcast()
    }
}

#[derive(Debug)]
pub struct Limited<R> {
    source: R,
    expected: Option<u64>,
    got: u64,
}

impl<R: Read> Limited<R> {
    pub fn new(source: R, expected: Option<u64>) -> Self {
        Self {
            source,
            expected,
            got: 0,
        }
    }
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let more = loop {
            match self.source.read(buffer) {
                Ok(more) => break more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => {
                    let got = self.got;
                    return Err(io::Error::other(Error::Source { got, source }));
                }
            }
        };
        self.got += more as u64;
        match self.expected {
            Some(expected) if self.got > expected => {
                Err(io::Error::other(Error::Long { expected }))
            }
            Some(expected) if more == 0 && self.got < expected => {
                let got = self.got;
                Err(io::Error::other(Error::Short { expected, got }))
            }
            Some(_) | None => Ok(more),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], expected: Option<u64>) -> Result<Vec<u8>, String> {
        let mut all = vec![];
        match Limited::new(bytes, expected).read_to_end(&mut all) {
            Ok(_) => Ok(all),
            Err(error) => Err(Error::of(error).unwrap().to_string()),
        }
    }

    #[test]
    fn only_the_expected_length_passes() {
        assert_eq!(read(b"12345", Some(5)).unwrap(), b"12345");
        assert_eq!(read(b"12345", None).unwrap(), b"12345");
        assert_eq!(
            read(b"123", Some(5)).unwrap_err(),
            "the source ended after 3 of 5 bytes"
        );
        assert_eq!(
            read(b"1234567", Some(5)).unwrap_err(),
            "the source goes on after the expected 5 bytes"
        );
    }
}
