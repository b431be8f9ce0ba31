//! Patterns as Go writes them, for an engine that reads a few characters differently.

use regex::{Regex, RegexBuilder};

/// A pattern and the text it was written with.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    pub(super) written: String,
    regex: Regex,
}

/// What a pattern may cost in memory.
const PATTERN_BYTES: usize = 10 << 20;

impl Pattern {
    pub(super) fn parse(written: &str) -> Result<Self, String> {
        let regex = RegexBuilder::new(&translated(written))
            .size_limit(PATTERN_BYTES)
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self {
            written: written.into(),
            regex,
        })
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

/// Escapes what only this engine gives a meaning: within a class `[`, `&`, `~` and a dash after a dash; outside of one a
/// brace that opens no repetition.
fn translated(written: &str) -> String {
    let mut out = String::with_capacity(written.len());
    let mut chars = written.char_indices().peekable();
    // Where the class began; its first character may be a closing bracket.
    let mut class: Option<usize> = None;
    while let Some((at, c)) = chars.next() {
        match (class, c) {
            (_, '\\') => {
                out.push(c);
                let escaped = chars.next().map(|(_, c)| c);
                out.extend(escaped);
                // `\p{L}` and `\x{e9}` have braces of their own.
                if let Some('p' | 'P' | 'x') = escaped
                    && chars.next_if(|(_, c)| *c == '{').is_some()
                {
                    out.push('{');
                }
            }
            (None, '[') => {
                out.push('[');
                if chars.next_if(|(_, c)| *c == '^').is_some() {
                    out.push('^');
                }
                if chars.next_if(|(_, c)| *c == ']').is_some() {
                    out.push_str("\\]");
                }
                class = Some(at);
            }
            (None, '{') if !is_repetition(&written[at..]) => out.push_str("\\{"),
            (Some(_), ']') => {
                out.push(']');
                class = None;
            }
            (Some(_), '[') => match named_class(&written[at..]) {
                Some(name) => {
                    out.push_str(name);
                    for _ in 1..name.chars().count() {
                        chars.next();
                    }
                }
                None => out.push_str("\\["),
            },
            (Some(_), '&' | '~') => {
                out.push('\\');
                out.push(c);
            }
            (Some(_), '-') if out.ends_with('-') && !out.ends_with("\\-") => out.push_str("\\-"),
            (Some(_) | None, c) => out.push(c),
        }
    }
    out
}

/// `{2}`, `{2,}`, `{2,3}`.
fn is_repetition(text: &str) -> bool {
    let Some((inside, _)) = text[1..].split_once('}') else {
        return false;
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    match inside.split_once(',') {
        None => !inside.is_empty() && digits(inside),
        Some((least, most)) => !least.is_empty() && digits(least) && digits(most),
    }
}

/// `[:alpha:]` at the start of the text.
fn named_class(text: &str) -> Option<&str> {
    let end = text.strip_prefix("[:")?.find(":]")?;
    let name = &text[2..2 + end];
    let plain = name.bytes().all(|b| b.is_ascii_lowercase() || b == b'^');
    plain.then(|| &text[..end + 4])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_in_go() {
        let table = [
            ("^[^][]+$", "ab", "a["),
            ("^[a&&b]+$", "a&b", "c"),
            ("^[a~b]+$", "~", "c"),
            ("^[[:alpha:]_]+$", "a_b", "1"),
            ("^[+--]+$", ",", "a"),
            ("^a{2}$", "aa", "a"),
            ("^a{b$", "a{b", "ab"),
            ("^\\p{L}+$", "é", "1"),
            ("^(?i)x$", "X", "y"),
            ("^a\\/b$", "a/b", "ab"),
            ("^[\\w.-]+$", "a.b-c", " "),
            ("^[]a]$", "]", "b"),
        ];
        for (written, good, bad) in table {
            let pattern = Pattern::parse(written).expect(written);
            assert!(pattern.matches(good), "{written} {good}");
            assert!(!pattern.matches(bad), "{written} {bad}");
        }
        assert!(Pattern::parse("(").is_err());
        assert!(Pattern::parse("(a{1000}){1000}").is_err());
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_pattern_or_refused(text in "[\\[\\]{}a&~^\\\\(:,0-9é-]{0,20}") {
            if let Ok(pattern) = Pattern::parse(&text) {
                pattern.matches("a");
            }
        }
    }
}
