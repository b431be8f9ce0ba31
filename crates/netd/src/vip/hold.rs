//! The life of one virtual address: find a place, take part in its election, leave in order.

use std::error::Error as StdError;
use std::net::IpAddr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use linux::netlink::{self, Changes, Netlink};
use protocols::vrrp::{
    Action, Advertisement, Config, Event, Header, Role, Router, VirtualRouterId,
};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::ids::Ids;
use super::place::{NoPlace, Place, choose};
use super::wire::{self, LARGEST, Wire};
use super::{Command, Instance, Shared};
use crate::config::Vip;
use crate::status;

/// A third of the address's lifetime in the kernel, with room for a late turn.
const REFRESH: Duration = Duration::from_millis(250);
/// The kernel tells of a cut cable; this is for what it might not tell.
const LOOK_AT_LINK: Duration = Duration::from_secs(2);
/// Between two tries to find a place.
const RETRY: Duration = Duration::from_millis(500);
/// Long enough to hear a router that speaks once a second.
const LEAST_LISTEN: Duration = Duration::from_millis(1100);
/// Kept of transitions and reports.
const REMEMBERED: usize = 16;

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("no place for the address")]
    Place { source: NoPlace },
    #[error("could not look at the links")]
    Look { source: netlink::Error },
    #[error("could not open the sockets")]
    Open { source: wire::Error },
    #[error("the socket failed")]
    Receive { source: linux::vrrp_socket::Error },
    #[error("the packet socket failed")]
    Packet { source: linux::packet::Error },
    #[error("the link or its address is gone")]
    Gone,
}

/// Until its handle is dropped. Whatever goes wrong is shown and tried again.
pub async fn run(mut instance: Instance) {
    loop {
        let Err(error) = take_part(&mut instance).await else {
            return;
        };
        let problem = chain(&error);
        let name = &instance.vip.name;
        if instance.status.borrow().problem.as_ref() != Some(&problem) {
            tracing::warn!(vip = name, error = problem, "virtual address waits");
        }
        instance.status.send_modify(|status| {
            status.role = "waiting".into();
            status.problem = Some(problem);
        });
        let gone = async {
            while let Some(command) = instance.commands.recv().await {
                match command {
                    Command::Update(update) => instance.vip = *update,
                    // There is nothing to give up.
                    Command::Resign { .. } => {}
                }
            }
        };
        if tokio::time::timeout(RETRY, gone).await.is_ok() {
            return;
        }
    }
}

/// `Ok` when asked to end.
async fn take_part(instance: &mut Instance) -> Result<(), Error> {
    let look = |source| Error::Look { source };
    let netlink = Netlink::connect().map_err(look)?;
    // From before the first look, so that nothing is missed in between.
    let mut changes = Changes::subscribe().map_err(look)?;
    let place = find(&netlink, instance).await?;
    let mut config = router_config(&instance.vip, &place);
    config.priority = instance.vip.priority(&instance.passing.borrow_and_update());
    instance.status.send_modify(|status| {
        status.interface = Some(place.link.clone());
        status.problem = None;
    });
    let wire = Wire::open(netlink, place, instance.vip.address, &instance.vip.peers)
        .map_err(|source| Error::Open { source })?;
    if std::mem::take(&mut instance.vip.choose_id) {
        config.id = settle_id(&wire, instance).await?;
    }
    let Instance {
        vip,
        passing,
        commands,
        status,
        shared,
        ..
    } = instance;
    let mut holder = Holder {
        name: vip.name.clone(),
        router: Router::new(config),
        wire,
        status,
        shared,
    };
    let mut reclaim_at: Option<Instant> = None;
    holder.give(Event::Start).await;
    let mut buffer = vec![0; LARGEST];
    let mut refresh = every(REFRESH);
    let mut look_at_link = every(LOOK_AT_LINK);
    let mut stopping = false;
    let ended = loop {
        if stopping && holder.router.role() == Role::Stopped {
            break Ok(());
        }
        let wake_at = holder.router.wake_at();
        // Timers first: a flood of packets must not make us late.
        tokio::select! {
            biased;
            command = commands.recv(), if !stopping => match command {
                Some(Command::Resign { hold_off }) => {
                    reclaim_at = hold_off.map(|hold_off| Instant::now() + hold_off);
                    holder.give(Event::Resign).await;
                }
                Some(Command::Update(update)) => {
                    holder.wire.set_peers(&update.peers);
                    let priority = update.priority(&passing.borrow_and_update());
                    *vip = *update;
                    holder.give(Event::PriorityChanged(priority)).await;
                }
                None => {
                    stopping = true;
                    holder.give(Event::Stop).await;
                }
            },
            () = sleep_until(reclaim_at) => {
                reclaim_at = None;
                holder.give(Event::Reclaim).await;
            }
            () = sleep_until(wake_at) => holder.give(Event::Timer).await,
            _ = refresh.tick(), if holder.router.role().holds() => holder.refresh().await,
            changed = changes.changed() => {
                if let Err(error) = holder.look_at_place(changed).await {
                    break Err(error);
                }
            }
            _ = look_at_link.tick() => {
                if let Err(error) = holder.look_at_place(Ok(())).await {
                    break Err(error);
                }
            }
            Ok(()) = passing.changed() => {
                let priority = vip.priority(&passing.borrow_and_update());
                holder.give(Event::PriorityChanged(priority)).await;
            }
            by = holder.wire.claimed() => match by {
                Ok(by) => holder.give(Event::Claimed { by }).await,
                Err(source) => break Err(Error::Packet { source }),
            },
            received = holder.wire.receive(&mut buffer) => match received {
                Ok(received) => {
                    let heard = received.map(|received| heard(&received, &vip.peers));
                    holder.hear(heard).await;
                }
                Err(source) => break Err(Error::Receive { source }),
            },
        }
    };
    if ended.is_err() {
        // Without its place it cannot wait for another to take the address.
        holder.give(Event::PriorityChanged(None)).await;
    }
    ended
}

