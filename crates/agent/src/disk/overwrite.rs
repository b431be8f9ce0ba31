//! Writing over every byte of a disk that cannot erase itself.

use std::time::Instant;

use super::aligned::Block;
use super::target::Store;
use super::writer;
use super::{Phase, Progress};

/// Random passes, then zeros; the zeros also where no pass was asked for, so that nothing readable stays.
pub fn overwrite<S: Store>(
    disk: &mut S,
    passes: u32,
    zeros: bool,
    seed: u64,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), writer::Error> {
    let zero_pass = zeros || passes == 0;
    let total = disk.size() * u64::from(passes + u32::from(zero_pass));
    let started = Instant::now();
    let mut done = 0;
    let mut random = seed;
    let mut block = Block::new();
    for pass in 0..passes + u32::from(zero_pass) {
        let mut at = 0;
        while at < disk.size() {
            let len = (disk.size() - at).min(block.bytes().len() as u64);
            if pass < passes {
                fill(block.bytes_mut(), &mut random);
            } else if at == 0 {
                block.bytes_mut().fill(0);
            }
            disk.write(at, &block.bytes()[..len as usize])
                .map_err(|source| writer::Error::Write { at, source })?;
            at += len;
            done += len;
            progress(Progress {
                phase: Phase::Write,
                bytes: done,
                total: Some(total),
                elapsed: started.elapsed(),
            });
        }
        disk.sync().map_err(writer::Error::Sync)?;
    }
    Ok(())
}

/// Nobody must be able to tell it from data, but nobody is hurt who can: SplitMix64.
fn fill(block: &mut [u8], state: &mut u64) {
    for chunk in block.chunks_mut(8) {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        chunk.copy_from_slice(&(z ^ (z >> 31)).to_le_bytes()[..chunk.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Target;

    #[test]
    fn every_byte_is_written_over_and_progress_reaches_the_end() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), vec![0xaa; (3 << 20) + 512]).unwrap();
        let mut target = Target::open(file.path()).unwrap();
        let mut last = None;
        let mut show = |progress: Progress| last = progress.percent();
        overwrite(&mut target, 1, false, 5, &mut show).unwrap();
        assert_eq!(last, Some(100));
        let bytes = std::fs::read(file.path()).unwrap();
        let old = bytes.windows(8).position(|window| *window == [0xaa; 8]);
        assert_eq!(old, None, "old bytes are still there");
        let mut show = |_| ();
        overwrite(&mut target, 0, false, 5, &mut show).unwrap();
        assert!(
            std::fs::read(file.path())
                .unwrap()
                .iter()
                .all(|byte| *byte == 0)
        );
    }
}
