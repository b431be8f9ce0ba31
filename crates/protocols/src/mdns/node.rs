//! One node on one link.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use hickory_proto::op::{Message, MessageType, OpCode};

use super::browse::{Browser, Found};
use super::name::{Kind, host_name};
use super::publish::Publisher;
use super::random::Random;
use super::{Action, Config, Dropped, Event, PORT};

/// Publishes this node and finds the others.
#[derive(Debug)]
pub struct Node {
    config: Config,
    publisher: Publisher,
    browser: Browser,
    random: Random,
    own: Vec<IpAddr>,
    has_link: bool,
    found: Vec<(String, Vec<IpAddr>, bool)>,
    dropped: BTreeMap<Dropped, u64>,
}

impl Node {
    /// The seed spreads the nodes' packets in time.
    pub fn new(config: Config, seed: u64) -> Self {
        Self {
            publisher: Publisher::new(config.clone()),
            browser: Browser::new(config.cluster.clone()),
            config,
            random: Random(seed),
            own: Vec::new(),
            has_link: false,
            found: Vec::new(),
            dropped: BTreeMap::new(),
        }
    }

    pub fn handle(&mut self, now: Instant, event: Event<'_>) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Heard { from, bytes } => self.heard(now, from, bytes, &mut actions),
            Event::Addresses { publish, own } => self.set_addresses(now, publish, own),
            Event::Stop => {
                self.publisher.stop(&mut actions);
                self.browser.pause();
            }
            Event::Timer => {
                self.publisher.timer(now, &mut actions);
                self.browser.timer(now, &mut self.random, &mut actions);
            }
        }
        actions.retain(|action| *action != Action::Changed);
        if self.has_changed() {
            actions.push(Action::Changed);
        }
        actions
    }

    /// When to send [`Event::Timer`], if at all.
    pub fn wake_at(&self) -> Option<Instant> {
        super::earliest([self.publisher.wake_at(), self.browser.wake_at()])
    }

    /// The name this node goes by on the link.
    pub fn host(&self) -> String {
        self.publisher.host()
    }

    /// Everyone on the link, ourselves among them once the name is ours.
    pub fn found(&self, now: Instant) -> Vec<Found> {
        let mut found = self.browser.found();
        if let Some(addresses) = self.publisher.published() {
            let host = self.publisher.host();
            found.retain(|other| other.host != host);
            found.push(Found {
                host,
                addresses: addresses.to_vec(),
                etcd: self.config.services.contains(&Kind::Etcd),
                seen: now,
            });
            found.sort();
        }
        found
    }

    /// Packets that were not for us, by reason.
    pub fn dropped(&self) -> &BTreeMap<Dropped, u64> {
        &self.dropped
    }

    #[cfg(test)]
    pub(super) fn publisher_ref(&self) -> &Publisher {
        &self.publisher
    }

    fn heard(&mut self, now: Instant, from: SocketAddr, bytes: &[u8], actions: &mut Vec<Action>) {
        let Some(message) = read(bytes) else {
            return self.drop_packet(Dropped::Malformed);
        };
        // Other codes are to be ignored in silence (RFC 6762, 18.3 and 18.11).
        if message.metadata.op_code != OpCode::Query {
            return;
        }
        let own = self.own.contains(&from.ip());
        match message.metadata.message_type {
            MessageType::Query => {
                // Our own probe, looped back, is no rival.
                if !own || message.authorities.is_empty() {
                    self.publisher
                        .asked(now, from, &message, &mut self.random, actions);
                }
            }
            MessageType::Response => {
                if from.port() != PORT {
                    return self.drop_packet(Dropped::WrongPort);
                }
                // What this machine says of its own name, by us or by another program, is no conflict.
                if !own {
                    self.publisher
                        .answered(now, from.ip(), &message, &mut self.random, actions);
                }
                if !own || !self.is_of_ourselves(&message) {
                    self.browser.heard(now, &message);
                }
            }
        }
    }

    /// What we know anyway need not be remembered and asked for again.
    fn is_of_ourselves(&self, message: &Message) -> bool {
        let host = host_name(&self.publisher.host());
        self.publisher.published().is_some()
            && message.all_sections().any(|record| record.name == host)
    }

    fn set_addresses(&mut self, now: Instant, publish: Vec<IpAddr>, own: Vec<IpAddr>) {
        let has_link = !own.is_empty();
        self.own = own;
        self.publisher.set_addresses(now, publish, &mut self.random);
        if has_link && !self.has_link {
            self.browser.start(now, &mut self.random);
        }
        if !has_link {
            self.browser.pause();
        }
        self.has_link = has_link;
    }

    fn has_changed(&mut self) -> bool {
        let mut found: Vec<_> = self
            .browser
            .found()
            .into_iter()
            .map(|found| (found.host, found.addresses, found.etcd))
            .collect();
        if let Some(addresses) = self.publisher.published() {
            found.push((self.publisher.host(), addresses.to_vec(), true));
        }
        let changed = found != self.found;
        self.found = found;
        changed
    }

    fn drop_packet(&mut self, why: Dropped) {
        *self.dropped.entry(why).or_default() += 1;
    }
}

/// Reads a packet whose counts its length can hold: the decoder makes room by the counts.
fn read(bytes: &[u8]) -> Option<Message> {
    let counts: &[u8; 8] = bytes.get(4..)?.first_chunk()?;
    let count = |at: usize| usize::from(u16::from_be_bytes([counts[at], counts[at + 1]]));
    // The shortest question has 5 bytes, the shortest record 11.
    let least = 12 + count(0) * 5 + (count(2) + count(4) + count(6)) * 11;
    (least <= bytes.len()).then_some(())?;
    Message::from_vec(bytes).ok()
}
