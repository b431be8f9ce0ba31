//! Where records lie: the database file, and the log of what is newer.
//!
//! Records go to the log, and from there to the database file when the log is full, when nothing else is to be done,
//! and at the end. Documents are large and rare: they go to the database file at once, with all that the log holds.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use redb::{
    Database, ReadableDatabase, ReadableTable, StorageBackend, StorageError, TableDefinition,
};
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::log::Log;
use super::{Change, Error, Tables};
use crate::record::{Allocation, Kept, Node, Port, Portgroup, Record, Row};

/// By kind and uuid, as JSON.
const RECORDS: TableDefinition<&str, &[u8]> = TableDefinition::new("records");
pub(super) const DOCUMENTS: TableDefinition<&str, &[u8]> = TableDefinition::new("documents");
/// Under `epoch`: frames of the log that are newer than this file.
const LOG: TableDefinition<&str, u128> = TableDefinition::new("log");
const EPOCH: &str = "epoch";

/// A record's key, and the record as it is written; without a value where it is gone.
type Entry = (String, Option<Vec<u8>>);
type Newer = BTreeMap<String, Option<Vec<u8>>>;

pub(super) struct Ledger {
    database: Arc<Database>,
    log: Log,
    /// In the log, and not in the database file yet.
    newer: Newer,
}

impl Ledger {
    /// Reads all records. Makes the tables in a new file, so that readers find them.
    pub fn open(
        database: Arc<Database>,
        log: Box<dyn StorageBackend>,
        capacity: u64,
        path: &Path,
    ) -> Result<(Self, Tables), Error> {
        let read = || -> Result<_, redb::Error> {
            let epoch = prepare(&database)?;
            let (log, frames) = Log::open(log, capacity, epoch).map_err(StorageError::from)?;
            let mut newer = Newer::new();
            for frame in &frames {
                decode_frame(frame, &mut newer);
            }
            let mut found = Newer::new();
            let records = database.begin_read()?.open_table(RECORDS)?;
            for entry in records.iter()? {
                let (key, value) = entry?;
                found.insert(key.value().to_owned(), Some(value.value().to_vec()));
            }
            found.extend(newer.clone());
            Ok((log, newer, found))
        };
        let (log, newer, found) = read().map_err(|source| Error::Read {
            path: path.to_owned(),
            source: Box::new(source),
        })?;
        let mut tables = Tables::default();
        for (key, value) in found {
            let Some(value) = value else { continue };
            let record = decode(&key, &value).map_err(|source| Error::Record {
                path: path.to_owned(),
                key,
                source,
            })?;
            tables.apply(&[Change::Put(record)]);
        }
        let ledger = Self {
            database,
            log,
            newer,
        };
        Ok((ledger, tables))
    }

    /// Returns when all of it will survive a power cut.
    pub fn write(&mut self, changes: &[&Change]) -> Result<(), redb::Error> {
        let mut frame = Vec::new();
        let mut documents = Vec::new();
        for change in changes {
            let (key, value) = match change {
                Change::Put(record) => (key(record), Some(encode(record))),
                Change::Remove(record) => (key(record), None),
                Change::PutDocument { .. } | Change::RemoveDocuments { .. } => {
                    documents.push(*change);
                    continue;
                }
            };
            encode_frame(&mut frame, &key, value.as_deref());
            self.newer.insert(key, value);
        }
        if !documents.is_empty() || !self.log.has_room(frame.len()) {
            return self.save(&documents);
        }
        Ok(self.log.append(&frame).map_err(StorageError::from)?)
    }

    /// True while something is in the log alone.
    pub fn is_behind(&self) -> bool {
        !self.log.is_empty()
    }

    /// Brings the database file up to date, with these documents, and empties the log.
    pub fn save(&mut self, documents: &[&Change]) -> Result<(), redb::Error> {
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
            let mut table = transaction.open_table(DOCUMENTS)?;
            for change in documents {
                write_document(&mut table, change)?;
            }
            let mut log = transaction.open_table(LOG)?;
            log.insert(EPOCH, epoch.as_u128())?;
        }
        transaction.commit()?;
        self.log.begin(epoch);
        self.newer.clear();
        Ok(())
    }
}