/// Listens for who uses which virtual router id, and takes a free one.
async fn settle_id(wire: &Wire, instance: &mut Instance) -> Result<VirtualRouterId, Error> {
    let vip = &mut instance.vip;
    let mut ids = Ids::new(vip.id, vip.address);
    let mut buffer = vec![0; LARGEST];
    let until = tokio::time::Instant::now() + vip.listen.max(LEAST_LISTEN);
    while let Ok(received) = tokio::time::timeout_at(until, wire.receive(&mut buffer)).await {
        let received = received.map_err(|source| Error::Receive { source })?;
        if let Some(Ok((_, advertisement))) = received.map(|heard_| heard(&heard_, &vip.peers)) {
            ids.hear(&advertisement);
        }
    }
    let chosen = ids.choose();
    if chosen != vip.id {
        tracing::warn!(vip = vip.name, wanted = %vip.id, %chosen, "virtual router id is taken by strangers");
        let note = format!("id {} is used by strangers; {chosen} taken", vip.id);
        instance.status.send_modify(|status| {
            status.id = chosen.get();
            remember(&mut status.reports, note);
        });
    }
    vip.id = chosen;
    Ok(chosen)
}

/// Also takes off what a killed predecessor left.
async fn find(netlink: &Netlink, instance: &Instance) -> Result<Place, Error> {
    let look = |source| Error::Look { source };
    let links = netlink.links().await.map_err(look)?;
    let addresses = netlink.addresses().await.map_err(look)?;
    let vip = &instance.vip;
    let place = choose(vip, &instance.vips, &links, &addresses)
        .map_err(|source| Error::Place { source })?;
    let stale = addresses
        .iter()
        .filter(|address| address.net.addr() == vip.address);
    for address in stale {
        let Some(link) = links.iter().find(|link| link.index == address.link) else {
            continue;
        };
        tracing::info!(
            vip = vip.name,
            link = link.name,
            "stale virtual address removed"
        );
        wire::remove(netlink, &link.name, vip.address)
            .await
            .map_err(look)?;
    }
    Ok(place)
}

fn router_config(vip: &Vip, place: &Place) -> Config {
    Config {
        version: vip.version,
        id: vip.id,
        addresses: vec![vip.address],
        source: place.source,
        priority: None,
        interval: vip.interval,
        authentication: vip.authentication,
        preempt: vip.preempt,
        listen: vip.listen,
        swift: vip.swift,
        announce: vip.announce,
    }
}

type Heard = Result<(Header, Advertisement), protocols::vrrp::Refused>;

fn heard(received: &linux::vrrp_socket::Received<'_>, peers: &[IpAddr]) -> Heard {
    let header = Header {
        from: received.from,
        to: received.to,
        ttl: received.ttl,
    };
    let by_peer = peers.contains(&header.from) && !header.to.is_multicast();
    let parsed = if by_peer {
        Advertisement::parse_from_peer(header, received.message)
    } else {
        Advertisement::parse(header, received.message)
    };
    parsed.map(|advertisement| (header, advertisement))
}

