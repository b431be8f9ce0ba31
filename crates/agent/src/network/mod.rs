//! Links up, and an address on each that has a cable.
//!
//! ```text
//! one task per card: carrier ──> dhcp ──┐ News
//!                                       v
//!                      Network: address, route, resolv.conf   (the only one that changes them)
//! ```

mod dhcp;
pub mod fixed;
pub mod lldp;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::time::{Duration, Instant};

use linux::addr::Want;
use linux::netlink::{Error, Netlink};
use linux::route::Route;
use protocols::dhcp::client::Lease;
use tokio::sync::mpsc;

use self::fixed::{Fixed, Which};
use crate::console::say;

/// A link's addresses, by its name: the first usable of each family.
pub type Addresses = BTreeMap<String, (Option<Ipv4Addr>, Option<Ipv6Addr>)>;

/// With one address, the other cards get this much longer for theirs.
const OTHERS: Duration = Duration::from_secs(3);
/// Without any: switches take up to half a minute to let a new port through (spanning tree).
const LIMIT: Duration = Duration::from_mins(1);

enum News {
    Carrier,
    Bound(Lease),
    Lost(Ipv4Addr, u8),
    Failed(String),
}

/// Owns addresses, routes and resolv.conf.
pub struct Network {
    netlink: Option<Netlink>,
    cards: BTreeMap<String, Card>,
    news: mpsc::Receiver<(String, News)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Card {
    NoCarrier,
    Asking,
    Bound(Box<Lease>),
    /// Has what it was given, with these name servers.
    Fixed(Vec<IpAddr>),
    Failed,
}

/// Brings everything up and waits until there is an address, or no hope of one.
///
/// Cards that are given an address are not asked for one.
pub async fn up(fixed: &[Fixed]) -> Network {
    let (sender, news) = mpsc::channel(16);
    let mut network = Network {
        netlink: None,
        cards: BTreeMap::new(),
        news,
    };
    if let Err(error) = network.start(&sender, fixed).await {
        say(&model::chain(&error));
    }
    drop(sender);
    network.settle().await;
    network
}

impl Network {
    async fn start(
        &mut self,
        sender: &mpsc::Sender<(String, News)>,
        fixed: &[Fixed],
    ) -> Result<(), Error> {
        let netlink = Netlink::connect()?;
        let mut first = true;
        for link in netlink.links().await? {
            let real = Path::new("/sys/class/net")
                .join(&link.name)
                .join("device")
                .exists();
            if !real && link.name != "lo" {
                continue;
            }
            if let Err(error) = netlink.set_up(&link.name).await {
                say(&model::chain(&error));
                continue;
            }
            if let (true, Some(mac)) = (real, link.mac) {
                let given = fixed.iter().find(|fixed| match &fixed.card {
                    Which::Mac(wanted) => *wanted == mac,
                    Which::Name(name) => *name == link.name,
                    Which::First => first,
                });
                first = false;
                if let Some(given) = given {
                    use_fixed(&netlink, &link.name, given).await?;
                    self.cards.insert(link.name, Card::Fixed(given.dns.clone()));
                    continue;
                }
                self.cards.insert(link.name.clone(), Card::NoCarrier);
                let card = dhcp::Card {
                    name: link.name,
                    index: link.index,
                    mac,
                };
                tokio::spawn(dhcp::run(card, netlink.clone(), sender.clone()));
            }
        }
        self.netlink = Some(netlink);
        write_resolv_conf(&self.cards);
        Ok(())
    }

    async fn settle(&mut self) {
        let started = Instant::now();
        let mut first_bound = None;
        let mut told = false;
        loop {
            let bound = self
                .cards
                .values()
                .any(|card| matches!(card, Card::Bound(_) | Card::Fixed(_)));
            if bound && first_bound.is_none() {
                first_bound = Some(Instant::now());
            }
            match next(
                &self.cards,
                started.elapsed(),
                first_bound.map(|at| at.elapsed()),
            ) {
                Next::Done => return,
                Next::GiveUp(why) => {
                    return say(&format!("no address after {} s: {why}", LIMIT.as_secs()));
                }
                Next::Wait(why) => {
                    if !told && started.elapsed() > Duration::from_secs(2) {
                        say(&format!("waiting for {why}"));
                        told = true;
                    }
                }
            }
            if let Ok(Some((name, news))) =
                tokio::time::timeout(Duration::from_millis(100), self.news.recv()).await
            {
                self.apply(&name, news).await;
            }
        }
    }

