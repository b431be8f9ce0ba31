//! Which objects a controller has to look at, and when.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::{debug, warn};

use super::Context;
use crate::local::Refusal;
use crate::store::{At, Error, Event, Kv, Page, Store};

/// One kind of care for objects.
pub(super) trait Controller: Send {
    /// For the log.
    const NAME: &'static str;

    /// What it watches.
    fn prefix(&self) -> String;

    /// An object came, changed or went: which ones are to be looked at?
    fn observe(&mut self, key: &str, _object: Option<&Value>) -> Vec<String> {
        vec![key.to_owned()]
    }

    /// Everything is about to be observed anew.
    fn forget(&mut self) {}

    /// Looks at one object as it is now, and does what is missing.
    fn look(
        &mut self,
        key: &str,
        object: Option<Value>,
    ) -> impl Future<Output = Result<Next, Refusal>> + Send;
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Done,
    /// Nothing will tell when it goes on: look again.
    After(Duration),
}

/// Before a look that failed is repeated, doubled every time.
const AGAIN: Duration = Duration::from_millis(100);
const AGAIN_AT_MOST: Duration = Duration::from_secs(30);
/// Before everything is read again after the store failed.
const READ_AGAIN: Duration = Duration::from_secs(1);

/// Until the store is closed.
pub(super) async fn run<C: Controller>(context: Context, mut controller: C) {
    loop {
        let error = follow(&context.store, &mut controller).await;
        if matches!(error, Error::Closed) {
            return;
        }
        debug!(
            controller = C::NAME,
            error = model::chain(&error),
            "reading all again"
        );
        tokio::time::sleep(READ_AGAIN).await;
    }
}

async fn follow<C: Controller>(store: &Store, controller: &mut C) -> Error {
    let prefix = controller.prefix();
    let page = Page {
        at: At::NotBefore(0),
        ..Page::default()
    };
    let listing = match store.list(&prefix, &page).await {
        Ok(listing) => listing,
        Err(error) => return error,
    };
    let mut watch = match store.watch(&prefix, listing.revision) {
        Ok(watch) => watch,
        Err(error) => return error,
    };
    let mut agenda = Agenda::default();
    controller.forget();
    for kv in &listing.items {
        observe(controller, &mut agenda, &kv.key, read(kv).as_ref());
    }
    loop {
        tokio::select! {
            event = watch.next() => match event {
                Ok(Event::Put { kv, .. }) => observe(controller, &mut agenda, &kv.key, read(&kv).as_ref()),
                Ok(Event::Delete { previous, .. }) => observe(controller, &mut agenda, &previous.key, None),
                Ok(Event::Progress { .. }) => {}
                Err(error) => return error,
            },
            (key, failures) = agenda.next() => {
                let object = store.peek(&key).as_ref().and_then(read);
                match controller.look(&key, object).await {
                    Ok(Next::Done) => {}
                    Ok(Next::After(time)) => agenda.add(key, time, 0),
                    Err(refusal) => {
                        let time = AGAIN.saturating_mul(1 << failures.min(10)).min(AGAIN_AT_MOST);
                        let controller = C::NAME;
                        // Losing a race is daily business.
                        if failures > 3 {
                            warn!(controller, key, error = %refusal, again_in = ?time, "not done yet");
                        } else {
                            debug!(controller, key, error = %refusal, again_in = ?time, "not done yet");
                        }
                        agenda.add(key, time, failures + 1);
                    }
                }
            }
        }
    }
}

fn observe<C: Controller>(
    controller: &mut C,
    agenda: &mut Agenda,
    key: &str,
    object: Option<&Value>,
) {
    for key in controller.observe(key, object) {
        agenda.add(key, Duration::ZERO, 0);
    }
}

/// As the API would show it, with its version.
pub(super) fn read(kv: &Kv) -> Option<Value> {
    let mut object: Value = serde_json::from_slice(&kv.value).ok()?;
    object["metadata"]["resourceVersion"] = json!(kv.revision.to_string());
    Some(object)
}

/// Keys by the time of their next look. A key is there once, with the earlier time.
#[derive(Default)]
struct Agenda {
    times: BTreeSet<(Instant, String)>,
    keys: BTreeMap<String, (Instant, u32)>,
}

impl Agenda {
    fn add(&mut self, key: String, wait: Duration, failures: u32) {
        let time = Instant::now() + wait;
        if let Some((planned, _)) = self.keys.get(&key) {
            if *planned <= time {
                return;
            }
            self.times.remove(&(*planned, key.clone()));
        }
        self.keys.insert(key.clone(), (time, failures));
        self.times.insert((time, key));
    }

    /// Waits until a key is due; for ever if there is none. May be dropped while it waits.
    async fn next(&mut self) -> (String, u32) {
        let Some((time, _)) = self.times.first() else {
            return std::future::pending().await;
        };
        tokio::time::sleep_until(*time).await;
        let (_, key) = self.times.pop_first().expect("it was just there");
        let (_, failures) = self.keys.remove(&key).expect("both hold the same keys");
        (key, failures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_key_is_looked_at_once_and_at_the_earlier_time() {
        let mut agenda = Agenda::default();
        agenda.add("late".into(), Duration::from_secs(9), 2);
        agenda.add("late".into(), Duration::from_secs(3), 0);
        agenda.add("late".into(), Duration::from_secs(5), 0);
        agenda.add("soon".into(), Duration::ZERO, 1);
        let begun = Instant::now();
        assert_eq!(agenda.next().await, ("soon".into(), 1));
        assert_eq!(agenda.next().await, ("late".into(), 0));
        assert_eq!(begun.elapsed().as_secs(), 3);
        assert!(agenda.times.is_empty() && agenda.keys.is_empty());
    }
}
