//! The site the lab stands in: the DHCP and DNS of an organisation's network, which is not Plinth's own.
//!
//! ```text
//!   bridge ── UDP 67 ──▶ services::dhcp
//!     │                   ▼ reports
//!     │                 book                who has which address, and is called what
//!     │                   ▲
//!     └──── UDP, TCP 53 ▶ dns ──▶ upstream, if there is one
//! ```

mod book;
mod dns;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use protocols::dhcp::server::{Config as DhcpConfig, Lease};
use protocols::dns::{Data, NameError};
use services::dhcp;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{error, warn};

use self::book::Book;

/// What the site offers on one link.
#[derive(Debug, Clone)]
pub struct Config {
    /// The bridge, with the router's address on it.
    pub link: String,
    pub dhcp: DhcpConfig,
    pub dns: DnsConfig,
    /// The file that leases are kept in.
    pub leases: PathBuf,
}

/// The site's names.
#[derive(Debug, Clone)]
pub struct DnsConfig {
    /// Where it answers: the router's address.
    pub address: Ipv4Addr,
    /// Leases are `<hostname>.<domain>`.
    pub domain: String,
    /// Names that are always there, such as `api.<cluster>.<domain>`; absolute, in the domain.
    pub records: Vec<(String, Data)>,
    /// Asked for all other names.
    pub upstreams: Vec<SocketAddr>,
}

/// Why a site cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not start the site's DHCP")]
    Dhcp(#[from] dhcp::Error),
    #[error("a name of the site cannot be used")]
    Name(#[source] NameError),
    #[error("could not listen on {what}")]
    Listen {
        what: String,
        source: std::io::Error,
    },
}

/// The running site. Stops when dropped; [`Site::stop`] also waits for it.
#[derive(Debug)]
pub struct Site {
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
    book: Book,
}

/// What is left undone after this long is left.
const STOP_WITHIN: Duration = Duration::from_secs(5);

impl Site {
    /// Opens sockets and the file of leases in the caller's network namespace, and starts to answer.
    pub async fn start(config: Config) -> Result<Self, Error> {
        let book = Book::open(&config)?;
        let dns = dns::Shell::bind(&config.dns, book.clone()).await?;
        let dhcp = dhcp::Shell::bind(dhcp::Config {
            link: config.link.clone(),
            dhcp: config.dhcp,
            leases: config.leases,
        })
        .await?;
        for lease in dhcp.leases() {
            book.leased(&lease);
        }
        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        let link = config.link;
        tasks.spawn({
            let (stopped, book) = (stopped.clone(), book.clone());
            async move {
                let served = dhcp.run(stopped, move |report| book.told(&report));
                if let Err(error) = served.await {
                    error!(link, error = %model::chain(&error), "the site's DHCP ended");
                }
            }
        });
        tasks.spawn(dns.run(stopped));
        Ok(Self { stop, tasks, book })
    }

    /// Leases that hold, by address.
    pub fn leases(&self) -> Vec<Lease> {
        self.book.leases()
    }

    /// Stops answering and waits until every lease promised is on disk.
    pub async fn stop(mut self) {
        let _ = self.stop.send(true);
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(STOP_WITHIN, all).await.is_err() {
            warn!("the site did not stop in time");
        }
    }
}
