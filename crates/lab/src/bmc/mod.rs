//! The BMC of a lab server: it has power when the server has none, and does as its maker's would.
//!
//! ```text
//!   client ──TLS──▶ redfish ──Event──▶ Server (the chassis decides)
//!                     │  ◀───view────
//!                     ├─ media: fetches an image ──▶ Event::Insert
//!                     ├─ tasks, events: what outlives a request
//!                     └─ personality: the habits of a vendor, as data
//! ```
//!
//! What the BMC keeps for itself (sessions, tasks, subscriptions, its clock) is here; what the server is and
//! does is the chassis'.

pub mod ipmi;
pub mod media;
pub mod personality;
pub mod redfish;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use model::{Mac, Secret};
use tokio::task::JoinSet;

pub use personality::Personality;

use crate::server::Server;
use redfish::events::Subscriptions;
use redfish::sessions::Sessions;
use redfish::tasks::Tasks;

/// What a BMC is made of.
#[derive(Debug)]
pub struct Config {
    pub server: Server,
    pub personality: &'static Personality,
    pub user: String,
    pub password: Secret<String>,
    pub mac: Mac,
    pub addresses: Vec<IpAddr>,
    /// Where images are kept while they are inserted. It exists, and no one else uses it.
    pub media_dir: PathBuf,
    pub media_limits: media::Limits,
    /// What it fetches with.
    pub clients: media::Clients,
    /// Whether the vendor's licence is installed.
    pub licensed: bool,
    /// How long the BMC is away when it is reset.
    pub restart: Duration,
}

/// One BMC. Shared by everything that serves it; holds no task but those it must finish.
#[derive(Debug)]
pub struct Bmc {
    pub(crate) server: Server,
    pub(crate) personality: &'static Personality,
    pub(crate) credentials: Credentials,
    mac: Mac,
    addresses: Vec<IpAddr>,
    restart: Duration,
    licensed: bool,
    fetcher: media::Fetcher,
    /// Held while the virtual drive changes.
    drive: tokio::sync::Mutex<()>,
    sessions: Mutex<Sessions>,
    tasks: Mutex<Tasks>,
    subscriptions: Mutex<Subscriptions>,
    memory: Mutex<Memory>,
    /// Work that outlives the request that began it.
    work: Mutex<JoinSet<()>>,
}

/// Who may come in.
#[derive(Debug)]
pub struct Credentials {
    pub user: String,
    pub password: Secret<String>,
}

/// What the BMC remembers, beside what the chassis does.
#[derive(Debug)]
struct Memory {
    asset_tag: String,
    indicator: String,
    clock_ahead: SignedDuration,
    versions: BTreeMap<&'static str, String>,
    verify_certificate: bool,
    media_user: Option<String>,
    secure_boot_mode: &'static str,
    bios_change: BiosChange,
    away_until: Option<Instant>,
}

/// The last change of BIOS attributes that went through Redfish.
#[derive(Debug)]
enum BiosChange {
    Never,
    /// Waits for a boot after this many.
    Pending {
        boots: u64,
    },
    Applied {
        at: Timestamp,
    },
}

/// The parts whose firmware can be updated.
pub(crate) const COMPONENTS: [&str; 2] = ["BIOS", "BMC"];

impl Bmc {
    pub fn new(config: Config) -> Arc<Self> {
        let p = config.personality;
        Arc::new(Self {
            server: config.server,
            personality: p,
            credentials: Credentials {
                user: config.user,
                password: config.password,
            },
            mac: config.mac,
            addresses: config.addresses,
            restart: config.restart,
            licensed: config.licensed,
            fetcher: media::Fetcher::new(config.media_dir, config.media_limits, config.clients),
            drive: tokio::sync::Mutex::default(),
            sessions: Mutex::new(Sessions::new(p.max_sessions)),
            tasks: Mutex::default(),
            subscriptions: Mutex::default(),
            memory: Mutex::new(Memory {
                asset_tag: String::new(),
                indicator: "Off".into(),
                clock_ahead: SignedDuration::ZERO,
                versions: [
                    (COMPONENTS[0], p.bios_version.into()),
                    (COMPONENTS[1], p.bmc_version.into()),
                ]
                .into(),
                verify_certificate: false,
                media_user: None,
                secure_boot_mode: "UserMode",
                bios_change: BiosChange::Never,
                away_until: None,
            }),
            work: Mutex::default(),
        })
    }

    pub fn server(&self) -> &Server {
        &self.server
    }

    pub fn personality(&self) -> &'static Personality {
        self.personality
    }

    /// The BMC's own clock, which clients may set.
    pub(crate) fn now(&self) -> Timestamp {
        let ahead = self.memory().clock_ahead;
        Timestamp::now()
            .saturating_add(ahead)
            .unwrap_or(Timestamp::MAX)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        lock(&self.memory)
    }

    /// Starts work that outlives its request. It ends with the BMC at the latest.
    fn begin(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut all = lock(&self.work);
        while all.try_join_next().is_some() {}
        all.spawn(work);
    }

    /// Gives up whatever still runs. For the end of the lab.
    pub fn abandon_work(&self) {
        lock(&self.work).abort_all();
    }
}

impl Credentials {
    /// Takes as long for a wrong password as for the right one.
    pub fn admit(&self, user: &str, password: &str) -> bool {
        let user = same(user.as_bytes(), self.user.as_bytes());
        let password = same(password.as_bytes(), self.password.expose().as_bytes());
        user & password
    }
}

/// Compares in a time that depends on the length of `given` alone.
pub(crate) fn same(given: &[u8], kept: &[u8]) -> bool {
    let mut differs = u8::from(given.len() != kept.len());
    for (i, byte) in given.iter().enumerate() {
        let other = if kept.is_empty() {
            0
        } else {
            kept[i % kept.len()]
        };
        differs |= std::hint::black_box(byte ^ other);
    }
    std::hint::black_box(differs) == 0
}

/// Locks; a panic elsewhere while holding it has left nothing half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_very_same_bytes_are_the_same() {
        assert!(same(b"secret", b"secret"));
        for other in [&b"secre"[..], b"secret2", b"Secret", b"secretsecret", b""] {
            assert!(!same(other, b"secret"), "{other:?}");
        }
        assert!(same(b"", b""));
    }
}
