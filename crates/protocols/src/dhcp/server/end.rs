//! Addresses that come back before their time (RFC 2131, 4.3.3 and 4.3.4).

use std::net::Ipv4Addr;
use std::time::SystemTime;

use super::addresses::State;
use super::lease::Lease;
use super::{Action, Report, Server};
use crate::dhcp::request::Request;

impl Server {
    pub(super) fn decline(
        &mut self,
        now: SystemTime,
        request: &Request,
        actions: &mut Vec<Action>,
    ) {
        let Some(address) = request
            .wants
            .filter(|address| self.holds(request, *address))
        else {
            return;
        };
        if request
            .server_id
            .is_some_and(|id| id != self.config.server_id)
        {
            return;
        }
        self.end(now, address, actions);
        self.addresses.bind(
            address,
            now + self.config.times.quarantine,
            State::Quarantined { by: None },
        );
        actions.push(Action::Report(Report::Declined {
            address,
            mac: request.mac,
        }));
    }

    pub(super) fn release(
        &mut self,
        now: SystemTime,
        request: &Request,
        actions: &mut Vec<Action>,
    ) {
        let address = request.ciaddr;
        if !self.holds(request, address)
            || request
                .server_id
                .is_some_and(|id| id != self.config.server_id)
        {
            return;
        }
        if let Some(lease) = self.end(now, address, actions) {
            actions.push(Action::Report(Report::Released(lease)));
        }
    }

    /// Whether the address is offered or leased to the sender.
    fn holds(&self, request: &Request, address: Ipv4Addr) -> bool {
        let client = self.identify(request);
        match self.addresses.state(address) {
            Some(state @ (State::Offered { .. } | State::Leased { .. })) => {
                state.client() == Some(&client)
            }
            Some(State::Probing { .. } | State::Past { .. } | State::Quarantined { .. }) | None => {
                false
            }
        }
    }

    /// Ends a lease or offer before its time; the client is remembered.
    fn end(
        &mut self,
        now: SystemTime,
        address: Ipv4Addr,
        actions: &mut Vec<Action>,
    ) -> Option<Lease> {
        let Some(State::Leased { lease, writing }) = self.addresses.state(address).cloned() else {
            self.addresses.free(address);
            return None;
        };
        if let Some(writing) = writing {
            self.writing.remove(&writing.token);
        }
        let lease = Lease {
            expires: now,
            ..lease
        };
        self.addresses.bind(
            address,
            now,
            State::Past {
                lease: lease.clone(),
            },
        );
        let token = self.token();
        actions.push(Action::Persist {
            lease: lease.clone(),
            token,
        });
        Some(lease)
    }
}
