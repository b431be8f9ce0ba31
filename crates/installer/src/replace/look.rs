//! What there is to see of a master, and of those that stay.

use std::net::IpAddr;

use clients::etcd::Tls;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use model::payload::{Index, PROGRAM};
use plan::assets::Binary;
use plan::install::Reach;
use plan::install_config::Role;
use plan::replace::{Api, Member, Seen};
use time::OffsetDateTime;

use super::{Error, Etcd, Objects, Replacer, Seat};
use crate::cluster::Failed;
use crate::cluster::api::connect;
use crate::cluster::look::{ANSWER, https, late, url};

impl Replacer {
    pub(super) async fn look(&mut self) -> Result<Seen, Error> {
        let (api, nodes) = self.look_api().await;
        let etcd = match &api {
            Reach::Answers(_) => self.look_etcd(&nodes).await,
            Reach::Silent(_) => Reach::Silent("masters are found by the API".into()),
        };
        Ok(Seen {
            assets: self.look_assets().await?,
            api,
            etcd,
            power: self.power.clone(),
            trouble: self.trouble.clone(),
        })
    }

    async fn look_api(&mut self) -> (Reach<Api>, Vec<Node>) {
        let ask = async {
            let client = match &self.client {
                Some(client) => client.clone(),
                None => connect(&self.dir, &self.plan).await?,
            };
            let seen = Objects::new(client.clone(), &self.host).look().await?;
            Ok((client, seen))
        };
        let why = match tokio::time::timeout(ANSWER, ask).await {
            Ok(Ok((client, (api, nodes)))) => {
                self.client = Some(client);
                return (Reach::Answers(api), nodes);
            }
            Ok(Err(Failed(why))) => why,
            Err(_) => late(),
        };
        // Its connection may lead to a node that is gone.
        self.client = None;
        (Reach::Silent(why), Vec::new())
    }

    async fn look_etcd(&mut self, nodes: &[Node]) -> Reach<Vec<Member>> {
        let seats = self.seats(nodes);
        if self.etcd.as_ref().is_none_or(|(known, _)| *known != seats) {
            let own = self.host.node.as_deref().unwrap_or(&self.host.name);
            match Etcd::new(&seats, own, &self.tls()) {
                Ok(etcd) => self.etcd = Some((seats, etcd)),
                Err(Failed(why)) => return Reach::Silent(why),
            }
        }
        match &self.etcd {
            Some((_, etcd)) => etcd.look().await,
            None => Reach::Silent("it is not known yet".into()),
        }
    }

    /// Members call one another by names, which may not be known where we run: we call their nodes' addresses.
    fn seats(&self, nodes: &[Node]) -> Vec<Seat> {
        let (peer, client) = (self.plan.ports["etcd-peer"], self.plan.ports["etcd-client"]);
        let domain = &self.plan.cluster.domain;
        let masters = self.plan.with_role(Role::Master);
        let seat = |host: &plan::cluster::HostPlan| {
            let name = host.node.clone()?;
            let node = nodes.iter().find(|node| node.name_any() == name);
            let address = match node.and_then(address) {
                Some(IpAddr::V4(ip)) => Some(ip.to_string()),
                Some(IpAddr::V6(ip)) => Some(format!("[{ip}]")),
                None => None,
            };
            Some(Seat {
                peer: format!("https://{name}.{domain}:{peer}"),
                client: address.map(|address| format!("https://{address}:{client}")),
                node: name,
            })
        };
        masters.filter_map(seat).collect()
    }

    fn tls(&self) -> Tls {
        Tls {
            ca: self.dir.certificate("etcd-ca"),
            certificate: self.dir.certificate("etcd-client"),
            key: self.dir.key("etcd-client"),
            // DHCP's addresses are in no certificate; each member tells its id as well.
            name: Some("localhost".into()),
        }
    }

    /// What the new master is made of. It runs the program that the masters have, which need not be this one.
    async fn look_assets(&mut self) -> Result<Reach<()>, Error> {
        if self.made.is_some() {
            return Ok(Reach::Answers(()));
        }
        let sha256 = match tokio::time::timeout(ANSWER, self.program()).await {
            Ok(Ok(sha256)) => sha256,
            Ok(Err(Failed(why))) => return Ok(Reach::Silent(why)),
            Err(_) => return Ok(Reach::Silent(late())),
        };
        let binary = Binary {
            sha256,
            bootstrap_url: None,
        };
        let now = OffsetDateTime::now_utc();
        self.made = self
            .dir
            .replacement(&self.host.name, &self.facts, &binary, now)?;
        Ok(match &self.made {
            Some(_) => Reach::Answers(()),
            None => Reach::Silent("install-config.yaml has no such master".into()),
        })
    }

    /// The checksum of the program in the payload that masters serve.
    async fn program(&self) -> Result<String, Failed> {
        let secret = self.dir.pool_secret(Role::Master.name());
        let list = https(&self.dir)?
            .get(format!("{}/payload", url(&self.plan, "mcs")))
            .bearer_auth(secret.expose())
            .send()
            .await?
            .error_for_status()?;
        let index = Index::parse(&list.bytes().await?)?;
        let program = index.files.into_iter().find(|entry| entry.name == PROGRAM);
        let program =
            program.ok_or_else(|| Failed("the masters' payload has no program".into()))?;
        Ok(program.sha256)
    }
}

fn address(node: &Node) -> Option<IpAddr> {
    let addresses = node.status.as_ref()?.addresses.as_ref()?;
    let mut internal = addresses.iter().filter(|it| it.type_ == "InternalIP");
    internal.find_map(|it| it.address.parse().ok())
}
