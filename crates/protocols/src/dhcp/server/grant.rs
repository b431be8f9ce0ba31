//! Granting, prolonging and refusing addresses (RFC 2131, 4.3.2): the client is told when the record is on disk.

use std::net::Ipv4Addr;
use std::time::{Duration, SystemTime};

use super::addresses::{State, Writing};
use super::lease::{Client, Lease, Token};
use super::reply::{self, Grant};
use super::{Action, GRACE, Report, Server, send};
use crate::dhcp::request::Request;

impl Server {
    /// RFC 2131, 4.3.2: which of the four states the client is in shows in what it fills in.
    pub(super) fn request(&mut self, now: SystemTime, request: Request, actions: &mut Vec<Action>) {
        let client = self.identify(&request);
        match (request.server_id, request.wants) {
            (Some(id), _) if id != self.config.server_id => {
                self.chose_other(now, &client, id, actions);
            }
            (Some(_), Some(address)) => self.selecting(now, client, address, request, actions),
            (None, Some(address)) if request.ciaddr.is_unspecified() => {
                self.rebooting(now, client, address, request, actions);
            }
            (Some(_), None) | (None, _) if !request.ciaddr.is_unspecified() => {
                self.renewing(now, client, request, actions);
            }
            (Some(_) | None, _) => {}
        }
    }

    /// The client takes another server's offer: ours is free again.
    fn chose_other(
        &mut self,
        now: SystemTime,
        client: &Client,
        id: Ipv4Addr,
        actions: &mut Vec<Action>,
    ) {
        self.drop_other_offer(client, Ipv4Addr::UNSPECIFIED);
        self.other_server(now, id, actions);
    }

    fn selecting(
        &mut self,
        now: SystemTime,
        client: Client,
        address: Ipv4Addr,
        request: Request,
        actions: &mut Vec<Action>,
    ) {
        // Not offered yet: the offer comes when the probe is over.
        if let Some(State::Probing { client: of, .. }) = self.addresses.state(address)
            && *of == client
        {
            return;
        }
        // What we offered; or what we offered before we were restarted, if it is still nobody's.
        if self.may_give(&client, address, &request) {
            return self.commit(now, client, address, request, actions);
        }
        self.refuse(&request, address, "this address is not yours", actions);
    }

    fn rebooting(
        &mut self,
        now: SystemTime,
        client: Client,
        address: Ipv4Addr,
        request: Request,
        actions: &mut Vec<Action>,
    ) {
        let known = self.addresses.of(&client);
        if known == Some(address) && self.may_give(&client, address, &request) {
            return self.commit(now, client, address, request, actions);
        }
        if !self.config.subnet.contains(&address) {
            return self.refuse(
                &request,
                address,
                "this address is of another network",
                actions,
            );
        }
        // A client we have no record of may be another server's; then silence is right (4.3.2).
        if known.is_some() || self.config.authoritative {
            self.refuse(&request, address, "this address is not yours", actions);
        }
    }

    fn renewing(
        &mut self,
        now: SystemTime,
        client: Client,
        request: Request,
        actions: &mut Vec<Action>,
    ) {
        let address = request.ciaddr;
        // A lease that ran out is given again as long as nobody else has the address.
        if self.addresses.of(&client) == Some(address) && self.may_give(&client, address, &request)
        {
            return self.commit(now, client, address, request, actions);
        }
        if self.config.authoritative {
            self.refuse(&request, address, "this lease is not known", actions);
        }
    }

    /// Whether a client that asks for this very address can have it.
    fn may_give(&self, client: &Client, address: Ipv4Addr, request: &Request) -> bool {
        let fixed = self
            .config
            .known
            .get(&request.mac)
            .and_then(|known| known.address);
        let ours = fixed == Some(address) || self.addresses.in_pool(address);
        ours && self.may_take(client, address)
    }

    fn refuse(
        &self,
        request: &Request,
        address: Ipv4Addr,
        why: &'static str,
        actions: &mut Vec<Action>,
    ) {
        actions.push(Action::Report(Report::Refused {
            mac: request.mac,
            address,
            why,
        }));
        actions.push(send(reply::nak(&self.config, request, why)));
    }

    /// The lease goes to disk; its acknowledgement waits for that.
    fn commit(
        &mut self,
        now: SystemTime,
        client: Client,
        address: Ipv4Addr,
        request: Request,
        actions: &mut Vec<Action>,
    ) {
        let before = match self.addresses.state_mut(address) {
            Some(State::Leased {
                writing: Some(writing),
                ..
            }) if writing.request.xid == request.xid => {
                // A retransmission while the record is being written: the answer goes to the latest.
                *writing.request = request;
                return;
            }
            Some(State::Leased {
                writing: Some(writing),
                ..
            }) => {
                self.writing.remove(&writing.token);
                writing.before.take()
            }
            Some(State::Leased {
                lease,
                writing: None,
            }) => Some(lease.clone()),
            Some(
                State::Probing { .. }
                | State::Offered { .. }
                | State::Past { .. }
                | State::Quarantined { .. },
            )
            | None => None,
        };
        self.drop_other_offer(&client, address);
        self.sweep.used(address, now);
        let lease = Lease {
            address,
            client,
            mac: request.mac,
            hostname: self
                .hostname(&request)
                .or_else(|| before.as_ref().and_then(|lease| lease.hostname.clone())),
            starts: now,
            expires: now + self.lease_time(&request),
        };
        let token = self.token();
        self.writing.insert(token, address);
        let writing = Some(Writing {
            token,
            request: Box::new(request),
            before,
        });
        self.addresses.bind(
            address,
            lease.expires + GRACE,
            State::Leased {
                lease: lease.clone(),
                writing,
            },
        );
        actions.push(Action::Persist { lease, token });
    }

    pub(super) fn persisted(&mut self, now: SystemTime, token: Token, actions: &mut Vec<Action>) {
        let Some(address) = self.writing.remove(&token) else {
            return;
        };
        let Some(State::Leased { lease, writing }) = self.addresses.state_mut(address) else {
            return;
        };
        let Some(writing) = writing.take() else {
            return;
        };
        let lease = lease.clone();
        // Not longer than what is on disk, which began a moment ago; the second that rounding adds is within GRACE.
        let left = lease.expires.duration_since(now).unwrap_or_default();
        if left.is_zero() {
            return;
        }
        let left = Duration::from_secs(left.as_secs() + u64::from(left.subsec_nanos() > 0));
        let grant = Grant {
            address,
            lease: left,
            hostname: lease.hostname.as_deref(),
        };
        actions.push(send(reply::ack(&self.config, &writing.request, &grant)));
        actions.push(Action::Report(Report::Leased(lease)));
    }

    /// The client is not answered and asks again; what it had before stays valid.
    pub(super) fn persist_failed(&mut self, now: SystemTime, token: Token) {
        let Some(address) = self.writing.remove(&token) else {
            return;
        };
        let Some(State::Leased {
            lease,
            writing: Some(writing),
        }) = self.addresses.state(address).cloned()
        else {
            return;
        };
        match writing.before {
            Some(before) => self.addresses.bind(
                address,
                before.expires + GRACE,
                State::Leased {
                    lease: before,
                    writing: None,
                },
            ),
            None => self.addresses.bind(
                address,
                now + self.config.times.offer,
                State::Offered {
                    client: lease.client,
                },
            ),
        }
    }
}
