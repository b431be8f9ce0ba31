//! Which packets of a session are fresh.

/// Which sequence numbers may still come (6.12.13): up to 16 ahead of the highest seen, or 15 behind and not seen.
#[derive(Debug, Default)]
pub(super) struct Window {
    highest: u32,
    /// Bit n: `highest - n` has been seen.
    seen: u16,
}

const WINDOW: u32 = 16;

impl Window {
    /// Takes note of a number; false if it came before, or may have.
    pub(super) fn accept(&mut self, sequence: u32) -> bool {
        if sequence == 0 {
            return false;
        }
        if let Some(ahead @ 1..=WINDOW) = sequence.checked_sub(self.highest) {
            self.seen = self.seen.checked_shl(ahead).unwrap_or(0) | 1;
            self.highest = sequence;
            return true;
        }
        let Some(behind @ 0..WINDOW) = self.highest.checked_sub(sequence) else {
            return false;
        };
        let bit = 1 << behind;
        let fresh = self.seen & bit == 0;
        self.seen |= bit;
        fresh
    }
}

impl Window {
    /// As [`Window::accept`], but however far ahead.
    ///
    /// DEVIATION: 6.12.13 has a console refuse what is more than 16 ahead. A BMC with a serial port goes on sending while the
    /// network is down, and would never be heard again. What is ahead is genuine and cannot be a repetition.
    pub(super) fn accept_ahead(&mut self, sequence: u32) -> bool {
        if sequence.saturating_sub(self.highest) > WINDOW {
            (self.highest, self.seen) = (sequence, 1);
            return true;
        }
        self.accept(sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn packets_may_overtake_one_another_within_the_window() {
        let mut window = Window::default();
        assert!(window.accept(1) && window.accept(4) && window.accept(2) && window.accept(3));
        assert!(!window.accept(2), "a repeated packet");
        assert!(
            window.accept(20) && !window.accept(4),
            "20 closes the window behind 5"
        );
        assert!(window.accept(5) && !window.accept(37) && window.accept(36));
        assert!(!window.accept(0));
    }

    #[test]
    fn a_console_hears_a_bmc_again_after_a_long_silence() {
        let mut window = Window::default();
        assert!(window.accept_ahead(1) && window.accept_ahead(100) && window.accept_ahead(99));
        assert!(!window.accept_ahead(100) && !window.accept_ahead(1) && !window.accept_ahead(0));
    }

    proptest! {
        #[test]
        fn no_sequence_number_is_accepted_twice(numbers in prop::collection::vec(0u32..60, 0..200)) {
            let mut window = Window::default();
            let mut seen = BTreeSet::new();
            for number in numbers {
                if window.accept(number) {
                    prop_assert!(seen.insert(number));
                }
            }
        }

        #[test]
        fn however_far_ahead_none_is_accepted_twice(numbers in prop::collection::vec(0u32..60, 0..200)) {
            let mut window = Window::default();
            let mut seen = BTreeSet::new();
            for number in numbers {
                if window.accept_ahead(number) {
                    prop_assert!(seen.insert(number));
                }
            }
        }
    }
}
