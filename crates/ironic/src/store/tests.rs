//! What is on disk after a power cut, and what is not.

use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use proptest::prelude::*;
use services::ledger::disk;
use uuid::Uuid;

use super::{Change, Error, Store};
use crate::driver::catalog;
use crate::record::{Node, Record};

/// A disk in memory that forgets, on a power cut, what it was not told to keep.
#[derive(Clone, Debug, Default)]
pub struct Disk(disk::Disk);

/// Small, so that it is full now and then.
const LOG_CAPACITY: u64 = 16 << 10;

impl Disk {
    pub fn after_a_power_cut(&self, luck: u64) -> Self {
        Self(self.0.after_a_power_cut(luck))
    }

    pub fn breaks_after(&self, syncs: u32) {
        self.0.breaks_after(syncs);
    }

    pub fn open(&self) -> Store {
        let (database, log) = self.0.open_files().unwrap();
        Store::over(database, log, LOG_CAPACITY, Path::new("disk")).unwrap()
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
    disk.0.is_mended();
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
