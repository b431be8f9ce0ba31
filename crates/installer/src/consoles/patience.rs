//! When a console that was lost is tried again, and whether that is worth a word.

use std::time::Duration;

#[derive(Debug)]
pub(super) struct Patience {
    first: Duration,
    pause: Duration,
    told: bool,
}

const LONGEST: Duration = Duration::from_mins(1);
/// A console that was open for so long was well; what ends it is news.
const STEADY: Duration = Duration::from_mins(1);

impl Patience {
    pub(super) fn new(first: Duration) -> Self {
        Self {
            first,
            pause: first,
            told: false,
        }
    }

    /// After a failure of a console that was open for `lasted`: whether to tell, and how long to wait.
    pub(super) fn after(&mut self, lasted: Duration) -> (bool, Duration) {
        if lasted >= STEADY {
            *self = Self::new(self.first);
        }
        let answer = (!self.told, self.pause);
        self.told = true;
        self.pause = (self.pause * 2).min(LONGEST);
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_one_line_is_told_until_it_was_well_again() {
        let mut patience = Patience::new(Duration::from_secs(5));
        let mut after = |lasted| {
            let (tell, pause) = patience.after(Duration::from_secs(lasted));
            (tell, pause.as_secs())
        };
        let seen: Vec<_> = (0..6).map(|_| after(0)).collect();
        let grown = [5, 10, 20, 40, 60, 60];
        assert_eq!(
            seen.iter().map(|(_, pause)| *pause).collect::<Vec<_>>(),
            grown
        );
        assert_eq!(seen.iter().filter(|(tell, _)| *tell).count(), 1);
        assert_eq!(after(30), (false, 60), "a short while is no recovery");
        assert_eq!(after(60), (true, 5));
    }
}
