//! What is on disk after a power cut, and what is not.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use proptest::prelude::*;
use redb::{Database, StorageBackend};
use uuid::Uuid;

use super::{Change, Error, Store};
use crate::driver::catalog;
use crate::record::{Node, Record};

/// A disk in memory that forgets, on a power cut, what it was not told to keep. It holds the two files of a store.
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

/// Small, so that it is full now and then.
const LOG_CAPACITY: u64 = 16 << 10;

impl Disk {
    /// What a machine finds after a power cut: all that was kept, and of the rest whatever sectors happened to make it.
    pub fn after_a_power_cut(&self, mut luck: u64) -> Self {
        let left = Arc::new(Mutex::new(None));
        Self {
            database: self.database.after_a_power_cut(&mut luck, &left),
            log: self.log.after_a_power_cut(&mut luck, &left),
            left,
        }
    }

    pub fn breaks_after(&self, syncs: u32) {
        *self.left.lock().unwrap() = Some(syncs);
    }

    fn is_mended(&self) {
        *self.left.lock().unwrap() = None;
    }

    pub fn open(&self) -> Store {
        let file = |platter: &Platter| Platter {
            bytes: Arc::clone(&platter.bytes),
            left: Arc::clone(&self.left),
        };
        let database = Database::builder()
            .create_with_backend(file(&self.database))
            .unwrap();
        let log = Box::new(file(&self.log));
        Store::over(database, log, LOG_CAPACITY, Path::new("disk")).unwrap()
    }
}

impl Platter {
    fn after_a_power_cut(&self, luck: &mut u64, left: &Arc<Mutex<Option<u32>>>) -> Self {
        let bytes = self.bytes.lock().unwrap();
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
        Ok(self.bytes.lock().unwrap().now.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let bytes = self.bytes.lock().unwrap();
        let start = offset as usize;
        let found = bytes
            .now
            .get(start..start + out.len())
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(found);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.bytes.lock().unwrap().now.resize(len as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        match &mut *self.left.lock().unwrap() {
            Some(0) => return Err(io::Error::other("the disk is broken")),
            Some(left) => *left -= 1,
            None => {}
        }
        let mut bytes = self.bytes.lock().unwrap();
        bytes.kept = bytes.now.clone();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut bytes = self.bytes.lock().unwrap();
        let start = offset as usize;
        bytes
            .now
            .get_mut(start..start + data.len())
            .ok_or(io::ErrorKind::UnexpectedEof)?
            .copy_from_slice(data);
        Ok(())
    }
}

fn node(number: u32) -> Node {
    let hardware = catalog::find("fake-hardware").unwrap();
    let uuid = Uuid::from_u128(u128::from(number));
    let mut node = Node::new(
        uuid,
        hardware.name.into(),
        hardware.defaults(),
        Timestamp::UNIX_EPOCH,
    );
    node.name = Some(format!("n{number}"));
    node
}

async fn add(store: &Store, number: u32) -> Result<(), Error> {
    store.change(|_| Ok((vec![node(number).into()], ()))).await
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

#[tokio::test]
async fn what_was_written_is_read_again_with_its_order_and_names() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep/ironic.redb");
    let store = Store::open(&path).unwrap();
    for number in [3, 1, 2] {
        add(&store, number).await.unwrap();
    }
    let document = Change::PutDocument {
        key: "inventory/x".into(),
        value: b"{}".to_vec(),
    };
    store
        .change(|_| Ok::<_, Error>((vec![document], ())))
        .await
        .unwrap();
    drop(store);
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&path).unwrap());
    assert_eq!(mode & 0o777, 0o600, "it holds passwords");
    let store = Store::open(&path).unwrap();
    let names: Vec<_> = store
        .read()
        .nodes
        .all()
        .map(|node| node.name.clone().unwrap())
        .collect();
    assert_eq!(names, ["n3", "n1", "n2"]);
    assert_eq!(
        store.read().nodes.named("n1").unwrap().uuid,
        Uuid::from_u128(1)
    );
    assert_eq!(
        store.document("inventory/x").unwrap().as_deref(),
        Some(b"{}".as_slice())
    );
    add(&store, 4).await.unwrap();
    let ids: Vec<_> = store.read().nodes.all().map(|node| node.id).collect();
    assert_eq!(ids, [1, 2, 3, 4], "an id is not given twice");
}

#[tokio::test]
async fn a_second_service_cannot_open_the_same_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ironic.redb");
    let _store = Store::open(&path).unwrap();
    assert!(matches!(Store::open(&path), Err(Error::Open { .. })));
}

#[tokio::test]
async fn a_file_that_is_not_a_store_is_refused_and_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ironic.redb");
    std::fs::write(&path, "precious").unwrap();
    assert!(matches!(Store::open(&path), Err(Error::Open { .. })));
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
}

#[tokio::test]
async fn many_at_once_are_all_kept_and_each_sees_what_came_before() {
    let store = Arc::new(Disk::default().open());
    let adding = (1..=200).map(|number| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            store
                .change(|tables| {
                    let before = tables.nodes.len();
                    Ok::<_, Error>((vec![node(number).into()], before))
                })
                .await
                .unwrap()
        })
    });
    let mut seen: Vec<usize> = futures::future::join_all(adding)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..200).collect::<Vec<_>>());
    assert_eq!(store.read().nodes.len(), 200);
}

#[tokio::test]
async fn readers_never_see_what_is_not_on_disk() {
    let disk = Disk::default();
    let store = disk.open();
    add(&store, 1).await.unwrap();
    disk.breaks_after(0);
    assert!(add(&store, 2).await.is_err());
    assert_eq!(store.read().nodes.len(), 1);
    assert!(!store.healthy());
    // Nothing is built on what was lost, even when the disk is well again.
    disk.is_mended();
    assert!(add(&store, 3).await.is_err());
    drop(store);
    let store = disk.after_a_power_cut(0).open();
    add(&store, 3).await.unwrap();
    assert_eq!(store.read().nodes.len(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Additions, changes and removals until the power is cut, perhaps in the midst of one.
    #[test]
    fn nothing_acknowledged_is_lost_by_a_power_cut(
        actions in prop::collection::vec((1..12_u32, any::<bool>()), 1..30),
        breaks in 1..60_u32,
        luck: u64,
    ) {
        let disk = Disk::default();
        let store = disk.open();
        disk.breaks_after(breaks);
        let mut acknowledged = std::collections::BTreeMap::new();
        // The one that was not acknowledged may be there or not, but not half.
        let mut unsure = None;
        block_on(async {
            for (turn, (number, keep)) in actions.into_iter().enumerate() {
                let result = store.change(|tables| {
                    let known = tables.nodes.named(&format!("n{number}")).cloned();
                    let mut next = known.as_ref().map_or_else(|| node(number), |known| Node::clone(known));
                    next.description = Some(turn.to_string());
                    let change = match known {
                        Some(known) if !keep => Change::Remove(Record::Node(known)),
                        _ => next.into(),
                    };
                    let after = matches!(change, Change::Put(_)).then(|| turn.to_string());
                    Ok::<_, Error>((vec![change], after))
                }).await;
                let Ok(after) = result else {
                    unsure = Some(number);
                    break;
                };
                acknowledged.insert(number, after);
            }
        });
        let found = disk.after_a_power_cut(luck);
        drop(store);
        let store = found.open();
        for (number, expected) in acknowledged.into_iter().filter(|(number, _)| Some(*number) != unsure) {
            let found = store.read().nodes.named(&format!("n{number}")).map(|node| node.description.clone().unwrap());
            prop_assert_eq!(found, expected, "node {}", number);
        }
    }
}
