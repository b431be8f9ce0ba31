//! The payload's list as it is on disk. It is written last: who finds it finds all files.

use std::path::Path;

use model::payload::{INDEX, Index};
use tracing::warn;

/// The list, if there is one that can be used.
pub async fn read(dir: &Path) -> Option<Index> {
    let path = dir.join(INDEX);
    let bytes = tokio::fs::read(&path).await.ok()?;
    match Index::parse(&bytes) {
        Ok(index) => Some(index),
        Err(error) => {
            warn!(path = %path.display(), %error, "the payload's list");
            None
        }
    }
}
