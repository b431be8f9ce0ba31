//! Asks a cluster how it is, all at once and with patience that ends.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ::plan::cluster::Plan;
use anyhow::{Context, Result};
use clap::Args;
use installer::Dir;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;

use super::cluster::{Cluster, Heard, SILENT, VipHeard, is_complete};
use crate::plan::facts;

/// For one answer.
const ANSWER: Duration = Duration::from_secs(5);
/// On one network it takes far less.
const GREETING: Duration = Duration::from_millis(500);
const BOOTSTRAP: &str = "/api/v1/namespaces/kube-system/configmaps/bootstrap";
const METAL3: &str = "openshift-machine-api";

/// Which cluster.
#[derive(Args, Clone)]
pub struct At {
    /// The cluster's install directory
    #[arg(long, default_value = ".", conflicts_with = "kubeconfig")]
    dir: PathBuf,
    /// The cluster's kubeconfig, where its install directory is not
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// A cluster, and the way to its API.
pub struct Site {
    pub plan: Option<Plan>,
    pub client: Client,
    pub url: String,
    /// Who we are there; for clients of its nodes.
    pub config: kube::Config,
}

impl At {
    /// What the install planned; nothing where there is only a kubeconfig.
    pub fn plan(&self) -> Result<Option<Plan>> {
        if self.kubeconfig.is_some() {
            return Ok(None);
        }
        let dir = Dir::new(&self.dir);
        let (plan, _) = dir.plan(&facts(&dir.text()?))?;
        Ok(Some(plan))
    }

    /// Nothing is asked yet.
    pub async fn open(&self, plan: Option<Plan>) -> Result<Site> {
        let kubeconfig = match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path)
                .with_context(|| format!("read the kubeconfig {}", path.display()))?,
            None => Kubeconfig::from_yaml(&Dir::new(&self.dir).kubeconfig()?)
                .context("read the install's kubeconfig")?,
        };
        let options = KubeConfigOptions::default();
        let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .context("make sense of the kubeconfig")?;
        // By its virtual address: the name may not be known where we run.
        if let Some((plan, vip)) = plan
            .as_ref()
            .filter(|_| self.kubeconfig.is_none())
            .and_then(|plan| Some((plan, *plan.api_vips().first()?)))
        {
            config.tls_server_name = config.cluster_url.host().map(str::to_owned);
            let port = plan.ports["api"];
            config.cluster_url = format!("https://{}", SocketAddr::new(vip, port))
                .parse()
                .context("make sense of the API's address")?;
        }
        config.connect_timeout = Some(ANSWER);
        config.read_timeout = Some(ANSWER);
        config.reset_reader_on_write = true;
        let url = config
            .cluster_url
            .to_string()
            .trim_end_matches('/')
            .to_owned();
        let client = Client::try_from(config.clone()).context("set up the client")?;
        Ok(Site {
            plan,
            client,
            url,
            config,
        })
    }
}

impl Site {
    /// The cluster says that it does without its bootstrap.
    pub async fn is_complete(&self) -> bool {
        let map = self.get_or_nothing(BOOTSTRAP).await;
        map.is_ok_and(|map| is_complete(&map))
    }

    pub async fn look(&self) -> Cluster {
        let machines = "/apis/machine.openshift.io/v1beta1";
        let lease = format!("/apis/coordination.k8s.io/v1/namespaces/{METAL3}/leases/metal3");
        let (machines_path, sets_path) = (
            format!("{machines}/machines"),
            format!("{machines}/machinesets"),
        );
        let (version, bootstrap, lease, nodes, machines, machine_sets, hosts) = tokio::join!(
            self.get("/version"),
            self.get_or_nothing(BOOTSTRAP),
            self.get_or_nothing(&lease),
            self.list("/api/v1/nodes"),
            self.list(&machines_path),
            self.list(&sets_path),
            self.list("/apis/metal3.io/v1alpha1/baremetalhosts"),
        );
        let vips = self.vips(nodes.as_deref().unwrap_or_default()).await;
        Cluster::new(&Heard {
            name: self.plan.as_ref().map(|plan| plan.cluster.name.clone()),
            url: self.url.clone(),
            version,
            bootstrap,
            lease,
            nodes,
            machines,
            machine_sets,
            hosts,
            vips,
        })
    }

    /// A document of the API.
    pub async fn get(&self, path: &str) -> Result<Value, String> {
        match self.ask(path).await {
            Ok(answer) => answer.map_err(|error| silent_or_refused(&error)),
            Err(late) => Err(late),
        }
    }

