//! Members found on the link, and this node told to them.
//!
//! One task owns a `protocols::mdns::Node` per link and the sockets beneath; links come and go. The sockets
//! are bound to the group's address, not to ours: another responder on this machine (avahi) keeps what is
//! sent to it alone, and both hear the group.

mod link;
mod socket;

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use protocols::mdns::{Action, Config, Event, Node, Report};
use serde::Serialize;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep_until, timeout};

use crate::config::mdns::Mdns;
use crate::members::{Member, Members, Source};
use link::Seen;
use socket::{Heard, Sockets};

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often the members' ages are brought up to date.
const AGES_EVERY: Duration = Duration::from_secs(15);
const PATIENCE: Duration = Duration::from_secs(3);
const QUEUE: usize = 256;
const MAX_REPORTS: usize = 20;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not open the mDNS socket on link {link}")]
    Open { link: String, source: io::Error },
    #[error("could not look at the links")]
    Links { source: linux::netlink::Error },
    #[error("mDNS did not say goodbye within {} s", PATIENCE.as_secs())]
    Stop,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct Status {
    pub links: Vec<LinkStatus>,
    /// The last findings a person should know, oldest first.
    pub reports: Vec<String>,
    /// Why nothing goes on at the moment.
    pub problem: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LinkStatus {
    pub link: String,
    /// The name we go by there.
    pub host: String,
    pub published: Vec<IpAddr>,
    pub members: Vec<String>,
    /// Packets dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
}

/// A running responder. Dropping it says goodbye, but does not wait for that.
#[derive(Debug)]
pub struct Handle {
    stop: Option<oneshot::Sender<()>>,
    status: watch::Receiver<Status>,
    task: JoinHandle<()>,
}

/// Starts in the network namespace of the calling thread; what is found goes to `members`.
pub fn start(config: Mdns, members: watch::Sender<Members>) -> Result<Handle, Error> {
    let netlink = linux::netlink::Netlink::connect().map_err(|source| Error::Links { source })?;
    let (show, status) = watch::channel(Status::default());
    let (stop, stopped) = oneshot::channel();
    let (hear, heard) = mpsc::channel(QUEUE);
    let shell = Shell {
        config,
        netlink,
        links: BTreeMap::new(),
        hear,
        members,
        show,
        reports: Vec::new(),
        problem: None,
    };
    let task = tokio::spawn(shell.run(heard, stopped));
    Ok(Handle {
        stop: Some(stop),
        status,
        task,
    })
}

impl Handle {
    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    /// Says goodbye.
    pub async fn stop(mut self) -> Result<(), Error> {
        drop(self.stop.take());
        match timeout(PATIENCE, &mut self.task).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::Stop),
        }
    }
}

struct Shell {
    config: Mdns,
    netlink: linux::netlink::Netlink,
    links: BTreeMap<String, Link>,
    hear: mpsc::Sender<Heard>,
    members: watch::Sender<Members>,
    show: watch::Sender<Status>,
    reports: Vec<String>,
    problem: Option<String>,
}

struct Link {
    node: Node,
    /// `None` while the link is away.
    sockets: Option<Sockets>,
    seen: Seen,
}

impl Shell {
    async fn run(mut self, mut heard: mpsc::Receiver<Heard>, mut stop: oneshot::Receiver<()>) {
        let mut look = tokio::time::interval(LOOK_EVERY);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut told = Instant::now();
        loop {
            let wake = self
                .links
                .values()
                .filter_map(|link| link.node.wake_at())
                .min();
            let wake = wake.unwrap_or_else(|| Instant::now() + LOOK_EVERY);
            tokio::select! {
                _ = &mut stop => break,
                Some(packet) = heard.recv() => {
                    let event = Event::Heard { from: packet.from, bytes: &packet.bytes };
                    self.feed(&packet.link, event);
                }
                () = sleep_until(wake.into()) => self.timers(),
                _ = look.tick() => {
                    self.look().await;
                    if told.elapsed() >= AGES_EVERY {
                        told = Instant::now();
                        self.tell_members();
                    }
                    self.tell_status();
                }
            }
        }
        let names: Vec<String> = self.links.keys().cloned().collect();
        for name in names {
            self.feed(&name, Event::Stop);
        }
    }

    fn timers(&mut self) {
        let now = Instant::now();
        let due: Vec<String> = self
            .links
            .iter()
            .filter(|(_, link)| link.node.wake_at().is_some_and(|at| at <= now))
            .map(|(name, _)| name.clone())
            .collect();
        for name in due {
            self.feed(&name, Event::Timer);
        }
    }

