//! `plinth serve`: care for bare metal without a cluster. The API, Ironic and the controllers in one process.
//!
//! ```text
//!   D/kubeconfig ─▶ kubectl ──▶ API (D/registry) ◀── controllers ──▶ Ironic (D/ironic.yaml, D/ironic) ──▶ BMCs
//! ```

mod foreign;
mod keys;
mod ramdisk;

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::apiserver::{Config, Local, Running};
use ::ironic::config::Config as IronicConfig;
use anyhow::{Context, Result, bail};
use clap::Args;
use clients::redfish::Verify;
use crd::CustomResourceDefinition;
use futures::FutureExt;
use kube::api::{Patch, PatchParams};
use kube::runtime::conditions;
use kube::runtime::wait::await_condition;
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tower::service_fn;

use crate::metal3::signals;
use foreign::Foreign;
use keys::Keys;
use ramdisk::Ramdisk;

/// Where hosts live unless told otherwise.
const NAMESPACE: &str = "openshift-machine-api";

#[derive(Args)]
pub struct Serve {
    /// Where everything is kept: objects, keys, the kubeconfig, Ironic's state
    #[arg(long)]
    dir: PathBuf,
    /// Where the API is served
    #[arg(long, default_value = "127.0.0.1:6443")]
    listen: SocketAddr,
    /// A further name or address that clients call the API by
    #[arg(long = "name", value_name = "NAME")]
    names: Vec<String>,
    /// Ironic's configuration [default: ironic.yaml in the directory, made if it is not there]
    #[arg(long, value_name = "FILE")]
    ironic: Option<PathBuf>,
    #[command(flatten)]
    ramdisk: Ramdisk,
    #[command(flatten)]
    foreign: Foreign,
    /// So many hosts boot over the network at once; those that boot from virtual media are not counted
    #[arg(long, value_name = "N", default_value_t = 20)]
    provisioning_limit: usize,
    /// Touch nothing: enrol every host with Ironic's fake driver, whatever its BMC
    #[arg(long)]
    fake_hardware: bool,
}

pub fn run(command: &Serve) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        // They read boot files and images, of which the page cache has most: more would only take memory.
        .max_blocking_threads(64)
        .enable_all()
        .build()
        .context("start the runtime")?;
    runtime.block_on(serve(command))
}

async fn serve(command: &Serve) -> Result<()> {
    let dir = &command.dir;
    std::fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
    let stop = signals()?.boxed().shared();
    let keys = Keys::ensure(dir, &names(command))?;
    // The file of our own Ironic; none where another's is used.
    let (link, ours) = if let Some(link) = command.foreign.link()? {
        (link, None)
    } else {
        let file = ironic_file(command)?;
        (link(&IronicConfig::load(&file)?)?, Some(file))
    };
    let running = Running::start(api_config(command, &keys)).await?;
    keys.write_kubeconfig(dir, &outside(running.address()))?;
    let client = inside(running.local());
    define(&client).await?;
    println!(
        "kubectl --kubeconfig {} get baremetalhosts -A",
        dir.join("kubeconfig").display()
    );
    let mut config = operator::Config::new(link);
    command.ramdisk.tell(&mut config);
    config.fake_hardware = command.fake_hardware;
    config.host.provisioning_limit = command.provisioning_limit;
    let controllers = tokio::spawn(operator::run(client, config, stop.clone()));
    let ironic = async {
        match ours {
            Some(file) => ::ironic::server::run(&file).await.context("serve Ironic"),
            None => std::future::pending().await,
        }
    };
    // Our Ironic has ears for the same signals, and ends with them.
    let served = tokio::select! {
        served = ironic => served,
        () = stop => Ok(()),
    };
    controllers.await.context("run the controllers")?;
    running.stop().await;
    served
}

/// Everything that the API may be called by.
fn names(command: &Serve) -> Vec<String> {
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into();
    if !command.listen.ip().is_unspecified() {
        names.push(command.listen.ip().to_string());
    }
    names.extend(command.names.iter().cloned());
    names.sort();
    names.dedup();
    names
}

fn api_config(command: &Serve, keys: &Keys) -> Config {
    Config {
        listen: command.listen,
        certificate: keys.path("server.crt"),
        key: keys.path("server.key"),
        client_ca: Some(keys.path("ca.crt")),
        store: ::apiserver::config::Store::File(command.dir.join("registry")),
        account_key: keys.path("service-account.key"),
        account_ca: Some(keys.path("ca.crt")),
        issuer: ::apiserver::config::ISSUER.to_owned(),
        signer: Some(::apiserver::config::Signer {
            certificate: keys.path("ca.crt"),
            key: keys.path("ca.key"),
        }),
        tokens: None,
        audit: None,
        namespaces: vec![NAMESPACE.to_owned()],
    }
}

/// The API's address for a client on this machine.
fn outside(listen: SocketAddr) -> String {
    let ip = if listen.ip().is_unspecified() {
        IpAddr::V4(Ipv4Addr::LOCALHOST)
    } else {
        listen.ip()
    };
    format!("https://{}", SocketAddr::new(ip, listen.port()))
}

/// A client without a connection.
fn inside(local: Local) -> Client {
    let service = service_fn(move |request: http::Request<kube::client::Body>| {
        let local = local.clone();
        async move {
            let (parts, body) = request.into_parts();
            // A body that we made ourselves can always be read.
            let body = body.collect_bytes().await.unwrap_or_default();
            let request = http::Request::from_parts(parts, body);
            Ok::<_, Infallible>(local.handle(request).await)
        }
    });
    Client::new(service, NAMESPACE)
}

/// Makes the kinds known, and waits until they are served.
async fn define(client: &Client) -> Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let ours = PatchParams::apply(operator::MANAGER).force();
    for definition in crd::all() {
        let name = definition.name_any();
        api.patch(&name, &ours, &Patch::Apply(json!(definition)))
            .await
            .with_context(|| format!("define {name}"))?;
        let served = await_condition(api.clone(), &name, conditions::is_crd_established());
        tokio::time::timeout(Duration::from_secs(30), served)
            .await
            .with_context(|| format!("{name} is not served after 30 s"))?
            .with_context(|| format!("watch {name}"))?;
    }
    Ok(())
}

/// The configuration that was named, or one for this machine alone.
fn ironic_file(command: &Serve) -> Result<PathBuf> {
    if let Some(path) = &command.ironic {
        return Ok(path.clone());
    }
    let path = command.dir.join("ironic.yaml");
    if !path.exists() {
        let state = command.dir.join("ironic").join("ironic.redb");
        let text = format!(
            "# `plinth ironic example-config` shows what else there is. To boot servers, write the section boot.\n\
             listen: 127.0.0.1:6385\nstate: {}\n",
            json!(state)
        );
        write(&path, &text)?;
    }
    Ok(path)
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

/// How the controllers reach Ironic.
fn link(ironic: &IronicConfig) -> Result<clients::ironic::Config> {
    if ironic.htpasswd.is_some() {
        bail!(
            "Ironic's configuration asks for a login; for `plinth serve` leave auth out and listen on 127.0.0.1"
        );
    }
    let scheme = if ironic.tls.is_some() {
        "https"
    } else {
        "http"
    };
    let port = ironic.listen.port();
    let mut config = clients::ironic::Config::new(&format!("{scheme}://127.0.0.1:{port}"));
    if let Some(tls) = &ironic.tls {
        let pem = std::fs::read(&tls.certificate)
            .with_context(|| format!("read {}", tls.certificate.display()))?;
        config.verify = Verify::Pem(pem);
    }
    Ok(config)
}
