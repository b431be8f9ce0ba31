//! The way to Ironic, found again whenever it is lost.

use std::time::Duration;

use clients::ironic::{Config, Ironic};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tracing::{debug, info};

/// For so long an Ironic that was ready is taken to be.
const FRESH: Duration = Duration::from_secs(5);

/// One for all controllers.
pub struct Link {
    config: Config,
    found: Mutex<Option<Found>>,
}

struct Found {
    ironic: Ironic,
    at: Instant,
}

impl Link {
    pub fn new(config: Config) -> Self {
        Self {
            config,
            found: Mutex::new(None),
        }
    }

    /// Ironic, if it can be worked with: it answers, and a conductor is alive.
    pub async fn ready(&self) -> Option<Ironic> {
        let mut found = self.found.lock().await;
        if let Some(found) = found.as_ref()
            && found.at.elapsed() < FRESH
        {
            return Some(found.ironic.clone());
        }
        let lost = found.take().is_none();
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
                return None;
            }
            Ok(_) => {}
            Err(error) => {
                debug!(
                    error = model::chain(&error),
                    "Ironic cannot say what it drives"
                );
                return None;
            }
        }
        if lost {
            info!(
                address = self.config.address,
                version = ironic.version(),
                "Ironic is ready"
            );
        }
        *found = Some(Found {
            ironic: ironic.clone(),
            at: Instant::now(),
        });
        Some(ironic)
    }

    /// It did not answer: ask from the beginning.
    pub async fn lost(&self) {
        *self.found.lock().await = None;
    }
}
