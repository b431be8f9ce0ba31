//! A DataImage's own way: kept until its disc is out of the host's drive. The drive itself is the host's matter
//! ([`crate::host`]): it is only touched while the host is off.

use std::time::Duration;

/// A DataImage, as far as its end is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Image {
    pub deleting: bool,
    pub finalizer: bool,
    /// The host of the same name owns it.
    pub owned: bool,
    /// A disc is in the host's drive, as far as we know.
    pub attached: bool,
}

/// The host of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Host {
    Missing,
    /// Nobody asks anything of its BMC.
    Detached,
    Present,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Our finalizer, and the host as its owner.
    Claim,
    RemoveFinalizer,
    Wait {
        reason: &'static str,
        after: Duration,
    },
    /// Nothing, until it changes.
    Done,
}

/// Between looks at the host. What matters most, that the disc is out, is in the image's own status.
const AGAIN: Duration = Duration::from_secs(30);

pub fn next(image: Image, host: Host) -> Step {
    match (image.deleting, host) {
        (true, _) if !image.finalizer => Step::Done,
        (true, Host::Missing | Host::Detached) => Step::RemoveFinalizer,
        (true, Host::Present) if !image.attached => Step::RemoveFinalizer,
        (true, Host::Present) => Step::Wait {
            reason: "the host to be powered off, so that the disc can be taken out",
            after: AGAIN,
        },
        (false, Host::Missing) => Step::Wait {
            reason: "a host of the same name",
            after: AGAIN,
        },
        (false, Host::Detached | Host::Present) if !image.finalizer || !image.owned => Step::Claim,
        (false, Host::Detached | Host::Present) => Step::Done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: Image = Image {
        deleting: false,
        finalizer: false,
        owned: false,
        attached: false,
    };
    const OURS: Image = Image {
        finalizer: true,
        owned: true,
        ..NEW
    };
    const GOING: Image = Image {
        deleting: true,
        ..OURS
    };
    const IN_THE_DRIVE: Image = Image {
        attached: true,
        ..GOING
    };

    #[test]
    fn an_image_goes_when_its_disc_is_out() {
        for (name, image, host, expected) in [
            ("new", NEW, Host::Present, "claim"),
            ("of a host to come", NEW, Host::Missing, "wait"),
            ("ours", OURS, Host::Present, "done"),
            (
                "of a host made anew",
                Image {
                    owned: false,
                    ..OURS
                },
                Host::Present,
                "claim",
            ),
            ("never inserted", GOING, Host::Present, "free"),
            ("in the drive", IN_THE_DRIVE, Host::Present, "wait"),
            ("of a host that left", IN_THE_DRIVE, Host::Missing, "free"),
            ("of a host left alone", IN_THE_DRIVE, Host::Detached, "free"),
            (
                "somebody else's to end",
                Image {
                    finalizer: false,
                    ..GOING
                },
                Host::Present,
                "done",
            ),
        ] {
            let step = match next(image, host) {
                Step::Claim => "claim",
                Step::RemoveFinalizer => "free",
                Step::Wait { .. } => "wait",
                Step::Done => "done",
            };
            assert_eq!(step, expected, "{name}");
        }
    }
}