/// The epoch of the log; a new file gets one.
fn prepare(database: &Database) -> Result<Uuid, redb::Error> {
    let transaction = database.begin_write()?;
    transaction.open_table(RECORDS)?;
    transaction.open_table(DOCUMENTS)?;
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

fn write_document(
    table: &mut redb::Table<'_, &str, &[u8]>,
    change: &Change,
) -> Result<(), redb::Error> {
    match change {
        Change::Put(_) | Change::Remove(_) => {}
        Change::PutDocument { key, value } => {
            table.insert(key.as_str(), value.as_slice())?;
        }
        Change::RemoveDocuments { prefix } => {
            let mut gone = Vec::new();
            for entry in table.range(prefix.as_str()..)? {
                let key = entry?.0.value().to_owned();
                if !key.starts_with(prefix) {
                    break;
                }
                gone.push(key);
            }
            for key in gone {
                table.remove(key.as_str())?;
            }
        }
    }
    Ok(())
}

/// Lengths of key and value, in 4 bytes each, then both. The length of no value is all ones.
fn encode_frame(frame: &mut Vec<u8>, key: &str, value: Option<&[u8]>) {
    let length = value.map_or(u32::MAX, |value| value.len() as u32);
    frame.extend((key.len() as u32).to_le_bytes());
    frame.extend(length.to_le_bytes());
    frame.extend(key.as_bytes());
    frame.extend(value.unwrap_or_default());
}

/// A frame is whole, for its digest is right.
fn decode_frame(mut frame: &[u8], newer: &mut Newer) {
    while let Some((entry, rest)) = decode_entry(frame) {
        newer.extend([entry]);
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

fn key(record: &Record) -> String {
    fn of<T: Row>(row: &T) -> String {
        format!("{}/{}", T::KIND, row.uuid())
    }
    match record {
        Record::Node(node) => of(&**node),
        Record::Port(port) => of(&**port),
        Record::Portgroup(portgroup) => of(&**portgroup),
        Record::Allocation(allocation) => of(&**allocation),
        Record::Kept(kept) => of(&**kept),
    }
}

fn encode(record: &Record) -> Vec<u8> {
    let value = match record {
        Record::Node(node) => serde_json::to_vec(&**node),
        Record::Port(port) => serde_json::to_vec(&**port),
        Record::Portgroup(portgroup) => serde_json::to_vec(&**portgroup),
        Record::Allocation(allocation) => serde_json::to_vec(&**allocation),
        Record::Kept(kept) => serde_json::to_vec(&**kept),
    };
    value.expect("records have only text for keys")
}

fn decode(key: &str, value: &[u8]) -> Result<Record, serde_json::Error> {
    fn read<T: DeserializeOwned>(value: &[u8]) -> Result<T, serde_json::Error> {
        serde_json::from_slice(value)
    }
    match key.split_once('/').map_or(key, |(kind, _)| kind) {
        Node::KIND => read::<Node>(value).map(Into::into),
        Port::KIND => read::<Port>(value).map(Into::into),
        Portgroup::KIND => read::<Portgroup>(value).map(Into::into),
        Allocation::KIND => read::<Allocation>(value).map(Into::into),
        Kept::KIND => read::<Kept>(value).map(Into::into),
        other => Err(serde::de::Error::custom(format!(
            "no kind of record is called {other:?}"
        ))),
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
                encode_frame(&mut frame, key, value.as_deref());
            }
            let mut newer = Newer::new();
            decode_frame(&frame, &mut newer);
            prop_assert_eq!(newer, entries.into_iter().collect::<Newer>());
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes: Vec<u8>) {
            decode_frame(&bytes, &mut Newer::new());
        }
    }
}
