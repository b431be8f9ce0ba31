//! Events are news: after an hour they are gone.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tracing::{debug, warn};

use crate::store::{self, At, Error, Kv, Page, Store};

const LIFE: SignedDuration = SignedDuration::from_hours(1);
const EVERY: Duration = Duration::from_mins(1);

/// Until dropped.
pub(super) async fn expire(store: Store) {
    loop {
        tokio::time::sleep(EVERY).await;
        match sweep(&store, Timestamp::now()).await {
            Ok(0) => {}
            Ok(gone) => debug!(gone, "old events"),
            Err(error) => warn!(
                error = model::chain(&error),
                "old events could not be removed"
            ),
        }
    }
}

async fn sweep(store: &Store, now: Timestamp) -> Result<usize, Error> {
    let page = Page {
        at: At::NotBefore(0),
        ..Page::default()
    };
    let listing = store.list(&store::prefix("", "events", ""), &page).await?;
    let mut gone = 0;
    for kv in listing.items.iter().filter(|kv| is_old(kv, now)) {
        match store.delete(&kv.key, kv.revision).await {
            Ok(_) => gone += 1,
            // It was just seen again, or another server was quicker.
            Err(Error::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(gone)
}

/// Whether it was last seen long ago. Something that cannot be read is not judged.
fn is_old(kv: &Kv, now: Timestamp) -> bool {
    let Ok(event) = serde_json::from_slice::<Value>(&kv.value) else {
        return false;
    };
    let times = [
        &event["series"]["lastObservedTime"],
        &event["lastTimestamp"],
        &event["eventTime"],
        &event["metadata"]["creationTimestamp"],
    ];
    let seen = times
        .into_iter()
        .filter_map(|time| time.as_str()?.parse::<Timestamp>().ok())
        .max();
    seen.is_some_and(|seen| now.duration_since(seen) > LIFE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_event_lives_an_hour_from_when_it_was_last_seen() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let old = "2026-01-01T10:59:59Z";
        let new = "2026-01-01T11:30:00Z";
        let table = [
            (json!({"lastTimestamp": old}), true),
            (json!({"lastTimestamp": new}), false),
            (
                json!({"lastTimestamp": null, "metadata": {"creationTimestamp": old}}),
                true,
            ),
            (
                json!({"eventTime": old, "series": {"lastObservedTime": new}}),
                false,
            ),
            (json!({}), false),
        ];
        for (event, expected) in table {
            let kv = Kv {
                key: "e".into(),
                value: event.to_string().into(),
                revision: 1,
            };
            assert_eq!(is_old(&kv, now), expected, "{event}");
        }
    }
}
