//! How long a BMC that does not answer is left alone.
//!
//! ```text
//!   Answering ── silence ─▶ Silent { again_at } ── its time has come, or work has ─▶ one goes to try
//!       ▲                        ▲   │                                                  │
//!       └──────── an answer ─────┼───┘◀──────────── silence, twice as long ─────────────┘
//! ```
//!
//! Looks keep to the pauses. Work does not: somebody wants it now, and its own retries are paced. But while one tries,
//! nobody else does.
//!
//! Pure: the time and the dice are arguments.

use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The pause after the first silence; it doubles.
    pub first: Duration,
    pub most: Duration,
    /// Whoever goes to try is back within this time, or is taken for lost.
    pub trial: Duration,
}

/// What is known of one BMC's readiness to answer.
#[derive(Debug, Clone)]
pub struct Backoff {
    limits: Limits,
    state: State,
}

#[derive(Debug, Clone)]
enum State {
    Answering,
    Silent {
        failures: u32,
        reason: String,
        again_at: Instant,
        /// Somebody is trying; whoever is not back by then is taken for lost.
        trial: Option<Instant>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asker {
    /// An operation that was asked for.
    Work,
    /// A regular look, or a question that can go unanswered.
    Look,
}

/// Whether to ask now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Advice {
    Ask,
    /// It did not answer lately, for this reason; not before the time is over.
    Wait {
        reason: String,
        pause: Duration,
        /// Somebody is trying and will know before that.
        trial: bool,
    },
}

impl Backoff {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            state: State::Answering,
        }
    }

    pub fn advice(&mut self, now: Instant, asker: Asker) -> Advice {
        let State::Silent {
            reason,
            again_at,
            trial,
            ..
        } = &mut self.state
        else {
            return Advice::Ask;
        };
        let until = match (*trial, asker) {
            (Some(until), _) if now < until => until,
            (_, Asker::Look) if now < *again_at => *again_at,
            (_, Asker::Look | Asker::Work) => {
                *trial = Some(now + self.limits.trial);
                return Advice::Ask;
            }
        };
        Advice::Wait {
            reason: reason.clone(),
            pause: until - now,
            trial: trial.is_some_and(|until| now < until),
        }
    }

    /// It answered, if only to refuse.
    pub fn answered(&mut self) {
        self.state = State::Answering;
    }

    /// It did not answer. `dice` is from 0 to 1. Returns the pause before the next try.
    pub fn silent(&mut self, now: Instant, reason: &str, dice: f64) -> Duration {
        let before = match &self.state {
            State::Answering => 0,
            State::Silent { failures, .. } => *failures,
        };
        let doubled = self.limits.first.saturating_mul(1 << before.min(16));
        // A rack that lost its power is not asked all at once.
        let jitter = 0.75 + dice.clamp(0.0, 1.0) / 2.0;
        let pause = doubled.min(self.limits.most).mul_f64(jitter);
        self.state = State::Silent {
            failures: before.saturating_add(1),
            reason: reason.to_owned(),
            again_at: now + pause,
            trial: None,
        };
        pause
    }

    /// Is there nothing to remember?
    pub fn forgettable(&self, now: Instant) -> bool {
        match &self.state {
            State::Answering => true,
            State::Silent { again_at, .. } => now >= *again_at + self.limits.most,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: Limits = Limits {
        first: Duration::from_secs(2),
        most: Duration::from_mins(1),
        trial: Duration::from_secs(30),
    };

    /// In the middle of the dice, pauses are as configured.
    const EVEN: f64 = 0.5;

    #[test]
    fn each_silence_doubles_the_pause_up_to_the_most() {
        let mut backoff = Backoff::new(LIMITS);
        let now = Instant::now();
        let pauses: Vec<u64> = (0..7)
            .map(|_| backoff.silent(now, "timed out", EVEN).as_secs())
            .collect();
        assert_eq!(pauses, [2, 4, 8, 16, 32, 60, 60]);
    }

    #[test]
    fn a_silent_bmc_is_left_alone_with_a_reason_and_then_tried_by_one() {
        let mut backoff = Backoff::new(LIMITS);
        let start = Instant::now();
        assert_eq!(backoff.advice(start, Asker::Look), Advice::Ask);
        backoff.silent(start, "connection refused", EVEN);
        let wait = |pause, trial| Advice::Wait {
            reason: "connection refused".into(),
            pause: Duration::from_secs(pause),
            trial,
        };
        assert_eq!(backoff.advice(start, Asker::Look), wait(2, false));
        let later = start + Duration::from_secs(2);
        assert_eq!(backoff.advice(later, Asker::Look), Advice::Ask);
        for asker in [Asker::Look, Asker::Work] {
            assert_eq!(
                backoff.advice(later, asker),
                wait(30, true),
                "somebody is trying"
            );
        }
        // Whoever went is lost: the next one may.
        assert_eq!(
            backoff.advice(later + LIMITS.trial, Asker::Look),
            Advice::Ask
        );
    }

    #[test]
    fn work_does_not_wait_for_the_pause_and_tries_alone() {
        let mut backoff = Backoff::new(LIMITS);
        let now = Instant::now();
        backoff.silent(now, "timed out", EVEN);
        assert_eq!(backoff.advice(now, Asker::Work), Advice::Ask);
        assert!(matches!(
            backoff.advice(now, Asker::Work),
            Advice::Wait { trial: true, .. }
        ));
        backoff.answered();
        assert_eq!(backoff.advice(now, Asker::Work), Advice::Ask);
    }

    #[test]
    fn an_answer_ends_it_at_once_and_the_next_silence_starts_afresh() {
        let mut backoff = Backoff::new(LIMITS);
        let now = Instant::now();
        for _ in 0..5 {
            backoff.silent(now, "timed out", EVEN);
        }
        backoff.answered();
        assert_eq!(backoff.advice(now, Asker::Look), Advice::Ask);
        assert_eq!(backoff.silent(now, "timed out", EVEN), LIMITS.first);
    }

    #[test]
    fn what_is_known_of_a_silent_bmc_is_kept_for_a_while() {
        let mut backoff = Backoff::new(LIMITS);
        let now = Instant::now();
        assert!(backoff.forgettable(now));
        backoff.silent(now, "timed out", EVEN);
        assert!(!backoff.forgettable(now + Duration::from_secs(10)));
        assert!(backoff.forgettable(now + Duration::from_secs(63)));
    }

    proptest! {
        #[test]
        fn a_pause_is_never_zero_and_never_far_beyond_the_most(failures in 1usize..100, dice: f64) {
            let mut backoff = Backoff::new(LIMITS);
            let now = Instant::now();
            for _ in 0..failures {
                let dice = if dice.is_nan() { 0.0 } else { dice };
                let pause = backoff.silent(now, "x", dice);
                prop_assert!(pause >= LIMITS.first.mul_f64(0.74));
                prop_assert!(pause <= LIMITS.most.mul_f64(1.26));
            }
        }
    }
}
