//! Counting: when has a check passed or failed often enough to be believed?

#[derive(Debug)]
pub struct Tally {
    rise: u32,
    fall: u32,
    passes: bool,
    /// Results in a row against the present verdict.
    against: u32,
}

impl Tally {
    /// `passes`: what is believed until now.
    pub fn new(rise: u32, fall: u32, passes: bool) -> Self {
        Self {
            rise,
            fall,
            passes,
            against: 0,
        }
    }

    /// The new verdict, if this result changes it.
    pub fn count(&mut self, success: bool) -> Option<bool> {
        if success == self.passes {
            self.against = 0;
            return None;
        }
        self.against += 1;
        let needed = if self.passes { self.fall } else { self.rise };
        if self.against < needed {
            return None;
        }
        self.passes = success;
        self.against = 0;
        Some(success)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_changes_after_enough_results_in_a_row() {
        let mut tally = Tally::new(2, 3, false);
        let verdicts: Vec<_> = "+-++--+---+"
            .chars()
            .map(|result| tally.count(result == '+'))
            .collect();
        let (up, down) = (Some(true), Some(false));
        let expected = [
            None, None, None, up, None, None, None, None, None, down, None,
        ];
        assert_eq!(verdicts, expected);
    }
}
