//! The store of several servers: a cluster of etcd, and what this server has seen of it.
//!
//! ```text
//!   get, put, delete ------------------> etcd, any member that answers
//!   list, watch <--- cache <--- follow --- one watch on the whole registry, opened anew at another member if it ends
//! ```
//!
//! A listing must show what any server acknowledged: etcd is asked for its revision, which costs one small round, and
//! the cache answers once it is there. If the cache is late, etcd answers itself.

mod follow;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use clients::etcd::wire::{
    Compare, CompareResult, CompareTarget, Compared, DeleteRangeRequest, KeyValue, PutRequest,
    RangeRequest, RangeResponse, Request, RequestOp, Response, TxnRequest, TxnResponse,
};
use clients::etcd::{self, Client, Reply, prefix_end};
use tokio::task::JoinSet;

use super::cache::{Cache, Keep};
use super::{At, Error, Kv, LARGEST_VALUE, Listing, Page};

/// What all keys begin with.
const REGISTRY: &str = "/registry/";
/// How long the cache may be behind before etcd is asked itself.
const LATE: Duration = Duration::from_millis(200);

pub struct Etcd {
    client: Client,
    cache: Arc<Cache>,
    /// Whether news of the cluster come in.
    following: Arc<AtomicBool>,
    /// End with this.
    _tasks: JoinSet<()>,
}

impl Etcd {
    /// Reads the whole registry, and follows it from then on.
    pub async fn open(client: &Client) -> Result<Self, Error> {
        let client = client.clone();
        let cache = Arc::new(Cache::new(Keep::default()));
        follow::load(&client, &cache).await?;
        let following = Arc::new(AtomicBool::new(true));
        let mut tasks = JoinSet::new();
        tasks.spawn(follow::run(
            client.clone(),
            Arc::clone(&cache),
            Arc::clone(&following),
        ));
        tasks.spawn(follow::compact(client.clone(), Arc::clone(&cache)));
        Ok(Self {
            client,
            cache,
            following,
            _tasks: tasks,
        })
    }

    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    pub async fn get(&self, key: &str) -> Result<(Option<Kv>, u64), Error> {
        let range = RangeRequest {
            key: key.to_owned().into(),
            ..RangeRequest::default()
        };
        let answer = self.client.range(range).await.map_err(unavailable)?;
        let revision = revision(&answer);
        Ok((answer.kvs.into_iter().find_map(kv), revision))
    }

    pub async fn list(&self, prefix: &str, page: &Page) -> Result<Listing, Error> {
        let wanted = match page.at {
            At::Newest => self.newest().await?,
            At::NotBefore(revision) => {
                self.cache.reach(revision).await?;
                return self.cache.list(prefix, page);
            }
            At::Exactly(revision) => revision,
        };
        let reached = tokio::time::timeout(LATE, self.cache.reach(wanted)).await;
        if matches!(reached, Ok(Ok(()))) {
            match self.cache.list(prefix, page) {
                // etcd's history may be longer.
                Err(Error::Compacted { .. }) => {}
                listing => return listing,
            }
        }
        self.list_there(prefix, page).await
    }

    /// Writes if the key's revision is `expected`; 0 is no object.
    pub async fn put(&self, key: &str, value: Bytes, expected: u64) -> Result<u64, Error> {
        if value.len() > LARGEST_VALUE {
            return Err(Error::TooLarge { size: value.len() });
        }
        let put = PutRequest {
            key: key.to_owned().into(),
            value: value.clone(),
            ..PutRequest::default()
        };
        let reply = self.if_unchanged(key, expected, Request::Put(put)).await?;
        if reply.message.succeeded {
            return Ok(written(&reply.message));
        }
        match found(reply.message) {
            // An earlier try was heard after all.
            Some(current) if reply.again && current.value == value => Ok(current.revision),
            Some(_) if expected == 0 => Err(Error::Exists {
                key: key.to_owned(),
            }),
            current => Err(Error::Conflict {
                key: key.to_owned(),
                current,
            }),
        }
    }

