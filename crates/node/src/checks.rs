//! What is looked at on this machine, and told as conditions of its Node.

use std::time::Duration;

use clients::etcd;
use reqwest::{Client, Url};

use crate::config::{ControlPlane, Etcd};
use crate::decide::node::Condition;

pub const READY: &str = "Ready";
pub const API: &str = "APIServerReady";
pub const ETCD: &str = "EtcdMemberReady";

/// For one answer of something on this machine.
const PATIENCE: Duration = Duration::from_secs(2);

/// The checks of one node. What cannot even be asked is told as a condition too.
pub struct Checks {
    api: Option<(Result<Client, String>, Url)>,
    etcd: Option<Result<etcd::Client, String>>,
}

impl Checks {
    /// The API is verified with these authorities, in DER.
    pub fn new(config: &ControlPlane, authorities: &[Vec<u8>]) -> Self {
        let api = config.apiserver.as_ref();
        Self {
            api: api.map(|url| (api_client(authorities), url.clone())),
            etcd: config.etcd.as_ref().map(etcd_client),
        }
    }

    /// All at once; [`READY`] first.
    pub async fn run(&self) -> Vec<Condition> {
        let (api, etcd) = tokio::join!(self.api(), self.etcd());
        let ready = Condition {
            kind: READY,
            holds: true,
            reason: "NodeReady".into(),
            message: "the node posts its status".into(),
        };
        let api = api.map(|seen| condition(API, seen, "the API on this node is ready"));
        let etcd = etcd.map(|seen| condition(ETCD, seen, "the member on this node votes"));
        std::iter::once(ready).chain(api).chain(etcd).collect()
    }

    async fn api(&self) -> Option<Result<(), String>> {
        let (client, url) = self.api.as_ref()?;
        let client = match client {
            Ok(client) => client,
            Err(why) => return Some(Err(why.clone())),
        };
        Some(match client.get(url.clone()).send().await {
            Ok(answer) if answer.status().is_success() => Ok(()),
            Ok(answer) => Err(format!("{url} answers {}", answer.status().as_u16())),
            Err(error) => Err(model::chain(&error)),
        })
    }

    async fn etcd(&self) -> Option<Result<(), String>> {
        let client = match self.etcd.as_ref()? {
            Ok(client) => client,
            Err(why) => return Some(Err(why.clone())),
        };
        let asked = tokio::time::timeout(PATIENCE, client.statuses()).await;
        let Ok(mut answers) = asked else {
            return Some(Err("the member does not answer in time".into()));
        };
        Some(match answers.pop() {
            Some((_, Ok(status))) => votes(&status),
            Some((member, Err(etcd::Error::Unavailable { .. }))) => {
                Err(format!("the member at {member} does not answer"))
            }
            Some((_, Err(error))) => Err(model::chain(&error)),
            None => Err("no member is named".into()),
        })
    }
}

/// Until the next look: what is amiss is looked at more often than what is well.
pub fn pause(seen: &[Condition]) -> Duration {
    let well = seen.iter().all(|condition| condition.holds);
    Duration::from_secs(if well { 5 } else { 2 })
}

fn votes(status: &etcd::wire::StatusResponse) -> Result<(), String> {
    if !status.errors.is_empty() {
        return Err(format!("the member says: {}", status.errors.join("; ")));
    }
    if status.is_learner {
        return Err("the member still learns".into());
    }
    if status.leader == 0 {
        return Err("the member knows of no leader".into());
    }
    Ok(())
}

fn condition(kind: &'static str, seen: Result<(), String>, well: &str) -> Condition {
    let (holds, reason, message) = match seen {
        Ok(()) => (true, "Healthy", well.to_owned()),
        Err(why) => (false, "Unhealthy", why),
    };
    Condition {
        kind,
        holds,
        reason: reason.to_owned(),
        message,
    }
}

fn api_client(authorities: &[Vec<u8>]) -> Result<Client, String> {
    let authorities: Result<Vec<_>, _> = authorities
        .iter()
        .map(|der| reqwest::Certificate::from_der(der))
        .collect();
    let builder = authorities.map(|authorities| {
        Client::builder()
            .tls_certs_only(authorities)
            .no_proxy()
            .timeout(PATIENCE)
    });
    builder
        .and_then(reqwest::ClientBuilder::build)
        .map_err(|error| model::chain(&error))
}

fn etcd_client(config: &Etcd) -> Result<etcd::Client, String> {
    let read = |path: &std::path::Path| {
        std::fs::read_to_string(path)
            .map_err(|error| format!("could not read {}: {error}", path.display()))
    };
    let mut client = etcd::Config::new(vec![config.endpoint.clone()]);
    client.try_for = PATIENCE;
    client.give_up_after = PATIENCE;
    if let Some([ca, certificate, key]) = &config.tls {
        client.tls = Some(etcd::Tls {
            ca: read(ca)?,
            certificate: read(certificate)?,
            key: model::Secret::new(read(key)?),
            name: None,
        });
    }
    etcd::Client::new(&client).map_err(|error| model::chain(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_votes_when_it_has_learnt_and_follows_a_leader() {
        type Change = fn(&mut etcd::wire::StatusResponse);
        let table: [(&str, Change, Result<(), &str>); 4] = [
            ("well", |_| {}, Ok(())),
            ("learner", |status| status.is_learner = true, Err("learns")),
            ("alone", |status| status.leader = 0, Err("no leader")),
            (
                "ill",
                |status| status.errors = vec!["NOSPACE".into()],
                Err("NOSPACE"),
            ),
        ];
        for (name, change, expected) in table {
            let mut status = etcd::wire::StatusResponse {
                leader: 7,
                ..etcd::wire::StatusResponse::default()
            };
            change(&mut status);
            match (votes(&status), expected) {
                (Ok(()), Ok(())) => {}
                (Err(why), Err(part)) => assert!(why.contains(part), "{name}: {why}"),
                (got, _) => panic!("{name}: {got:?}"),
            }
        }
    }

    #[test]
    fn what_is_amiss_is_looked_at_more_often() {
        let well = condition(API, Ok(()), "well");
        let ill = condition(ETCD, Err("no leader".into()), "well");
        assert!(pause(&[well.clone(), ill]) < pause(&[well]));
    }

    #[tokio::test]
    async fn what_cannot_be_asked_is_a_condition_that_does_not_hold() {
        _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let config = ControlPlane {
            // Nobody listens there.
            apiserver: "http://127.0.0.1:1/readyz".parse().ok(),
            etcd: Some(Etcd {
                endpoint: "https://127.0.0.1:1".into(),
                tls: Some(["/nowhere/ca", "b", "c"].map(Into::into)),
            }),
        };
        let seen = Checks::new(&config, &[]).run().await;
        let told: Vec<_> = seen.iter().map(|seen| (seen.kind, seen.holds)).collect();
        assert_eq!(told, [(READY, true), (API, false), (ETCD, false)]);
        assert!(
            seen[2].message.contains("/nowhere/ca"),
            "{}",
            seen[2].message
        );
        let worker = Checks::new(&ControlPlane::default(), &[]).run().await;
        assert_eq!(worker.len(), 1);
    }
}
