//! The value of one hint: an operator and what it compares with.
//!
//! ```text
//!   ">= 100"    "s== abc"    "<in> SAMSUNG"    "<or> sda <or> sdb"    "<all-in> ssd 970"    "<range-in> [ 10 20 )"
//! ```

use std::fmt;

use serde_json::Value;

use super::Field;

/// What a value must be like. Letters count the same in either case, and runs of blanks as one.
#[derive(Debug, Clone, PartialEq)]
pub enum Pattern {
    Number(Compare, f64),
    Text(Compare, String),
    Contains(String),
    ContainsAll(Vec<String>),
    AnyOf(Vec<String>),
    Range(Bound, Bound),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compare {
    Equal,
    NotEqual,
    AtLeast,
    Above,
    AtMost,
    Below,
}

/// One end of a range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    pub at: f64,
    pub inclusive: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    #[error("{0} is not a text, number or boolean")]
    Type(String),
    #[error("nothing to compare with in {0:?}")]
    Empty(String),
    #[error("{0:?} is not a number")]
    Number(String),
    #[error("{0:?} is not true or false")]
    Boolean(String),
    #[error("{0:?} is not a range; write it as in <range-in> [ 10 20 ]")]
    Range(String),
}

/// Longer operators first: `>=` is not `>` followed by `=`.
const NUMERIC: [(&str, Compare); 7] = [
    ("==", Compare::Equal),
    ("!=", Compare::NotEqual),
    (">=", Compare::AtLeast),
    ("<=", Compare::AtMost),
    // As Ironic has it: a single equals sign is "at least".
    ("=", Compare::AtLeast),
    (">", Compare::Above),
    ("<", Compare::Below),
];
const TEXTUAL: [(&str, Compare); 6] = [
    ("s==", Compare::Equal),
    ("s!=", Compare::NotEqual),
    ("s>=", Compare::AtLeast),
    ("s<=", Compare::AtMost),
    ("s>", Compare::Above),
    ("s<", Compare::Below),
];

impl Pattern {
    pub fn parse(field: Field, written: &Value) -> Result<Self, PatternError> {
        let text = match written {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(flag) => flag.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => {
                return Err(PatternError::Type(written.to_string()));
            }
        };
        let text = normal(&text);
        if text.is_empty() {
            return Err(PatternError::Empty(text));
        }
        if field == Field::Rotational {
            return boolean(&text);
        }
        let (operator, operand) = text.split_once(' ').unwrap_or((&text, ""));
        if let Some(special) = Self::special(&text, operator, operand)? {
            return Ok(special);
        }
        let find = |table: &[(&str, Compare)]| {
            table
                .iter()
                .find(|(name, _)| *name == operator)
                .map(|(_, c)| *c)
        };
        let (numeric, textual) = (find(&NUMERIC), find(&TEXTUAL));
        if operand.is_empty() && numeric.or(textual).is_some() {
            return Err(PatternError::Empty(text));
        }
        match (numeric, textual) {
            (Some(compare), _) => Ok(Self::Number(compare, number(operand)?)),
            (None, Some(compare)) => Ok(Self::Text(compare, operand.to_string())),
            (None, None) if field == Field::Size => {
                Ok(Self::Number(Compare::Equal, number(&text)?))
            }
            (None, None) => Ok(Self::Text(Compare::Equal, text)),
        }
    }

    fn special(text: &str, operator: &str, operand: &str) -> Result<Option<Self>, PatternError> {
        let empty = || PatternError::Empty(text.to_string());
        Ok(Some(match operator {
            "<in>" if operand.is_empty() => return Err(empty()),
            "<in>" => Self::Contains(operand.to_string()),
            "<all-in>" => {
                let parts: Vec<_> = operand
                    .split(' ')
                    .filter(|part| !part.is_empty())
                    .map(String::from)
                    .collect();
                if parts.is_empty() {
                    return Err(empty());
                }
                Self::ContainsAll(parts)
            }
            "<or>" => {
                let parts: Vec<_> = operand
                    .split("<or>")
                    .map(|part| part.trim().to_string())
                    .collect();
                if parts.iter().any(String::is_empty) {
                    return Err(empty());
                }
                Self::AnyOf(parts)
            }
            "<range-in>" => range(operand)?,
            _ => return Ok(None),
        }))
    }

