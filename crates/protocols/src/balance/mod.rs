//! Balancing connections over backends: who is well, who is next, who must go.
//!
//! ```text
//!   members ──┐                         ┌── pick: where the next connection goes
//!   checks ───┼──> Pool (one listener) ─┼── Changed: for the log
//!   connects ─┘                         └── Cut: end the connections of a dead backend
//! ```

mod backend;
mod pace;
pub mod proxy;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use backend::{Backend, Verdict};
pub use backend::{Health, Outcome};
pub use pace::Pace;

/// Names a backend for as long as any connection to it lives; never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    RoundRobin,
    LeastConnections,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    pub policy: Policy,
    /// Backends are looked at; without that they count as well until a connection fails.
    pub checked: bool,
    /// Good looks in a row that make it well.
    pub rise: u32,
    /// Bad looks in a row that make it ill.
    pub fall: u32,
    /// Failed connections in a row that make it ill.
    pub connect_fall: u32,
    /// Without checks: when an ill backend is tried again.
    pub probation: Duration,
    /// Connections that one backend may have.
    pub limit: Option<u32>,
    /// How long a removed backend may finish its connections.
    pub drain: Duration,
}

#[derive(Debug, Clone)]
pub enum Event {
    /// These are the backends from now on, by address.
    Members(BTreeMap<SocketAddr, String>),
    Checked {
        address: SocketAddr,
        outcome: Outcome,
    },
    Connected(Id),
    ConnectFailed(Id),
    /// A connection that had been picked for it, made or not, is over.
    Closed(Id),
    Timer,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// End its connections now: it is dead, or its time to finish is over.
    Cut(Id),
    Changed {
        name: String,
        address: SocketAddr,
        from: Health,
        to: Health,
        why: &'static str,
    },
    /// Its last connection is over; nothing knows it any more.
    Gone(Id),
}

/// Where a connection goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pick {
    pub id: Id,
    pub address: SocketAddr,
}

/// A backend as a person sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    pub name: String,
    pub address: SocketAddr,
    pub health: Health,
    pub why: &'static str,
    pub connections: u32,
    pub total: u64,
    pub connect_failures: u64,
    pub since: Instant,
}

/// The backends of one listener.
#[derive(Debug)]
pub struct Pool {
    config: Config,
    /// In order of address, so that every node goes round the same way.
    backends: Vec<Backend>,
    next_id: u32,
    /// Who had the last connection.
    last: usize,
}

impl Pool {
    pub fn new(config: Config) -> Self {
        Self {
            config,
            backends: Vec::new(),
            next_id: 0,
            last: 0,
        }
    }

    /// Keeps what is known of the backends, as long as somebody goes on looking.
    pub fn reconfigure(&mut self, now: Instant, config: Config) {
        if self.config.checked && !config.checked {
            for backend in &mut self.backends {
                backend.forget_checks(now);
            }
        }
        self.config = config;
    }

    pub fn handle(&mut self, now: Instant, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Members(members) => self.set_members(now, &members, &mut actions),
            // A look that was on its way when looking was given up.
            Event::Checked { .. } if !self.config.checked => {}
            Event::Checked { address, outcome } => {
                let found = self
                    .backends
                    .iter_mut()
                    .find(|backend| backend.address == address && !backend.is_draining());
                if let Some(backend) = found {
                    let verdict = backend.checked(now, &self.config, outcome);
                    report(backend, verdict, &mut actions);
                }
            }
            Event::Connected(id) => {
                if let Some(backend) = self.get_mut(id) {
                    backend.connected();
                }
            }
            Event::ConnectFailed(id) => {
                let config = self.config.clone();
                if let Some(backend) = self.get_mut(id) {
                    let verdict = backend.connect_failed(now, &config);
                    report(backend, verdict, &mut actions);
                }
            }
            Event::Closed(id) => {
                if let Some(backend) = self.get_mut(id) {
                    backend.connections = backend.connections.saturating_sub(1);
                }
                self.bury(&mut actions);
            }
            Event::Timer => {
                for backend in &mut self.backends {
                    let verdict = backend.timer(now, &self.config);
                    report(backend, verdict, &mut actions);
                }
            }
        }
        actions
    }

    /// When to send [`Event::Timer`], if at all.
    pub fn wake_at(&self) -> Option<Instant> {
        self.backends.iter().filter_map(Backend::wake_at).min()
    }

    /// Chooses, and counts the connection as its own until `Closed`. Never one of `tried`.
    pub fn pick(&mut self, tried: &[Id]) -> Option<Pick> {
        let count = self.backends.len();
        let limit = self.config.limit.unwrap_or(u32::MAX);
        let fits = |backend: &Backend| {
            backend.health() == Health::Up
                && backend.connections < limit
                && !tried.contains(&backend.id)
        };
        // After the last one, once round.
        let mut round = (1..=count).map(|step| (self.last + step) % count);
        let at = match self.config.policy {
            Policy::RoundRobin => round.find(|at| fits(&self.backends[*at])),
            Policy::LeastConnections => round
                .filter(|at| fits(&self.backends[*at]))
                .min_by_key(|at| self.backends[*at].connections),
        }?;
        self.last = at;
        let backend = &mut self.backends[at];
        backend.connections += 1;
        backend.total += 1;
        Some(Pick {
            id: backend.id,
            address: backend.address,
        })
    }

    /// Is there any backend for a new connection?
    pub fn is_serving(&self) -> bool {
        self.backends
            .iter()
            .any(|backend| backend.health() == Health::Up)
    }

    pub fn view(&self) -> Vec<View> {
        self.backends.iter().map(Backend::view).collect()
    }

    fn get_mut(&mut self, id: Id) -> Option<&mut Backend> {
        self.backends.iter_mut().find(|backend| backend.id == id)
    }

    fn set_members(
        &mut self,
        now: Instant,
        members: &BTreeMap<SocketAddr, String>,
        actions: &mut Vec<Action>,
    ) {
        for backend in &mut self.backends {
            if let Some(name) = members.get(&backend.address) {
                backend.name.clone_from(name);
            } else if !backend.is_draining() {
                let verdict = backend.drain(now + self.config.drain, now);
                report(backend, Some(verdict), actions);
            }
        }
        for (address, name) in members {
            let known = |backend: &Backend| backend.address == *address && !backend.is_draining();
            if self.backends.iter().any(known) {
                continue;
            }
            let id = Id(self.next_id);
            self.next_id = self.next_id.wrapping_add(1);
            let backend = Backend::new(id, name.clone(), *address, self.config.checked, now);
            let at = self
                .backends
                .partition_point(|other| other.address <= *address);
            self.backends.insert(at, backend);
        }
        self.bury(actions);
    }

    /// Forgets the drained.
    fn bury(&mut self, actions: &mut Vec<Action>) {
        let over = |backend: &Backend| backend.is_draining() && backend.connections == 0;
        if self.backends.iter().any(over) {
            self.backends.retain(|backend| {
                let over = over(backend);
                if over {
                    actions.push(Action::Gone(backend.id));
                }
                !over
            });
            self.last = 0;
        }
    }
}

fn report(backend: &Backend, verdict: Option<Verdict>, actions: &mut Vec<Action>) {
    let Some(verdict) = verdict else { return };
    if verdict.from != backend.health() {
        actions.push(Action::Changed {
            name: backend.name.clone(),
            address: backend.address,
            from: verdict.from,
            to: backend.health(),
            why: verdict.why,
        });
    }
    if verdict.cut && backend.connections > 0 {
        actions.push(Action::Cut(backend.id));
    }
}
