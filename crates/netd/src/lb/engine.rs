//! The thread that moves bytes: one epoll, every listener, every connection.
//!
//! It never waits for anything but its sockets. What it must know comes as a `Command`; it owns the pools.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::{Duration, Instant};

use linux::epoll::{Bell, Epoll, Events, Ready};
use linux::stream;
use protocols::balance::{self, Id, Outcome, proxy};
use tokio::sync::watch;

use super::flow::{Flow, Step, Tools};
use super::service::{Service, State};
use super::slab::{Key, Slab};
use crate::config::Listener;
use crate::status;

/// Tokens: of the bell, of listeners (with this mark), of connections.
const BELL: u64 = u64::MAX;
const LISTENER: u64 = 1 << 63;
/// New clients before others have their turn.
const ACCEPTS: usize = 64;
/// Descriptors for everything that is not a connection.
const RESERVE: u64 = 256;

pub enum Command {
    /// These are the listeners from now on. Connections of others finish.
    Configure(Vec<Listener>),
    Backends {
        listener: String,
        members: BTreeMap<SocketAddr, String>,
    },
    Checked {
        listener: String,
        address: SocketAddr,
        outcome: Outcome,
    },
    /// The virtual addresses that are held here.
    Held(Vec<String>),
    Status(SyncSender<Vec<status::Listener>>),
    /// Close everything and end.
    Stop,
}

/// What listeners are good for at the moment, by name.
pub type Serving = BTreeMap<String, State>;

struct Conn {
    service: usize,
    client: TcpStream,
    server: Server,
    /// From the client, and to it.
    up: Flow,
    down: Flow,
    active_at: Instant,
}

enum Server {
    None,
    Connecting {
        stream: TcpStream,
        id: Id,
        until: Instant,
        tried: Vec<Id>,
    },
    Connected {
        stream: TcpStream,
        id: Id,
    },
}

/// Why a connection ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// Both sides are through.
    Done,
    /// The other side should see an error.
    Broken,
}

pub struct Engine {
    epoll: Epoll,
    bell: Arc<Bell>,
    commands: Receiver<Command>,
    serving: watch::Sender<Serving>,
    services: Vec<Service>,
    conns: Slab<Conn>,
    tools: Tools,
    held: Vec<String>,
    /// Have had a long turn and want another.
    again: Vec<Key>,
    capacity: usize,
    sweep_at: Instant,
    now: Instant,
}

impl Engine {
    pub fn new(
        bell: Arc<Bell>,
        commands: Receiver<Command>,
        serving: watch::Sender<Serving>,
    ) -> io::Result<Self> {
        let epoll = Epoll::new()?;
        epoll.add_reader(&*bell, BELL)?;
        let descriptors = stream::raise_descriptor_limit()?;
        let now = Instant::now();
        Ok(Self {
            epoll,
            bell,
            commands,
            serving,
            services: Vec::new(),
            conns: Slab::new(),
            tools: Tools::new(),
            held: Vec::new(),
            again: Vec::new(),
            // Each connection has two, and a pipe in need two more.
            capacity: usize::try_from(descriptors.saturating_sub(RESERVE).max(RESERVE) / 2)
                .unwrap_or(usize::MAX),
            sweep_at: now,
            now,
        })
    }

    /// Until told to stop.
    pub fn run(mut self) {
        let mut events = Events::new(512);
        loop {
            let timeout = self.timeout();
            if let Err(error) = self.epoll.wait(&mut events, timeout) {
                tracing::error!(%error, "the balancer cannot wait for its sockets");
                return;
            }
            self.now = Instant::now();
            for key in std::mem::take(&mut self.again) {
                self.pump(key);
            }
            for at in 0..events.len() {
                let ready = events.get(at);
                if ready.token == BELL {
                    self.bell.quiet();
                    if !self.obey() {
                        return;
                    }
                } else if ready.token & LISTENER != 0 {
                    self.accept(ready.token);
                } else {
                    self.ready(ready);
                }
            }
            self.timers();
        }
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.again.is_empty() {
            return Some(Duration::ZERO);
        }
        let services = self.services.iter().filter_map(Service::wake_at);
        let sweep = (self.conns.len() > 0).then_some(self.sweep_at);
        let at = services.chain(sweep).min()?;
        Some(at.saturating_duration_since(Instant::now()))
    }

