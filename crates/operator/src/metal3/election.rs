//! Who is active: the holder of a Lease.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{GetParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::config::Config;
use crate::context::MANAGER;

/// The lease's name; installers look for it.
pub const LEASE: &str = "metal3";
/// What the holder says of its images: `ready`, or why not.
pub const IMAGES: &str = "plinth.io/images";

/// A holder that was silent for so long is gone. The store needs seconds to choose a new leader, and the API server to find
/// it: that is no reason to cut off a host being written.
const DURATION: Duration = Duration::from_secs(30);
/// A holder that could not renew for so long stops: with time to end its Ironic before anyone else may begin.
const DEADLINE: Duration = Duration::from_secs(20);
const RENEW: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_secs(2);
const ANSWER: Duration = Duration::from_secs(5);

pub struct Election {
    leases: Api<Lease>,
    me: String,
    /// The lease as last seen, and since when it is as it is. By our own clock: others' may be wrong.
    seen: Mutex<Option<(Lease, Instant)>>,
}

/// What to do about a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Move {
    Create,
    Take,
    Renew,
}

impl Election {
    pub fn new(client: &Client, config: &Config) -> Self {
        Self {
            leases: Api::namespaced(client.clone(), &config.namespace),
            me: config.node.clone(),
            seen: Mutex::new(None),
        }
    }

