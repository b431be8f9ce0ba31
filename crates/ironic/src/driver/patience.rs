//! How patient to be with BMCs.

use std::time::Duration;

use clients::{ipmi, redfish};
use serde::{Deserialize, Serialize};

use super::backoff;

/// The part of the configuration that is about BMCs; times are in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Patience {
    /// For a connection to be made, and for an answer to come to its end.
    pub connect: f64,
    pub answer: f64,
    /// How often a BMC that is not ready is asked before the work counts as failed, and the pause between.
    pub tries: u32,
    pub pause: f64,
    /// How often the power is looked at until it is as it should be.
    pub poll: f64,
    /// Requests to one BMC at once.
    pub in_flight: usize,
    /// A session that was not used this long is given back.
    pub idle: f64,
    /// How long a silent BMC is left alone: at first, and at most.
    pub first_silence: f64,
    pub longest_silence: f64,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            connect: 10.0,
            answer: 60.0,
            tries: 4,
            pause: 3.0,
            poll: 1.0,
            in_flight: 2,
            idle: 30.0,
            first_silence: 2.0,
            longest_silence: 60.0,
        }
    }
}

impl Patience {
    /// Everything that is out of range, by name.
    pub fn problems(&self) -> Vec<String> {
        let times = [
            ("connect", self.connect),
            ("answer", self.answer),
            ("pause", self.pause),
            ("poll", self.poll),
            ("idle", self.idle),
            ("first_silence", self.first_silence),
            ("longest_silence", self.longest_silence),
        ];
        let mut problems: Vec<String> = times
            .into_iter()
            .filter(|(_, seconds)| !(0.01..=3600.0).contains(seconds))
            .map(|(name, _)| format!("{name}: must be seconds, from 0.01 to 3600"))
            .collect();
        if !(1..=100).contains(&self.tries) {
            problems.push("tries: must be from 1 to 100".into());
        }
        if !(1..=16).contains(&self.in_flight) {
            problems.push("in_flight: must be from 1 to 16".into());
        }
        problems
    }
}

/// What the lines to BMCs are told.
#[derive(Clone, Debug)]
pub struct Options {
    pub patience: Patience,
    /// From the service's timers.
    pub power_change: Duration,
    pub soft_power_off: Duration,
}

impl Options {
    pub fn idle(&self) -> Duration {
        seconds(self.patience.idle)
    }

    pub fn poll(&self) -> Duration {
        seconds(self.patience.poll)
    }

    pub fn backoff(&self) -> backoff::Limits {
        backoff::Limits {
            first: seconds(self.patience.first_silence),
            most: seconds(self.patience.longest_silence),
            // Whoever tries has a connection or not within this time.
            trial: seconds(self.patience.connect) * self.patience.tries + Duration::from_secs(5),
        }
    }

    pub fn redfish(&self) -> redfish::Limits {
        redfish::Limits {
            connect: seconds(self.patience.connect),
            answer: seconds(self.patience.answer),
            tries: self.patience.tries,
            patience: seconds(self.patience.connect) * self.patience.tries,
            pause: seconds(self.patience.pause),
            poll: self.poll(),
            in_flight: self.patience.in_flight,
            power_change: self.power_change,
            task: Duration::from_mins(30),
            ..redfish::Limits::default()
        }
    }

    pub fn ipmi(&self) -> ipmi::Limits {
        ipmi::Limits {
            command: seconds(self.patience.answer),
            tries: self.patience.tries.min(2),
            pause: seconds(self.patience.pause),
            poll: self.poll(),
            power_change: self.power_change,
            idle: self.idle(),
            ..ipmi::Limits::default()
        }
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::from_hours(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_has_no_problems_and_nonsense_is_named() {
        assert_eq!(Patience::default().problems(), Vec::<String>::new());
        let odd = Patience {
            connect: f64::NAN,
            idle: -1.0,
            tries: 0,
            in_flight: 0,
            ..Patience::default()
        };
        assert_eq!(odd.problems().len(), 4);
    }
}
