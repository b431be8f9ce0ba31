//! What a client sees of a service: a new connection every few milliseconds, each with little patience.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Between two probes.
pub const TICK: Duration = Duration::from_millis(5);

/// Probing, until it is stopped.
pub struct Probes {
    seen: Arc<Mutex<Vec<Probe>>>,
    stop: Arc<AtomicBool>,
    ticker: thread::JoinHandle<()>,
}

#[derive(Clone)]
pub struct Probe {
    pub sent: Instant,
    /// Who answered, if anyone did.
    pub name: Option<String>,
}

impl Probes {
    pub fn start(address: SocketAddr, patience: Duration) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let (results, stopped) = (Arc::clone(&seen), Arc::clone(&stop));
        let ticker = thread::spawn(move || {
            let mut next = Instant::now();
            let mut flying = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                let results = Arc::clone(&results);
                flying.push(thread::spawn(move || {
                    let sent = Instant::now();
                    let name = ask(address, patience).ok();
                    results
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(Probe { sent, name });
                }));
                flying.retain(|probe| !probe.is_finished());
                next += TICK;
                thread::sleep(next.saturating_duration_since(Instant::now()));
            }
            for probe in flying {
                _ = probe.join();
            }
        });
        Self { seen, stop, ticker }
    }

    pub fn wait(&self, what: &str, so: impl Fn(&Record) -> bool) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !so(&self.record()) {
            if Instant::now() > deadline {
                let record = self.record();
                let last: Vec<_> = record
                    .0
                    .iter()
                    .rev()
                    .take(3)
                    .map(|probe| probe.name.clone())
                    .collect();
                bail!("waited 30 s until {what}; the last probes: {last:?}");
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    pub fn record(&self) -> Record {
        Record(
            self.seen
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
        )
    }

    pub fn stop(self) -> Record {
        self.stop.store(true, Ordering::Relaxed);
        _ = self.ticker.join();
        let mut seen = Arc::try_unwrap(self.seen)
            .map(|seen| seen.into_inner().unwrap_or_else(PoisonError::into_inner))
            .unwrap_or_default();
        seen.sort_by_key(|probe| probe.sent);
        Record(seen)
    }
}

fn ask(address: SocketAddr, patience: Duration) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    match text.split_once("\r\n\r\n") {
        Some((head, name)) if head.starts_with("HTTP/1.1 200") => Ok(name.to_string()),
        _ => bail!("not well"),
    }
}

/// What was seen, in the order of sending once all probes have ended.
pub struct Record(pub Vec<Probe>);

pub struct Seen {
    pub gap_ms: f64,
    pub failed: usize,
}

impl Record {
    /// The last 60 probes that ended were all answered by such a node.
    pub fn steady(&self, by: impl Fn(&str) -> bool) -> bool {
        self.0.len() >= 60
            && self
                .0
                .iter()
                .rev()
                .take(60)
                .all(|probe| probe.name.as_deref().is_some_and(&by))
    }

    /// The longest time without an answer, beyond the pause between probes, from just before this moment on.
    pub fn around(&self, moment: Instant) -> Seen {
        let recent = self.0.iter().filter(|probe| probe.sent + TICK * 4 > moment);
        let failed = recent.clone().filter(|probe| probe.name.is_none()).count();
        let answered: Vec<Instant> = recent
            .filter(|probe| probe.name.is_some())
            .map(|probe| probe.sent)
            .collect();
        let longest = answered
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .max()
            .unwrap_or_default();
        Seen {
            gap_ms: longest.saturating_sub(TICK).as_secs_f64() * 1000.0,
            failed,
        }
    }

    /// Until the last failure after this moment, and the share that failed of all that were sent within this time.
    pub fn failures(&self, moment: Instant, within: Duration) -> (Duration, f64) {
        let sent: Vec<&Probe> = self
            .0
            .iter()
            .filter(|probe| probe.sent >= moment && probe.sent < moment + within)
            .collect();
        let failed = sent.iter().filter(|probe| probe.name.is_none());
        let last = failed
            .clone()
            .map(|probe| probe.sent - moment)
            .max()
            .unwrap_or_default();
        (last, failed.count() as f64 / sent.len().max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gap_is_the_longest_silence_between_answers() {
        let begin = Instant::now();
        let at = |ms: u64, name: Option<&str>| Probe {
            sent: begin + Duration::from_millis(ms),
            name: name.map(String::from),
        };
        let record = Record(vec![
            at(0, Some("2")),
            at(5, None),
            at(10, None),
            at(105, Some("1")),
            at(110, Some("1")),
        ]);
        let seen = record.around(begin);
        assert_eq!((seen.gap_ms.round() as u64, seen.failed), (100, 2));
        assert!(!record.steady(|_| true));
    }

    #[test]
    fn failures_are_counted_from_the_moment_on() {
        let begin = Instant::now();
        let at = |ms: u64, name: Option<&str>| Probe {
            sent: begin + Duration::from_millis(ms),
            name: name.map(String::from),
        };
        let record = Record(vec![
            at(0, None),
            at(10, None),
            at(20, Some("1")),
            at(30, None),
            at(40, Some("1")),
        ]);
        let (last, share) =
            record.failures(begin + Duration::from_millis(5), Duration::from_secs(1));
        assert_eq!((last.as_millis(), share.to_string().as_str()), (25, "0.5"));
    }
}
