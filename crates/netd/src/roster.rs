//! Who is in the cluster: what the configuration, the API and the link say, as one list.

use std::time::Instant;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::config::{FixedMember, MemberSources};
use crate::kube;
use crate::members::{Member, Members, Source};

/// The union, kept up to date until it is dropped.
#[derive(Debug)]
pub struct Roster {
    publish: watch::Sender<Members>,
    fixed: watch::Sender<Members>,
    api: watch::Sender<Members>,
    mdns: watch::Sender<Members>,
    sources: MemberSources,
    poll: Option<JoinHandle<()>>,
    union: JoinHandle<()>,
}

impl Roster {
    pub fn spawn(sources: MemberSources) -> Self {
        let parts = [(); 3].map(|()| watch::channel(Members::new()).0);
        let [fixed, api, mdns] = parts;
        let publish = watch::channel(Members::new()).0;
        let receivers = [&mdns, &api, &fixed].map(watch::Sender::subscribe);
        let union = tokio::spawn(keep(receivers, publish.clone()));
        let mut roster = Self {
            publish,
            fixed,
            api,
            mdns,
            sources: MemberSources::default(),
            poll: None,
            union,
        };
        roster.configure(sources);
        roster
    }

    pub fn configure(&mut self, sources: MemberSources) {
        if self.sources.fixed != sources.fixed {
            self.fixed.send_replace(written(&sources.fixed));
        }
        if self.sources.kubernetes != sources.kubernetes {
            if let Some(poll) = self.poll.take() {
                poll.abort();
            }
            match &sources.kubernetes {
                Some(api) => {
                    self.poll = Some(tokio::spawn(kube::poll(api.clone(), self.api.clone())));
                }
                None => _ = self.api.send_replace(Members::new()),
            }
        }
        self.sources = sources;
    }

    /// Where what is heard on the link goes in.
    pub fn mdns(&self) -> watch::Sender<Members> {
        self.mdns.clone()
    }

    pub fn members(&self) -> watch::Receiver<Members> {
        self.publish.subscribe()
    }
}

impl Drop for Roster {
    fn drop(&mut self) {
        self.union.abort();
        if let Some(poll) = &self.poll {
            poll.abort();
        }
    }
}

async fn keep(mut parts: [watch::Receiver<Members>; 3], publish: watch::Sender<Members>) {
    loop {
        let members = {
            let [mdns, api, fixed] = parts
                .each_mut()
                .map(|part| part.borrow_and_update().clone());
            union([mdns, api, fixed])
        };
        publish.send_if_modified(|before| {
            let changed = *before != members;
            *before = members;
            changed
        });
        let [mdns, api, fixed] = &mut parts;
        let changed = tokio::select! {
            changed = mdns.changed() => changed,
            changed = api.changed() => changed,
            changed = fixed.changed() => changed,
        };
        if changed.is_err() {
            return;
        }
    }
}

/// Later parts know better; whoever any part counts to the control plane belongs to it.
fn union(parts: impl IntoIterator<Item = Members>) -> Members {
    let mut all = Members::new();
    for (name, member) in parts.into_iter().flatten() {
        let before = all.get(&name);
        let control_plane = before.is_some_and(|before: &Member| before.control_plane);
        let kept = before.filter(|_| member.addresses.is_empty());
        let mut member = kept.cloned().unwrap_or(member);
        member.control_plane |= control_plane;
        all.insert(name, member);
    }
    all
}

fn written(fixed: &[FixedMember]) -> Members {
    let member = |fixed: &FixedMember| Member {
        name: fixed.name.clone(),
        addresses: fixed.addresses.clone(),
        source: Source::Static,
        seen: Instant::now(),
        control_plane: fixed.control_plane,
    };
    let members = fixed.iter().map(member);
    members
        .map(|member| (member.name.clone(), member))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, address: &str, source: Source, control_plane: bool) -> Members {
        let member = Member {
            name: name.into(),
            addresses: address.parse().into_iter().collect(),
            source,
            seen: Instant::now(),
            control_plane,
        };
        [(name.to_owned(), member)].into()
    }

    #[test]
    fn the_configuration_beats_the_api_and_the_api_beats_the_link() {
        let all = union([
            one("a", "192.0.2.1", Source::Mdns, true),
            one("a", "192.0.2.2", Source::Api, false),
            one("b", "192.0.2.3", Source::Api, false),
            one("b", "", Source::Static, false),
        ]);
        assert_eq!(
            all["a"].addresses,
            ["192.0.2.2".parse::<std::net::IpAddr>().unwrap()]
        );
        assert_eq!(
            (all["a"].source, all["a"].control_plane),
            (Source::Api, true)
        );
        assert_eq!(
            all["b"].source,
            Source::Api,
            "no address is no better knowledge"
        );
    }
}
