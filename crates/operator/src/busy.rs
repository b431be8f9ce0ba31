//! Nodes at work, asked for once for many hosts.

use std::collections::BTreeSet;
use std::time::Duration;

use clients::ironic::{Error, Ironic};
use lifecycle::host::busy;
use lifecycle::node::State;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// For so long an answer is good. With a thousand hosts every question is a list of a thousand nodes.
const FRESH: Duration = Duration::from_millis(500);

/// One for all hosts.
#[derive(Default)]
pub struct Busy {
    seen: Mutex<Option<Seen>>,
}

struct Seen {
    at: Instant,
    names: BTreeSet<String>,
}

impl Busy {
    /// Names of the nodes that work. While there are fewer than `limit`, whoever asks is taken to begin, and counted at
    /// once: others must not begin on the strength of the same gap.
    pub async fn ask(
        &self,
        ironic: &Ironic,
        own: &str,
        limit: usize,
    ) -> Result<Vec<String>, Error> {
        let mut kept = self.seen.lock().await;
        let seen = match kept.take().filter(|seen| seen.at.elapsed() < FRESH) {
            Some(seen) => kept.insert(seen),
            None => kept.insert(Seen {
                names: read(ironic).await?,
                at: Instant::now(),
            }),
        };
        let names = seen.names.iter().cloned().collect();
        if seen.names.len() < limit {
            seen.names.insert(own.to_owned());
        }
        Ok(names)
    }
}

async fn read(ironic: &Ironic) -> Result<BTreeSet<String>, Error> {
    let all = ironic.briefs().await?;
    let working = all.into_iter().filter(|node| {
        let boot = node.boot_interface.as_deref().unwrap_or_default();
        let state = node.provision_state.parse::<State>();
        state.is_ok_and(|state| busy(state, boot))
    });
    Ok(working.map(|node| node.name.unwrap_or(node.uuid)).collect())
}
