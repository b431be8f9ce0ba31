//! A client of etcd: keys, watches, members and their health, over every member that is named.
//!
//! ```text
//!   range, txn, compact, members ---> call ---> the member that answered last; the next one if it does not
//!   watch -------------------------> stream --> from the same one; whoever holds it opens it anew when it ends
//! ```
//!
//! A call that may have happened although its answer was lost is done again elsewhere, and [`Reply::again`] says so: a
//! transaction that compares revisions happens at most once, and can tell from what it finds whether it was itself.

mod watch;
pub mod wire;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use model::Secret;
use tokio::time::Instant;
use tonic::client::Grpc;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Status};
use tonic_prost::ProstCodec;
use tracing::debug;

pub use watch::{News, Watch};
use wire::{
    CompactionRequest, CompactionResponse, Member, MemberAddRequest, MemberAddResponse,
    MemberListRequest, MemberListResponse, MemberRequest, RangeRequest, RangeResponse,
    StatusRequest, StatusResponse, TxnRequest, TxnResponse,
};

#[derive(Debug, Clone)]
pub struct Config {
    /// `https://10.0.0.1:2379`, one per member.
    pub endpoints: Vec<String>,
    pub tls: Option<Tls>,
    /// For one try at one member.
    pub try_for: Duration,
    /// For all tries of one call.
    pub give_up_after: Duration,
}

impl Config {
    pub fn new(endpoints: Vec<String>) -> Self {
        Self {
            endpoints,
            tls: None,
            try_for: Duration::from_secs(2),
            give_up_after: Duration::from_secs(10),
        }
    }
}

/// All in PEM.
#[derive(Debug, Clone)]
pub struct Tls {
    pub ca: String,
    pub certificate: String,
    pub key: Secret<String>,
    /// A name that all members' certificates have, where members are called by addresses that they do not have.
    pub name: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{endpoint} is not the address of a member, such as https://10.0.0.1:2379")]
    Endpoint {
        endpoint: String,
        source: tonic::transport::Error,
    },
    #[error("no member is named")]
    NoEndpoints,
    #[error("{endpoint} refused {call}")]
    Refused {
        call: &'static str,
        endpoint: String,
        source: Box<Status>,
    },
    #[error("{call}: the revision was compacted")]
    Compacted { call: &'static str },
    #[error("{call} was not answered by any of {members} members in time")]
    Unavailable {
        call: &'static str,
        members: usize,
        source: Box<Status>,
    },
    #[error("the watch at {endpoint} ended")]
    WatchEnded {
        endpoint: String,
        #[source]
        source: Option<Box<Status>>,
    },
}

/// An answer, and whether the question may have been heard more than once.
#[derive(Debug)]
pub struct Reply<T> {
    pub message: T,
    pub again: bool,
}

/// Clones are the same client.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    members: Vec<(String, Channel)>,
    /// Who answered last.
    preferred: AtomicUsize,
    /// Whether anyone ever did.
    answered: AtomicBool,
    /// Rounds over all members since then, of all calls together.
    silent: AtomicUsize,
    try_for: Duration,
    give_up_after: Duration,
}

/// For a connection to come about: longer than one try, which goes on to the next member while this one is still
/// being reached. A machine that has just booted needs it.
const CONNECT: Duration = Duration::from_secs(10);
/// A member refuses pings that come more often than every 5 seconds.
const PING: Duration = Duration::from_secs(6);
const PONG: Duration = Duration::from_secs(3);
/// A range of many large values; our own limit, so that no answer eats all memory.
const LARGEST_ANSWER: usize = 512 << 20;
/// After the first round over all members; twice as long after each that follows.
const PAUSE: Duration = Duration::from_millis(50);
/// At most: a leader that was lost is found again in a moment.
const LOST: Duration = Duration::from_millis(400);
/// At most where nobody has ever answered: a cluster that forms takes minutes, and each round looks up every name anew.
const NOT_YET: Duration = Duration::from_secs(2);

impl Client {
    /// Connects when it is first used.
    pub fn new(config: &Config) -> Result<Self, Error> {
        let members = config
            .endpoints
            .iter()
            .map(|endpoint| {
                let channel = channel(endpoint, config).map_err(|source| Error::Endpoint {
                    endpoint: endpoint.clone(),
                    source,
                })?;
                Ok((endpoint.clone(), channel))
            })
            .collect::<Result<Vec<_>, Error>>()?;
        if members.is_empty() {
            return Err(Error::NoEndpoints);
        }
        Ok(Self(Arc::new(Inner {
            members,
            preferred: AtomicUsize::new(0),
            answered: AtomicBool::new(false),
            silent: AtomicUsize::new(0),
            try_for: config.try_for,
            give_up_after: config.give_up_after,
        })))
    }

    pub async fn range(&self, range: RangeRequest) -> Result<RangeResponse, Error> {
        let reply = self.call("/etcdserverpb.KV/Range", range).await?;
        Ok(reply.message)
    }