    pub fn matches(&self, value: &str) -> bool {
        let value = normal(value);
        match self {
            Self::Number(compare, wanted) => value
                .parse()
                .is_ok_and(|value: f64| compare.holds(value.partial_cmp(wanted))),
            Self::Text(compare, wanted) => compare.holds(Some(value.as_str().cmp(wanted))),
            Self::Contains(part) => value.contains(part.as_str()),
            Self::ContainsAll(parts) => parts.iter().all(|part| value.contains(part.as_str())),
            Self::AnyOf(wanted) => wanted.contains(&value),
            Self::Range(low, high) => value.parse().is_ok_and(|value: f64| {
                (value > low.at || low.inclusive && value >= low.at)
                    && (value < high.at || high.inclusive && value <= high.at)
            }),
        }
    }
}

impl Compare {
    fn holds(self, order: Option<std::cmp::Ordering>) -> bool {
        use std::cmp::Ordering::{Equal, Greater, Less};
        match self {
            Self::Equal => order == Some(Equal),
            Self::NotEqual => order != Some(Equal),
            Self::AtLeast => matches!(order, Some(Greater | Equal)),
            Self::Above => order == Some(Greater),
            Self::AtMost => matches!(order, Some(Less | Equal)),
            Self::Below => order == Some(Less),
        }
    }

    fn sign(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::AtLeast => ">=",
            Self::Above => ">",
            Self::AtMost => "<=",
            Self::Below => "<",
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(compare, number) => write!(f, "{} {number}", compare.sign()),
            Self::Text(compare, text) => write!(f, "s{} {text}", compare.sign()),
            Self::Contains(part) => write!(f, "<in> {part}"),
            Self::ContainsAll(parts) => write!(f, "<all-in> {}", parts.join(" ")),
            Self::AnyOf(parts) => write!(f, "<or> {}", parts.join(" <or> ")),
            Self::Range(low, high) => {
                let (open, close) = (
                    if low.inclusive { '[' } else { '(' },
                    if high.inclusive { ']' } else { ')' },
                );
                write!(f, "<range-in> {open} {} {} {close}", low.at, high.at)
            }
        }
    }
}

/// One case, single blanks, and blanks that were written as in a URL.
fn normal(text: &str) -> String {
    let text = text.replace("%20", " ").to_lowercase();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn number(text: &str) -> Result<f64, PatternError> {
    let number: f64 = text
        .parse()
        .map_err(|_| PatternError::Number(text.to_string()))?;
    if number.is_finite() {
        Ok(number)
    } else {
        Err(PatternError::Number(text.to_string()))
    }
}

fn boolean(text: &str) -> Result<Pattern, PatternError> {
    let value = text.strip_prefix("s== ").unwrap_or(text);
    let flag = match value {
        "true" | "yes" | "on" | "1" | "t" | "y" => true,
        "false" | "no" | "off" | "0" | "f" | "n" => false,
        _ => return Err(PatternError::Boolean(text.to_string())),
    };
    Ok(Pattern::Text(Compare::Equal, flag.to_string()))
}

fn range(operand: &str) -> Result<Pattern, PatternError> {
    let error = || PatternError::Range(operand.to_string());
    let inner = operand.trim();
    let low_inclusive = match inner.chars().next() {
        Some('[') => true,
        Some('(') => false,
        _ => return Err(error()),
    };
    let high_inclusive = match inner.chars().last() {
        Some(']') => true,
        Some(')') => false,
        _ => return Err(error()),
    };
    let inner = inner
        .get(1..inner.len().saturating_sub(1))
        .ok_or_else(error)?;
    let parts: Vec<_> = inner.split_whitespace().collect();
    let [low, high] = parts[..] else {
        return Err(error());
    };
    let bound = |text, inclusive| {
        Ok(Bound {
            at: number(text)?,
            inclusive,
        })
    };
    let (low, high) = (bound(low, low_inclusive)?, bound(high, high_inclusive)?);
    if low.at > high.at {
        return Err(error());
    }
    Ok(Pattern::Range(low, high))
}
