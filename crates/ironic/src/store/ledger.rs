//! Where records lie: the database file, and the log of what is newer.
//!
//! Records go to the log, and from there to the database file when the log is full, when nothing else is to be done,
//! and at the end. Documents are large and rare: they go to the database file at once, with all that the log holds.

use std::path::Path;
use std::sync::Arc;

use redb::{Database, ReadableTable, StorageBackend, TableDefinition};
use serde::de::DeserializeOwned;
use services::ledger;

use super::{Change, Error, Tables};
use crate::record::{Allocation, Kept, Node, Port, Portgroup, Record, Row};

pub(super) const DOCUMENTS: TableDefinition<&str, &[u8]> = TableDefinition::new("documents");

/// By kind and uuid, as JSON.
pub(super) struct Ledger(ledger::Ledger);

impl Ledger {
    /// Reads all records. Makes the tables in a new file, so that readers find them.
    pub fn open(
        database: Arc<Database>,
        log: Box<dyn StorageBackend>,
        capacity: u64,
        path: &Path,
    ) -> Result<(Self, Tables), Error> {
        let read = || -> Result<_, redb::Error> {
            let transaction = database.begin_write()?;
            transaction.open_table(DOCUMENTS)?;
            transaction.commit()?;
            ledger::Ledger::open(database, log, capacity)
        };
        let (ledger, found) = read().map_err(|source| Error::Read {
            path: path.to_owned(),
            source: Box::new(source),
        })?;
        let mut tables = Tables::default();
        for (key, value) in found.entries() {
            let record = decode(&key, &value).map_err(|source| Error::Record {
                path: path.to_owned(),
                key,
                source,
            })?;
            tables.apply(&[Change::Put(record)]);
        }
        Ok((Self(ledger), tables))
    }

    /// Returns when all of it will survive a power cut.
    pub fn write(&mut self, changes: &[&Change]) -> Result<(), redb::Error> {
        let mut entries = Vec::new();
        let mut documents = Vec::new();
        for change in changes {
            match change {
                Change::Put(record) => entries.push((key(record), Some(encode(record)))),
                Change::Remove(record) => entries.push((key(record), None)),
                Change::PutDocument { .. } | Change::RemoveDocuments { .. } => {
                    documents.push(*change);
                }
            }
        }
        if documents.is_empty() {
            return self.0.write(entries);
        }
        self.0.write_with(entries, |transaction| {
            let mut table = transaction.open_table(DOCUMENTS)?;
            let mut documents = documents.iter();
            documents.try_for_each(|change| write_document(&mut table, change))
        })
    }

    /// True while something is in the log alone.
    pub fn is_behind(&self) -> bool {
        self.0.is_behind()
    }

    /// Brings the database file up to date, and empties the log.
    pub fn save(&mut self) -> Result<(), redb::Error> {
        self.0.save(|_| Ok(()))
    }
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
