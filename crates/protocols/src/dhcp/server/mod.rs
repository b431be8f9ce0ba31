//! A DHCP server for one subnet.
//!
//! ```text
//!   packet ----+                          +--> Probe      is anyone using this address?
//!   probe's    |    +------------------+  |
//!   answer ----+--> | Server::handle   |--+--> Persist    this lease must be on disk ...
//!   persisted -+    +------------------+  |
//!   timer -----+      wake_at()           +--> Send       ... before this ACK is sent
//!                                         +--> Report     for logs, metrics and names
//! ```
//!
//! No client waits for another: a probe or a write in progress is a state of its address, not of the server.

mod addresses;
pub mod boot;
mod config;
mod end;
mod grant;
mod lease;
mod offer;
mod proxy;
mod reply;
mod sweep;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::{Duration, SystemTime};

use model::Mac;

use self::addresses::{Addresses, State};
pub use self::config::{Config, ConfigError, Identity, Known, MAX_ADDRESSES, Options, Role, Times};
pub use self::lease::{Client, Lease, Token};
pub use self::proxy::BOOT_PORT;
pub use self::reply::Dest;
use self::sweep::Sweep;
use super::packet::DecodeError;
use super::request::{Firmware, Heard, Kind, Request};

/// A client counts its lease from the moment it asked, we from the moment we heard it: keep the address this much longer.
const GRACE: Duration = Duration::from_secs(2);
/// A client cannot ask for leases so short that it asks all the time.
const SHORTEST_LEASE: Duration = Duration::from_mins(1);
/// The same trouble is not reported more often than this.
const REPORT_EVERY: Duration = Duration::from_mins(1);
/// Other servers we remember having reported.
const MAX_OTHER_SERVERS: usize = 16;

/// The server of one subnet (RFC 2131, 4.3).
#[derive(Debug)]
pub struct Server {
    config: Config,
    addresses: Addresses,
    /// Addresses of known clients, and whose they are.
    fixed: BTreeMap<Ipv4Addr, Mac>,
    sweep: Sweep,
    /// Addresses whose lease is on its way to disk.
    writing: BTreeMap<Token, Ipv4Addr>,
    next_token: u64,
    exhausted_reported: Option<SystemTime>,
    others_reported: BTreeMap<Ipv4Addr, SystemTime>,
}

/// What happens to the server.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    Packet {
        bytes: &'a [u8],
    },
    /// One that came to [`BOOT_PORT`].
    BootPacket {
        bytes: &'a [u8],
    },
    /// The wire answered a probe, or somebody was heard to use an address without being asked: it is used by this
    /// MAC, or by nobody.
    ProbeResult {
        address: Ipv4Addr,
        used_by: Option<Mac>,
    },
    /// The record is on disk.
    Persisted {
        token: Token,
    },
    /// The record could not be written.
    PersistFailed {
        token: Token,
    },
    Timer,
}

/// What the server wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Ask the wire who uses the address. An answer that does not come need not be reported.
    Probe {
        address: Ipv4Addr,
    },
    /// Put the record on disk, in the order asked, then say [`Event::Persisted`].
    Persist {
        lease: Lease,
        token: Token,
    },
    Send {
        bytes: Vec<u8>,
        dest: Dest,
    },
    Report(Report),
}

/// What people and other parts may want to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// A client was told that it has this lease.
    Leased(Lease),
    Released(Lease),
    Expired(Lease),
    /// An address we were about to offer is used by a stranger.
    Conflict {
        address: Ipv4Addr,
        used_by: Mac,
    },
    /// A client found its address in use.
    Declined {
        address: Ipv4Addr,
        mac: Mac,
    },
    /// A client asks for what it cannot have.
    Refused {
        mac: Mac,
        address: Ipv4Addr,
        why: &'static str,
    },
    /// A client cannot be served.
    PoolExhausted {
        mac: Mac,
    },
    /// A machine boots from the network and looks for a server.
    Booting {
        mac: Mac,
        firmware: Firmware,
        /// It is not known, and only known ones are answered.
        ignored: bool,
    },
    /// Another DHCP server is on this wire.
    OtherServer {
        id: Ipv4Addr,
    },
    Malformed(DecodeError),
}