    /// False at the end.
    fn obey(&mut self) -> bool {
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Configure(listeners) => self.configure(listeners),
                Command::Backends { listener, members } => {
                    if let Some(at) = self.find(&listener) {
                        self.tell(at, balance::Event::Members(members));
                        // A backend that nobody checks is of use at once, and is no news to the pool.
                        self.settle();
                    }
                }
                Command::Checked {
                    listener,
                    address,
                    outcome,
                } => {
                    if let Some(at) = self.find(&listener) {
                        self.tell(at, balance::Event::Checked { address, outcome });
                    }
                }
                Command::Held(held) => {
                    self.held = held;
                    self.settle();
                }
                Command::Status(answer) => {
                    let living = self.services.iter().filter(|service| !service.is_over());
                    let now = self.now;
                    let _ = answer.send(living.map(|service| service.status(now)).collect());
                }
                Command::Stop => return false,
            }
        }
        true
    }

    fn find(&self, name: &str) -> Option<usize> {
        let named = |service: &Service| !service.is_removed() && service.config().name == name;
        self.services.iter().position(named)
    }

    fn configure(&mut self, listeners: Vec<Listener>) {
        for at in 0..self.services.len() {
            let name = &self.services[at].config().name;
            if !listeners.iter().any(|listener| listener.name == *name) {
                self.services[at].remove();
                self.tell(at, balance::Event::Members(BTreeMap::new()));
            }
        }
        for listener in listeners {
            match self.find(&listener.name) {
                Some(at) => self.services[at].reconfigure(self.now, listener),
                None => self.place(Service::new(listener)),
            }
        }
        self.settle();
    }

    /// Where one has ended, or at the end: connections know their service by its place.
    fn place(&mut self, service: Service) {
        match self.services.iter().position(Service::is_over) {
            Some(at) => self.services[at] = service,
            None => self.services.push(service),
        }
    }

    /// Gives a pool an event and does what it says.
    fn tell(&mut self, at: usize, event: balance::Event) {
        let actions = self.services[at].pool.handle(self.now, event);
        if actions.is_empty() {
            return;
        }
        for action in actions {
            match action {
                balance::Action::Cut(id) => self.cut(at, id),
                balance::Action::Changed {
                    name,
                    address,
                    from,
                    to,
                    why,
                } => {
                    let listener = &self.services[at].config().name;
                    let (from, to) = (super::word(from), super::word(to));
                    tracing::info!(listener, backend = name, %address, from, to, why, "backend");
                }
                balance::Action::Gone(_) => {}
            }
        }
        self.settle();
    }

    /// Opens and closes listeners as they should be, and publishes that.
    fn settle(&mut self) {
        for (at, service) in self.services.iter_mut().enumerate() {
            let token = |index: usize| LISTENER | (at as u64) << 16 | index as u64;
            service.settle(self.now, &self.held, &self.epoll, token);
        }
        let living = self.services.iter().filter(|service| !service.is_removed());
        let serving: Serving = living
            .map(|service| (service.config().name.clone(), service.state(&self.held)))
            .collect();
        self.serving.send_if_modified(|before| {
            let changed = *before != serving;
            *before = serving;
            changed
        });
    }

    fn accept(&mut self, token: u64) {
        let (at, index) = ((token & !LISTENER) >> 16, token & 0xffff);
        let at = at as usize;
        for _ in 0..ACCEPTS {
            let Some(listener) = self
                .services
                .get(at)
                .and_then(|service| service.listener(index as usize))
            else {
                return;
            };
            match stream::accept(listener) {
                Ok(client) => self.begin(at, client),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if stream::is_out_of_descriptors(&error) => {
                    self.services[at].out_of_descriptors(self.now, index as usize);
                    return;
                }
                // The client has gone again.
                Err(_) => {}
            }
        }
    }

    fn begin(&mut self, at: usize, client: TcpStream) {
        let full = self.conns.len() >= self.capacity;
        let service = &mut self.services[at];
        if full || service.is_full() {
            service.refuse(self.now, full);
            return stream::reset(client);
        }
        service.open += 1;
        service.counts.accepted += 1;
        let mut up = Flow::default();
        up.greet(&client, &mut self.tools);
        let key = self.conns.insert(Conn {
            service: at,
            client,
            server: Server::None,
            up,
            down: Flow::default(),
            active_at: self.now,
        });
        let conn = self.conns.get_mut(key).expect("just inserted");
        if self.epoll.add(&conn.client, key.token(false)).is_err() {
            return self.end(key, End::Broken);
        }
        self.connect(key, Vec::new());
    }

    /// To the best backend that was not tried yet.
    fn connect(&mut self, key: Key, mut tried: Vec<Id>) {
        loop {
            let Some(conn) = self.conns.get_mut(key) else {
                return;
            };
            let at = conn.service;
            let service = &mut self.services[at];
            let tries = service.config().tries as usize;
            let pick = (tried.len() < tries).then(|| service.pool.pick(&tried));
            let Some(pick) = pick.flatten() else {
                service.no_backend(self.now);
                return self.end(key, End::Broken);
            };
            if !tried.is_empty() {
                service.counts.retried += 1;
            }
            let until = self.now + service.config().connect_timeout;
            let speaks = service.config().proxy_protocol || conn.up.has_pending();
            match stream::connect(pick.address, speaks) {
                Ok(stream) => {
                    let added = self.epoll.add(&stream, key.token(true));
                    service.connecting.push_back((until, key));
                    conn.server = Server::Connecting {
                        stream,
                        id: pick.id,
                        until,
                        tried,
                    };
                    if added.is_err() {
                        self.end(key, End::Broken);
                    }
                    return;
                }
                Err(error) => {
                    // Our own shortage says nothing about the backend.
                    let ours = stream::is_out_of_descriptors(&error)
                        || error.kind() == ErrorKind::AddrNotAvailable;
                    if !ours {
                        self.tell(at, balance::Event::ConnectFailed(pick.id));
                    }
                    self.tell(at, balance::Event::Closed(pick.id));
                    if ours {
                        self.services[at].no_socket(self.now, &error);
                        return self.end(key, End::Broken);
                    }
                    tried.push(pick.id);
                }
            }
        }
    }

    fn ready(&mut self, ready: Ready) {
        let (key, of_server) = Key::from_token(ready.token);
        let Some(conn) = self.conns.get_mut(key) else {
            return;
        };
        let heard = ready.readable || ready.ended;
        if of_server {
            if let Server::Connecting { .. } = conn.server {
                if ready.failed || ready.ended && !ready.writable {
                    return self.connect_failed(key);
                }
                if !ready.writable {
                    return;
                }
                self.connected(key);
                let Some(conn) = self.conns.get_mut(key) else {
                    return;
                };
                conn.down.readable |= heard;
                conn.down.ending |= ready.ended;
                return self.pump(key);
            }
            conn.down.readable |= heard;
            conn.down.ending |= ready.ended;
            conn.up.writable |= ready.writable;
        } else {
            conn.up.readable |= heard;
            conn.up.ending |= ready.ended;
            conn.down.writable |= ready.writable;
        }
        if ready.failed {
            return self.end(key, End::Broken);
        }
        self.pump(key);
    }

    fn connected(&mut self, key: Key) {
        let Some(conn) = self.conns.get_mut(key) else {
            return;
        };
        let server = std::mem::replace(&mut conn.server, Server::None);
        let Server::Connecting { stream, id, .. } = server else {
            conn.server = server;
            return;
        };
        conn.server = Server::Connected { stream, id };
        conn.up.writable = true;
        let at = conn.service;
        if self.services[at].config().proxy_protocol
            && let (Ok(client), Ok(server)) = (conn.client.peer_addr(), conn.client.local_addr())
        {
            let server = self.services[at].config().public(server);
            conn.up.prepend(proxy::header(client, server));
        }
        self.services[at]
            .pool
            .handle(self.now, balance::Event::Connected(id));
    }

    fn connect_failed(&mut self, key: Key) {
        let Some(conn) = self.conns.get_mut(key) else {
            return;
        };
        let at = conn.service;
        let server = std::mem::replace(&mut conn.server, Server::None);
        let Server::Connecting { id, mut tried, .. } = server else {
            conn.server = server;
            return;
        };
        self.tell(at, balance::Event::ConnectFailed(id));
        self.tell(at, balance::Event::Closed(id));
        tried.push(id);
        self.connect(key, tried);
    }

    /// Moves what can be moved.
    fn pump(&mut self, key: Key) {
        let Some(conn) = self.conns.get_mut(key) else {
            return;
        };
        let Server::Connected { stream, .. } = &conn.server else {
            return;
        };
        let before = conn.up.bytes + conn.down.bytes;
        let was_over = (conn.up.is_over(), conn.down.is_over());
        let tools = &mut self.tools;
        let steps = [
            conn.up.pump(&conn.client, stream, tools),
            conn.down.pump(stream, &conn.client, tools),
        ];
        let moved = conn.up.bytes + conn.down.bytes != before;
        if moved {
            conn.active_at = self.now;
        }
        let [Ok(up), Ok(down)] = steps else {
            return self.end(key, End::Broken);
        };
        if up == Step::Ended && down == Step::Ended {
            return self.end(key, End::Done);
        }
        // One side is through: the other learns it, and may go on.
        if up == Step::Ended && !was_over.0 {
            let _ = stream.shutdown(Shutdown::Write);
            conn.active_at = self.now;
        }
        if down == Step::Ended && !was_over.1 {
            let _ = conn.client.shutdown(Shutdown::Write);
            conn.active_at = self.now;
        }
        if up == Step::Again || down == Step::Again {
            self.again.push(key);
        }
    }

    fn end(&mut self, key: Key, end: End) {
        let Some(conn) = self.conns.remove(key) else {
            return;
        };
        let at = conn.service;
        let service = &mut self.services[at];
        service.open -= 1;
        service.counts.bytes_up += conn.up.bytes;
        service.counts.bytes_down += conn.down.bytes;
        self.tools.discard(&conn.up);
        self.tools.discard(&conn.down);
        let (server, id) = match conn.server {
            Server::None => (None, None),
            Server::Connecting { stream, id, .. } | Server::Connected { stream, id } => {
                (Some(stream), Some(id))
            }
        };
        match end {
            End::Done => drop((conn.client, server)),
            End::Broken => {
                stream::reset(conn.client);
                if let Some(server) = server {
                    stream::reset(server);
                }
            }
        }
        if let Some(id) = id {
            self.tell(at, balance::Event::Closed(id));
        }
    }

    /// The backend is of no use: connections to it end; those that are on their way go elsewhere.
    fn cut(&mut self, at: usize, backend: Id) {
        let of = |conn: &Conn| match &conn.server {
            Server::None => false,
            Server::Connecting { id, .. } | Server::Connected { id, .. } => {
                conn.service == at && *id == backend
            }
        };
        let all = self.conns.iter().filter(|(_, conn)| of(conn));
        let keys: Vec<_> = all.map(|(key, _)| key).collect();
        for key in keys {
            let connecting = self
                .conns
                .get_mut(key)
                .is_some_and(|conn| matches!(conn.server, Server::Connecting { .. }));
            if connecting {
                self.connect_failed(key);
            } else {
                self.services[at].counts.cut += 1;
                self.end(key, End::Broken);
            }
        }
    }

    fn timers(&mut self) {
        let mut unsettled = false;
        for at in 0..self.services.len() {
            while let Some(key) = self.services[at].overdue(self.now) {
                let late = self.conns.get_mut(key).is_some_and(|conn| {
                    matches!(conn.server, Server::Connecting { until, .. } if until <= self.now)
                });
                if late {
                    self.connect_failed(key);
                }
            }
            let pool = &self.services[at].pool;
            if pool.wake_at().is_some_and(|due| due <= self.now) {
                self.tell(at, balance::Event::Timer);
                unsettled = true;
            }
            unsettled |= self.services[at].wants_to_listen(self.now);
        }
        if unsettled {
            self.settle();
        }
        if self.now >= self.sweep_at {
            self.sweep();
        }
    }

    /// Ends what has been silent for too long.
    fn sweep(&mut self) {
        let (now, services) = (self.now, &self.services);
        let silent = |conn: &Conn| {
            let config = services[conn.service].config();
            let limit = if conn.up.bytes == 0 && conn.down.bytes == 0 {
                config.first_byte_timeout
            } else if conn.up.is_over() || conn.down.is_over() {
                config.half_closed_timeout
            } else {
                config.idle_timeout
            };
            now.saturating_duration_since(conn.active_at) >= limit
        };
        let all = self.conns.iter().filter(|(_, conn)| silent(conn));
        let keys: Vec<_> = all.map(|(key, conn)| (key, conn.service)).collect();
        for (key, at) in keys {
            self.services[at].counts.timed_out += 1;
            self.end(key, End::Broken);
        }
        let shortest = self.services.iter().map(Service::shortest).min();
        let gap = shortest.unwrap_or(Duration::MAX) / 4;
        self.sweep_at = now + gap.clamp(Duration::from_millis(20), Duration::from_secs(1));
    }
}