    /// Keeps the leases as long as the machine is on.
    pub async fn keep(mut self) {
        while let Some((name, news)) = self.news.recv().await {
            self.apply(&name, news).await;
        }
        std::future::pending::<()>().await;
    }

    async fn apply(&mut self, name: &str, news: News) {
        let card = match news {
            News::Carrier => Card::Asking,
            News::Bound(lease) => {
                if let Err(error) = self.use_lease(name, &lease).await {
                    say(&format!("{name}: {}", model::chain(&error)));
                }
                Card::Bound(Box::new(lease))
            }
            News::Lost(address, prefix) => {
                say(&format!("{name}: lost {address}"));
                if let (Some(netlink), Ok(net)) = (&self.netlink, net(address, prefix)) {
                    let _ = netlink.remove_address(name, net).await;
                }
                Card::Asking
            }
            News::Failed(why) => {
                say(&format!("{name}: {why}"));
                Card::Failed
            }
        };
        self.cards.insert(name.to_owned(), card);
        write_resolv_conf(&self.cards);
    }

    async fn use_lease(&self, name: &str, lease: &Lease) -> Result<(), Error> {
        let Some(netlink) = &self.netlink else {
            return Ok(());
        };
        let Ok(net) = net(lease.address, lease.prefix) else {
            return Ok(());
        };
        let want = Want {
            lifetime: Some(lease.lease),
            ..Want::new(net)
        };
        netlink.ensure_address(name, want).await?;
        let place = self.cards.keys().position(|card| card == name).unwrap_or(0);
        if let Some(router) = lease.router {
            // Every card may have its way out; the first card's is preferred.
            let mut route = Route::default_via(IpAddr::V4(router));
            route.link = Some(name.to_owned());
            route.metric = Some(100 + place as u32);
            netlink.ensure_route(&route).await?;
        }
        say(&format!(
            "{name}: {}/{} from {}",
            lease.address, lease.prefix, lease.server
        ));
        Ok(())
    }
}

async fn use_fixed(netlink: &Netlink, name: &str, fixed: &Fixed) -> Result<(), Error> {
    for net in &fixed.addresses {
        netlink.ensure_address(name, Want::new(*net)).await?;
        say(&format!("{name}: {net}, as given"));
    }
    for (to, gateway) in &fixed.routes {
        let mut route = Route::via(*to, *gateway);
        route.link = Some(name.to_owned());
        netlink.ensure_route(&route).await?;
    }
    Ok(())
}

fn write_resolv_conf(cards: &BTreeMap<String, Card>) {
    let _ = fs::create_dir_all("/etc");
    let _ = fs::write("/etc/resolv.conf", resolv_conf(cards));
}

fn net(address: Ipv4Addr, prefix: u8) -> Result<ipnet::IpNet, ipnet::PrefixLenError> {
    ipnet::IpNet::new(IpAddr::V4(address), prefix)
}

#[derive(Debug, PartialEq, Eq)]
enum Next {
    Done,
    Wait(String),
    GiveUp(String),
}

fn next(
    cards: &BTreeMap<String, Card>,
    since_start: Duration,
    since_first: Option<Duration>,
) -> Next {
    let names = |wanted: fn(&Card) -> bool| -> Vec<&str> {
        let some = cards.iter().filter(|(_, card)| wanted(card));
        some.map(|(name, _)| name.as_str()).collect()
    };
    let asking = names(|card| *card == Card::Asking);
    let dark = names(|card| *card == Card::NoCarrier);
    let why = match (asking.is_empty(), dark.is_empty()) {
        (true, true) => return Next::Done,
        (false, _) => format!("an address on {}", asking.join(", ")),
        (true, false) => format!("a carrier on {}", dark.join(", ")),
    };
    match since_first {
        Some(since) if since >= OTHERS => Next::Done,
        Some(_) => Next::Wait(why),
        None if since_start < LIMIT => Next::Wait(why),
        None => Next::GiveUp(why),
    }
}

/// Name servers and domains of all leases, in the order of the cards, each once.
fn resolv_conf(cards: &BTreeMap<String, Card>) -> String {
    let mut seen = BTreeSet::new();
    let (mut search, mut servers) = (Vec::new(), Vec::new());
    for card in cards.values() {
        let dns: Vec<IpAddr> = match card {
            Card::Bound(lease) => {
                search.extend(lease.domain.clone());
                lease.dns.iter().copied().map(IpAddr::V4).collect()
            }
            Card::Fixed(dns) => dns.clone(),
            Card::NoCarrier | Card::Asking | Card::Failed => continue,
        };
        for server in dns.into_iter().filter(|server| seen.insert(*server)) {
            servers.push(format!("nameserver {server}\n"));
        }
    }
    search.dedup();
    let servers = servers.concat();
    if search.is_empty() {
        servers
    } else {
        format!("search {}\n{servers}", search.join(" "))
    }
}

pub async fn addresses() -> Addresses {
    match read_addresses().await {
        Ok(addresses) => addresses,
        Err(error) => {
            say(&model::chain(&error));
            Addresses::new()
        }
    }
}

async fn read_addresses() -> Result<Addresses, Error> {
    let netlink = Netlink::connect()?;
    let names: BTreeMap<_, _> = netlink
        .links()
        .await?
        .into_iter()
        .map(|link| (link.index, link.name))
        .collect();
    let mut found = Addresses::new();
    for address in netlink.addresses().await? {
        let Some(name) = names.get(&address.link) else {
            continue;
        };
        let (v4, v6) = found.entry(name.clone()).or_default();
        match address.net.addr() {
            IpAddr::V4(ip) => *v4 = v4.or(Some(ip)),
            IpAddr::V6(ip) if ip.is_unicast_link_local() => {}
            IpAddr::V6(ip) => *v6 = v6.or(Some(ip)),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(dns: &[[u8; 4]], domain: Option<&str>) -> Card {
        let address = Ipv4Addr::new(192, 0, 2, 10);
        Card::Bound(Box::new(Lease {
            address,
            prefix: 24,
            server: address,
            router: None,
            dns: dns.iter().copied().map(Ipv4Addr::from).collect(),
            domain: domain.map(str::to_owned),
            ntp: Vec::new(),
            hostname: None,
            mtu: None,
            next_server: None,
            boot_file: None,
            lease: Duration::from_hours(1),
            renew: Duration::from_mins(30),
            rebind: Duration::from_mins(50),
        }))
    }

    fn cards(cards: &[Card]) -> BTreeMap<String, Card> {
        let named = cards.iter().enumerate();
        named
            .map(|(n, card)| (format!("eth{n}"), card.clone()))
            .collect()
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn nothing_more_to_hope_for_means_done() {
        assert_eq!(next(&cards(&[]), SECOND, None), Next::Done);
        assert_eq!(
            next(
                &cards(&[lease(&[], None), Card::Failed]),
                SECOND,
                Some(Duration::ZERO)
            ),
            Next::Done
        );
    }

    #[test]
    fn second_card_is_waited_for_only_a_little_once_the_first_has_an_address() {
        let cards = cards(&[lease(&[], None), Card::NoCarrier]);
        assert_eq!(
            next(&cards, SECOND, Some(SECOND)),
            Next::Wait("a carrier on eth1".into())
        );
        assert_eq!(next(&cards, SECOND, Some(OTHERS)), Next::Done);
    }

    #[test]
    fn server_without_any_address_waits_long_and_says_for_what() {
        let cards = cards(&[Card::Asking, Card::Asking]);
        assert_eq!(
            next(&cards, SECOND, None),
            Next::Wait("an address on eth0, eth1".into())
        );
        assert!(matches!(next(&cards, LIMIT, None), Next::GiveUp(_)));
    }

    #[test]
    fn name_servers_of_all_leases_are_listed_once() {
        let cards = cards(&[
            lease(&[[192, 0, 2, 1], [192, 0, 2, 2]], Some("lab.test")),
            lease(&[[192, 0, 2, 1]], Some("lab.test")),
        ]);
        assert_eq!(
            resolv_conf(&cards),
            "search lab.test\nnameserver 192.0.2.1\nnameserver 192.0.2.2\n"
        );
    }
}
