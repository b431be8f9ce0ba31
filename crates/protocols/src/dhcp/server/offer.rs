//! Finding an address for a client that asks for one (RFC 2131, 4.3.1).

use std::net::Ipv4Addr;
use std::time::SystemTime;

use model::Mac;

use super::addresses::State;
use super::lease::Client;
use super::reply::{self, Grant};
use super::{Action, Report, Server, is_due, send};
use crate::dhcp::request::Request;

impl Server {
    /// RFC 2131, 4.3.1.
    pub(super) fn discover(
        &mut self,
        now: SystemTime,
        request: Request,
        actions: &mut Vec<Action>,
    ) {
        let client = self.identify(&request);
        let Some(address) = self.choose(&client, &request) else {
            if is_due(self.exhausted_reported, now) {
                self.exhausted_reported = Some(now);
                actions.push(Action::Report(Report::PoolExhausted { mac: request.mac }));
            }
            return;
        };
        self.drop_other_offer(&client, address);
        match self.addresses.state_mut(address) {
            // A retransmission: the offer goes to the latest.
            Some(State::Probing {
                client: of,
                request: waiting,
            }) if *of == client => **waiting = request,
            Some(State::Offered { client: of }) if *of == client => {
                self.offer(now, address, client, &request, actions);
            }
            Some(State::Leased { lease, .. }) if lease.client == client => {
                self.send_offer(address, &request, actions);
            }
            Some(
                State::Probing { .. }
                | State::Offered { .. }
                | State::Leased { .. }
                | State::Past { .. }
                | State::Quarantined { .. },
            )
            | None => {
                if self.sweep.is_quiet(address, now) {
                    self.offer(now, address, client, &request, actions);
                } else {
                    self.probe(now, address, client, request, actions);
                }
            }
        }
    }

    /// Its fixed address, else the one it had, else the one it wishes for, else any.
    fn choose(&self, client: &Client, request: &Request) -> Option<Ipv4Addr> {
        let fixed = self
            .config
            .known
            .get(&request.mac)
            .and_then(|known| known.address);
        if let Some(address) = fixed.filter(|address| self.may_take(client, *address)) {
            return Some(address);
        }
        let had = self
            .addresses
            .of(client)
            .filter(|address| self.addresses.in_pool(*address));
        let wished = request
            .wants
            .filter(|address| self.is_free_for(*address, request.mac));
        had.or(wished)
            .or_else(|| self.addresses.pick(client, &self.sweep.quiet))
    }

    /// Whether the address is free, or in use by nobody but this MAC.
    fn is_free_for(&self, address: Ipv4Addr, mac: Mac) -> bool {
        self.addresses.is_free(address)
            || self.addresses.in_pool(address)
                && matches!(
                    self.addresses.state(address),
                    Some(State::Quarantined { by: Some(by) }) if *by == mac
                )
    }

    /// Whether the address could be leased to the client now.
    pub(super) fn may_take(&self, client: &Client, address: Ipv4Addr) -> bool {
        match self.addresses.state(address) {
            None | Some(State::Past { .. }) => true,
            Some(State::Quarantined { .. }) => false,
            Some(
                state @ (State::Probing { .. } | State::Offered { .. } | State::Leased { .. }),
            ) => state.client() == Some(client),
        }
    }

    /// A client holds one offer at a time.
    pub(super) fn drop_other_offer(&mut self, client: &Client, address: Ipv4Addr) {
        let Some(other) = self.addresses.of(client).filter(|other| *other != address) else {
            return;
        };
        match self.addresses.state(other) {
            Some(State::Probing { .. } | State::Offered { .. }) => self.addresses.free(other),
            Some(State::Leased { .. } | State::Past { .. } | State::Quarantined { .. }) | None => {}
        }
    }

    fn probe(
        &mut self,
        now: SystemTime,
        address: Ipv4Addr,
        client: Client,
        request: Request,
        actions: &mut Vec<Action>,
    ) {
        if !self.config.probe {
            return self.offer(now, address, client, &request, actions);
        }
        self.addresses.bind(
            address,
            now + self.config.times.probe,
            State::Probing {
                client,
                request: Box::new(request),
            },
        );
        actions.push(Action::Probe { address });
    }

    pub(super) fn probed(
        &mut self,
        now: SystemTime,
        address: Ipv4Addr,
        used_by: Option<Mac>,
        actions: &mut Vec<Action>,
    ) {
        let (client, request) = match self.addresses.state(address) {
            Some(State::Probing { client, request }) => (client.clone(), request.clone()),
            Some(State::Past { .. }) | None => {
                return self.overheard(now, address, used_by, actions);
            }
            Some(State::Offered { .. } | State::Leased { .. } | State::Quarantined { .. }) => {
                return;
            }
        };
        match used_by {
            // The client itself still answers for the address it had.
            None => self.offer(now, address, client, &request, actions),
            Some(mac) if mac == request.mac => self.offer(now, address, client, &request, actions),
            Some(mac) => {
                self.addresses.bind(
                    address,
                    now + self.config.times.quarantine,
                    State::Quarantined { by: Some(mac) },
                );
                actions.push(Action::Report(Report::Conflict {
                    address,
                    used_by: mac,
                }));
                // Ends when the pool does: every round puts one address into quarantine.
                self.discover(now, *request, actions);
            }
        }
    }

    pub(super) fn offer(
        &mut self,
        now: SystemTime,
        address: Ipv4Addr,
        client: Client,
        request: &Request,
        actions: &mut Vec<Action>,
    ) {
        self.sweep.used(address, now);
        self.addresses.bind(
            address,
            now + self.config.times.offer,
            State::Offered { client },
        );
        self.send_offer(address, request, actions);
    }

    fn send_offer(&self, address: Ipv4Addr, request: &Request, actions: &mut Vec<Action>) {
        let hostname = self.hostname(request);
        let grant = Grant {
            address,
            lease: self.lease_time(request),
            hostname: hostname.as_deref(),
        };
        actions.push(send(reply::offer(&self.config, request, &grant)));
    }
}
