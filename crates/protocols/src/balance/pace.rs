//! When a backend is looked at next, and how long it may take to answer.

use std::time::{Duration, Instant};

use super::Outcome;

/// Between two looks at a backend that nobody needs at the moment, at most.
const CALM: Duration = Duration::from_secs(1);
/// For one answer, at most, unless more was asked for.
const SLOWEST: Duration = Duration::from_secs(5);
/// For how long a slow answer makes the next ones be waited for.
const MEMORY: Duration = Duration::from_mins(1);

/// How often one backend is looked at, and with how much patience.
#[derive(Debug)]
pub struct Pace {
    interval: Duration,
    timeout: Duration,
    /// Looks that make the verdict; they are never slowed down.
    fall: u32,
    dead: u32,
    /// The slowest answer of late.
    slowest: Option<(Duration, Instant)>,
}

impl Pace {
    pub fn new(interval: Duration, timeout: Duration, fall: u32) -> Self {
        Self {
            interval,
            timeout,
            fall,
            dead: 0,
            slowest: None,
        }
    }

    /// How long to wait for the next answer: as asked for, but longer for one that was slow and well. Else a cluster
    /// under load would lose its backends one by one, and every lost connection would add to the load. One that is
    /// down already is waited for ever longer: it may be no more than slow.
    pub fn patience(&self, now: Instant) -> Duration {
        let doublings = self
            .dead
            .saturating_sub(self.fall.saturating_sub(1))
            .min(16);
        let learnt = match self.slowest {
            Some((slowest, at)) if now < at + MEMORY => slowest * 3 / 2,
            Some(_) | None => Duration::ZERO,
        };
        let wanted = learnt.max(self.timeout.saturating_mul(1 << doublings));
        wanted.min(SLOWEST).max(self.timeout)
    }

    /// It took so long to answer, well or not.
    pub fn answered(&mut self, now: Instant, took: Duration) {
        let known = match self.slowest {
            Some((slowest, at)) if now < at + MEMORY => slowest,
            Some(_) | None => Duration::ZERO,
        };
        if took > known {
            self.slowest = Some((took, now));
        }
    }

    /// The time until the next look. `needed`: clients may come here at any moment.
    ///
    /// A backend known to be dead is looked at ever less often: each of these looks is a new handshake,
    /// and what comes back after a minute's boot may wait a second more.
    pub fn after(&mut self, outcome: Outcome, needed: bool) -> Duration {
        self.dead = match outcome {
            Outcome::Dead => self.dead.saturating_add(1),
            Outcome::Well | Outcome::Unready => 0,
        };
        let calm = CALM.max(self.interval);
        if !needed {
            return calm;
        }
        let doublings = self.dead.saturating_sub(self.fall).min(16);
        self.interval.saturating_mul(1 << doublings).min(calm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(300);

    #[expect(
        clippy::disallowed_methods,
        reason = "a place for virtual time to start"
    )]
    fn start() -> Instant {
        Instant::now()
    }

    #[test]
    fn who_was_slow_and_well_is_waited_for_and_a_minute_later_no_more() {
        let (mut pace, now) = (Pace::new(TIMEOUT, TIMEOUT, 2), start());
        let ms = Duration::from_millis;
        pace.answered(now, ms(20));
        assert_eq!(pace.patience(now), TIMEOUT);
        pace.answered(now, ms(800));
        pace.answered(now + ms(100), ms(30));
        assert_eq!(pace.patience(now + ms(100)), ms(1200));
        pace.answered(now, ms(8000));
        assert_eq!(pace.patience(now), SLOWEST);
        assert_eq!(pace.patience(now + MEMORY), TIMEOUT);
    }

    #[test]
    fn the_verdict_comes_in_time_and_who_is_down_is_waited_for_longer() {
        let (mut pace, now) = (Pace::new(TIMEOUT, TIMEOUT, 2), start());
        let mut waits = |outcome| {
            let patience = pace.patience(now);
            pace.after(outcome, true);
            patience.as_millis()
        };
        let dead = [(); 7].map(|()| waits(Outcome::Dead));
        assert_eq!(dead, [300, 300, 600, 1200, 2400, 4800, 5000]);
        waits(Outcome::Well);
        assert_eq!(waits(Outcome::Well), 300);
    }

    fn millis(pace: &mut Pace, looks: &[Outcome]) -> Vec<u128> {
        let after = |outcome: &Outcome| pace.after(*outcome, true).as_millis();
        looks.iter().map(after).collect()
    }

    #[test]
    fn the_verdict_comes_at_full_pace_and_the_dead_are_left_in_peace() {
        use Outcome::{Dead, Unready, Well};
        let mut pace = Pace::new(Duration::from_millis(100), TIMEOUT, 2);
        let looks = [Well, Dead, Dead, Dead, Dead, Dead, Dead, Dead, Unready];
        assert_eq!(
            millis(&mut pace, &looks),
            [100, 100, 100, 200, 400, 800, 1000, 1000, 100]
        );
    }

    #[test]
    fn what_nobody_needs_is_looked_at_once_a_second() {
        let mut pace = Pace::new(Duration::from_millis(100), TIMEOUT, 2);
        assert_eq!(pace.after(Outcome::Well, false), CALM);
        assert_eq!(pace.after(Outcome::Dead, false), CALM);
        let mut slow = Pace::new(Duration::from_secs(5), TIMEOUT, 2);
        assert_eq!(slow.after(Outcome::Well, false), Duration::from_secs(5));
        assert_eq!(slow.after(Outcome::Dead, true), Duration::from_secs(5));
    }
}