/// A router and its hands.
struct Holder<'a> {
    name: String,
    router: Router,
    wire: Wire,
    status: &'a watch::Sender<status::Vip>,
    shared: &'a Shared,
}

impl Holder<'_> {
    async fn give(&mut self, event: Event) {
        let actions = self.router.handle(Instant::now(), event);
        for action in actions {
            self.perform(action).await;
        }
        self.publish();
    }

    fn publish(&self) {
        let role = role(self.router.role());
        let priority = self.router.priority().map(|priority| priority.0);
        let leader = self.router.leader().map(|leader| leader.from);
        self.status.send_if_modified(|status| {
            let same =
                status.role == role && status.priority == priority && status.leader == leader;
            if !same {
                (status.priority, status.leader) = (priority, leader);
                status.role = role.into();
            }
            !same
        });
    }

    async fn perform(&self, action: Action) {
        let done: Result<(), Box<dyn StdError>> = match action {
            Action::Send(advertisement) => {
                self.wire.send(&advertisement);
                Ok(())
            }
            Action::TakeVip => {
                self.tell(true);
                self.wire.take().await.map_err(Into::into)
            }
            Action::DropVip => {
                let done = self.wire.give_up().await.map_err(Into::into);
                self.tell(false);
                done
            }
            Action::Announce => self.wire.announce().await.map_err(Into::into),
            Action::Probe => self.wire.probe().await.map_err(Into::into),
            Action::Report(report) => {
                tracing::warn!(vip = self.name, %report, "seen on the link");
                self.status
                    .send_modify(|status| remember(&mut status.reports, report.to_string()));
                Ok(())
            }
            Action::Changed { from, to, why } => {
                let (from, to) = (role(from), role(to));
                tracing::info!(vip = self.name, from, to, %why, "vip role");
                let transition = status::Transition {
                    at_ms: now_ms(),
                    from: from.into(),
                    to: to.into(),
                    why: why.to_string(),
                };
                self.status
                    .send_modify(|status| remember(&mut status.transitions, transition));
                Ok(())
            }
        };
        if let Err(error) = done {
            tracing::warn!(vip = self.name, error = chain(&*error), "virtual address");
        }
    }

    fn tell(&self, here: bool) {
        let (link, address) = (self.wire.link(), self.wire.address());
        self.shared.tell(&self.name, link, address, here);
    }

    /// Is the link up, and our own address still there?
    async fn look_at_place(&mut self, heard: Result<(), netlink::Error>) -> Result<(), Error> {
        let look = |source| Error::Look { source };
        heard.map_err(look)?;
        let up = self.wire.link_up().await.map_err(look)?;
        self.give(Event::Link { up }).await;
        match self.wire.is_there().await {
            Ok(false) => Err(Error::Gone),
            // An answer that did not come says nothing about the place.
            Ok(true) | Err(_) => Ok(()),
        }
    }

    /// The kernel forgets the address soon; whoever holds it reminds it.
    async fn refresh(&self) {
        if let Err(error) = self.wire.take().await {
            tracing::warn!(
                vip = self.name,
                error = chain(&error),
                "virtual address not refreshed"
            );
        }
    }

    async fn hear(&mut self, heard: Option<Heard>) {
        match heard {
            Some(Ok((header, advertisement))) => {
                let from = header.from;
                self.give(Event::Heard {
                    from,
                    advertisement,
                })
                .await;
            }
            Some(Err(refused)) => self.count(refused.to_string()),
            None => self.count("not a packet".into()),
        }
    }

    fn count(&self, reason: String) {
        tracing::trace!(vip = self.name, reason, "packet dropped");
        self.status.send_if_modified(|status| {
            *status.refused.entry(reason).or_default() += 1;
            false
        });
    }
}

fn remember<T>(list: &mut Vec<T>, item: T) {
    if list.len() >= REMEMBERED {
        list.remove(0);
    }
    list.push(item);
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Stopped => "stopped",
        Role::Unfit => "unfit",
        Role::Listening => "listening",
        Role::Backup => "backup",
        Role::Candidate => "candidate",
        Role::Active => "active",
        Role::Leaving => "leaving",
    }
}

fn every(period: Duration) -> tokio::time::Interval {
    let mut interval = tokio::time::interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
