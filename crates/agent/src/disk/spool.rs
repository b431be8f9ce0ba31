//! A file, given by the caller, that holds a streamed image which must be read at many places.

use std::fs::File;
use std::io::{self, Read, Seek, Write};

#[derive(Debug)]
pub struct Spool {
    pub file: File,
    /// The most bytes it may take; the ramdisk's memory is all there is.
    pub limit: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("read what goes into the spool file")]
    Read(#[source] io::Error),
    #[error("the image is larger than the {limit} bytes there are for it")]
    TooLarge { limit: u64 },
    #[error("write the spool file")]
    Write(#[source] io::Error),
}

impl Spool {
    /// The file with all of the source in it, at its beginning.
    pub fn fill(
        mut self,
        source: &mut impl Read,
        mut show: impl FnMut(u64),
    ) -> Result<File, Error> {
        self.file.set_len(0).map_err(Error::Write)?;
        self.file.rewind().map_err(Error::Write)?;
        let mut block = vec![0; 1 << 20];
        let mut done = 0;
        loop {
            let more = source.read(&mut block).map_err(Error::Read)?;
            if more == 0 {
                break;
            }
            done += more as u64;
            if done > self.limit {
                return Err(Error::TooLarge { limit: self.limit });
            }
            self.file.write_all(&block[..more]).map_err(Error::Write)?;
            show(done);
        }
        self.file.rewind().map_err(Error::Write)?;
        Ok(self.file)
    }
}
