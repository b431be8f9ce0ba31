//! The table of addresses: which are free, and what the others are bound to.
//!
//! ```text
//!            choose            no answer           request, on disk
//!   free ------------> probing -----------> offered ------------> leased
//!    ^                    | in use             | hold over          | expired, released
//!    |                    v                    v                    v
//!    +------------- quarantined <--declined   free                past  (given to others last,
//!      time over                                                         the oldest first)
//! ```
//!
//! Everything is indexed by address, so the table cannot outgrow the pool, whatever clients send.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::SystemTime;

use model::Mac;

use super::lease::{Client, Lease, Token};
use crate::dhcp::request::Request;

/// What an address is bound to, and until when.
#[derive(Debug, Clone)]
struct Binding {
    until: SystemTime,
    state: State,
}

#[derive(Debug, Clone)]
pub(super) enum State {
    /// The wire is asked whether someone uses it; the latest request waits for an offer.
    Probing {
        client: Client,
        request: Box<Request>,
    },
    Offered {
        client: Client,
    },
    Leased {
        lease: Lease,
        writing: Option<Writing>,
    },
    /// The lease is over, its client not forgotten.
    Past {
        lease: Lease,
    },
    /// Someone else uses it: whoever was heard using it, if anyone was.
    Quarantined {
        by: Option<Mac>,
    },
}

/// A lease on its way to disk; the client hears of it afterwards.
#[derive(Debug, Clone)]
pub(super) struct Writing {
    pub token: Token,
    pub request: Box<Request>,
    /// The lease that stays valid if writing fails.
    pub before: Option<Lease>,
}

impl State {
    pub fn client(&self) -> Option<&Client> {
        match self {
            Self::Probing { client, .. } | Self::Offered { client } => Some(client),
            Self::Leased { lease, .. } | Self::Past { lease } => Some(&lease.client),
            Self::Quarantined { .. } => None,
        }
    }

    fn is_past(&self) -> bool {
        match self {
            Self::Past { .. } => true,
            Self::Probing { .. }
            | Self::Offered { .. }
            | Self::Leased { .. }
            | Self::Quarantined { .. } => false,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Addresses {
    /// Addresses anyone may get.
    pool: BTreeSet<Ipv4Addr>,
    /// Those of the pool that are bound to nothing.
    free: BTreeSet<Ipv4Addr>,
    bindings: BTreeMap<Ipv4Addr, Binding>,
    by_client: BTreeMap<Client, Ipv4Addr>,
    /// Deadlines of all bindings that are not past.
    due: BTreeSet<(SystemTime, Ipv4Addr)>,
    /// Ends of past leases.
    past: BTreeSet<(SystemTime, Ipv4Addr)>,
}

impl Addresses {
    pub fn new(pool: BTreeSet<Ipv4Addr>) -> Self {
        Self {
            free: pool.clone(),
            pool,
            ..Self::default()
        }
    }

    pub fn state(&self, address: Ipv4Addr) -> Option<&State> {
        self.bindings.get(&address).map(|binding| &binding.state)
    }

    pub fn state_mut(&mut self, address: Ipv4Addr) -> Option<&mut State> {
        self.bindings
            .get_mut(&address)
            .map(|binding| &mut binding.state)
    }

    pub fn states(&self) -> impl Iterator<Item = &State> {
        self.bindings.values().map(|binding| &binding.state)
    }

    pub fn len(&self) -> usize {
        self.bindings.len()
    }

    pub fn in_pool(&self, address: Ipv4Addr) -> bool {
        self.pool.contains(&address)
    }

    /// The address the client had last.
    pub fn of(&self, client: &Client) -> Option<Ipv4Addr> {
        self.by_client.get(client).copied()
    }

    /// Binds an address, whatever it was bound to before.
    pub fn bind(&mut self, address: Ipv4Addr, until: SystemTime, state: State) {
        self.clear(address);
        self.free.remove(&address);
        if let Some(client) = state.client() {
            self.by_client.insert(client.clone(), address);
        }
        let index = if state.is_past() {
            &mut self.past
        } else {
            &mut self.due
        };
        index.insert((until, address));
        self.bindings.insert(address, Binding { until, state });
    }

    /// Gives an address back.
    pub fn free(&mut self, address: Ipv4Addr) {
        self.clear(address);
        if self.pool.contains(&address) {
            self.free.insert(address);
        }
    }

    fn clear(&mut self, address: Ipv4Addr) {
        let Some(binding) = self.bindings.remove(&address) else {
            return;
        };
        self.due.remove(&(binding.until, address));
        self.past.remove(&(binding.until, address));
        if let Some(client) = binding.state.client()
            && self.by_client.get(client) == Some(&address)
        {
            self.by_client.remove(client);
        }
    }

    /// The next deadline.
    pub fn due(&self) -> Option<(SystemTime, Ipv4Addr)> {
        self.due.first().copied()
    }

    pub fn is_free(&self, address: Ipv4Addr) -> bool {
        self.free.contains(&address)
    }

    /// Addresses bound to nothing, then those of leases that are over, the oldest first.
    pub fn unused(&self) -> impl Iterator<Item = Ipv4Addr> {
        let past = self.past.iter().map(|(_, address)| *address);
        self.free.iter().copied().chain(past)
    }

    /// Changes which addresses anyone may get; those that are bound stay bound.
    pub fn set_pool(&mut self, pool: BTreeSet<Ipv4Addr>) {
        self.free = pool
            .iter()
            .copied()
            .filter(|address| !self.bindings.contains_key(address))
            .collect();
        self.pool = pool;
    }

    pub fn bound(&self) -> Vec<Ipv4Addr> {
        self.bindings.keys().copied().collect()
    }

    /// The deadline of a binding.
    pub fn until(&self, address: Ipv4Addr) -> Option<SystemTime> {
        self.bindings.get(&address).map(|binding| binding.until)
    }

    /// A free address, one that is known to be quiet if there is any, always the same one first for the same client;
    /// failing that the one whose lease ended first.
    pub fn pick(
        &self,
        client: &Client,
        quiet: &BTreeMap<Ipv4Addr, SystemTime>,
    ) -> Option<Ipv4Addr> {
        let (Some(first), Some(last)) = (self.pool.first(), self.pool.last()) else {
            return None;
        };
        let span = u64::from(u32::from(*last) - u32::from(*first)) + 1;
        let start = Ipv4Addr::from(u32::from(*first) + (client.spread() % span) as u32);
        let silent = quiet
            .range(start..)
            .chain(quiet)
            .map(|(address, _)| address)
            .find(|address| self.free.contains(address));
        let free = silent
            .or_else(|| self.free.range(start..).next())
            .or_else(|| self.free.first());
        free.copied().or_else(|| {
            self.past
                .iter()
                .map(|(_, address)| *address)
                .find(|address| self.pool.contains(address))
        })
    }
}