    fn feed(&mut self, name: &str, event: Event<'_>) {
        let Some(link) = self.links.get_mut(name) else {
            return;
        };
        let mut changed = false;
        for action in link.node.handle(Instant::now(), event) {
            match action {
                Action::Multicast(bytes) => {
                    if let Some(sockets) = &link.sockets {
                        sockets.multicast(&bytes);
                    }
                }
                Action::Unicast { to, bytes } => {
                    if let Some(sockets) = &link.sockets {
                        sockets.unicast(to, &bytes);
                    }
                }
                Action::Changed => changed = true,
                Action::Report(report) => {
                    let text = tell(name, &report);
                    self.reports.push(text);
                }
            }
        }
        let excess = self.reports.len().saturating_sub(MAX_REPORTS);
        self.reports.drain(..excess);
        if changed {
            self.tell_members();
            self.tell_status();
        }
    }

    /// Links come and go, and their addresses change.
    async fn look(&mut self) {
        let host = match link::host_name(self.config.host.as_deref()) {
            Ok(host) => host,
            Err(problem) => return self.has_problem(problem),
        };
        let seen = match link::look(&self.netlink, &self.config).await {
            Ok(seen) => seen,
            Err(error) => return self.has_problem(error.to_string()),
        };
        let mut problem = seen.is_empty().then(|| match &self.config.interfaces[..] {
            [] => "no link has an address".to_owned(),
            wanted => format!("no link of {wanted:?} has an address"),
        });
        let gone: Vec<String> = self
            .links
            .keys()
            .filter(|name| !seen.contains_key(*name))
            .cloned()
            .collect();
        for name in gone {
            if let Some(link) = self.links.get_mut(&name)
                && link.sockets.take().is_some()
            {
                link.seen = Seen::default();
                tracing::info!(link = name, "mDNS: the link is away");
                let (publish, own) = (Vec::new(), Vec::new());
                self.feed(&name, Event::Addresses { publish, own });
            }
        }
        for (name, seen) in seen {
            let config = Config {
                cluster: self.config.cluster.clone(),
                host: host.clone(),
                services: self.config.services.clone(),
                host_ttl: self.config.host_ttl,
                service_ttl: self.config.service_ttl,
            };
            let link = self.links.entry(name.clone()).or_insert_with(|| Link {
                node: Node::new(config, rand::random()),
                sockets: None,
                seen: Seen::default(),
            });
            let fits = |sockets: &Sockets| {
                sockets.index == seen.index && sockets.families == seen.families()
            };
            if !link.sockets.as_ref().is_some_and(fits) {
                link.sockets = None;
                match Sockets::open(&name, &seen, &self.hear) {
                    Ok(sockets) => link.sockets = Some(sockets),
                    Err(source) => {
                        let error = Error::Open { link: name, source };
                        problem = Some(format!("{error}: {}", source_of(&error)));
                        continue;
                    }
                }
            }
            if link.seen != seen {
                link.seen = seen.clone();
                let (publish, own) = (seen.publish, seen.own);
                self.feed(&name, Event::Addresses { publish, own });
            }
        }
        match problem {
            Some(problem) => self.has_problem(problem),
            None => self.problem = None,
        }
    }

    fn has_problem(&mut self, problem: String) {
        if self.problem.as_ref() != Some(&problem) {
            tracing::warn!(problem, "mDNS");
        }
        self.problem = Some(problem);
    }

    /// The union of all links; of two with one name the one heard of last.
    fn tell_members(&self) {
        let now = Instant::now();
        let mut members = Members::new();
        for link in self.links.values() {
            for found in link.node.found(now) {
                let newer = members
                    .get(&found.host)
                    .is_none_or(|known: &Member| known.seen < found.seen);
                if newer {
                    let member = Member {
                        name: found.host.clone(),
                        addresses: found.addresses,
                        source: Source::Mdns,
                        seen: found.seen,
                        control_plane: found.etcd,
                    };
                    members.insert(found.host, member);
                }
            }
        }
        self.members.send_replace(members);
    }

    fn tell_status(&self) {
        let now = Instant::now();
        let links = self.links.iter().map(|(name, link)| LinkStatus {
            link: name.clone(),
            host: link.node.host(),
            published: link.seen.publish.clone(),
            members: link
                .node
                .found(now)
                .into_iter()
                .map(|found| found.host)
                .collect(),
            dropped: link
                .node
                .dropped()
                .iter()
                .map(|(why, count)| (format!("{why:?}").to_lowercase(), *count))
                .collect(),
        });
        self.show.send_replace(Status {
            links: links.collect(),
            reports: self.reports.clone(),
            problem: self.problem.clone(),
        });
    }
}

fn source_of(error: &Error) -> String {
    std::error::Error::source(error).map_or_else(String::new, ToString::to_string)
}

fn tell(link: &str, report: &Report) -> String {
    match report {
        Report::Published { host } => {
            tracing::info!(link, host, "mDNS: published");
            format!("{link}: published as {host}.local")
        }
        Report::Renamed { from, to, by } => {
            tracing::warn!(link, from, to, %by, "mDNS: another node has this name");
            format!("{link}: {from}.local belongs to {by}; we go by {to}.local")
        }
        Report::Contested { host, by } => {
            tracing::warn!(link, host, %by, "mDNS: another node claims this name");
            format!("{link}: {by} claims {host}.local too")
        }
    }
}
