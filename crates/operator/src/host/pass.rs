//! One pass over a host: ask what is next, find out what is missing, do one thing.

use std::time::Duration;

use clients::ironic::Ironic;
use crd::BareMetalHost;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use lifecycle::host::{Action, Event, Host, Observed, Step, Trouble, next, troubled};
use tracing::{debug, info};

use super::deploy_data::DeployData;
use super::secret::Login;
use crate::context::{Context, News};
use crate::error::Error;
use crate::metrics;

/// Questions within one pass; each is asked once, so there is an end anyway.
const QUESTIONS: usize = 64;

/// All that is known during a pass. Nothing of it outlives the pass.
pub struct Pass<'a> {
    pub context: &'a Context,
    /// The object as last read or written.
    pub object: BareMetalHost,
    pub host: Host,
    pub seen: Observed,
    pub ironic: Option<Ironic>,
    pub login: Option<Login>,
    pub deploy_data: Option<DeployData>,
    /// Something that belongs to the host was written, so that stores are behind.
    pub wrote_belongings: bool,
    /// It was let go of: there is nothing more to do.
    pub released: bool,
}

pub enum Outcome {
    /// Something was done: look again.
    Again,
    After(Duration),
    /// Until somebody changes the object.
    Never,
}

impl Pass<'_> {
    pub async fn run(&mut self) -> Result<Outcome, Error> {
        for _ in 0..QUESTIONS {
            let now = Timestamp::now();
            match next(&self.host, &self.seen, &self.context.config.host, now) {
                Step::Look(look) => {
                    if !self.look(look).await? {
                        return Ok(Outcome::After(self.context.config.host.pace.not_ready));
                    }
                }
                Step::Do { actions, events } => {
                    if let Some(outcome) = self.perform(&actions, &events).await {
                        return Ok(outcome);
                    }
                }
                Step::Wait { reason, until } => return Ok(self.wait(&reason, until, now)),
                Step::Done => return Ok(Outcome::Never),
            }
        }
        Ok(Outcome::After(Duration::from_secs(1)))
    }

    /// Nothing where another way is to be tried at once.
    async fn perform(&mut self, actions: &[Action], events: &[Event]) -> Option<Outcome> {
        for action in actions {
            let Err(trouble) = self.act(action).await else {
                continue;
            };
            if soft_power_refused(action, &trouble) {
                self.seen.soft_power_refused = true;
                return None;
            }
            let trouble = self.or_overtaken(action, trouble).await;
            return Some(self.mend(action, &trouble).await);
        }
        self.publish(events).await;
        if self.released {
            return Some(Outcome::Never);
        }
        Some(Outcome::Again)
    }

    /// A second look at the node that an action was refused for.
    async fn or_overtaken(&self, action: &Action, trouble: Trouble) -> Trouble {
        let refused = action.is_ironic() && matches!(trouble, Trouble::Refused { .. });
        let (true, Some(ironic), Some(Some(seen))) = (refused, &self.ironic, &self.seen.node)
        else {
            return trouble;
        };
        match ironic.find_node(&seen.uuid).await {
            Ok(Some(node)) => trouble.or_overtaken(seen.provision_state, &node.provision_state),
            Ok(None) | Err(_) => trouble,
        }
    }

    /// What comes of an action that did not go well.
    async fn mend(&mut self, action: &Action, trouble: &Trouble) -> Outcome {
        let now = Timestamp::now();
        debug!(host = self.name(), ?trouble, "a step did not go well");
        if action.is_ironic() && matches!(trouble, Trouble::Unreachable { .. }) {
            self.context.ironic.lost().await;
        }
        let config = &self.context.config.host;
        match troubled(&self.host, &self.seen, config, now, action, trouble) {
            Step::Do { actions, events } => {
                for action in &actions {
                    if let Err(trouble) = self.act(action).await {
                        debug!(host = self.name(), ?trouble, "nor did its record");
                        return Outcome::After(config.pace.short);
                    }
                }
                self.publish(&events).await;
                Outcome::Again
            }
            Step::Wait { reason, until } => self.wait(&reason, until, now),
            Step::Look(_) | Step::Done => Outcome::After(config.pace.short),
        }
    }

    fn wait(&self, reason: &str, until: Timestamp, now: Timestamp) -> Outcome {
        let pause = until.duration_since(now);
        let pause = Duration::try_from(pause).unwrap_or_default();
        debug!(host = self.name(), reason, ?pause, "waits for");
        Outcome::After(pause.max(Duration::from_millis(100)))
    }

    async fn publish(&self, events: &[Event]) {
        if events.is_empty() {
            return;
        }
        let about = self.object.object_ref(&());
        for event in events {
            info!(
                host = self.name(),
                state = %self.host.status.state(),
                reason = event.reason,
                note = event.note,
                "host"
            );
            let news = News {
                warning: event.warning,
                reason: event.reason,
                note: &event.note,
                related: self.consumer(),
            };
            self.context.tell(&about, news).await;
        }
    }

    fn consumer(&self) -> Option<ObjectReference> {
        self.object.spec.consumer_ref.clone()
    }

    /// Whose numbers are counted.
    pub fn about(&self) -> metrics::Host<'_> {
        metrics::Host {
            namespace: &self.host.namespace,
            name: &self.host.name,
        }
    }

    pub fn name(&self) -> String {
        format!("{}/{}", self.host.namespace, self.host.name)
    }
}

/// A BMC that cannot ask the system to shut down.
fn soft_power_refused(action: &Action, trouble: &Trouble) -> bool {
    matches!(action, Action::Power { power, .. } if power.is_soft())
        && matches!(trouble, Trouble::Refused { .. })
}
