//! Virtual IPs, load balancing and DNS on every node, in one process.
//!
//! ```text
//!   config ── the YAML file, every problem told at once
//!   checks ── is what this node serves well? one task per check, on the caller's runtime
//!      │ which checks pass
//!      ▼
//!   vip ───── one task per virtual address around a `protocols::vrrp::Router`, on a thread of their own
//!             that runs in real time where that is allowed
//!   status ── what a person asks for at 3 a.m.
//! ```

pub mod checks;
pub mod config;
pub mod status;
pub mod vip;

use std::future::Future;
use std::time::Duration;

use tokio::sync::oneshot;

pub use config::Config;
pub use status::Status;

/// Dropping an address and saying goodbye takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not prepare check {name}")]
    PrepareCheck { name: String, source: checks::Error },
    #[error("could not start the thread of the virtual addresses")]
    Spawn { source: std::io::Error },
    #[error("there is no virtual address called {0}")]
    NoSuchVip(String),
    #[error("virtual address {0} has ended")]
    Ended(String),
    #[error("the virtual addresses were not given up within {} s", PATIENCE.as_secs())]
    Stop,
}

/// A running netd. Dropping it gives its addresses up too, but does not wait for that.
#[derive(Debug)]
pub struct Netd {
    checks: checks::Checks,
    vips: Vec<vip::Handle>,
    real_time: status::RealTime,
    done: oneshot::Receiver<()>,
}

/// Serves until `stop` ends, then gives everything up in order.
pub async fn run(config: Config, stop: impl Future<Output = ()>) -> Result<(), Error> {
    let netd = Netd::spawn(config).await?;
    stop.await;
    netd.stop().await
}

impl Netd {
    /// Starts everything, in the network namespace of the calling thread. Needs a tokio runtime, which
    /// runs the checks.
    pub async fn spawn(config: Config) -> Result<Self, Error> {
        let checks = checks::Checks::spawn(config.checks)?;
        let (vips, instances): (Vec<_>, Vec<_>) = config
            .vips
            .iter()
            .map(|vip| vip::Instance::new(vip.clone(), &config.vips, checks.passing()))
            .unzip();
        let (ready, started) = oneshot::channel();
        let (finished, done) = oneshot::channel();
        let real_time = config.real_time;
        std::thread::Builder::new()
            .name("vip".into())
            .spawn(move || vip::thread(instances, real_time, ready, finished))
            .map_err(|source| Error::Spawn { source })?;
        let real_time = match started.await {
            Ok(Ok(real_time)) => real_time,
            Ok(Err(source)) => return Err(Error::Spawn { source }),
            Err(_) => return Err(Error::Stop),
        };
        Ok(Self {
            checks,
            vips,
            real_time,
            done,
        })
    }

    pub fn status(&self) -> Status {
        Status {
            real_time: self.real_time.clone(),
            checks: self.checks.status(),
            vips: self.vips.iter().map(vip::Handle::status).collect(),
        }
    }

    /// The planned move: lets another node have the address, if there is one.
    pub async fn resign(&self, name: &str) -> Result<(), Error> {
        let found = self.vips.iter().find(|vip| vip.name() == name);
        let vip = found.ok_or_else(|| Error::NoSuchVip(name.to_owned()))?;
        vip.resign().await
    }

    /// Gives all addresses up and says so to the other nodes.
    pub async fn stop(self) -> Result<(), Error> {
        drop(self.vips);
        match tokio::time::timeout(PATIENCE, self.done).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::Stop),
        }
    }
}
