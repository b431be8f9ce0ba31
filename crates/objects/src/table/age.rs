//! Ages as kubectl shows them: the fewer digits the older.

use jiff::Timestamp;

/// The time since `then` for a person: `5m`, `3d4h`; `<unknown>` where there is none.
pub(super) fn since(then: &str, now: Timestamp) -> String {
    match then.parse::<Timestamp>() {
        Ok(then) => human(now.as_second() - then.as_second()),
        Err(_) => "<unknown>".into(),
    }
}

/// A number of seconds for a person.
pub(super) fn human(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let two = |big: i64, unit: char, small: i64, sub: char| match small {
        0 => format!("{big}{unit}"),
        small => format!("{big}{unit}{small}{sub}"),
    };
    match (seconds, minutes, hours) {
        (..-1, ..) => "<invalid>".into(),
        (..0, ..) => "0s".into(),
        (..120, ..) => format!("{seconds}s"),
        (_, ..10, _) => two(minutes, 'm', seconds % 60, 's'),
        (_, ..180, _) => format!("{minutes}m"),
        (_, _, ..8) => two(hours, 'h', minutes % 60, 'm'),
        (_, _, ..48) => format!("{hours}h"),
        (_, _, ..192) => two(hours / 24, 'd', hours % 24, 'h'),
        (_, _, ..17520) => format!("{}d", hours / 24),
        (_, _, ..70080) => two(hours / 24 / 365, 'y', hours / 24 % 365, 'd'),
        _ => format!("{}y", hours / 24 / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_lose_digits_as_they_grow() {
        let table = [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (179 * 60, "179m"),
            (3 * 3600, "3h"),
            (3 * 3600 + 60, "3h1m"),
            (8 * 3600 + 60, "8h"),
            (47 * 3600, "47h"),
            (49 * 3600, "2d1h"),
            (9 * 86400, "9d"),
            (729 * 86400, "729d"),
            (731 * 86400, "2y1d"),
            (9 * 365 * 86400, "9y"),
        ];
        for (seconds, shown) in table {
            assert_eq!(human(seconds), shown, "{seconds}");
        }
        let now = "2026-11-15T16:00:00Z".parse().unwrap();
        assert_eq!(since("", now), "<unknown>");
        assert_eq!(since("2026-11-15T15:59:00Z", now), "60s");
    }
}