    pub async fn delete(&self, key: &str, expected: u64) -> Result<u64, Error> {
        let delete = DeleteRangeRequest {
            key: key.to_owned().into(),
            ..DeleteRangeRequest::default()
        };
        let delete = Request::DeleteRange(delete);
        let reply = self.if_unchanged(key, expected, delete).await?;
        let revision = written(&reply.message);
        if reply.message.succeeded {
            return Ok(revision);
        }
        match found(reply.message) {
            // An earlier try was heard after all, or it is gone in any case.
            None if reply.again => Ok(revision),
            current => Err(Error::Conflict {
                key: key.to_owned(),
                current,
            }),
        }
    }

    pub fn health(&self) -> Result<(), Error> {
        if self.following.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(Error::Unavailable(
            "the watch on etcd is interrupted".into(),
        ))
    }

    /// The newest revision of the cluster: all that was acknowledged before we asked.
    async fn newest(&self) -> Result<u64, Error> {
        let range = RangeRequest {
            key: REGISTRY.into(),
            count_only: true,
            ..RangeRequest::default()
        };
        let answer = self.client.range(range).await.map_err(unavailable)?;
        Ok(revision(&answer))
    }

    /// Asks etcd for the page itself.
    async fn list_there(&self, prefix: &str, page: &Page) -> Result<Listing, Error> {
        let after = page.after.as_deref().filter(|after| *after >= prefix);
        let from = match after {
            Some(after) => format!("{after}\0"),
            None => prefix.to_owned(),
        };
        let asked = match page.at {
            At::Newest | At::NotBefore(_) => 0,
            At::Exactly(revision) => revision,
        };
        let range = RangeRequest {
            key: from.into(),
            range_end: prefix_end(prefix),
            limit: page.limit as i64,
            revision: asked as i64,
            ..RangeRequest::default()
        };
        let answer = self.client.range(range).await.map_err(|error| {
            let current = self.cache.revision();
            if !matches!(error, etcd::Error::Compacted { .. }) {
                return unavailable(error);
            }
            // Too old, or newer than the cluster: etcd has one code for both.
            if asked > current {
                return Error::Future { asked, current };
            }
            let oldest = asked + 1;
            Error::Compacted { asked, oldest }
        })?;
        let revision = if asked == 0 { revision(&answer) } else { asked };
        let remaining = (answer.count as usize).saturating_sub(answer.kvs.len());
        Ok(Listing {
            items: answer.kvs.into_iter().filter_map(kv).collect(),
            revision,
            more: remaining > 0,
            remaining,
        })
    }

    /// One write, if nobody was there since; otherwise what is there.
    async fn if_unchanged(
        &self,
        key: &str,
        expected: u64,
        write: Request,
    ) -> Result<Reply<TxnResponse>, Error> {
        let key = Bytes::from(key.to_owned());
        let look = RangeRequest {
            key: key.clone(),
            ..RangeRequest::default()
        };
        let op = |request| {
            vec![RequestOp {
                request: Some(request),
            }]
        };
        let txn = TxnRequest {
            compare: vec![Compare {
                result: CompareResult::Equal.into(),
                target: CompareTarget::Mod.into(),
                key,
                compared: Some(Compared::ModRevision(expected as i64)),
            }],
            success: op(write),
            failure: op(Request::Range(look)),
        };
        self.client.txn(txn).await.map_err(unavailable)
    }
}

fn revision(answer: &RangeResponse) -> u64 {
    answer.header.unwrap_or_default().revision.unsigned_abs()
}

fn written(answer: &TxnResponse) -> u64 {
    answer.header.unwrap_or_default().revision.unsigned_abs()
}

/// What the transaction found instead of what it expected.
fn found(answer: TxnResponse) -> Option<Kv> {
    let mut responses = answer.responses.into_iter();
    match responses.next()?.response? {
        Response::Range(range) => range.kvs.into_iter().find_map(kv),
        Response::Put(_) | Response::DeleteRange(_) => None,
    }
}

/// Nothing for a key that is no text: it is not ours.
fn kv(found: KeyValue) -> Option<Kv> {
    Some(Kv {
        key: std::str::from_utf8(&found.key).ok()?.into(),
        value: found.value,
        revision: found.mod_revision.unsigned_abs(),
    })
}

fn unavailable(error: etcd::Error) -> Error {
    Error::Unavailable(error.into())
}
