//! A disk in memory that keeps only what was synced: for tests of what a power cut leaves behind.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::{Database, StorageBackend};

/// A database file and its log. Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    database: Platter,
    log: Platter,
    /// Syncs until it breaks.
    left: Arc<Mutex<Option<u32>>>,
}

/// One file.
#[derive(Clone, Debug, Default)]
struct Platter {
    bytes: Arc<Mutex<Bytes>>,
    left: Arc<Mutex<Option<u32>>>,
}

#[derive(Debug, Default)]
struct Bytes {
    now: Vec<u8>,
    kept: Vec<u8>,
}

impl Disk {
    /// What a machine finds after a power cut: all that was kept, and of the rest whatever sectors happened to make it.
    #[must_use]
    pub fn after_a_power_cut(&self, mut luck: u64) -> Self {
        let left = Arc::new(Mutex::new(None));
        Self {
            database: self.database.after_a_power_cut(&mut luck, &left),
            log: self.log.after_a_power_cut(&mut luck, &left),
            left,
        }
    }

    pub fn breaks_after(&self, syncs: u32) {
        *lock(&self.left) = Some(syncs);
    }

    pub fn is_mended(&self) {
        *lock(&self.left) = None;
    }

    /// As [`super::open_files`].
    pub fn open_files(&self) -> Result<(Database, Box<dyn StorageBackend>), redb::Error> {
        let file = |platter: &Platter| Platter {
            bytes: Arc::clone(&platter.bytes),
            left: Arc::clone(&self.left),
        };
        let database = Database::builder().create_with_backend(file(&self.database))?;
        Ok((database, Box::new(file(&self.log))))
    }
}

impl Platter {
    fn after_a_power_cut(&self, luck: &mut u64, left: &Arc<Mutex<Option<u32>>>) -> Self {
        let bytes = lock(&self.bytes);
        let mut found = bytes.kept.clone();
        if found.len() < bytes.now.len() && *luck & 1 == 1 {
            found.resize(bytes.now.len(), 0);
        }
        for (sector, newer) in found.chunks_mut(512).zip(bytes.now.chunks(512)) {
            *luck = luck
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            if *luck >> 63 == 1 && sector.len() == newer.len() {
                sector.copy_from_slice(newer);
            }
        }
        Self {
            bytes: Arc::new(Mutex::new(Bytes {
                now: found.clone(),
                kept: found,
            })),
            left: Arc::clone(left),
        }
    }
}

impl StorageBackend for Platter {
    fn len(&self) -> io::Result<u64> {
        Ok(lock(&self.bytes).now.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let bytes = lock(&self.bytes);
        let start = offset as usize;
        let found = bytes
            .now
            .get(start..start + out.len())
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(found);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        lock(&self.bytes).now.resize(len as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        match &mut *lock(&self.left) {
            Some(0) => return Err(io::Error::other("the disk is broken")),
            Some(left) => *left -= 1,
            None => {}
        }
        let mut bytes = lock(&self.bytes);
        let now = bytes.now.clone();
        bytes.kept = now;
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut bytes = lock(&self.bytes);
        let start = offset as usize;
        bytes
            .now
            .get_mut(start..start + data.len())
            .ok_or(io::ErrorKind::UnexpectedEof)?
            .copy_from_slice(data);
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
