//! A way to the API for commands of people: by a kubeconfig, with patience that ends.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};

const CONNECT: Duration = Duration::from_secs(10);
/// For one answer.
pub const ANSWER: Duration = Duration::from_secs(30);

/// Which API, and where in it.
#[derive(Args)]
pub struct Way {
    /// The kubeconfig, such as the one that `plinth serve` writes into its directory [default: $KUBECONFIG, or
    /// ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The namespace of the hosts [default: the kubeconfig's]
    #[arg(short, long)]
    namespace: Option<String>,
}

impl Way {
    /// Where it was said.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Nothing is asked yet.
    pub async fn open(&self) -> Result<Client> {
        let read = match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path)
                .with_context(|| format!("read the kubeconfig {}", path.display()))?,
            None => Kubeconfig::read().context(
                "read the kubeconfig; say which one with --kubeconfig, or set KUBECONFIG",
            )?,
        };
        let mut config = kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default())
            .await
            .context("make sense of the kubeconfig")?;
        config.connect_timeout = Some(CONNECT);
        if let Some(namespace) = &self.namespace {
            config.default_namespace.clone_from(namespace);
        }
        Client::try_from(config).context("set up the client")
    }

    /// Objects of the namespace, or of all.
    pub fn scope<K>(client: &Client, everywhere: bool) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        if everywhere {
            Api::all(client.clone())
        } else {
            Api::default_namespaced(client.clone())
        }
    }
}

/// One answer of the API, in time.
pub async fn answer<T>(
    what: &str,
    asking: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T> {
    match tokio::time::timeout(ANSWER, asking).await {
        Ok(answer) => answer.with_context(|| what.to_owned()),
        Err(_) => bail!("{what}: no answer within {} s", ANSWER.as_secs()),
    }
}