    pub async fn txn(&self, txn: TxnRequest) -> Result<Reply<TxnResponse>, Error> {
        self.call("/etcdserverpb.KV/Txn", txn).await
    }

    /// Forgets what was before this revision.
    pub async fn compact(&self, revision: i64) -> Result<(), Error> {
        let request = CompactionRequest {
            revision,
            physical: false,
        };
        let path = "/etcdserverpb.KV/Compact";
        let reply: Result<Reply<CompactionResponse>, _> = self.call(path, request).await;
        match reply {
            // Somebody else was quicker.
            Ok(_) | Err(Error::Compacted { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// All that happens to keys with this prefix, from this revision on. Ends with the first member that fails.
    pub async fn watch(&self, prefix: &str, from: i64) -> Result<Watch, Error> {
        let mut last = None;
        for _ in 0..self.0.members.len() {
            let at = self.0.preferred.load(Ordering::Relaxed);
            let (endpoint, channel) = self.member(at);
            match Watch::open(channel, endpoint, prefix, from, self.0.try_for).await {
                Err(error @ Error::WatchEnded { .. }) => {
                    self.leave(at);
                    last = Some(error);
                }
                result => return result,
            }
        }
        Err(last.unwrap_or(Error::NoEndpoints))
    }

    pub async fn members(&self) -> Result<Vec<Member>, Error> {
        let path = "/etcdserverpb.Cluster/MemberList";
        let reply: Reply<MemberListResponse> = self.call(path, MemberListRequest {}).await?;
        Ok(reply.message.members)
    }

    /// A member that learns before it votes. Not a second time for one that is there already: look first.
    pub async fn add_learner(&self, peer_urls: Vec<String>) -> Result<Member, Error> {
        let path = "/etcdserverpb.Cluster/MemberAdd";
        let request = MemberAddRequest {
            peer_urls,
            is_learner: true,
        };
        let reply: Reply<MemberAddResponse> = self.call(path, request).await?;
        Ok(reply.message.member.unwrap_or_default())
    }

    /// A learner becomes a voter; refused while it is behind.
    pub async fn promote(&self, id: u64) -> Result<Vec<Member>, Error> {
        let path = "/etcdserverpb.Cluster/MemberPromote";
        let reply: Reply<MemberListResponse> = self.call(path, MemberRequest { id }).await?;
        Ok(reply.message.members)
    }

    pub async fn remove(&self, id: u64) -> Result<Vec<Member>, Error> {
        let path = "/etcdserverpb.Cluster/MemberRemove";
        let reply: Reply<MemberListResponse> = self.call(path, MemberRequest { id }).await?;
        Ok(reply.message.members)
    }

    /// How every member is that was named; the answer of one says nothing about the others.
    pub async fn statuses(&self) -> Vec<(String, Result<StatusResponse, Error>)> {
        let asked = (0..self.0.members.len()).map(|at| async move {
            let (endpoint, channel) = self.member(at);
            let path = "/etcdserverpb.Maintenance/Status";
            let deadline = Instant::now() + self.0.try_for;
            let status = unary(channel, path, StatusRequest {}, deadline).await;
            let status = status.map_err(|source| Error::Unavailable {
                call: path,
                members: 1,
                source: source.into(),
            });
            (endpoint.to_owned(), status)
        });
        futures::future::join_all(asked).await
    }

    /// Asks one member after the other until one answers.
    async fn call<Q, A>(&self, call: &'static str, request: Q) -> Result<Reply<A>, Error>
    where
        Q: prost::Message + Clone + 'static,
        A: prost::Message + Default + 'static,
    {
        let end = Instant::now() + self.0.give_up_after;
        let members = self.0.members.len();
        let mut tries = 0;
        loop {
            let at = self.0.preferred.load(Ordering::Relaxed);
            let (endpoint, channel) = self.member(at);
            let deadline = end.min(Instant::now() + self.0.try_for);
            let status = match unary(channel, call, request.clone(), deadline).await {
                Ok(message) => {
                    self.0.answered.store(true, Ordering::Relaxed);
                    self.0.silent.store(0, Ordering::Relaxed);
                    return Ok(Reply {
                        message,
                        again: tries > 0,
                    });
                }
                Err(status) => status,
            };
            if status.code() == Code::OutOfRange {
                return Err(Error::Compacted { call });
            }
            if is_final(status.code()) {
                return Err(Error::Refused {
                    call,
                    endpoint: endpoint.to_owned(),
                    source: status.into(),
                });
            }
            debug!(
                endpoint,
                call,
                error = status.message(),
                "asking the next member"
            );
            self.leave(at);
            tries += 1;
            if tries % members == 0 {
                let silent = self.0.silent.fetch_add(1, Ordering::Relaxed);
                let pause = pause(silent, self.0.answered.load(Ordering::Relaxed));
                tokio::time::sleep_until(end.min(Instant::now() + pause)).await;
            }
            if Instant::now() >= end {
                return Err(Error::Unavailable {
                    call,
                    members,
                    source: status.into(),
                });
            }
        }
    }

    fn member(&self, at: usize) -> (&str, &Channel) {
        let (endpoint, channel) = &self.0.members[at % self.0.members.len()];
        (endpoint, channel)
    }

    /// Asks another member from now on, unless somebody has left this one already.
    fn leave(&self, at: usize) {
        let preferred = &self.0.preferred;
        _ = preferred.compare_exchange(
            at,
            at.wrapping_add(1),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
    }
}

/// After a round in which nobody answered, as in so many before it.
fn pause(silent: usize, ever_answered: bool) -> Duration {
    let longest = if ever_answered { LOST } else { NOT_YET };
    PAUSE.saturating_mul(1 << silent.min(16)).min(longest)
}

fn channel(endpoint: &str, config: &Config) -> Result<Channel, tonic::transport::Error> {
    let mut made = Endpoint::from_shared(endpoint.to_owned())?
        .connect_timeout(CONNECT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(PING)
        .keep_alive_timeout(PONG)
        .keep_alive_while_idle(true);
    if let Some(tls) = &config.tls {
        let identity = Identity::from_pem(&tls.certificate, tls.key.expose());
        let mut config = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(&tls.ca))
            .identity(identity);
        if let Some(name) = &tls.name {
            config = config.domain_name(name);
        }
        made = made.tls_config(config)?;
    }
    Ok(made.connect_lazy())
}

async fn unary<Q, A>(
    channel: &Channel,
    path: &'static str,
    request: Q,
    deadline: Instant,
) -> Result<A, Status>
where
    Q: prost::Message + 'static,
    A: prost::Message + Default + 'static,
{
    let call = async {
        let mut grpc = grpc(channel).await?;
        let path = path.parse().expect("a path of ours");
        let request = tonic::Request::new(request);
        let answer = grpc.unary(request, path, ProstCodec::<Q, A>::default());
        Ok(answer.await?.into_inner())
    };
    tokio::time::timeout_at(deadline, call)
        .await
        .unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer in time")))
}

async fn grpc(channel: &Channel) -> Result<Grpc<Channel>, Status> {
    let mut grpc = Grpc::new(channel.clone()).max_decoding_message_size(LARGEST_ANSWER);
    let ready = grpc.ready().await;
    ready.map_err(|error| Status::unavailable(model::chain(&error)))?;
    Ok(grpc)
}

/// Another member would say the same.
fn is_final(code: Code) -> bool {
    matches!(
        code,
        Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::Unimplemented
            | Code::ResourceExhausted
    )
}

/// The end of the range of all keys that begin with this.
pub fn prefix_end(prefix: &str) -> Bytes {
    let mut end = prefix.as_bytes().to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return end.into();
        }
    }
    // All keys.
    Bytes::from_static(&[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn no_address_and_a_wrong_one_are_refused_at_once() {
        assert!(matches!(
            Client::new(&Config::new(vec![])),
            Err(Error::NoEndpoints)
        ));
        let wrong = Config::new(vec!["not an address".into()]);
        assert!(matches!(Client::new(&wrong), Err(Error::Endpoint { .. })));
    }

    #[tokio::test]
    async fn when_nobody_listens_it_says_so_in_time() {
        let mut config = Config::new(vec!["http://127.0.0.1:1".into(), "http://[::1]:1".into()]);
        config.give_up_after = Duration::from_millis(200);
        let client = Client::new(&config).unwrap();
        let error = client.members().await.unwrap_err();
        assert!(matches!(error, Error::Unavailable { members: 2, .. }));
        let error = client.watch("/registry/", 1).await.err().unwrap();
        assert!(matches!(error, Error::WatchEnded { .. }));
        let statuses = client.statuses().await;
        assert!(statuses.iter().all(|(_, status)| status.is_err()));
    }

    #[test]
    fn members_that_never_answered_are_asked_less_often_than_those_that_fell_silent() {
        let after = |ever| [0, 1, 2, 3, 4, 5, 6, 99].map(|silent| pause(silent, ever).as_millis());
        assert_eq!(after(true), [50, 100, 200, 400, 400, 400, 400, 400]);
        assert_eq!(after(false), [50, 100, 200, 400, 800, 1600, 2000, 2000]);
    }

    proptest! {
        #[test]
        fn the_end_of_a_prefix_is_behind_all_that_begins_with_it(prefix in "[a-z/]{1,20}", rest: String) {
            let key = format!("{prefix}{rest}");
            let end = prefix_end(&prefix);
            prop_assert!(key.as_bytes() < &end[..]);
            prop_assert!(!end.starts_with(prefix.as_bytes()));
        }

        #[test]
        fn any_bytes_are_an_answer_or_an_error(bytes: Vec<u8>) {
            use prost::Message as _;
            let _ = wire::TxnResponse::decode(&bytes[..]);
            let _ = wire::WatchResponse::decode(&bytes[..]);
            let _ = wire::StatusResponse::decode(&bytes[..]);
        }
    }
}
