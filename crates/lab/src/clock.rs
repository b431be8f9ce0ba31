//! Waiting for what a machine asked to be woken at.

use std::time::Instant;

/// Until then; for ever if there is no such time.
pub async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}
