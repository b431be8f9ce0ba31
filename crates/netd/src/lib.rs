//! Virtual IPs, load balancing and DNS on every node, in one process.
//!
//! ```text
//!   config ── the YAML file, every problem told at once
//!   roster ── who is in the cluster: configuration, API (kube) and link (mdns), as one list of members
//!      │ members
//!      ▼
//!   lb ────── TCP to whichever backend is well, on a thread of its own
//!      │ what is served
//!      ▼
//!   checks ── is what this node serves well? one task per check, on the caller's runtime
//!      │ which checks pass
//!      ▼
//!   vip ───── one task per virtual address around a `protocols::vrrp::Router`, on a thread of their own
//!             that runs in real time where that is allowed
//!   render ── the same as configuration for keepalived, haproxy, CoreDNS, dhclient
//!   daemon ── all of it as a service: reload, admin (status, metrics), notify (systemd)
//! ```

pub mod admin;
pub mod checks;
pub mod config;
pub mod daemon;
pub mod dns;
mod kube;
pub mod lb;
pub mod mdns;
pub mod members;
pub mod notify;
mod part;
pub mod render;
pub mod resolv;
mod roster;
pub mod status;
pub mod vip;

use std::ffi::OsString;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot, watch};

use part::Part;

pub use config::Config;
pub use daemon::run;
pub use status::Status;

/// Dropping an address and saying goodbye takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not prepare check {name}")]
    PrepareCheck { name: String, source: checks::Error },
    #[error("could not start the thread of the virtual addresses")]
    Spawn { source: std::io::Error },
    #[error("could not start the thread of the balancer")]
    SpawnBalancer { source: std::io::Error },
    #[error("could not start the guard of the virtual addresses")]
    Guard { source: std::io::Error },
    #[error("could not serve status and metrics")]
    Admin { source: admin::Error },
    #[error("could not watch for signals")]
    Signal { source: std::io::Error },
    #[error("there is no virtual address called {0}")]
    NoSuchVip(String),
    #[error("virtual address {0} has ended")]
    Ended(String),
    #[error("the virtual addresses were not given up within {} s", PATIENCE.as_secs())]
    Stop,
}

/// What is not in the file.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The program and arguments that call [`vip::guard::run`]; without it, a killed process leaves its
    /// addresses to the kernel for a second.
    pub guard: Option<Vec<OsString>>,
}

/// A running netd. Dropping it gives its addresses up too, but does not wait for that.
#[derive(Debug)]
pub struct Netd {
    config: Config,
    checks: checks::Checks,
    vips: Vec<vip::Handle>,
    instances: mpsc::UnboundedSender<vip::Instance>,
    shared: vip::Shared,
    real_time: status::RealTime,
    balancer: lb::Balancer,
    roster: roster::Roster,
    dns: Part<dns::Handle>,
    mdns: Part<mdns::Handle>,
    done: oneshot::Receiver<()>,
}

impl Netd {
    /// Starts everything, in the network namespace of the calling thread. Needs a tokio runtime, which
    /// runs the checks.
    pub async fn spawn(config: Config, options: Options) -> Result<Self, Error> {
        let roster = roster::Roster::spawn(config.members.clone());
        let (held, _) = watch::channel(Vec::new());
        let mut balancer = lb::Balancer::spawn(roster.members(), held.subscribe())
            .map_err(|source| Error::SpawnBalancer { source })?;
        balancer.configure(config.lb.clone());
        let checks = checks::Checks::spawn(config.checks.clone(), balancer.serving())?;
        let guard = options.guard.map(vip::Guard::new);
        start_guard(guard.as_ref(), &config)?;
        let shared = vip::Shared { held, guard };
        let (instances, queue) = mpsc::unbounded_channel();
        let (ready, started) = oneshot::channel();
        let (finished, done) = oneshot::channel();
        let real_time = config.real_time;
        std::thread::Builder::new()
            .name("vip".into())
            .spawn(move || vip::thread(queue, real_time, ready, finished))
            .map_err(|source| Error::Spawn { source })?;
        let real_time = match started.await {
            Ok(Ok(real_time)) => real_time,
            Ok(Err(source)) => return Err(Error::Spawn { source }),
            Err(_) => return Err(Error::Stop),
        };
        let mut netd = Self {
            checks,
            vips: Vec::new(),
            instances,
            shared,
            real_time,
            balancer,
            roster,
            dns: Part::Off,
            mdns: Part::Off,
            done,
            config,
        };
        for vip in netd.config.vips.clone() {
            netd.begin(vip);
        }
        netd.tend();
        Ok(netd)
    }

