//! Whether the certificate is good, and what becomes of the request for the next one.
//!
//! ```text
//!   no certificate, or most of its life is over
//!        └─▶ Draw a key ─▶ Submit a request ─▶ Wait for approval ─▶ Take ─▶ Use until it is time for the next
//!                 ▲                                  │
//!                 └──────── denied, failed, too old ─┘
//! ```

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// The certificate there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    pub not_before: Timestamp,
    pub not_after: Timestamp,
}

/// A key that waits for its certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// When the key was drawn.
    pub since: Timestamp,
    pub request: Request,
}

/// What the API says of our request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// It could not be asked.
    Unknown {
        why: String,
    },
    Absent,
    Undecided,
    /// The signer has not come to it yet.
    Approved,
    Denied {
        why: String,
    },
    Failed {
        why: String,
    },
    Signed {
        pem: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Nothing to do before this time.
    Use {
        until: Timestamp,
    },
    /// Make a key, and forget the one that waits.
    Draw {
        why: String,
    },
    /// Ask for a certificate of the key that waits.
    Submit,
    Wait {
        reason: String,
        again_in: Duration,
    },
    Take {
        pem: String,
    },
}

/// So old a request is left to rot by those who approve: they take it for one of an earlier life.
pub const STALE: SignedDuration = SignedDuration::from_mins(60);
/// Whoever was told no may ask again, but not at once.
pub const REFUSED: SignedDuration = SignedDuration::from_mins(10);
const LOOK: Duration = Duration::from_secs(2);

/// `spread`, from 0 to 1, keeps nodes that began together from coming back together.
pub fn next(
    certificate: Option<Validity>,
    pending: Option<&Pending>,
    spread: f64,
    now: Timestamp,
) -> Step {
    let why = match certificate {
        Some(validity) if now >= validity.not_after => "the certificate is over".to_owned(),
        Some(validity) => {
            let until = renew_at(validity, spread);
            if now < until {
                return Step::Use { until };
            }
            "most of the certificate's life is over".to_owned()
        }
        None => "there is no certificate yet".to_owned(),
    };
    let Some(pending) = pending else {
        return Step::Draw { why };
    };
    let age = now.duration_since(pending.since);
    match &pending.request {
        Request::Unknown { why } => wait(format!("the API: {why}")),
        Request::Signed { pem } => Step::Take { pem: pem.clone() },
        // Who drew a key in the future has had a clock since.
        _ if age.is_negative() || age > STALE => Step::Draw {
            why: format!("{why}, and the request for one is too old"),
        },
        Request::Absent => Step::Submit,
        Request::Undecided => wait("the certificate request to be approved".into()),
        Request::Approved => wait("the certificate request to be signed".into()),
        Request::Denied { why } => refused(age, "was denied", why),
        Request::Failed { why } => refused(age, "could not be signed", why),
    }
}

/// Between 70 and 90 % of its life.
pub fn renew_at(validity: Validity, spread: f64) -> Timestamp {
    let life = validity.not_after.duration_since(validity.not_before);
    let part = 0.7 + 0.2 * spread.clamp(0.0, 1.0);
    let seconds = (life.as_secs_f64() * part).round();
    validity
        .not_before
        .checked_add(SignedDuration::from_secs(seconds as i64))
        .unwrap_or(validity.not_after)
}

fn refused(age: SignedDuration, what: &str, why: &str) -> Step {
    let said = format!("the certificate request {what}: {why}");
    if age > REFUSED {
        return Step::Draw { why: said };
    }
    wait(said)
}

