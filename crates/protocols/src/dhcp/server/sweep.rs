//! Asking the wire beforehand: which addresses nobody uses is known before a client wants one, so nobody waits.
//!
//! ```text
//!   unused addresses --ask, many at once--> asked --silence--> quiet --offered at once
//!                                             | someone answers, or is heard using it at any time
//!                                             v
//!                                         quarantined
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::{Duration, SystemTime};

use model::Mac;

use super::addresses::State;
use super::config::Role;
use super::{Action, Report, Server};

/// Addresses kept ready: a room full of racks that is switched on at once.
const READY: usize = 256;
/// While they are taken faster than the wire can be asked, more are kept ready, up to this.
const MOST: usize = 4096;
/// They are asked about in so many parts, one after the other.
const PARTS: usize = 4;
/// How often we look whether there is something to ask.
const EVERY: Duration = Duration::from_secs(30);
/// Silence is confirmed anew when it is older than this,
const FRESH: Duration = Duration::from_mins(1);
/// and counts no more when it is older than this.
const STALE: Duration = Duration::from_mins(3);

#[derive(Debug)]
pub(super) struct Sweep {
    asked: BTreeSet<Ipv4Addr>,
    /// Those asked about are quiet from then on.
    until: Option<SystemTime>,
    /// Nobody answered at this time.
    pub quiet: BTreeMap<Ipv4Addr, SystemTime>,
    next: SystemTime,
    /// Addresses that are to be quiet.
    ready: usize,
    /// Of the quiet ones, since the wire was last asked.
    taken: usize,
}

impl Sweep {
    pub fn new(now: SystemTime) -> Self {
        Self {
            asked: BTreeSet::new(),
            until: None,
            quiet: BTreeMap::new(),
            next: now,
            ready: READY,
            taken: 0,
        }
    }

    pub fn wake_at(&self) -> SystemTime {
        self.until.unwrap_or(self.next)
    }

    /// Whether nobody uses the address, as far as was asked lately.
    pub fn is_quiet(&self, address: Ipv4Addr, now: SystemTime) -> bool {
        self.quiet
            .get(&address)
            .is_some_and(|asked| younger(*asked, now, STALE))
    }

    /// The address is in somebody's hands now.
    pub fn used(&mut self, address: Ipv4Addr, now: SystemTime) {
        self.asked.remove(&address);
        if self.quiet.remove(&address).is_none() {
            return;
        }
        self.taken += 1;
        if self.quiet.len() < self.ready / 2 {
            self.next = self.next.min(now);
        }
    }

    /// Those asked about are quiet. More are wanted if fewer were left than were taken meanwhile.
    fn heard_out(&mut self, now: SystemTime) {
        self.until = None;
        if self.quiet.len() < self.taken {
            self.ready = (self.ready * 2).min(MOST);
        }
        self.taken = 0;
        for address in std::mem::take(&mut self.asked) {
            self.quiet.insert(address, now);
        }
    }

    /// Nothing is left to be asked about for a while.
    fn rest(&mut self, now: SystemTime) {
        self.quiet.retain(|_, asked| younger(*asked, now, STALE));
        self.ready = (self.ready / 2).max(READY);
        self.next = now + EVERY;
    }
}

impl Server {
    pub(super) fn sweep(&mut self, now: SystemTime, actions: &mut Vec<Action>) {
        if !self.sweeps() {
            return;
        }
        if let Some(until) = self.sweep.until {
            if until > now {
                return;
            }
            self.sweep.heard_out(now);
        } else if self.sweep.next > now {
            return;
        }
        let fixed = self
            .fixed
            .keys()
            .copied()
            .filter(|address| self.addresses.state(*address).is_none());
        let batch: BTreeSet<Ipv4Addr> = fixed
            .chain(self.addresses.unused())
            .take(self.sweep.ready)
            .filter(|address| {
                let asked = self.sweep.quiet.get(address);
                !asked.is_some_and(|asked| younger(*asked, now, FRESH))
            })
            .take(self.sweep.ready / PARTS)
            .collect();
        if batch.is_empty() {
            self.sweep.rest(now);
            return;
        }
        actions.extend(
            batch
                .iter()
                .map(|address| Action::Probe { address: *address }),
        );
        self.sweep.asked = batch;
        self.sweep.until = Some(now + self.config.times.probe);
    }

    pub(super) fn sweeps(&self) -> bool {
        self.config.probe && self.config.role == Role::Addresses
    }

    /// Somebody was heard to use an address that we have given to nobody; or nobody does.
    pub(super) fn overheard(
        &mut self,
        now: SystemTime,
        address: Ipv4Addr,
        used_by: Option<Mac>,
        actions: &mut Vec<Action>,
    ) {
        let Some(mac) = used_by else {
            if self.sweep.asked.remove(&address) {
                self.sweep.quiet.insert(address, now);
            }
            return;
        };
        if !self.serves(address) {
            return;
        }
        self.sweep.used(address, now);
        // Whose address it is, or was: no stranger.
        let owner = match self.addresses.state(address) {
            Some(State::Past { lease }) => Some(lease.mac),
            Some(
                State::Probing { .. }
                | State::Offered { .. }
                | State::Leased { .. }
                | State::Quarantined { .. },
            )
            | None => self.fixed.get(&address).copied(),
        };
        if owner == Some(mac) {
            return;
        }
        self.addresses.bind(
            address,
            now + self.config.times.quarantine,
            State::Quarantined { by: Some(mac) },
        );
        actions.push(Action::Report(Report::Conflict {
            address,
            used_by: mac,
        }));
    }
}

fn younger(time: SystemTime, now: SystemTime, age: Duration) -> bool {
    now.duration_since(time).is_ok_and(|since| since <= age)
}
