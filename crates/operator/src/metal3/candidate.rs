//! When a node may ask for the lease: whoever has the images can begin at once, and is the better place.

use std::path::Path;
use std::time::Duration;

/// So long another node, which has the images, is waited for. Then this one stands all the same: the others may be dead.
const IMAGES_WITHIN: Duration = Duration::from_mins(2);

#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    Stand,
    StandWithout(String),
    Wait(String),
}

/// `missing`: the first image that is not here; `waited`: since the node wanted to stand.
pub fn next(missing: Option<&Path>, waited: Duration) -> Next {
    match missing {
        None => Next::Stand,
        Some(path) if waited < IMAGES_WITHIN => {
            Next::Wait(format!("{} is on its way", path.display()))
        }
        Some(path) => Next::StandWithout(format!(
            "{} did not come in {} min",
            path.display(),
            IMAGES_WITHIN.as_secs() / 60
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_waited_for_but_not_for_ever() {
        let (os, just) = (Path::new("/os.qcow2"), Duration::from_secs(1));
        assert_eq!(next(None, Duration::ZERO), Next::Stand);
        assert_eq!(next(None, IMAGES_WITHIN * 2), Next::Stand);
        for (waited, waits) in [
            (Duration::ZERO, true),
            (IMAGES_WITHIN.saturating_sub(just), true),
            (IMAGES_WITHIN, false),
        ] {
            let next = next(Some(os), waited);
            assert_eq!(matches!(next, Next::Wait(_)), waits, "{waited:?}: {next:?}");
        }
    }
}
