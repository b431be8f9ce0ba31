//! The node as a service: one task that looks, asks `decide`, and does that one thing.
//!
//! ```text
//!   a name ─▶ an identity ─▶ beats: Node and Lease, every 10 s and whenever a check changes
//!                 ▲                │
//!                 └── renewal ─────┘
//! ```

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::api::{self, Session};
use crate::checks::{self, Checks};
use crate::config::{self, Config, is_node_name};
use crate::decide::identity::{self, Pending, Step, Validity};
use crate::decide::node::{Condition, Desired};
use crate::decide::serving::{Joined, has_machine};
use crate::decide::{address, lease, node};
use crate::identity::{Files, Identity};
use crate::serving::{self, Serving};
use crate::{Status, admin, facts, notify, server};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Config(#[from] config::Error),
    #[error(transparent)]
    Admin(#[from] admin::Error),
    #[error("could not keep the node's identity")]
    Identity(#[from] crate::identity::Error),
    #[error("could not speak netlink")]
    Netlink(#[from] linux::netlink::Error),
    #[error("could not watch for signals")]
    Signals(#[source] std::io::Error),
}

/// How often a name that is not there yet is looked for.
const NAME: Duration = Duration::from_secs(1);
/// How often the Lease is renewed and the Node looked at; a quarter of the Lease.
const BEAT: Duration = Duration::from_secs(10);
/// After a failure, doubled every time, up to a beat.
const AGAIN: Duration = Duration::from_millis(500);
/// How often a write is tried that others get in the way of.
const TRIES: usize = 4;

/// Runs until `stop`; SIGHUP reads the configuration anew.
pub async fn run(path: &Path, stop: impl Future<Output = ()>) -> Result<(), Error> {
    let mut config = Config::load(path)?;
    let mut hang_up = signal(SignalKind::hangup()).map_err(Error::Signals)?;
    let (status, seen) = watch::channel(Status::default());
    let address = config.admin;
    let admin = async move {
        match address {
            Some(address) => admin::serve(address, seen).await?.await,
            None => std::future::pending().await,
        }
        Ok(())
    };
    tokio::pin!(admin, stop);
    loop {
        let work = work(&config, &status);
        let reloaded = tokio::select! {
            () = &mut stop => break,
            failed = &mut admin => return failed,
            failed = work => return failed,
            reloaded = reloaded(path, &mut hang_up) => reloaded,
        };
        config = reloaded;
    }
    notify::tell("STOPPING=1");
    info!("stopped");
    Ok(())
}

/// The next configuration that can be used.
async fn reloaded(path: &Path, hang_up: &mut tokio::signal::unix::Signal) -> Config {
    loop {
        if hang_up.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
        match Config::load(path) {
            Ok(config) => {
                info!("the configuration was read anew");
                return config;
            }
            Err(error) => warn!(error = model::chain(&error), "reload; all stays as it was"),
        }
    }
}

/// For ever, unless this machine cannot even keep a key.
async fn work(config: &Config, status: &watch::Sender<Status>) -> Result<(), Error> {
    let name = name(config, status).await;
    status.send_modify(|status| status.name = Some(name.clone()));
    let files = Files::open(&config.state, &name)?;
    let mut worker = Worker {
        config,
        status,
        desired: Desired {
            info: facts::info(Path::new("/")),
            labels: labels(config, &name),
            taints: taints(config),
            provider_id: config.provider_id.clone(),
            port: config.server.as_ref().map(|server| server.listen.port()),
            name,
            ..Desired::default()
        },
        netlink: linux::netlink::Netlink::connect()?,
        identity: files.identity(),
        files,
        session: None,
        lease: None,
        serving: None,
        joined: None,
    };
    let (conditions, mut checked) = watch::channel(Vec::new());
    let authorities = worker.authorities().await;
    let checks = Checks::new(&config.control_plane, &authorities);
    let offered = worker.serve(authorities);
    tokio::select! {
        () = check(&checks, conditions) => {}
        () = show(config, offered) => {}
        done = worker.run(&mut checked) => return done,
    }
    Ok(())
}

/// Logs and counters to those outside, if that is wanted.
async fn show(config: &Config, offered: Option<watch::Receiver<serving::Offer>>) {
    match (&config.server, offered) {
        (Some(server), Some(offered)) => server::run(server, offered).await,
        (None, _) | (_, None) => std::future::pending().await,
    }
}

/// Ours by configuration, or the host's, once it has one.
async fn name(config: &Config, status: &watch::Sender<Status>) -> String {
    if let Some(name) = &config.name {
        return name.clone();
    }
    loop {
        let reason = match facts::host_name(Path::new("/")) {
            Some(name) if is_node_name(&name) => return name,
            Some(name) => format!("a host name that a Node can have; it is {name:?}"),
            None => "the host to have a name; it is localhost".to_owned(),
        };
        wait(status, reason);
        tokio::time::sleep(NAME).await;
    }
}

/// Tells once what is waited for.
fn wait(status: &watch::Sender<Status>, reason: String) {
    status.send_if_modified(|status| {
        let new = status.waits_for.as_ref() != Some(&reason);
        if new {
            info!(reason, "waits for");
            status.waits_for = Some(reason);
        }
        new
    });
}

fn labels(config: &Config, name: &str) -> std::collections::BTreeMap<String, String> {
    let mut labels = config.labels.clone();
    for (key, value) in [
        ("kubernetes.io/hostname", name),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", facts::architecture()),
    ] {
        labels
            .entry(key.to_owned())
            .or_insert_with(|| value.to_owned());
    }
    labels
}

fn taints(config: &Config) -> Vec<k8s_openapi::api::core::v1::Taint> {
    let taint = |taint: &config::Taint| k8s_openapi::api::core::v1::Taint {
        key: taint.key.clone(),
        value: Some(taint.value.clone()).filter(|value| !value.is_empty()),
        effect: taint.effect.clone(),
        time_added: None,
    };
    config.taints.iter().map(taint).collect()
}

/// Whoever listens hears of changes only.
async fn check(checks: &Checks, conditions: watch::Sender<Vec<Condition>>) {
    loop {
        let seen = checks.run().await;
        let pause = checks::pause(&seen);
        conditions.send_if_modified(|known| {
            for new in seen.iter().filter(|seen| !known.contains(seen)) {
                info!(
                    condition = new.kind,
                    holds = new.holds,
                    why = new.message,
                    "seen"
                );
            }
            let changed = *known != seen;
            *known = seen;
            changed
        });
        tokio::time::sleep(pause).await;
    }
}

struct Worker<'a> {
    config: &'a Config,
    status: &'a watch::Sender<Status>,
    desired: Desired,
    netlink: linux::netlink::Netlink,
    files: Files,
    identity: Option<Identity>,
    /// As whom we speak: the node while it has an identity.
    session: Option<Session>,
    lease: Option<Lease>,
    /// Where logs are served.
    serving: Option<Serving>,
    /// When the first beat went well.
    joined: Option<Timestamp>,
}

impl Worker<'_> {
    async fn run(&mut self, checked: &mut watch::Receiver<Vec<Condition>>) -> Result<(), Error> {
        let (mut identify_at, mut beat_at) = (Instant::now(), Instant::now());
        let (mut identify_failures, mut beat_failures) = (0, 0);
        loop {
            if Instant::now() >= identify_at {
                let again = self.identify().await?;
                identify_failures = if again.is_some() {
                    0
                } else {
                    identify_failures + 1
                };
                identify_at = Instant::now() + again.unwrap_or_else(|| pause(identify_failures));
            }
            let conditions = checked.borrow_and_update().clone();
            let news = conditions != self.desired.conditions;
            let due = Instant::now() >= beat_at || (news && beat_failures == 0);
            // Without a certificate, or before the first look at this machine, there is nothing to say.
            let speaks = self.is_somebody() && !conditions.is_empty();
            if due && speaks {
                self.desired.conditions = conditions;
                beat_failures = match self.beat().await {
                    Ok(()) => 0,
                    Err(error) => {
                        self.failed(&error);
                        beat_failures + 1
                    }
                };
                let again = if beat_failures == 0 {
                    BEAT
                } else {
                    pause(beat_failures)
                };
                beat_at = Instant::now() + again;
            }
            let next = if speaks {
                beat_at.min(identify_at)
            } else {
                identify_at
            };
            tokio::select! {
                () = tokio::time::sleep_until(next) => {}
                changed = checked.changed() => if changed.is_err() { return Ok(()) },
            }
        }
    }

    /// Whether we hold a certificate that is still good.
    fn is_somebody(&self) -> bool {
        let now = Timestamp::now();
        self.identity
            .as_ref()
            .is_some_and(|identity| now < identity.validity.not_after)
    }

    /// One step towards a certificate, and when to take the next; none if this one failed.
    async fn identify(&mut self) -> Result<Option<Duration>, Error> {
        let now = Timestamp::now();
        let validity = self.identity.as_ref().map(|identity| identity.validity);
        let spread = self
            .identity
            .as_ref()
            .map_or(0.0, |identity| identity.spread);
        if let Step::Use { until } = identity::next(validity, None, spread, now) {
            self.tell_identity(validity, until);
            return Ok(Some(until_then(until, now)));
        }
        let request = self.files.request();
        let pending = match &request {
            Some(request) => Some(Pending {
                since: request.since,
                request: self.ask(request).await,
            }),
            None => None,
        };
        let step = identity::next(validity, pending.as_ref(), spread, now);
        match (step, request) {
            (Step::Use { until }, _) => Ok(Some(until_then(until, now))),
            (Step::Draw { why }, _) => {
                let request = self.files.draw(now)?;
                info!(why, request = request.name, "asks for a certificate");
                Ok(Some(Duration::ZERO))
            }
            (Step::Wait { reason, again_in }, request) => {
                let name = request.map(|request| request.name).unwrap_or_default();
                let reason = format!("{reason} ({name})");
                if self.is_somebody() {
                    let told = |status: &mut Status| status.renewal_waits_for = Some(reason);
                    self.status.send_modify(told);
                } else {
                    wait(self.status, reason);
                }
                // Whoever could not be asked is asked anew, from the beginning.
                if matches!(
                    pending.map(|pending| pending.request),
                    Some(identity::Request::Unknown { .. })
                ) {
                    self.session = None;
                    return Ok(None);
                }
                Ok(Some(again_in))
            }
            (Step::Submit, Some(request)) => {
                let life = self.config.certificate_life;
                let done = match self.session().await {
                    Ok(session) => session.submit(&request, life).await,
                    Err(error) => Err(error),
                };
                if let Err(error) = done {
                    self.failed(&error);
                    return Ok(None);
                }
                Ok(Some(Duration::ZERO))
            }
            (Step::Take { pem }, Some(request)) => match self.files.take(&request, &pem) {
                Ok(taken) => {
                    info!(until = %taken.validity.not_after, "has a certificate");
                    self.identity = Some(taken);
                    self.session = None;
                    self.status.send_modify(|status| {
                        status.counts.certificates += 1;
                        status.waits_for = None;
                    });
                    Ok(Some(Duration::ZERO))
                }
                Err(error @ crate::identity::Error::Strange(_)) => {
                    self.failed(&error);
                    self.files.forget_request();
                    Ok(None)
                }
                Err(error) => Err(error.into()),
            },
            (Step::Submit | Step::Take { .. }, None) => Ok(None),
        }
    }

    async fn ask(&mut self, request: &crate::identity::Request) -> identity::Request {
        match self.session().await {
            Ok(session) => session.request(request).await,
            Err(error) => identity::Request::Unknown {
                why: model::chain(&error),
            },
        }
    }

    /// Node, then Lease: the Lease belongs to the Node.
    async fn beat(&mut self) -> Result<(), api::Error> {
        self.desired.addresses = self.addresses().await;
        self.desired.capacity = facts::capacity(Path::new("/"), &self.config.state);
        let session = self.session().await?.clone();
        let name = self.desired.name.clone();
        let mut seen = session.node(&name).await?;
        let mut writes = 0;
        for _ in 0..TRIES {
            let Some(write) = node::next(&self.desired, seen.as_ref(), Timestamp::now()) else {
                break;
            };
            if matches!(write, node::Write::Create(_)) {
                info!(node = name, "registers");
            }
            seen = match session.write_node(write).await {
                Ok(written) => Some(written),
                Err(error) if error.is_conflict() => session.node(&name).await?,
                Err(error) => return Err(error),
            };
            writes += 1;
        }
        let machine = seen.as_ref().is_some_and(has_machine);
        let uid = seen.and_then(|node| node.metadata.uid).unwrap_or_default();
        self.renew(&session, &uid).await?;
        let (conditions, addresses) = (
            self.desired.conditions.clone(),
            self.desired.addresses.clone(),
        );
        let first = !self.status.borrow().registered;
        self.status.send_modify(|status| {
            status.registered = true;
            status.waits_for = None;
            status.lease_renewed = Some(Timestamp::now());
            status.counts.lease_renewals += 1;
            status.counts.node_writes += writes;
            status.conditions = conditions;
            status.addresses = addresses;
        });
        if first {
            notify::tell("READY=1");
        }
        self.serve_on(&session, machine).await;
        Ok(())
    }

    /// What listeners need, from now on.
    fn serve(&mut self, authorities: Vec<Vec<u8>>) -> Option<watch::Receiver<serving::Offer>> {
        self.config.server.as_ref()?;
        let life = self.config.certificate_life;
        let (serving, offered) = Serving::new(&self.files, authorities, life, self.status);
        self.serving = Some(serving);
        Some(offered)
    }

    /// The rest of a beat: towards a certificate to serve with.
    async fn serve_on(&mut self, session: &Session, machine: bool) {
        let since = *self.joined.get_or_insert_with(Timestamp::now);
        let joined = Joined {
            since,
            ready: self.desired.conditions.iter().all(|seen| seen.holds),
            machine,
        };
        if let Some(serving) = &mut self.serving {
            let addresses = &self.desired.addresses;
            serving.step(session, joined, addresses, self.status).await;
        }
    }

    async fn renew(&mut self, session: &Session, uid: &str) -> Result<(), api::Error> {
        let name = &self.desired.name;
        // What we wrote last is what is there, but for meddlers.
        let known = match self.lease.take() {
            Some(lease) => Some(lease),
            None => session.lease(name).await?,
        };
        let now = Timestamp::now();
        let written = session
            .write_lease(lease::next(known.as_ref(), name, uid, now))
            .await;
        let lease = match written {
            Ok(lease) => lease,
            Err(error) if error.is_gone_or_conflict() => {
                let seen = session.lease(name).await?;
                session
                    .write_lease(lease::next(seen.as_ref(), name, uid, now))
                    .await?
            }
            Err(error) => return Err(error),
        };
        self.lease = Some(lease);
        Ok(())
    }

    /// Those of the kernel at this moment; none if it does not say.
    async fn addresses(&self) -> Vec<std::net::IpAddr> {
        let (addresses, links, routes) = tokio::join!(
            self.netlink.addresses(),
            self.netlink.links(),
            self.netlink.routes()
        );
        let out: Vec<String> = routes
            .unwrap_or_default()
            .into_iter()
            .filter(|route| route.to.prefix_len() == 0)
            .filter_map(|route| route.link)
            .collect();
        let default_links: Vec<u32> = links
            .unwrap_or_default()
            .into_iter()
            .filter(|link| out.contains(&link.name))
            .map(|link| link.index)
            .collect();
        let seen: Vec<address::Address> = addresses
            .unwrap_or_default()
            .into_iter()
            .map(|seen| address::Address {
                link: seen.link,
                ip: seen.net.addr(),
                tentative: seen.tentative,
            })
            .collect();
        let Config {
            networks, exclude, ..
        } = self.config;
        address::choose(&seen, networks, exclude, &default_links)
    }

    async fn session(&mut self) -> Result<&Session, api::Error> {
        if self.session.is_none() {
            let identity = self.identity.as_ref().filter(|_| self.is_somebody());
            self.session = Some(Session::open(&self.config.kubeconfig, identity).await?);
        }
        Ok(self.session.as_ref().expect("it was just opened"))
    }

    /// What the API on this machine is verified with, once the kubeconfig can be read.
    async fn authorities(&mut self) -> Vec<Vec<u8>> {
        loop {
            match self.session().await {
                Ok(session) => return session.authorities.clone(),
                Err(error) => wait(self.status, model::chain(&error)),
            }
            tokio::time::sleep(NAME).await;
        }
    }

    fn tell_identity(&self, validity: Option<Validity>, renewal: Timestamp) {
        self.status.send_modify(|status| {
            status.certificate_ends = validity.map(|validity| validity.not_after);
            status.certificate_renewal = Some(renewal);
            status.renewal_waits_for = None;
        });
    }

    /// It is tried again on a new connection: an address may have moved.
    fn failed(&mut self, error: &dyn std::error::Error) {
        self.session = None;
        self.lease = None;
        self.status
            .send_modify(|status| status.counts.failures += 1);
        wait(self.status, model::chain(error));
    }
}

fn pause(failures: u32) -> Duration {
    AGAIN.saturating_mul(1 << failures.min(8)).min(BEAT)
}

/// Clocks jump: never for longer than an hour.
fn until_then(until: Timestamp, now: Timestamp) -> Duration {
    let wait = until.duration_since(now).max(jiff::SignedDuration::ZERO);
    wait.unsigned_abs().min(Duration::from_hours(1))
}
