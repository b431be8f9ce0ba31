//! A watch on one member: batches of events in the order of revisions, or the reason why it ended.

use std::time::Duration;

use futures::StreamExt as _;
use futures::channel::mpsc;
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{Status, Streaming};
use tonic_prost::ProstCodec;

use super::wire::{Event, WatchCreateRequest, WatchRequest, WatchResponse, WatchWish};
use super::{Error, grpc, prefix_end};

const CALL: &str = "/etcdserverpb.Watch/Watch";

pub struct Watch {
    endpoint: String,
    /// The member ends the stream when we end ours.
    _wishes: mpsc::Sender<WatchRequest>,
    answers: Streaming<WatchResponse>,
}

/// What happened, in order.
#[derive(Debug)]
pub struct News {
    pub events: Vec<Event>,
    /// All up to here was told.
    pub revision: i64,
}

impl Watch {
    pub(super) async fn open(
        channel: &Channel,
        endpoint: &str,
        prefix: &str,
        from: i64,
        patience: Duration,
    ) -> Result<Self, Error> {
        let create = WatchCreateRequest {
            key: prefix.to_owned().into(),
            range_end: prefix_end(prefix),
            start_revision: from,
            progress_notify: true,
            prev_kv: false,
            fragment: true,
        };
        let open = async {
            let (mut wishes, stream) = mpsc::channel(1);
            let wish = WatchWish::Create(create);
            let sent = wishes.try_send(WatchRequest { wish: Some(wish) });
            sent.expect("an empty channel has room");
            let mut request = tonic::Request::new(stream);
            // A member that has lost the others must not leave us waiting for news it cannot have.
            let yes = MetadataValue::from_static("true");
            request.metadata_mut().insert("hasleader", yes);
            let path = CALL.parse().expect("a path of ours");
            let mut grpc = grpc(channel).await?;
            let codec = ProstCodec::<WatchRequest, WatchResponse>::default();
            let answers = grpc.streaming(request, path, codec).await?.into_inner();
            let mut watch = Self {
                endpoint: endpoint.to_owned(),
                _wishes: wishes,
                answers,
            };
            let first = watch.answers.next().await;
            let first = first.ok_or_else(|| Status::unavailable("the stream ended"))??;
            Ok((watch, first))
        };
        let opened = tokio::time::timeout(patience, open).await;
        let opened = opened.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer in time")));
        let (watch, first) = opened.map_err(|status| ended(endpoint, Some(status)))?;
        watch.check(&first)?;
        Ok(watch)
    }

    /// Waits for news. A member sends some every ten minutes at least; a dead connection is noticed by pings.
    pub async fn next(&mut self) -> Result<News, Error> {
        let mut events = Vec::new();
        loop {
            let answer = match self.answers.next().await {
                Some(Ok(answer)) => answer,
                Some(Err(status)) => return Err(ended(&self.endpoint, Some(status))),
                None => return Err(ended(&self.endpoint, None)),
            };
            self.check(&answer)?;
            events.extend(answer.events);
            // A revision that is told in part must not count as told.
            if answer.fragment {
                continue;
            }
            // With events the header tells of the store, which may be ahead of what was sent to us.
            let told = events.iter().rev().find_map(|event| event.kv.as_ref());
            let revision = told.map_or_else(
                || answer.header.unwrap_or_default().revision,
                |kv| kv.mod_revision,
            );
            return Ok(News { events, revision });
        }
    }

    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    fn check(&self, answer: &WatchResponse) -> Result<(), Error> {
        if answer.compact_revision > 0 {
            return Err(Error::Compacted { call: CALL });
        }
        if answer.canceled {
            let status = Status::aborted(answer.cancel_reason.clone());
            return Err(ended(&self.endpoint, Some(status)));
        }
        Ok(())
    }
}

fn ended(endpoint: &str, status: Option<Status>) -> Error {
    Error::WatchEnded {
        endpoint: endpoint.to_owned(),
        source: status.map(Box::new),
    }
}