    /// Until the lease is ours.
    pub async fn win(&self) {
        let mut said = String::new();
        loop {
            let why = match self.step().await {
                Ok(true) => return,
                Ok(false) => "another is active".to_owned(),
                Err(why) => why,
            };
            if why != said {
                info!(node = self.me, why, "waits for the lease");
                said = why;
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Renews the lease; returns when it is lost.
    pub async fn hold(&self) {
        let mut deadline = Instant::now() + DEADLINE;
        // An answer that comes too late is none.
        while let Ok(renewed) = tokio::time::timeout_at(deadline, self.renew()).await {
            match renewed {
                // Others count from when it was asked for at the earliest.
                Some(asked) => deadline = asked + DEADLINE,
                None => return,
            }
        }
        warn!(node = self.me, "the lease could not be renewed in time");
    }

    /// When it was asked for, once it was renewed; nothing where it is another's.
    async fn renew(&self) -> Option<Instant> {
        tokio::time::sleep(RENEW).await;
        loop {
            let asked = Instant::now();
            match self.step().await {
                Ok(true) => return Some(asked),
                Ok(false) => return None,
                Err(why) => warn!(node = self.me, why, "the lease is not renewed"),
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// So that the next need not wait.
    pub async fn give_up(&self) {
        let mut seen = self.seen.lock().await;
        let Some((lease, _)) = seen.take() else {
            return;
        };
        if holder(&lease) != Some(self.me.as_str()) {
            return;
        }
        let mut free = lease;
        let spec = free.spec.get_or_insert_default();
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        let parameters = PostParams::default();
        let replaced = self.leases.replace(LEASE, &parameters, &free);
        if !matches!(tokio::time::timeout(ANSWER, replaced).await, Ok(Ok(_))) {
            debug!("the lease will run out by itself");
        }
    }

    /// Says on the lease how our images are.
    pub async fn say_images(&self, word: &str) -> bool {
        let patch = json!({"metadata": {"annotations": {IMAGES: word}}});
        let parameters = PatchParams::apply(MANAGER);
        let patch = Patch::Merge(patch);
        let said = async {
            let mut seen = self.seen.lock().await;
            let lease = self.leases.patch(LEASE, &parameters, &patch).await?;
            // The next renewal is of this one.
            if let Some((ours, _)) = &mut *seen {
                *ours = lease;
            }
            Ok::<_, kube::Error>(())
        };
        matches!(tokio::time::timeout(ANSWER, said).await, Ok(Ok(())))
    }

    /// One look, and one move. True where the lease is ours after it.
    async fn step(&self) -> Result<bool, String> {
        tokio::time::timeout(ANSWER, self.try_step())
            .await
            .map_err(|_| "the API does not answer".to_owned())?
            .map_err(|error| model::chain(&error))
    }

    async fn try_step(&self) -> Result<bool, kube::Error> {
        let mut seen = self.seen.lock().await;
        // What we wrote last is renewed unread. If another has written since, the API says so, and then it is read.
        let mut refused = false;
        if let Some((lease, _)) = &*seen
            && holder(lease) == Some(self.me.as_str())
        {
            let asked = Instant::now();
            match self.write(Move::Renew, Some(lease.clone())).await {
                Ok(written) => {
                    *seen = Some((written, asked));
                    return Ok(true);
                }
                Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => {
                    refused = true;
                }
                Err(error) => return Err(error),
            }
        }
        let now = Instant::now();
        // What the API server has at hand will do: whoever goes by an old lease is refused when he writes.
        let how = if refused {
            GetParams::default()
        } else {
            GetParams::any()
        };
        let found = self.look(&how).await?;
        let same = match (&*seen, &found) {
            (Some((old, since)), Some(new)) if old.spec == new.spec => Some(*since),
            _ => None,
        };
        *seen = found.clone().map(|lease| (lease, same.unwrap_or(now)));
        let silent = seen.as_ref().map(|(_, since)| now.duration_since(*since));
        let Some(chosen) = decide(found.as_ref(), &self.me, silent.unwrap_or_default()) else {
            return Ok(false);
        };
        let written = self.write(chosen, found).await?;
        *seen = Some((written, now));
        Ok(true)
    }

    async fn look(&self, how: &GetParams) -> Result<Option<Lease>, kube::Error> {
        match self.leases.get_with(LEASE, how).await {
            Ok(lease) => Ok(Some(lease)),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn write(&self, chosen: Move, found: Option<Lease>) -> Result<Lease, kube::Error> {
        let parameters = PostParams::default();
        let mut lease = found.unwrap_or_default();
        lease.metadata.managed_fields = None;
        let before = lease.spec.take();
        lease.spec = Some(self.spec(before.filter(|_| chosen == Move::Renew)));
        match chosen {
            Move::Create => {
                lease.metadata.name = Some(LEASE.to_owned());
                self.leases.create(&parameters, &lease).await
            }
            Move::Take => {
                lease.annotations_mut().remove(IMAGES);
                self.leases.replace(LEASE, &parameters, &lease).await
            }
            Move::Renew => self.leases.replace(LEASE, &parameters, &lease).await,
        }
    }

    fn spec(&self, before: Option<LeaseSpec>) -> LeaseSpec {
        let now = Some(MicroTime(Timestamp::now()));
        let since = before.as_ref().and_then(|spec| spec.acquire_time.clone());
        LeaseSpec {
            holder_identity: Some(self.me.clone()),
            lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
            acquire_time: since.or_else(|| now.clone()),
            renew_time: now,
            ..before.unwrap_or_default()
        }
    }
}

fn holder(lease: &Lease) -> Option<&str> {
    let holder = lease.spec.as_ref()?.holder_identity.as_deref();
    holder.filter(|holder| !holder.is_empty())
}

/// Nothing while it is another's. `silent` is for how long the lease has not changed.
fn decide(lease: Option<&Lease>, me: &str, silent: Duration) -> Option<Move> {
    let Some(lease) = lease else {
        return Some(Move::Create);
    };
    let duration = lease
        .spec
        .as_ref()
        .and_then(|spec| spec.lease_duration_seconds)
        .and_then(|seconds| u64::try_from(seconds).ok())
        .map_or(DURATION, Duration::from_secs);
    match holder(lease) {
        None => Some(Move::Take),
        Some(holder) if holder == me => Some(Move::Renew),
        Some(_) if silent > duration => Some(Move::Take),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held_by(holder: &str) -> Lease {
        Lease {
            spec: Some(LeaseSpec {
                holder_identity: Some(holder.to_owned()),
                lease_duration_seconds: Some(15),
                ..LeaseSpec::default()
            }),
            ..Lease::default()
        }
    }

    #[test]
    fn a_lease_is_taken_only_from_the_silent() {
        let seconds = Duration::from_secs;
        for (name, lease, silent, expected) in [
            ("none", None, seconds(0), Some(Move::Create)),
            ("given up", Some(held_by("")), seconds(0), Some(Move::Take)),
            ("ours", Some(held_by("me")), seconds(0), Some(Move::Renew)),
            (
                "ours, long ago",
                Some(held_by("me")),
                seconds(99),
                Some(Move::Renew),
            ),
            ("another's", Some(held_by("you")), seconds(14), None),
            (
                "another's, at the end",
                Some(held_by("you")),
                seconds(15),
                None,
            ),
            (
                "another's, silent",
                Some(held_by("you")),
                seconds(16),
                Some(Move::Take),
            ),
        ] {
            assert_eq!(decide(lease.as_ref(), "me", silent), expected, "{name}");
        }
    }
}