    /// As [`Self::get`]; what is not there is null.
    async fn get_or_nothing(&self, path: &str) -> Result<Value, String> {
        match self.ask(path).await? {
            Ok(answer) => Ok(answer),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Value::Null),
            Err(error) => Err(silent_or_refused(&error)),
        }
    }

    /// The items of a list; a kind that is not there has none.
    async fn list(&self, path: &str) -> Result<Vec<Value>, String> {
        let answer = self.get_or_nothing(path).await?;
        Ok(answer["items"].as_array().cloned().unwrap_or_default())
    }

    async fn ask(&self, path: &str) -> Result<Result<Value, kube::Error>, String> {
        let request = http::Request::get(path)
            .body(Vec::new())
            .map_err(|error| error.to_string())?;
        tokio::time::timeout(ANSWER, self.client.request::<Value>(request))
            .await
            .map_err(|_| format!("{SILENT} within {} s", ANSWER.as_secs()))
    }

    async fn vips(&self, nodes: &[Value]) -> Vec<VipHeard> {
        let Some(plan) = &self.plan else {
            return Vec::new();
        };
        let api = plan.ports["api"];
        greet(nodes, api).await;
        let api = plan
            .api_vips()
            .into_iter()
            .map(|address| ("api", address, api));
        let ingress = plan
            .ingress_vips()
            .into_iter()
            .map(|address| ("ingress", address, 443));
        let probes = api
            .chain(ingress)
            .map(|(purpose, address, port)| async move {
                let answer = connect(SocketAddr::new(address, port)).await;
                let table = tokio::fs::read_to_string("/proc/net/arp")
                    .await
                    .unwrap_or_default();
                let mac = mac_of(&table, address);
                VipHeard {
                    purpose: purpose.to_owned(),
                    address: address.to_string(),
                    answer,
                    beside: mac.as_ref().map_or(Vec::new(), |mac| beside(&table, mac)),
                    mac,
                }
            });
        futures::future::join_all(probes).await
    }
}

fn silent_or_refused(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(_) => model::chain(error),
        other => format!("{SILENT}: {}", model::chain(other)),
    }
}

async fn connect(address: SocketAddr) -> Result<u128, String> {
    let begun = Instant::now();
    match tokio::time::timeout(ANSWER, tokio::net::TcpStream::connect(address)).await {
        Ok(Ok(_)) => Ok(begun.elapsed().as_millis()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("{SILENT} within {} s", ANSWER.as_secs())),
    }
}

/// Has the kernel learn where the nodes are; whether anyone answers does not matter.
async fn greet(nodes: &[Value], port: u16) {
    let addresses = nodes.iter().filter_map(|node| {
        let all = node["status"]["addresses"].as_array()?;
        let own = all.iter().find(|address| address["type"] == "InternalIP")?;
        own["address"].as_str()?.parse::<IpAddr>().ok()
    });
    let greetings = addresses.map(|address| async move {
        let greeting = tokio::net::TcpStream::connect(SocketAddr::new(address, port));
        _ = tokio::time::timeout(GREETING, greeting).await;
    });
    futures::future::join_all(greetings).await;
}

/// The addresses that are at this MAC.
pub fn beside(table: &str, mac: &str) -> Vec<String> {
    let rows = table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let same = rows.filter(|row| {
        row.get(3)
            .is_some_and(|seen| seen.eq_ignore_ascii_case(mac))
    });
    same.map(|row| row[0].to_owned()).collect()
}

/// From the kernel's table of neighbours (proc(5), /proc/net/arp); IPv6 has none there.
fn mac_of(table: &str, address: IpAddr) -> Option<String> {
    let address = address.to_string();
    let mut rows = table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let row = rows.find(|row| row.first() == Some(&address.as_str()))?;
    let mac: model::Mac = row.get(3)?.parse().ok()?;
    let mac = mac.to_string();
    (mac != "00:00:00:00:00:00").then_some(mac)
}

/// For those who know it already: a kubeconfig is another way to the cluster of the directory.
pub fn at(dir: &Path, kubeconfig: Option<&Path>) -> At {
    At {
        dir: dir.to_owned(),
        kubeconfig: kubeconfig.map(Path::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_neighbour_is_found_by_its_address() {
        let table = "IP address       HW type     Flags       HW address            Mask     Device\n192.0.2.5        0x1         0x2         52:54:00:aa:bb:cc     *        br0\n192.0.2.6        0x1         0x0         00:00:00:00:00:00     *        br0\nshort\n";
        let of = |text: &str| mac_of(table, text.parse().unwrap());
        assert_eq!(of("192.0.2.5").as_deref(), Some("52:54:00:aa:bb:cc"));
        assert_eq!(of("192.0.2.6"), None);
        assert_eq!(of("192.0.2.7"), None);
        assert_eq!(mac_of("", "192.0.2.5".parse().unwrap()), None);
        assert_eq!(beside(table, "52:54:00:AA:bb:cc"), ["192.0.2.5"]);
    }
}
