//! When a backend is looked at next.

use std::time::Duration;

use super::Outcome;

/// Between two looks at a backend that nobody needs at the moment, at most.
const CALM: Duration = Duration::from_secs(1);

/// How often one backend is looked at.
#[derive(Debug)]
pub struct Pace {
    interval: Duration,
    /// Looks that make the verdict; they are never slowed down.
    fall: u32,
    dead: u32,
}

impl Pace {
    pub fn new(interval: Duration, fall: u32) -> Self {
        Self {
            interval,
            fall,
            dead: 0,
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

    fn millis(pace: &mut Pace, looks: &[Outcome]) -> Vec<u128> {
        let after = |outcome: &Outcome| pace.after(*outcome, true).as_millis();
        looks.iter().map(after).collect()
    }

    #[test]
    fn the_verdict_comes_at_full_pace_and_the_dead_are_left_in_peace() {
        use Outcome::{Dead, Unready, Well};
        let mut pace = Pace::new(Duration::from_millis(100), 2);
        let looks = [Well, Dead, Dead, Dead, Dead, Dead, Dead, Dead, Unready];
        assert_eq!(
            millis(&mut pace, &looks),
            [100, 100, 100, 200, 400, 800, 1000, 1000, 100]
        );
    }

    #[test]
    fn what_nobody_needs_is_looked_at_once_a_second() {
        let mut pace = Pace::new(Duration::from_millis(100), 2);
        assert_eq!(pace.after(Outcome::Well, false), CALM);
        assert_eq!(pace.after(Outcome::Dead, false), CALM);
        let mut slow = Pace::new(Duration::from_secs(5), 2);
        assert_eq!(slow.after(Outcome::Well, false), Duration::from_secs(5));
        assert_eq!(slow.after(Outcome::Dead, true), Duration::from_secs(5));
    }
}
