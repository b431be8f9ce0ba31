//! From an object's types to the decider's and back: they have the same JSON.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Error;

pub fn converted<T: DeserializeOwned>(
    kind: &'static str,
    name: &str,
    from: impl Serialize,
) -> Result<T, Error> {
    serde_json::to_value(from)
        .and_then(serde_json::from_value)
        .map_err(|source| Error::NotUnderstood {
            kind,
            name: name.to_owned(),
            source,
        })
}

/// A length of time as Kubernetes writes it: `10m`, `1h30m`, `2.5s`, `0`.
pub fn duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(digits);
        let letters = tail
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let unit = match unit {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        let seconds = number.parse::<f64>().ok()? * unit;
        total = total.checked_add(Duration::try_from_secs_f64(seconds).ok()?)?;
        rest = tail;
    }
    (!text.is_empty()).then_some(total)
}

#[test]
fn lengths_of_time_are_read_as_kubernetes_writes_them() {
    for (text, expected) in [
        ("0", Some(0)),
        ("10m", Some(600_000)),
        ("1h30m0s", Some(5_400_000)),
        ("2.5s", Some(2_500)),
        ("300ms", Some(300)),
        ("", None),
        ("m", None),
        ("10", None),
        ("10 m", None),
        ("99999999999999999999h", None),
    ] {
        let read = duration(text).map(|length| length.as_millis());
        assert_eq!(read, expected, "{text:?}");
    }
}
