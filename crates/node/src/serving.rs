//! Has a certificate to serve with: kept, asked for and renewed, a step after a beat of the daemon and never on its own.
//!
//! Nobody depends on it but those who look for what went wrong, so no failure here is one of the node's.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rustls::ServerConfig;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::api::{self, Session};
use crate::decide::identity::{Pending, Step};
use crate::decide::serving::{self, Joined};
use crate::identity::{Files, Identity};
use crate::server::tls;
use crate::status::Status;

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("could not keep the certificate to serve logs with")]
    Keep(#[from] crate::identity::Error),
    #[error(transparent)]
    Ask(#[from] api::Error),
    #[error(transparent)]
    Tls(#[from] tls::Error),
}

/// What a server needs before it can listen.
pub type Offer = Option<Arc<ServerConfig>>;

pub struct Serving {
    files: Files,
    address: Option<IpAddr>,
    held: Option<Identity>,
    /// Whoever holds one of these authorities' certificates is listened to.
    authorities: Vec<Vec<u8>>,
    life: Option<Duration>,
    offer: watch::Sender<Offer>,
    /// Not before.
    next: Instant,
    failures: u32,
}

/// After a failure, doubled every time.
const AGAIN: Duration = Duration::from_secs(30);
const AGAIN_AT_LAST: Duration = Duration::from_mins(10);
/// A clock may jump: never for longer.
const LONGEST: Duration = Duration::from_hours(1);
/// Drawn, submitted, looked for.
const STEPS: usize = 3;

impl Serving {
    /// What is on disk is offered at once: an API that is down is no reason not to show logs.
    pub fn new(
        files: &Files,
        authorities: Vec<Vec<u8>>,
        life: Option<Duration>,
        status: &watch::Sender<Status>,
    ) -> (Self, watch::Receiver<Offer>) {
        let files = files.for_server(None);
        let (offer, offered) = watch::channel(None);
        let mut serving = Self {
            address: None,
            held: files.identity(),
            files,
            authorities,
            life,
            offer,
            next: Instant::now(),
            failures: 0,
        };
        if let Some(identity) = serving.held.clone()
            && let Err(error) = serving.show(&identity, status)
        {
            warn!(
                error = model::chain(&error),
                "the certificate to serve logs with is of no use"
            );
            serving.held = None;
        }
        (serving, offered)
    }

    /// After a beat that went well. Costs nothing until it is time.
    pub async fn step(
        &mut self,
        session: &Session,
        joined: Joined,
        addresses: &[IpAddr],
        status: &watch::Sender<Status>,
    ) {
        let address = serving::address(self.address, addresses);
        if address != self.address {
            self.address = address;
            self.files = self.files.for_server(address);
            self.held = self.files.identity();
            self.next = Instant::now();
        }
        if Instant::now() < self.next {
            return;
        }
        let pause = match self.work(session, joined, status).await {
            Ok(pause) => {
                self.failures = 0;
                pause
            }
            Err(error) => {
                let pause = AGAIN.saturating_mul(1 << self.failures.min(8));
                self.failures += 1;
                let reason = model::chain(&error);
                warn!(error = reason, "no certificate to serve logs with");
                wait(status, reason);
                pause.min(AGAIN_AT_LAST)
            }
        };
        self.next = Instant::now() + pause;
    }

    /// As far as it goes now, and when to go on.
    async fn work(
        &mut self,
        session: &Session,
        joined: Joined,
        status: &watch::Sender<Status>,
    ) -> Result<Duration, Error> {
        let mut pause = Duration::ZERO;
        for _ in 0..STEPS {
            let now = Timestamp::now();
            match self.decide(session, joined, now).await {
                Step::Use { until } => {
                    status.send_if_modified(|status| status.serving_waits_for.take().is_some());
                    let wait = until.duration_since(now).max(jiff::SignedDuration::ZERO);
                    pause = wait.unsigned_abs().min(LONGEST);
                    break;
                }
                Step::Wait { reason, again_in } => {
                    wait(status, reason);
                    pause = again_in;
                    break;
                }
                Step::Draw { why } => {
                    let request = self.files.draw(now)?;
                    info!(
                        why,
                        request = request.name,
                        "asks for a certificate to serve logs with"
                    );
                }
                Step::Submit => {
                    if let Some(request) = self.files.request() {
                        session.submit(&request, self.life).await?;
                    }
                }
                Step::Take { pem } => self.take(&pem, status)?,
            }
        }
        Ok(pause)
    }

    /// The API is asked only for what is on its way.
    async fn decide(&self, session: &Session, joined: Joined, now: Timestamp) -> Step {
        let validity = self.held.as_ref().map(|held| held.validity);
        let spread = self.held.as_ref().map_or(0.0, |held| held.spread);
        let step = serving::next(joined, validity, None, spread, now);
        let request = match &step {
            Step::Use { .. } => None,
            Step::Draw { .. } | Step::Submit | Step::Wait { .. } | Step::Take { .. } => {
                self.files.request()
            }
        };
        let Some(request) = request else {
            return step;
        };
        let pending = Pending {
            since: request.since,
            request: session.request(&request).await,
        };
        serving::next(joined, validity, Some(&pending), spread, now)
    }

    fn take(&mut self, pem: &str, status: &watch::Sender<Status>) -> Result<(), Error> {
        let Some(request) = self.files.request() else {
            return Ok(());
        };
        match self.files.take(&request, pem) {
            Ok(taken) => {
                info!(until = %taken.validity.not_after, "has a certificate to serve logs with");
                self.show(&taken, status)?;
                self.held = Some(taken);
                Ok(())
            }
            Err(error @ crate::identity::Error::Strange(_)) => {
                self.files.forget_request();
                Err(error.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn show(&self, identity: &Identity, status: &watch::Sender<Status>) -> Result<(), tls::Error> {
        let config = tls::server(identity, &self.authorities)?;
        self.offer.send_replace(Some(config));
        status.send_modify(|status| {
            status.serving_ends = Some(identity.validity.not_after);
            status.serving_waits_for = None;
        });
        Ok(())
    }
}

/// A node that cannot be looked into is not ill.
fn wait(status: &watch::Sender<Status>, reason: String) {
    status.send_modify(|status| status.serving_waits_for = Some(reason));
}
