//! What is on disk after a power cut, what watchers see, and that it is the store of the model.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use services::ledger::disk::Disk;

use super::*;
use crate::store::model::{Model, actions};
use crate::store::{At, Event, Page, Store};

/// Small, so that it is full now and then.
const SMALL_LOG: u64 = 2 << 10;

fn open(disk: &Disk, capacity: u64, keep: Keep) -> Store {
    let (database, log) = disk.open_files().unwrap();
    let store = Embedded::over(database, log, capacity, keep, Path::new("disk")).unwrap();
    Store::Embedded(Arc::new(store))
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

const SECRETS: &str = "/registry/core/secrets/";

fn secret(number: u32) -> String {
    format!("{SECRETS}default/{number:04}")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn it_does_what_the_model_says(actions in actions(60)) {
        let store = open(&Disk::default(), SMALL_LOG, Keep::default());
        block_on(async {
            let mut model = Model::new(0);
            for action in &actions {
                model.check(&store, action).await;
            }
        });
    }

    #[test]
    fn it_goes_on_after_a_restart_as_if_nothing_had_been(before in actions(40), after in actions(20)) {
        let disk = Disk::default();
        let store = open(&disk, LOG_CAPACITY / 64, Keep::default());
        let mut model = Model::new(0);
        block_on(async {
            for action in &before {
                model.check(&store, action).await;
            }
        });
        drop(store);
        let store = open(&disk, LOG_CAPACITY / 64, Keep::default());
        block_on(async {
            // The history too, for it is in the log.
            for action in &after {
                model.check(&store, action).await;
            }
        });
    }

    /// Writes until the power is cut, perhaps in the midst of one.
    #[test]
    fn nothing_acknowledged_is_lost_by_a_power_cut(
        writes in prop::collection::vec((0..8_u32, any::<bool>()), 1..40),
        breaks in 1..60_u32,
        luck: u64,
    ) {
        let disk = Disk::default();
        let store = open(&disk, SMALL_LOG, Keep::default());
        disk.breaks_after(breaks);
        let mut acknowledged = BTreeMap::new();
        let mut highest = 0;
        let mut unsure = None;
        block_on(async {
            for (turn, (number, keep)) in writes.into_iter().enumerate() {
                let key = secret(number);
                let value = Bytes::from(format!("{turn:0100}"));
                let expected = store.peek(&key).map_or(0, |kv| kv.revision);
                let result = if expected == 0 {
                    store.create(&key, value.clone()).await.map(|revision| (revision, Some(value)))
                } else if keep {
                    store.update(&key, value.clone(), expected).await.map(|revision| (revision, Some(value)))
                } else {
                    store.delete(&key, expected).await.map(|revision| (revision, None))
                };
                let Ok((revision, value)) = result else {
                    // The one that was not acknowledged may be there or not, but not half.
                    unsure = Some(key);
                    break;
                };
                highest = revision;
                acknowledged.insert(key, value);
            }
        });
        let found = disk.after_a_power_cut(luck);
        drop(store);
        let store = open(&found, SMALL_LOG, Keep::default());
        prop_assert!(store.revision() >= highest, "a revision is not given twice");
        for (key, value) in acknowledged.into_iter().filter(|(key, _)| Some(key) != unsure.as_ref()) {
            prop_assert_eq!(store.peek(&key).map(|kv| kv.value), value, "{}", key);
        }
    }
}

#[tokio::test]
async fn many_writers_of_one_key_take_turns() {
    let store = open(&Disk::default(), LOG_CAPACITY, Keep::default());
    let key = secret(1);
    store.create(&key, Bytes::from("0")).await.unwrap();
    let adding = (0..50).map(|_| {
        let (store, key) = (store.clone(), key.clone());
        tokio::spawn(async move {
            loop {
                let kv = store.get(&key).await.unwrap().0.unwrap();
                let number: u32 = std::str::from_utf8(&kv.value).unwrap().parse().unwrap();
                let next = Bytes::from((number + 1).to_string());
                match store.update(&key, next, kv.revision).await {
                    Ok(_) => return,
                    Err(Error::Conflict { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        })
    });
    for added in futures::future::join_all(adding).await {
        added.unwrap();
    }
    assert_eq!(store.peek(&key).unwrap().value, "50");
}

#[tokio::test]
async fn readers_never_see_what_is_not_on_disk_and_a_broken_disk_takes_nothing_more() {
    let disk = Disk::default();
    let store = open(&disk, LOG_CAPACITY, Keep::default());
    store.create(&secret(1), Bytes::from("1")).await.unwrap();
    disk.breaks_after(0);
    let refused = store.create(&secret(2), Bytes::from("2")).await;
    assert!(matches!(refused, Err(Error::Broken)));
    assert!(store.peek(&secret(2)).is_none());
    disk.is_mended();
    let refused = store.create(&secret(3), Bytes::from("3")).await;
    assert!(matches!(refused, Err(Error::Broken)));
    assert!(store.health().is_err());
}

#[tokio::test]
async fn a_slow_watcher_is_told_to_list_anew_and_never_skips() {
    let keep = Keep {
        changes: 3,
        bytes: usize::MAX,
    };
    let store = open(&Disk::default(), LOG_CAPACITY, keep);
    let mut slow = store.watch(SECRETS, 0).unwrap();
    let mut quiet = store.watch("/registry/core/nodes/", 0).unwrap();
    for number in 0..5 {
        store
            .create(&secret(number), Bytes::from("x"))
            .await
            .unwrap();
    }
    assert!(matches!(slow.next().await, Err(Error::Compacted { .. })));
    assert!(matches!(slow.next().await, Err(Error::Compacted { .. })));
    assert!(matches!(
        store.watch(SECRETS, 1),
        Err(Error::Compacted {
            asked: 1,
            oldest: 2
        })
    ));
    assert!(store.watch(SECRETS, 2).is_ok());
    // Another kind's writes do not age this one's watchers.
    let node = "/registry/core/nodes/n";
    store.create(node, Bytes::from("n")).await.unwrap();
    assert!(matches!(quiet.next().await, Ok(Event::Put { kv, .. }) if &*kv.key == node));
    let old = Page {
        at: At::Exactly(1),
        ..Page::default()
    };
    assert!(matches!(
        store.list(SECRETS, &old).await,
        Err(Error::Compacted { .. })
    ));
}

#[tokio::test(start_paused = true)]
async fn a_quiet_watcher_learns_how_far_the_store_is() {
    let store = open(&Disk::default(), LOG_CAPACITY, Keep::default());
    let mut watch = store.watch("/registry/core/nodes/", 0).unwrap();
    let revision = store.create(&secret(1), Bytes::from("x")).await.unwrap();
    let told = tokio::time::timeout(Duration::from_hours(1), watch.next()).await;
    assert_eq!(told.unwrap().unwrap(), Event::Progress { revision });
    assert_eq!(watch.progress(), Some(revision));
    assert_eq!(store.watchers(), 1);
    drop(watch);
    assert_eq!(store.watchers(), 0);
}

#[tokio::test]
async fn closing_ends_every_watch() {
    let store = open(&Disk::default(), LOG_CAPACITY, Keep::default());
    let mut watch = store.watch(SECRETS, 0).unwrap();
    let next = tokio::spawn(async move { watch.next().await });
    store.end_watches();
    assert!(matches!(next.await.unwrap(), Err(Error::Closed)));
}

#[tokio::test]
async fn what_is_too_large_or_not_here_yet_is_refused() {
    let store = open(&Disk::default(), LOG_CAPACITY, Keep::default());
    let large = Bytes::from(vec![b'x'; LARGEST_VALUE + 1]);
    assert!(matches!(
        store.create(&secret(1), large).await,
        Err(Error::TooLarge { .. })
    ));
    let page = Page {
        at: At::Exactly(7),
        ..Page::default()
    };
    assert!(matches!(
        store.list(SECRETS, &page).await,
        Err(Error::Future {
            asked: 7,
            current: 0
        })
    ));
}

#[tokio::test]
async fn a_second_server_cannot_open_the_same_file_and_nobody_else_can_read_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep/registry.redb");
    let store = Embedded::open(&path).unwrap();
    store.put(&secret(1), Bytes::from("1"), 0).await.unwrap();
    assert!(matches!(Embedded::open(&path), Err(Error::Open { .. })));
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&path).unwrap());
    assert_eq!(mode & 0o777, 0o600, "it holds secrets");
    drop(store);
    let store = Embedded::open(&path).unwrap();
    assert_eq!(store.cache().get(&secret(1)).0.unwrap().value, "1");
}
