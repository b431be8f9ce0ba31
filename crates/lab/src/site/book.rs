//! Who has which address, and is called what: written by DHCP, read by DNS and by people.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use protocols::dhcp::server::{Lease, Report};
use protocols::dns::{self, Data, Resolver, Zone, reverse_name, reverse_zone};
use tracing::debug;

use super::{Config, Error};

/// Shared; the lock is held for single look-ups and changes only.
#[derive(Debug, Clone)]
pub struct Book(Arc<Mutex<Pages>>);

#[derive(Debug)]
struct Pages {
    resolver: Resolver,
    domain: String,
    reverse: String,
    leases: BTreeMap<Ipv4Addr, Lease>,
    /// Names of leases, with the address that has the name now.
    hosts: BTreeMap<String, Ipv4Addr>,
    /// Names of the configuration: no lease can take them.
    fixed: Vec<String>,
}

impl Book {
    pub fn open(config: &Config) -> Result<Self, Error> {
        let domain = config.dns.domain.trim_end_matches('.').to_ascii_lowercase();
        let reverse = reverse_zone(config.dhcp.subnet);
        let server = format!("router.{domain}");
        let mut zone = Zone::new(&domain, &server).map_err(Error::Name)?;
        let mut arpa = Zone::new(&reverse, &server).map_err(Error::Name)?;
        let mut fixed = Vec::new();
        let own = (server.clone(), Data::A(config.dns.address));
        for (name, data) in std::iter::once(&own).chain(&config.dns.records) {
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            zone.insert(&name, data).map_err(Error::Name)?;
            fixed.push(name);
        }
        if config.dhcp.subnet.contains(&config.dns.address) {
            arpa.insert(&reverse_name(config.dns.address), &Data::Ptr(server))
                .map_err(Error::Name)?;
        }
        let resolver = Resolver::new(
            vec![zone, arpa],
            config.dns.upstreams.clone(),
            rand::random(),
        );
        let pages = Pages {
            resolver,
            domain,
            reverse,
            leases: BTreeMap::new(),
            hosts: BTreeMap::new(),
            fixed,
        };
        Ok(Self(Arc::new(Mutex::new(pages))))
    }

    pub fn leases(&self) -> Vec<Lease> {
        self.pages().leases.values().cloned().collect()
    }

    /// What DHCP says of it.
    pub fn told(&self, report: &Report) {
        match report {
            Report::Leased(lease) => self.leased(lease),
            Report::Released(lease) | Report::Expired(lease) => self.ended(lease),
            Report::Declined { address, .. } => self.forget(*address),
            Report::Conflict { .. }
            | Report::Refused { .. }
            | Report::PoolExhausted { .. }
            | Report::Booting { .. }
            | Report::OtherServer { .. }
            | Report::Malformed(_) => {}
        }
    }

    /// A lease holds from now on, instead of what was at its address before.
    pub fn leased(&self, lease: &Lease) {
        let mut pages = self.pages();
        let before = pages.leases.insert(lease.address, lease.clone());
        if before
            .as_ref()
            .is_some_and(|before| before.hostname == lease.hostname)
        {
            return;
        }
        if let Some(before) = before {
            pages.unname(&before);
        }
        pages.name(lease);
    }

    /// A lease is over.
    fn ended(&self, lease: &Lease) {
        let mut pages = self.pages();
        pages.leases.remove(&lease.address);
        pages.unname(lease);
    }

    /// Whoever had the address has it no more.
    fn forget(&self, address: Ipv4Addr) {
        let mut pages = self.pages();
        if let Some(lease) = pages.leases.remove(&address) {
            pages.unname(&lease);
        }
    }

    /// One step of the resolver, and when it wants the next.
    pub fn resolve(&self, event: dns::Event<'_>) -> (Vec<dns::Action>, Option<Instant>) {
        let mut pages = self.pages();
        let actions = pages.resolver.handle(Instant::now(), event);
        (actions, pages.resolver.wake_at())
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.0
            .lock()
            .expect("nothing panics while it holds the book")
    }
}

impl Pages {
    fn name(&mut self, lease: &Lease) {
        let Some(host) = &lease.hostname else { return };
        let full = format!("{host}.{}", self.domain);
        if self.fixed.contains(&full) {
            debug!(mac = %lease.mac, name = full, "a lease cannot have a name of the site");
            return;
        }
        // The latest to use a name has it.
        if let Some(other) = self.hosts.insert(host.clone(), lease.address) {
            self.drop_records(&full, other);
        }
        let (domain, reverse) = (self.domain.clone(), self.reverse.clone());
        let forward = self
            .resolver
            .zone_mut(&domain)
            .map(|zone| zone.insert(&full, &Data::A(lease.address)));
        let backward = self
            .resolver
            .zone_mut(&reverse)
            .map(|zone| zone.insert(&reverse_name(lease.address), &Data::Ptr(full.clone())));
        if let (Some(Err(error)), _) | (_, Some(Err(error))) = (forward, backward) {
            debug!(mac = %lease.mac, %error, "a lease has no name");
        }
    }

    fn unname(&mut self, lease: &Lease) {
        let Some(host) = &lease.hostname else { return };
        if self.hosts.get(host) == Some(&lease.address) {
            self.hosts.remove(host);
            self.drop_records(&format!("{host}.{}", self.domain), lease.address);
        }
    }

    fn drop_records(&mut self, full: &str, address: Ipv4Addr) {
        let (domain, reverse) = (self.domain.clone(), self.reverse.clone());
        if let Some(zone) = self.resolver.zone_mut(&domain) {
            zone.remove_address(full);
        }
        if let Some(zone) = self.resolver.zone_mut(&reverse) {
            zone.remove_pointer(&reverse_name(address));
        }
    }
}
