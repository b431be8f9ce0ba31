//! Keeps the cache up with the cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clients::etcd::wire::{Event, EventType, RangeRequest};
use clients::etcd::{self, Client, News, prefix_end};
use tracing::{info, warn};

use super::{REGISTRY, kv, revision, unavailable};
use crate::store::Error;
use crate::store::cache::{Cache, Change};

/// Between two tries to watch.
const AGAIN: Duration = Duration::from_millis(200);
/// What is older than this is forgotten by etcd.
const HISTORY: Duration = Duration::from_mins(5);
/// Objects per answer when everything is read.
const PAGE: i64 = 500;

/// Until dropped.
pub(super) async fn run(client: Client, cache: Arc<Cache>, following: Arc<AtomicBool>) {
    loop {
        let mut error = Some(follow(&client, &cache, &following).await);
        if matches!(error, Some(Error::Compacted { .. })) {
            info!("the history of etcd is shorter than our absence: all is read anew");
            error = load(&client, &cache).await.err();
        }
        if let Some(error) = error {
            warn!(
                error = model::chain(&error),
                "the watch on etcd is opened anew"
            );
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Reads everything, as it was at one revision.
pub(super) async fn load(client: &Client, cache: &Cache) -> Result<(), Error> {
    let mut items = Vec::new();
    let mut range = RangeRequest {
        key: REGISTRY.into(),
        range_end: prefix_end(REGISTRY),
        limit: PAGE,
        ..RangeRequest::default()
    };
    loop {
        let answer = client.range(range.clone()).await.map_err(unavailable)?;
        if range.revision == 0 {
            range.revision = revision(&answer) as i64;
        }
        let last = answer.kvs.last().map(|kv| kv.key.clone());
        items.extend(answer.kvs.into_iter().filter_map(kv));
        match last {
            Some(last) if answer.more => range.key = [&last[..], b"\0"].concat().into(),
            _ => break,
        }
    }
    cache.reset(items, range.revision.unsigned_abs());
    Ok(())
}

/// Until the watch ends.
async fn follow(client: &Client, cache: &Cache, following: &AtomicBool) -> Error {
    let from = cache.revision() + 1;
    let ended = |error| {
        if matches!(error, etcd::Error::Compacted { .. }) {
            return Error::Compacted {
                asked: from,
                oldest: from,
            };
        }
        unavailable(error)
    };
    let mut watch = match client.watch(REGISTRY, from as i64).await {
        Ok(watch) => watch,
        Err(error) => {
            // Only now: that one member leaves is nothing a client has to know.
            following.store(false, Ordering::Relaxed);
            return ended(error);
        }
    };
    info!(endpoint = watch.endpoint(), from, "following etcd");
    following.store(true, Ordering::Relaxed);
    loop {
        match watch.next().await {
            Ok(news) => take(cache, news),
            Err(error) => return ended(error),
        }
    }
}

fn take(cache: &Cache, news: News) {
    let changes: Vec<Change> = news.events.into_iter().filter_map(change).collect();
    if !changes.is_empty() {
        cache.apply(changes);
    }
    cache.advance(news.revision.unsigned_abs());
}

fn change(event: Event) -> Option<Change> {
    let gone = event.r#type == i32::from(EventType::Delete);
    let kv = kv(event.kv?)?;
    Some(Change {
        key: kv.key,
        revision: kv.revision,
        value: (!gone).then_some(kv.value),
    })
}

/// Lets etcd forget what is old, for it does not do so by itself. Several servers may do this at once.
pub(super) async fn compact(client: Client, cache: Arc<Cache>) {
    let mut then = cache.revision();
    loop {
        tokio::time::sleep(HISTORY).await;
        let now = cache.revision();
        if let Err(error) = client.compact(then as i64).await {
            warn!(error = model::chain(&error), "etcd was not compacted");
        }
        then = now;
    }
}
