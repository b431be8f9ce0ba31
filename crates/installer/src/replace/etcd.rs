//! The cluster's etcd while one of its masters is replaced: who is a member, who is well, who comes and goes.

use clients::etcd::wire::{self, StatusResponse};
use clients::etcd::{self, Client, Config, Tls};
use plan::install::Reach;
use plan::replace::Member;
use std::time::Duration;

use crate::cluster::Failed;

/// Where one master's member is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seat {
    pub node: String,
    /// How the other members call it.
    pub peer: String,
    /// How we call it, if its address is known.
    pub client: Option<String>,
}

/// For one try at one member; a machine under load may need it for its handshake.
const TRY: Duration = Duration::from_secs(5);
const GIVE_UP: Duration = Duration::from_secs(15);

pub struct Etcd {
    seats: Vec<Seat>,
    /// The one that is replaced, and whoever answers in its place.
    lost: Option<(String, Client)>,
    own: Seat,
    /// In the order of their clients.
    nodes: Vec<String>,
    others: Client,
}

impl Etcd {
    /// `own` is the node that is replaced.
    pub fn new(seats: &[Seat], own: &str, tls: &Tls) -> Result<Self, Failed> {
        let open = |endpoints: Vec<String>| {
            Client::new(&Config {
                tls: Some(tls.clone()),
                try_for: TRY,
                give_up_after: GIVE_UP,
                ..Config::new(endpoints)
            })
        };
        let missing = || Failed(format!("{own} has no place in etcd"));
        let own = seats.iter().find(|seat| seat.node == own);
        let own = own.ok_or_else(missing)?.clone();
        let known = |seat: &Seat| Some((seat.node.clone(), seat.client.clone()?));
        let others = seats.iter().filter(|seat| seat.node != own.node);
        let (nodes, endpoints) = others.filter_map(known).unzip();
        let lost = match known(&own) {
            Some((node, endpoint)) => Some((node, open(vec![endpoint])?)),
            None => None,
        };
        Ok(Self {
            seats: seats.to_vec(),
            lost,
            own,
            nodes,
            others: open(endpoints)?,
        })
    }

    pub async fn look(&self) -> Reach<Vec<Member>> {
        let (members, mut statuses) = tokio::join!(self.others.members(), self.statuses());
        let members = match members {
            Ok(members) => members,
            Err(error) => return Reach::Silent(model::chain(&error)),
        };
        let seen = members.into_iter().map(|member| {
            let node = self.node(&member);
            let at = statuses.iter().position(|(known, _)| *known == node);
            let status = at.map(|at| statuses.swap_remove(at).1);
            Member {
                id: member.id,
                node,
                voter: !member.is_learner,
                started: !member.name.is_empty(),
                well: match status {
                    Some(Ok(status)) => well(&member, &status),
                    Some(Err(error)) => Err(model::chain(&error)),
                    None => Err("its address is not known".into()),
                },
            }
        });
        Reach::Answers(seen.collect())
    }

    async fn statuses(&self) -> Vec<(String, Result<StatusResponse, etcd::Error>)> {
        let lost = async {
            match &self.lost {
                Some((node, client)) => {
                    let status = client.statuses().await.into_iter().next();
                    status.map(|(_, status)| (node.clone(), status))
                }
                None => None,
            }
        };
        let (others, lost) = tokio::join!(self.others.statuses(), lost);
        let others = others.into_iter().map(|(_, status)| status);
        self.nodes.iter().cloned().zip(others).chain(lost).collect()
    }

    fn node(&self, member: &wire::Member) -> String {
        let mut seats = self.seats.iter();
        let seat = seats.find(|seat| member.peer_urls.contains(&seat.peer));
        match seat {
            Some(seat) => seat.node.clone(),
            None if member.name.is_empty() => member.peer_urls.join(" "),
            None => member.name.clone(),
        }
    }

    pub async fn remove(&self, id: u64) -> Result<(), Failed> {
        self.others.remove(id).await?;
        Ok(())
    }

    pub async fn add_learner(&self) -> Result<(), Failed> {
        self.others.add_learner(vec![self.own.peer.clone()]).await?;
        Ok(())
    }

    /// Refused while it is behind: it is tried again.
    pub async fn promote(&self, id: u64) -> Result<(), Failed> {
        self.others.promote(id).await?;
        Ok(())
    }
}

/// Whether what answers is this member, and follows a leader.
fn well(member: &wire::Member, status: &StatusResponse) -> Result<(), String> {
    let answered = status.header.as_ref().map(|header| header.member_id);
    if answered != Some(member.id) {
        return Err("another member answers at its address".into());
    }
    if status.leader == 0 {
        return Err("it knows no leader".into());
    }
    if !status.errors.is_empty() {
        return Err(status.errors.join(", "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clients::etcd::wire::ResponseHeader;

    use super::*;

    #[test]
    fn a_member_is_well_if_it_is_the_one_and_follows_a_leader() {
        type Change = fn(&mut StatusResponse);
        let table: [(&str, Change, Result<(), &str>); 4] = [
            ("well", |_| (), Ok(())),
            ("another", |status| status.header = None, Err("another")),
            ("alone", |status| status.leader = 0, Err("no leader")),
            (
                "ill",
                |status| status.errors = vec!["NOSPACE".into()],
                Err("NOSPACE"),
            ),
        ];
        let member = wire::Member {
            id: 7,
            ..wire::Member::default()
        };
        for (name, change, expected) in table {
            let mut status = StatusResponse {
                header: Some(ResponseHeader {
                    member_id: 7,
                    ..ResponseHeader::default()
                }),
                leader: 9,
                ..StatusResponse::default()
            };
            change(&mut status);
            match (well(&member, &status), expected) {
                (Ok(()), Ok(())) => {}
                (Err(why), Err(part)) => assert!(why.contains(part), "{name}: {why}"),
                (got, _) => panic!("{name}: {got:?}"),
            }
        }
    }
}
