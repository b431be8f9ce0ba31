//! Keys and values on disk: a database file, and the log of what is newer.
//!
//! Entries go to the log, and from there to the database file when the log is full or the owner says so. One write and
//! one sync of the log make any number of entries durable together.

pub mod disk;
mod log;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use redb::backends::FileBackend;
use redb::{
    Database, ReadableDatabase, ReadableTable, StorageBackend, StorageError, TableDefinition,
    WriteTransaction,
};
use uuid::Uuid;

use log::Log;

const RECORDS: TableDefinition<&str, &[u8]> = TableDefinition::new("records");
/// Under `epoch`: frames of the log that are newer than this file.
const LOG: TableDefinition<&str, u128> = TableDefinition::new("log");
const EPOCH: &str = "epoch";

/// A key and its value; without a value where it is gone.
pub type Entry = (String, Option<Vec<u8>>);
type Newer = BTreeMap<String, Option<Vec<u8>>>;

pub struct Ledger {
    database: Arc<Database>,
    log: Log,
    /// In the log, and not in the database file yet.
    newer: Newer,
}

/// What was found on disk.
pub struct Found {
    /// In the database file.
    pub saved: BTreeMap<String, Vec<u8>>,
    /// In the log, in the order of writing.
    pub newer: Vec<Entry>,
}

impl Found {
    /// What there is now.
    pub fn entries(mut self) -> BTreeMap<String, Vec<u8>> {
        for (key, value) in self.newer {
            match value {
                Some(value) => _ = self.saved.insert(key, value),
                None => _ = self.saved.remove(&key),
            }
        }
        self.saved
    }
}

impl Ledger {
    /// Reads all entries. Up to `capacity` bytes may be newer than the database file.
    pub fn open(
        database: Arc<Database>,
        log: Box<dyn StorageBackend>,
        capacity: u64,
    ) -> Result<(Self, Found), redb::Error> {
        let epoch = prepare(&database)?;
        let (log, frames) = Log::open(log, capacity, epoch).map_err(StorageError::from)?;
        let mut newer = Vec::new();
        for frame in &frames {
            decode_frame(frame, &mut newer);
        }
        let mut saved = BTreeMap::new();
        let records = database.begin_read()?.open_table(RECORDS)?;
        for entry in records.iter()? {
            let (key, value) = entry?;
            saved.insert(key.value().to_owned(), value.value().to_vec());
        }
        let ledger = Self {
            database,
            log,
            newer: newer.iter().cloned().collect(),
        };
        Ok((ledger, Found { saved, newer }))
    }

    /// All entries together, or none. Returns when they will survive a power cut.
    pub fn write(&mut self, entries: Vec<Entry>) -> Result<(), redb::Error> {
        let frame = self.add(entries);
        if !self.log.has_room(frame.len()) {
            return self.save(|_| Ok(()));
        }
        Ok(self.log.append(&frame).map_err(StorageError::from)?)
    }

    /// As [`Self::write`], together with tables of the caller's own, which are only in the database file.
    pub fn write_with(
        &mut self,
        entries: Vec<Entry>,
        more: impl FnOnce(&WriteTransaction) -> Result<(), redb::Error>,
    ) -> Result<(), redb::Error> {
        self.add(entries);
        self.save(more)
    }

    /// True while something is in the log alone.
    pub fn is_behind(&self) -> bool {
        !self.log.is_empty()
    }

    /// Brings the database file up to date, and empties the log.
    pub fn save(
        &mut self,
        more: impl FnOnce(&WriteTransaction) -> Result<(), redb::Error>,
    ) -> Result<(), redb::Error> {
        let epoch = Uuid::new_v4();
        let transaction = self.database.begin_write()?;
        {
            let mut records = transaction.open_table(RECORDS)?;
            for (key, value) in &self.newer {
                match value {
                    Some(value) => _ = records.insert(key.as_str(), value.as_slice())?,
                    None => _ = records.remove(key.as_str())?,
                }
            }
            let mut log = transaction.open_table(LOG)?;
            log.insert(EPOCH, epoch.as_u128())?;
        }
        more(&transaction)?;
        transaction.commit()?;
        self.log.begin(epoch);
        self.newer.clear();
        Ok(())
    }

