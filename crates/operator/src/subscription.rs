//! The controller of BMCEventSubscriptions.

use std::sync::Arc;
use std::time::Duration;

use crd::bmc_event_subscription::{BmcEventSubscriptionStatus, FINALIZER};
use crd::host::OperationalStatus;
use crd::{BareMetalHost, BmcEventSubscription};
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::watcher;
use kube::{Api, Resource, ResourceExt};
use lifecycle::subscription::{Host, Observed, Step, Subscription, next};
use serde_json::{Map, Value, json};
use tracing::{debug, info, warn};

use crate::context::{Context, MANAGER, by_us};
use crate::error::Error;

/// Cares for subscriptions until `stop`.
pub async fn run(context: Arc<Context>, stop: impl Future<Output = ()> + Send + Sync + 'static) {
    Controller::new(
        context.watched::<BmcEventSubscription>(),
        watcher::Config::default(),
    )
    .with_config(Config::default().concurrency(4))
    .graceful_shutdown_on(stop)
    .run(reconcile, on_error, context)
    .for_each(|result| async move {
        if let Err(error) = result {
            debug!(error = model::chain(&error), "subscriptions");
        }
    })
    .await;
}

/// One look at a subscription and what it needs.
struct Look<'a> {
    context: &'a Context,
    object: &'a BmcEventSubscription,
    namespace: String,
    name: String,
    headers: Vec<Map<String, Value>>,
}

async fn reconcile(
    object: Arc<BmcEventSubscription>,
    context: Arc<Context>,
) -> Result<Action, Error> {
    let mut look = Look {
        context: &context,
        object: &object,
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
        headers: Vec::new(),
    };
    let subscription = view(&object);
    let mut seen = look.around().await?;
    // At most twice: what is refused is asked about once more.
    loop {
        let now = Timestamp::now();
        match next(&subscription, &seen, now) {
            Step::AddFinalizer => return look.mark(true).await,
            Step::RemoveFinalizer => return look.mark(false).await,
            Step::Subscribe { node } => match look.subscribe(&node).await? {
                Ok(action) => return Ok(action),
                Err(why) => seen.refused = Some(why),
            },
            Step::Unsubscribe { node, id } => match look.unsubscribe(&node, &id).await? {
                Ok(action) => return Ok(action),
                Err(why) => seen.refused = Some(why),
            },
            Step::SaveError(why) => {
                warn!(subscription = look.name, why, "a subscription");
                let id = Some(subscription.id).filter(|id| !id.is_empty());
                return look.save(id, Some(why)).await;
            }
            Step::Wait { reason, until } => {
                let pause = Duration::try_from(until.duration_since(now)).unwrap_or_default();
                debug!(subscription = look.name, reason, ?pause, "waits for");
                return Ok(Action::requeue(pause));
            }
            Step::Done => return Ok(Action::await_change()),
        }
    }
}

fn view(object: &BmcEventSubscription) -> Subscription {
    let status = object.status.clone().unwrap_or_default();
    Subscription {
        deleting: object.meta().deletion_timestamp.is_some(),
        finalizer: object.finalizers().iter().any(|f| f == FINALIZER),
        id: status.subscription_id.unwrap_or_default(),
        error: status.error.unwrap_or_default(),
        host: object.spec.host_name.clone(),
    }
}

