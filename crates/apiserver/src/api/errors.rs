//! What the store says, in Kubernetes' words.

use objects::{Resource, Status};

use crate::store::Error;

/// The answer to a failure of the store that no retry mends.
pub fn of_store(error: &Error, resource: &Resource, name: &str) -> Status {
    match error {
        Error::Exists { .. } => Status::already_exists(resource, name),
        Error::Conflict { .. } => Status::modified(resource, name),
        Error::Compacted { asked, oldest } => {
            Status::expired(format!("too old resource version: {asked} ({oldest})"))
        }
        Error::Future { asked, current } => Status::revision_too_large(*asked, *current),
        Error::TooLarge { size } => {
            Status::too_large(format!("etcdserver: request is too large: {size} bytes"))
        }
        Error::Closed => Status::unavailable("the server is stopping"),
        Error::Unavailable(_) => Status::unavailable(
            "the store did not answer in time; the write may or may not have happened",
        ),
        Error::Broken | Error::Directory { .. } | Error::Open { .. } | Error::Foreign { .. } => {
            Status::internal(error)
        }
    }
}