    /// Tries again what could not be started yet. Call it now and then.
    pub fn tend(&mut self) {
        if let Some(config) = &self.config.mdns {
            let (config, members) = (config.clone(), self.roster.mdns());
            self.mdns.tend("mdns", || mdns::start(config, members));
        }
        if let Some(config) = &self.config.dns {
            if let Some(running) = self.dns.get()
                && let Ok(wanted) = dns::own_addresses(config)
                && running.listen() != wanted
            {
                tracing::info!(
                    ?wanted,
                    "this node's addresses have changed; DNS starts anew"
                );
                drop(self.dns.take());
            }
            let vips = dns::Vips {
                api: config.api.clone(),
                ingress: config.ingress.clone(),
            };
            let feed = dns::Feed {
                vips: watch::channel(vips).1,
                members: self.roster.members(),
            };
            self.dns.tend("dns", || dns::start(config, feed));
        }
    }

    fn begin(&mut self, vip: config::Vip) {
        let all = &self.config.vips;
        let (handle, instance) =
            vip::Instance::new(vip, all, self.checks.passing(), self.shared.clone());
        // The thread ends after us.
        let _ = self.instances.send(instance);
        self.vips.push(handle);
    }

    /// Goes on with another configuration. Connections, and addresses that stay, are not dropped; if this
    /// fails, everything is as it was.
    pub async fn reload(&mut self, config: Config) -> Result<(), Error> {
        // What can fail comes first.
        start_guard(self.shared.guard.as_ref(), &config)?;
        self.checks.configure(config.checks.clone())?;
        self.roster.configure(config.members.clone());
        self.balancer.configure(config.lb.clone());
        if config.dns != self.config.dns {
            self.stop_dns().await;
        }
        if config.mdns != self.config.mdns {
            self.stop_mdns().await;
        }
        let before = std::mem::replace(&mut self.config, config);
        // An address that leaves makes room before another comes.
        let old = std::mem::take(&mut self.vips);
        for (handle, was) in old.into_iter().zip(&before.vips) {
            let now = self.config.vips.iter().find(|vip| vip.name == was.name);
            match now {
                Some(now) if now == was => self.vips.push(handle),
                Some(now) if now.is_update_of(was) => {
                    handle.update(now.clone()).await?;
                    self.vips.push(handle);
                }
                Some(_) | None => {
                    let stopped = tokio::time::timeout(PATIENCE, handle.stop()).await;
                    stopped.map_err(|_| Error::Stop)?;
                }
            }
        }
        for vip in self.config.vips.clone() {
            if !self.vips.iter().any(|handle| handle.name() == vip.name) {
                self.begin(vip);
            }
        }
        // In the order of the file, which `status` shows and the next reload relies on.
        let place = |name: &str| self.config.vips.iter().position(|vip| vip.name == name);
        self.vips.sort_by_key(|handle| place(&handle.name()));
        self.tend();
        Ok(())
    }

    async fn stop_dns(&mut self) {
        if let Some(dns) = self.dns.take()
            && let Err(error) = dns.stop().await
        {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "DNS did not end well"
            );
        }
    }

    async fn stop_mdns(&mut self) {
        if let Some(mdns) = self.mdns.take()
            && let Err(error) = mdns.stop().await
        {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "mDNS did not end well"
            );
        }
        self.roster.mdns().send_replace(members::Members::new());
    }

    pub fn status(&self) -> Status {
        let now = Instant::now();
        let members = self.roster.members();
        let members = members.borrow();
        Status {
            real_time: self.real_time.clone(),
            checks: self.checks.status(),
            vips: self.vips.iter().map(vip::Handle::status).collect(),
            lb: self.balancer.status(),
            members: members
                .values()
                .map(|member| status::Member::new(member, now))
                .collect(),
            dns: self.dns.get().map(dns::Handle::status),
            mdns: self.mdns.get().map(mdns::Handle::status),
            waiting: [("dns", self.dns.problem()), ("mdns", self.mdns.problem())]
                .into_iter()
                .filter_map(|(name, problem)| Some((name.to_owned(), problem?.to_owned())))
                .collect(),
            reload_problem: None,
        }
    }

    /// The planned move: lets another node have the address, if there is one, and does not want it back
    /// for `hold_off` (for ever, if that is not said and the other one stays as good).
    pub async fn resign(&self, name: &str, hold_off: Option<Duration>) -> Result<(), Error> {
        let found = self.vips.iter().find(|vip| vip.name() == name);
        let vip = found.ok_or_else(|| Error::NoSuchVip(name.to_owned()))?;
        vip.resign(hold_off).await
    }

    /// Gives all addresses up and says so to the other nodes, then closes connections.
    pub async fn stop(mut self) -> Result<(), Error> {
        self.stop_dns().await;
        self.stop_mdns().await;
        drop((self.vips, self.instances));
        let stopped = match tokio::time::timeout(PATIENCE, self.done).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::Stop),
        };
        self.balancer.stop().await;
        stopped
    }
}

/// Only if there is something that should not outlive us.
fn start_guard(guard: Option<&vip::Guard>, config: &Config) -> Result<(), Error> {
    let redirects = config.lb.iter().any(|listener| listener.redirect.is_some());
    match guard {
        Some(guard) if redirects || !config.vips.is_empty() => guard
            .start(redirects)
            .map_err(|source| Error::Guard { source }),
        Some(_) | None => Ok(()),
    }
}