impl Look<'_> {
    async fn around(&mut self) -> Result<Observed, Error> {
        let name = &self.object.spec.host_name;
        let host = match self.context.cache.get(&self.namespace, name) {
            None => Host::Missing,
            Some(host) => of(&host),
        };
        let headers = match self.read_headers().await? {
            Ok(headers) => {
                self.headers = headers;
                Ok(())
            }
            Err(why) => Err(why),
        };
        Ok(Observed {
            host,
            ironic_ready: self.context.ironic.ready().await.is_some(),
            headers,
            refused: None,
        })
    }

    /// The headers that its Secret has, or why they cannot be used.
    async fn read_headers(&self) -> Result<Result<Vec<Map<String, Value>>, String>, Error> {
        let reference = self.object.spec.http_headers_ref.as_ref();
        let Some(name) = reference.and_then(|reference| reference.name.as_ref()) else {
            return Ok(Ok(Vec::new()));
        };
        let elsewhere = reference.and_then(|reference| reference.namespace.as_ref());
        if elsewhere.is_some_and(|there| !there.is_empty() && *there != self.namespace) {
            let why = format!("the Secret {name:?} must be in the subscription's namespace");
            return Ok(Err(why));
        }
        let secrets: Api<Secret> = self.context.in_namespace(&self.namespace);
        let found = secrets.get_opt(name).await;
        let Some(secret) = found.map_err(Error::kube("read the Secret", name))? else {
            return Ok(Err(format!("the Secret {name:?} does not exist")));
        };
        let headers = secret
            .data
            .unwrap_or_default()
            .into_iter()
            .map(|(key, value)| {
                let value = String::from_utf8_lossy(&value.0).into_owned();
                Map::from_iter([(key, value.into())])
            });
        Ok(Ok(headers.collect()))
    }

    /// Made, or why not.
    async fn subscribe(&self, node: &str) -> Result<Result<Action, String>, Error> {
        let Some(ironic) = self.context.ironic.ready().await else {
            return Ok(Err("Ironic is not ready".to_owned()));
        };
        let spec = &self.object.spec;
        let context = spec.context.as_deref().unwrap_or_default();
        let made = ironic
            .subscribe(node, &spec.destination, context, &self.headers)
            .await;
        let id = match made {
            Ok(id) => id,
            Err(error) => return Ok(Err(model::chain(&error))),
        };
        info!(
            subscription = self.name,
            host = spec.host_name,
            id,
            "subscribed to the BMC's events"
        );
        self.save(Some(id), None).await.map(Ok)
    }

    async fn unsubscribe(&self, node: &str, id: &str) -> Result<Result<Action, String>, Error> {
        let Some(ironic) = self.context.ironic.ready().await else {
            return Ok(Err("Ironic is not ready".to_owned()));
        };
        if let Err(error) = ironic.unsubscribe(node, id).await {
            return Ok(Err(model::chain(&error)));
        }
        self.mark(false).await.map(Ok)
    }

    async fn save(&self, id: Option<String>, error: Option<String>) -> Result<Action, Error> {
        let mut changed = self.object.clone();
        changed.status = Some(BmcEventSubscriptionStatus {
            subscription_id: id,
            error,
        });
        changed.metadata.managed_fields = None;
        self.api()
            .replace_status(&self.name, &by_us(), &changed)
            .await
            .map_err(Error::kube(
                "write the status of the subscription",
                &self.name,
            ))?;
        Ok(Action::await_change())
    }

    /// With our finalizer, or without.
    async fn mark(&self, ours: bool) -> Result<Action, Error> {
        let mut finalizers = self.object.finalizers().to_vec();
        finalizers.retain(|finalizer| finalizer != FINALIZER);
        if ours {
            finalizers.push(FINALIZER.to_owned());
        }
        let patch = json!({"metadata": {
            "resourceVersion": self.object.resource_version(), "finalizers": finalizers,
        }});
        self.api()
            .patch(
                &self.name,
                &PatchParams::apply(MANAGER),
                &Patch::Merge(patch),
            )
            .await
            .map_err(Error::kube("mark the subscription", &self.name))?;
        Ok(Action::await_change())
    }

    fn api(&self) -> Api<BmcEventSubscription> {
        self.context.in_namespace(&self.namespace)
    }
}

fn of(host: &BareMetalHost) -> Host {
    let status = host.status.clone().unwrap_or_default();
    let detached = status.operational_status == OperationalStatus::Detached;
    if detached || status.provisioning.id.is_empty() {
        return Host::Unregistered;
    }
    Host::Registered {
        node: status.provisioning.id,
    }
}

fn on_error(object: Arc<BmcEventSubscription>, error: &Error, _: Arc<Context>) -> Action {
    if error.is_conflict() {
        return Action::requeue(Duration::from_millis(200));
    }
    warn!(
        subscription = object.name_any(),
        error = model::chain(error),
        "a subscription could not be cared for"
    );
    Action::requeue(Duration::from_secs(5))
}