fn wait(reason: String) -> Step {
    Step::Wait {
        reason,
        again_in: LOOK,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).expect("it is in range")
    }

    fn validity() -> Validity {
        Validity {
            not_before: at(0),
            not_after: at(1000),
        }
    }

    fn pending(request: Request) -> Pending {
        Pending {
            since: at(0),
            request,
        }
    }

    #[test]
    fn what_is_done_follows_from_the_certificate_and_the_request() {
        let none = None::<Validity>;
        let why = || String::from("x");
        let signed = Request::Signed { pem: "pem".into() };
        let table = vec![
            ("new", none, None, 0, "Draw"),
            ("young", Some(validity()), None, 0, "Use"),
            (
                "young, something waits",
                Some(validity()),
                Some(signed.clone()),
                10,
                "Use",
            ),
            ("middle-aged", Some(validity()), None, 799, "Use"),
            ("old", Some(validity()), None, 800, "Draw"),
            ("over", Some(validity()), None, 2000, "Draw"),
            ("drawn", none, Some(Request::Absent), 1, "Submit"),
            ("asked", none, Some(Request::Undecided), 1, "Wait"),
            ("approved", none, Some(Request::Approved), 1, "Wait"),
            ("signed", none, Some(signed.clone()), 1, "Take"),
            (
                "renewal signed",
                Some(validity()),
                Some(signed.clone()),
                900,
                "Take",
            ),
            ("signed long ago", none, Some(signed), 99_999, "Take"),
            (
                "the API is silent",
                none,
                Some(Request::Unknown { why: why() }),
                99_999,
                "Wait",
            ),
            (
                "asked long ago",
                none,
                Some(Request::Undecided),
                3601,
                "Draw",
            ),
            (
                "deleted long ago",
                none,
                Some(Request::Absent),
                3601,
                "Draw",
            ),
            (
                "the clock went back",
                none,
                Some(Request::Undecided),
                -1,
                "Draw",
            ),
            (
                "denied",
                none,
                Some(Request::Denied { why: why() }),
                599,
                "Wait",
            ),
            (
                "denied a while ago",
                none,
                Some(Request::Denied { why: why() }),
                601,
                "Draw",
            ),
            (
                "failed",
                none,
                Some(Request::Failed { why: why() }),
                1,
                "Wait",
            ),
        ];
        for (name, certificate, request, now, expected) in table {
            let pending = request.map(pending);
            let step = next(certificate, pending.as_ref(), 0.5, at(now));
            let said = format!("{step:?}");
            assert!(said.starts_with(expected), "{name}: {said}");
        }
    }

    proptest! {
        #[test]
        fn a_certificate_is_renewed_between_seven_and_nine_tenths_of_its_life(life in 10_i64..40_000_000, spread in -1.0..2.0) {
            let validity = Validity { not_before: at(0), not_after: at(life) };
            let at_second = renew_at(validity, spread).duration_since(at(0)).as_secs();
            prop_assert!(at_second * 10 + 10 >= life * 7 && at_second * 10 <= life * 9 + 10);
        }

        /// Driven as the daemon does, with an API that answers as it likes, nobody asks more often than the rules say.
        #[test]
        fn whoever_is_refused_does_not_hammer(answers in proptest::collection::vec(0_u8..4, 1..200)) {
            let mut waiting: Option<Pending> = None;
            let (mut draws, mut now) = (0, 0);
            for answer in answers {
                if let Some(pending) = &mut waiting {
                    pending.request = match answer {
                        0 => Request::Undecided,
                        1 => Request::Denied { why: String::new() },
                        2 => Request::Unknown { why: String::new() },
                        _ => Request::Absent,
                    };
                }
                match next(None, waiting.as_ref(), 0.0, at(now)) {
                    Step::Draw { .. } => {
                        draws += 1;
                        waiting = Some(Pending { since: at(now), request: Request::Absent });
                    }
                    Step::Wait { again_in, .. } => now += again_in.as_secs() as i64,
                    Step::Submit => {}
                    step @ (Step::Use { .. } | Step::Take { .. }) => prop_assert!(false, "{step:?}"),
                }
            }
            prop_assert!(draws <= 1 + now / REFUSED.as_secs());
        }
    }
}
