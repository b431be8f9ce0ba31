//! The way to Ironic, found again whenever it is lost.

use std::time::Duration;

use clients::ironic::{Config, Ironic};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tracing::{debug, info};

/// For so long an Ironic that was ready is taken to be.
const FRESH: Duration = Duration::from_secs(5);
/// For so long one that was not ready is taken not to be: many may ask at once.
const STALE: Duration = Duration::from_millis(500);

/// One for all controllers.
pub struct Link {
    config: Config,
    known: Mutex<Known>,
}

enum Known {
    Ready {
        ironic: Ironic,
        at: Instant,
    },
    Away {
        since: Instant,
        /// When it was last looked for.
        tried: Option<Instant>,
    },
}

impl Known {
    fn away() -> Self {
        Self::Away {
            since: Instant::now(),
            tried: None,
        }
    }
}

impl Link {
    pub fn new(config: Config) -> Self {
        Self {
            config,
            known: Mutex::new(Known::away()),
        }
    }

    /// Ironic, if it can be worked with: it answers, and a conductor is alive.
    pub async fn ready(&self) -> Option<Ironic> {
        let mut known = self.known.lock().await;
        let away = match &*known {
            Known::Ready { ironic, at } if at.elapsed() < FRESH => return Some(ironic.clone()),
            Known::Away {
                tried: Some(tried), ..
            } if tried.elapsed() < STALE => return None,
            Known::Ready { .. } => None,
            Known::Away { since, .. } => Some(*since),
        };
        let Some(ironic) = self.look().await else {
            let now = Instant::now();
            *known = Known::Away {
                since: away.unwrap_or(now),
                tried: Some(now),
            };
            return None;
        };
        if away.is_some() {
            info!(
                address = self.config.address,
                version = ironic.version(),
                "Ironic is ready"
            );
        }
        *known = Known::Ready {
            ironic: ironic.clone(),
            at: Instant::now(),
        };
        Some(ironic)
    }

    async fn look(&self) -> Option<Ironic> {
        let ironic = match Ironic::connect(self.config.clone()).await {
            Ok(ironic) => ironic,
            Err(error) => {
                debug!(error = model::chain(&error), "Ironic is not there");
                return None;
            }
        };
        match ironic.drivers().await {
            Ok(drivers) if drivers.is_empty() => {
                debug!("Ironic has no conductor yet");
                None
            }
            Ok(_) => Some(ironic),
            Err(error) => {
                debug!(
                    error = model::chain(&error),
                    "Ironic cannot say what it drives"
                );
                None
            }
        }
    }

    /// For how long it has not been ready; no time at all while it is.
    pub async fn away(&self) -> Duration {
        match &*self.known.lock().await {
            Known::Ready { .. } => Duration::ZERO,
            Known::Away { since, .. } => since.elapsed(),
        }
    }

    /// It did not answer: ask from the beginning.
    pub async fn lost(&self) {
        let mut known = self.known.lock().await;
        if let Known::Ready { .. } = &*known {
            *known = Known::away();
        }
    }
}
