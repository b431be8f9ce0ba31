//! The store on real etcd does what the model says, as the embedded one does.

use std::sync::Arc;

use apiserver::store::{At, Error, Etcd, Event, Page, Store};
use proptest::test_runner::{Config, TestRunner};

use crate::site::{etcd, free_port};

#[path = "../../src/store/model.rs"]
mod model;

use model::{Model, actions};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

async fn open(endpoint: &str) -> Store {
    let config = clients::etcd::Config::new(vec![endpoint.to_owned()]);
    let client = clients::etcd::Client::new(&config).unwrap();
    Store::Etcd(Arc::new(Etcd::open(&client).await.unwrap()))
}

/// Removes everything, so that the next story begins with nothing.
async fn clean(store: &Store) -> u64 {
    let listing = store.list("/registry/", &Page::default()).await.unwrap();
    let mut revision = listing.revision;
    for kv in listing.items {
        revision = store.delete(&kv.key, kv.revision).await.unwrap();
    }
    revision
}

#[test]
fn the_store_on_etcd_does_what_the_model_says() {
    let directory = tempfile::tempdir().unwrap();
    let runtime = runtime();
    let (endpoint, _etcd) = runtime.block_on(etcd(directory.path()));
    let store = runtime.block_on(open(&endpoint));
    let config = Config {
        cases: 24,
        failure_persistence: None,
        ..Config::default()
    };
    let mut runner = TestRunner::new(config);
    let result = runner.run(&actions(40), |actions| {
        runtime.block_on(async {
            let begin = clean(&store).await;
            let mut model = Model::new(begin);
            for action in &actions {
                model.check(&store, action).await;
            }
        });
        Ok(())
    });
    result.unwrap();
}

#[test]
fn what_one_server_wrote_the_other_shows_at_once_and_its_watchers_see() {
    let directory = tempfile::tempdir().unwrap();
    let runtime = runtime();
    runtime.block_on(async {
        let (endpoint, _etcd) = etcd(directory.path()).await;
        let (left, right) = (open(&endpoint).await, open(&endpoint).await);
        let prefix = "/registry/core/secrets/";
        let mut watch = right.watch(prefix, right.revision()).unwrap();
        for number in 0..50 {
            let key = format!("{prefix}a/{number:03}");
            let revision = left.create(&key, "{}".into()).await.unwrap();
            let listing = right.list(prefix, &Page::default()).await.unwrap();
            assert_eq!(
                listing.items.len(),
                number + 1,
                "a listing shows what was acknowledged"
            );
            let event = watch.next().await.unwrap();
            assert_eq!(event.revision(), revision);
        }
        let page = Page {
            at: At::NotBefore(right.revision() + 1_000_000),
            ..Page::default()
        };
        let refused = right.list(prefix, &page).await;
        assert!(matches!(refused, Err(Error::Future { .. })), "{refused:?}");
    });
}

#[test]
fn a_store_without_its_etcd_says_so_in_time() {
    let endpoint = format!("http://127.0.0.1:{}", free_port());
    let mut config = clients::etcd::Config::new(vec![endpoint]);
    config.give_up_after = std::time::Duration::from_millis(300);
    let opened = runtime().block_on(async {
        let client = clients::etcd::Client::new(&config).unwrap();
        Etcd::open(&client).await
    });
    assert!(matches!(opened.err(), Some(Error::Unavailable(_))));
}
