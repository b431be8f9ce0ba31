//! One listener: its sockets, its pool and its counts.

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use linux::epoll::Epoll;
use linux::stream;
use protocols::balance::{Health, Pool};

use super::slab::Key;
use crate::config::Listener;
use crate::status;

/// Between two tries to listen.
const RETRY: Duration = Duration::from_millis(500);
/// Between two words about the same trouble.
const QUIET: Duration = Duration::from_secs(1);

pub struct Service {
    config: Listener,
    pub pool: Pool,
    /// By place in `config.listen`.
    sockets: Vec<Option<TcpListener>>,
    /// Given up for a moment when there are no descriptors left, to refuse a client rather than let it wait.
    spare: Option<File>,
    removed: bool,
    problem: Option<String>,
    listen_at: Option<Instant>,
    said_at: Option<Instant>,
    pub connecting: VecDeque<(Instant, Key)>,
    pub open: usize,
    pub counts: Counts,
}

#[derive(Debug, Default)]
pub struct Counts {
    pub accepted: u64,
    pub retried: u64,
    pub refused: u64,
    pub no_backend: u64,
    pub timed_out: u64,
    pub cut: u64,
    pub bytes_up: u64,
    pub bytes_down: u64,
}

/// What a listener is good for at the moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    /// It accepts connections on every address.
    pub listening: bool,
    /// It does, or would if its virtual address were here.
    pub ready: bool,
    /// Backends that take new connections.
    pub up: BTreeSet<SocketAddr>,
}

impl Service {
    pub fn new(config: Listener) -> Self {
        Self {
            pool: Pool::new(config.pool()),
            sockets: config.listen.iter().map(|_| None).collect(),
            spare: File::open("/dev/null").ok(),
            removed: false,
            problem: None,
            listen_at: None,
            said_at: None,
            connecting: VecDeque::new(),
            open: 0,
            counts: Counts::default(),
            config,
        }
    }

    pub fn config(&self) -> &Listener {
        &self.config
    }

    /// Sockets whose address stays are kept.
    pub fn reconfigure(&mut self, now: Instant, config: Listener) {
        self.pool.reconfigure(now, config.pool());
        let mut kept: Vec<_> = self
            .config
            .listen
            .iter()
            .copied()
            .zip(std::mem::take(&mut self.sockets))
            .collect();
        self.sockets = config
            .listen
            .iter()
            .map(|address| kept.iter_mut().find(|(at, _)| at == address)?.1.take())
            .collect();
        self.config = config;
        self.problem = None;
        self.listen_at = None;
    }

    /// Takes no more clients; those it has may finish.
    pub fn remove(&mut self) {
        self.removed = true;
    }

    pub fn is_removed(&self) -> bool {
        self.removed
    }

    pub fn is_over(&self) -> bool {
        self.removed && self.open == 0
    }

    pub fn listener(&self, at: usize) -> Option<&TcpListener> {
        self.sockets.get(at)?.as_ref()
    }

    pub fn is_full(&self) -> bool {
        self.open >= self.config.max_connections as usize
    }

    pub fn wake_at(&self) -> Option<Instant> {
        let connecting = self.connecting.front().map(|(until, _)| *until);
        let all = [connecting, self.pool.wake_at(), self.listen_at];
        all.into_iter().flatten().min()
    }

    /// The next connection whose time to connect may be over.
    pub fn overdue(&mut self, now: Instant) -> Option<Key> {
        let (until, _) = self.connecting.front()?;
        if *until > now {
            return None;
        }
        self.connecting.pop_front().map(|(_, key)| key)
    }

    pub fn shortest(&self) -> Duration {
        let config = &self.config;
        config
            .idle_timeout
            .min(config.half_closed_timeout)
            .min(config.first_byte_timeout)
    }

    pub fn wants_to_listen(&self, now: Instant) -> bool {
        self.listen_at.is_some_and(|at| at <= now)
    }