impl Server {
    /// A server that goes on from the records on disk; there are none at first.
    pub fn restore(
        now: SystemTime,
        config: Config,
        leases: impl IntoIterator<Item = Lease>,
    ) -> Result<Self, ConfigError> {
        config.check()?;
        let mut server = Self {
            addresses: Addresses::new(config.pool()),
            fixed: config.fixed(),
            sweep: Sweep::new(now),
            config,
            writing: BTreeMap::new(),
            next_token: 0,
            exhausted_reported: None,
            others_reported: BTreeMap::new(),
        };
        for mut lease in leases {
            // A client that has become known since is its MAC from now on.
            if server.is_its_mac(lease.mac) {
                lease.client = Client::Mac(lease.mac);
            }
            // The site may have changed meanwhile: addresses that are no longer ours to give are forgotten.
            if !server.serves(lease.address) {
                continue;
            }
            let until = lease.expires + GRACE;
            if until <= now {
                server
                    .addresses
                    .bind(lease.address, lease.expires, State::Past { lease });
            } else {
                server.addresses.bind(
                    lease.address,
                    until,
                    State::Leased {
                        lease,
                        writing: None,
                    },
                );
            }
        }
        Ok(server)
    }

    /// Changes what clients are told from now on. Leases and offers stay, as long as their addresses are ours to give.
    pub fn reconfigure(&mut self, now: SystemTime, config: Config) -> Result<(), ConfigError> {
        config.check()?;
        self.addresses.set_pool(config.pool());
        self.fixed = config.fixed();
        self.config = config;
        self.sweep = Sweep::new(now);
        for address in self.addresses.bound() {
            if !self.serves(address) {
                if let Some(State::Leased {
                    writing: Some(writing),
                    ..
                }) = self.addresses.state(address)
                {
                    self.writing.remove(&writing.token);
                }
                self.addresses.free(address);
                continue;
            }
            // A client that has become known is its MAC from now on.
            let becomes_mac = self
                .addresses
                .state(address)
                .and_then(lease_of)
                .is_some_and(|lease| {
                    self.is_its_mac(lease.mac) && lease.client != Client::Mac(lease.mac)
                });
            if becomes_mac
                && let Some(until) = self.addresses.until(address)
                && let Some(mut state) = self.addresses.state(address).cloned()
            {
                if let State::Leased { lease, .. } | State::Past { lease } = &mut state {
                    lease.client = Client::Mac(lease.mac);
                }
                self.addresses.bind(address, until, state);
            }
        }
        Ok(())
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Leases that hold now.
    pub fn leases(&self, now: SystemTime) -> impl Iterator<Item = &Lease> {
        let leases = self.addresses.states().filter_map(|state| match state {
            State::Leased {
                lease,
                writing: None,
            } => Some(lease),
            State::Leased {
                writing: Some(writing),
                ..
            } => writing.before.as_ref(),
            State::Probing { .. }
            | State::Offered { .. }
            | State::Past { .. }
            | State::Quarantined { .. } => None,
        });
        leases.filter(move |lease| lease.expires > now)
    }

    /// Addresses that are not free; never more than there are in the pool and in fixed addresses.
    pub fn bound(&self) -> usize {
        self.addresses.len()
    }

    pub fn handle(&mut self, now: SystemTime, event: Event<'_>) -> Vec<Action> {
        let mut actions = Vec::new();
        self.expire(now, &mut actions);
        match event {
            Event::Packet { bytes } => match Heard::parse(bytes) {
                Ok(Heard::Client(request)) => self.client(now, *request, &mut actions),
                Ok(Heard::Server { id }) => self.other_server(now, id, &mut actions),
                Ok(Heard::Other) => {}
                Err(error) => actions.push(Action::Report(Report::Malformed(error))),
            },
            Event::BootPacket { bytes } => match Heard::parse(bytes) {
                Ok(Heard::Client(request)) if self.answers(&request) => {
                    self.boot_service(&request, &mut actions);
                }
                Ok(Heard::Client(_) | Heard::Server { .. } | Heard::Other) => {}
                Err(error) => actions.push(Action::Report(Report::Malformed(error))),
            },
            Event::ProbeResult { address, used_by } => {
                self.probed(now, address, used_by, &mut actions);
            }
            Event::Persisted { token } => self.persisted(now, token, &mut actions),
            Event::PersistFailed { token } => {
                self.persist_failed(now, token);
                // What the client had before may have run out meanwhile.
                self.expire(now, &mut actions);
            }
            Event::Timer => self.sweep(now, &mut actions),
        }
        actions
    }

    /// When to send [`Event::Timer`], if at all.
    pub fn wake_at(&self) -> Option<SystemTime> {
        let due = self.addresses.due().map(|(until, _)| until);
        let sweep = self.sweeps().then(|| self.sweep.wake_at());
        due.into_iter().chain(sweep).min()
    }

    fn expire(&mut self, now: SystemTime, actions: &mut Vec<Action>) {
        while let Some((until, address)) = self.addresses.due()
            && until <= now
        {
            let state = self
                .addresses
                .state(address)
                .expect("deadlines are of bindings")
                .clone();
            match state {
                State::Probing { client, request } => {
                    self.offer(now, address, client, &request, actions);
                }
                State::Offered { .. } | State::Quarantined { .. } => self.addresses.free(address),
                State::Leased { lease, writing } => {
                    if let Some(writing) = writing {
                        self.writing.remove(&writing.token);
                    }
                    self.addresses.bind(
                        address,
                        lease.expires,
                        State::Past {
                            lease: lease.clone(),
                        },
                    );
                    actions.push(Action::Report(Report::Expired(lease)));
                }
                State::Past { .. } => unreachable!("past leases have no deadline"),
            }
        }
    }

    fn client(&mut self, now: SystemTime, request: Request, actions: &mut Vec<Action>) {
        let answers = self.answers(&request);
        if request.kind == Kind::Discover && request.firmware.boots() {
            actions.push(Action::Report(Report::Booting {
                mac: request.mac,
                firmware: request.firmware.clone(),
                ignored: !answers,
            }));
        }
        if !answers {
            return;
        }
        // One subnet: a relay elsewhere asks for an address we do not have.
        if request
            .giaddr
            .is_some_and(|relay| !self.config.subnet.contains(&relay))
        {
            return;
        }
        match self.config.role {
            Role::Addresses => {}
            Role::BootFiles => return self.proxy(&request, actions),
        }
        match request.kind {
            Kind::Discover => self.discover(now, request, actions),
            Kind::Request => self.request(now, request, actions),
            Kind::Decline => self.decline(now, &request, actions),
            Kind::Release => self.release(now, &request, actions),
            Kind::Inform if request.ciaddr.is_unspecified() => {}
            Kind::Inform => actions.push(send(reply::inform(&self.config, &request))),
        }
    }

    /// Whether this client is answered at all.
    fn answers(&self, request: &Request) -> bool {
        !self.config.known_only || self.config.known.contains_key(&request.mac)
    }

    fn identify(&self, request: &Request) -> Client {
        match &request.client_id {
            Some(id) if !self.is_its_mac(request.mac) => Client::Id(id.clone()),
            Some(_) | None => Client::Mac(request.mac),
        }
    }

    /// Whether the client's own identifier does not matter.
    fn is_its_mac(&self, mac: Mac) -> bool {
        match self.config.identity {
            Identity::Mac => true,
            Identity::ClientId => self.config.known.contains_key(&mac),
        }
    }

    /// Whether the address is anybody's to be given.
    fn serves(&self, address: Ipv4Addr) -> bool {
        self.addresses.in_pool(address) || self.fixed.contains_key(&address)
    }

    fn other_server(&mut self, now: SystemTime, id: Ipv4Addr, actions: &mut Vec<Action>) {
        if id == self.config.server_id || !is_due(self.others_reported.get(&id).copied(), now) {
            return;
        }
        if self.others_reported.len() >= MAX_OTHER_SERVERS {
            self.others_reported.clear();
        }
        self.others_reported.insert(id, now);
        actions.push(Action::Report(Report::OtherServer { id }));
    }

    fn lease_time(&self, request: &Request) -> Duration {
        let times = &self.config.times;
        request
            .wants_lease
            .unwrap_or(times.default)
            .max(SHORTEST_LEASE.min(times.default))
            .min(times.max)
    }

    fn hostname(&self, request: &Request) -> Option<String> {
        let known = self
            .config
            .known
            .get(&request.mac)
            .and_then(|known| known.hostname.clone());
        known.or_else(|| request.hostname.clone())
    }

    fn token(&mut self) -> Token {
        self.next_token += 1;
        Token(self.next_token)
    }
}

fn lease_of(state: &State) -> Option<&Lease> {
    match state {
        State::Leased { lease, .. } | State::Past { lease } => Some(lease),
        State::Probing { .. } | State::Offered { .. } | State::Quarantined { .. } => None,
    }
}

fn send((bytes, dest): (Vec<u8>, Dest)) -> Action {
    Action::Send { bytes, dest }
}

fn is_due(last: Option<SystemTime>, now: SystemTime) -> bool {
    last.is_none_or(|last| {
        now.duration_since(last)
            .is_ok_and(|since| since >= REPORT_EVERY)
    })
}