    /// Takes note of the entries, and makes a frame of them.
    fn add(&mut self, entries: Vec<Entry>) -> Vec<u8> {
        let mut frame = Vec::new();
        for (key, value) in entries {
            encode_entry(&mut frame, &key, value.as_deref());
            self.newer.insert(key, value);
        }
        frame
    }
}

/// Bytes of the database file kept in memory. Entries are in their owner's memory already; this is for the tree itself.
const CACHE: usize = 4 << 20;

/// Opens or makes a database file and its log, for the owner's eyes only: they may hold passwords.
pub fn open_files(path: &Path) -> Result<(Database, Box<dyn StorageBackend>), redb::Error> {
    let file = open_private(path).map_err(StorageError::from)?;
    let database = Database::builder()
        .set_cache_size(CACHE)
        .create_file(file)?;
    // Nobody else opens the log, for the database file is locked.
    let mut log = path.as_os_str().to_owned();
    log.push(".log");
    let log = open_private(Path::new(&log)).map_err(StorageError::from)?;
    let log = FileBackend::new(log)?;
    // New files are lost in a power cut unless their directory is on disk too.
    if let Some(parent) = path.parent().filter(|parent| *parent != Path::new("")) {
        let directory = std::fs::File::open(parent).and_then(|parent| parent.sync_all());
        directory.map_err(StorageError::from)?;
    }
    Ok((database, Box::new(log)))
}

fn open_private(path: &Path) -> io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

/// The epoch of the log; a new file gets one, and the tables, so that readers find them.
fn prepare(database: &Database) -> Result<Uuid, redb::Error> {
    let transaction = database.begin_write()?;
    transaction.open_table(RECORDS)?;
    let epoch = {
        let mut log = transaction.open_table(LOG)?;
        let known = log.get(EPOCH)?.map(|epoch| epoch.value());
        let epoch = known.unwrap_or_else(|| Uuid::new_v4().as_u128());
        log.insert(EPOCH, epoch)?;
        Uuid::from_u128(epoch)
    };
    transaction.commit()?;
    Ok(epoch)
}

/// Lengths of key and value, in 4 bytes each, then both. The length of no value is all ones.
fn encode_entry(frame: &mut Vec<u8>, key: &str, value: Option<&[u8]>) {
    let length = value.map_or(u32::MAX, |value| value.len() as u32);
    frame.extend((key.len() as u32).to_le_bytes());
    frame.extend(length.to_le_bytes());
    frame.extend(key.as_bytes());
    frame.extend(value.unwrap_or_default());
}

/// A frame is whole, for its digest is right.
fn decode_frame(mut frame: &[u8], newer: &mut Vec<Entry>) {
    while let Some((entry, rest)) = decode_entry(frame) {
        newer.push(entry);
        frame = rest;
    }
}

fn decode_entry(bytes: &[u8]) -> Option<(Entry, &[u8])> {
    let (key_length, rest) = bytes.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let (key, rest) = rest.split_at_checked(u32::from_le_bytes(*key_length) as usize)?;
    let key = String::from_utf8(key.to_vec()).ok()?;
    match u32::from_le_bytes(*length) {
        u32::MAX => Some(((key, None), rest)),
        length => {
            let (value, rest) = rest.split_at_checked(length as usize)?;
            Some(((key, Some(value.to_vec())), rest))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_frame_says_what_was_put_in(entries: Vec<(String, Option<Vec<u8>>)>) {
            let mut frame = Vec::new();
            for (key, value) in &entries {
                encode_entry(&mut frame, key, value.as_deref());
            }
            let mut newer = Vec::new();
            decode_frame(&frame, &mut newer);
            prop_assert_eq!(newer, entries);
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes: Vec<u8>) {
            decode_frame(&bytes, &mut Vec::new());
        }
    }
}