    /// Listens while there is a backend (and the address is here, if that is asked for), and only then: a
    /// client of a listener without backends learns at once that it should go elsewhere.
    pub fn settle(
        &mut self,
        now: Instant,
        held: &[String],
        epoll: &Epoll,
        token: impl Fn(usize) -> u64,
    ) {
        let open = !self.removed && self.is_here(held) && self.pool.is_serving();
        if !open {
            self.listen_at = None;
            self.sockets.iter_mut().for_each(|socket| *socket = None);
            return;
        }
        if self.sockets.iter().all(Option::is_some) || self.listen_at.is_some_and(|at| at > now) {
            return;
        }
        self.listen_at = None;
        let mut problem = None;
        for (at, socket) in self.sockets.iter_mut().enumerate() {
            let address = self.config.listen[at];
            if socket.is_some() {
                continue;
            }
            let opened = stream::listen(address)
                .and_then(|opened| epoll.add_reader(&opened, token(at)).map(|()| opened));
            match opened {
                Ok(opened) => *socket = Some(opened),
                Err(error) => problem = Some(format!("cannot listen on {address}: {error}")),
            }
        }
        if let Some(problem) = &problem {
            self.listen_at = Some(now + RETRY);
            if self.problem.as_ref() != Some(problem) {
                tracing::warn!(listener = self.config.name, problem, "balancer");
            }
        }
        self.problem = problem;
    }

    pub fn state(&self, held: &[String]) -> State {
        let up = self.pool.view().into_iter();
        let listening = self.is_listening();
        State {
            listening,
            ready: listening || self.pool.is_serving() && !self.is_here(held),
            up: up
                .filter(|view| view.health == Health::Up)
                .map(|view| view.address)
                .collect(),
        }
    }

    /// The virtual address it belongs to, if any, is on this node.
    fn is_here(&self, held: &[String]) -> bool {
        let vip = self.config.vip.as_ref();
        vip.is_none_or(|vip| held.contains(vip))
    }

    fn is_listening(&self) -> bool {
        self.sockets.iter().all(Option::is_some) && !self.sockets.is_empty()
    }

    pub fn refuse(&mut self, now: Instant, by_capacity: bool) {
        self.counts.refused += 1;
        let why = if by_capacity {
            "this process may not open more files"
        } else {
            "max_connections is reached"
        };
        self.say(now, why);
    }

    /// The kernel gives no more: refuse the client with the one descriptor that was kept for this.
    pub fn out_of_descriptors(&mut self, now: Instant, at: usize) {
        self.spare = None;
        if let Some(listener) = self.listener(at)
            && let Ok(client) = stream::accept(listener)
        {
            stream::reset(client);
        }
        self.spare = File::open("/dev/null").ok();
        self.counts.refused += 1;
        self.say(now, "no file descriptors are left");
    }

    pub fn no_socket(&mut self, now: Instant, error: &io::Error) {
        self.counts.refused += 1;
        self.say(now, &format!("no socket to a backend: {error}"));
    }

    pub fn no_backend(&mut self, now: Instant) {
        self.counts.no_backend += 1;
        self.say(now, "no backend takes it");
    }

    /// Often the same: once a second is enough.
    fn say(&mut self, now: Instant, why: &str) {
        if self.said_at.is_some_and(|at| now < at + QUIET) {
            return;
        }
        self.said_at = Some(now);
        let open = self.open;
        tracing::warn!(listener = self.config.name, open, why, "connection refused");
    }

    pub fn status(&self, now: Instant) -> status::Listener {
        let counts = &self.counts;
        status::Listener {
            name: self.config.name.clone(),
            listen: self.config.listen.clone(),
            listening: self.is_listening(),
            problem: self.problem.clone(),
            connections: self.open,
            accepted: counts.accepted,
            retried: counts.retried,
            refused: counts.refused,
            no_backend: counts.no_backend,
            timed_out: counts.timed_out,
            cut: counts.cut,
            bytes_up: counts.bytes_up,
            bytes_down: counts.bytes_down,
            backends: self
                .pool
                .view()
                .into_iter()
                .map(|view| status::Backend {
                    name: view.name,
                    address: view.address,
                    health: super::word(view.health).into(),
                    why: view.why.into(),
                    for_ms: now.saturating_duration_since(view.since).as_millis() as u64,
                    connections: view.connections,
                    total: view.total,
                    connect_failures: view.connect_failures,
                })
                .collect(),
        }
    }
}
