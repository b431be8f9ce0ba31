//! What is wrong with a file: every problem at once, each with its place and what would be right.

use std::fmt;

use serde::Serialize;

use crate::yaml::Place;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The field, such as `platform.baremetal.hosts[1].bmc.address`; empty for the file as a whole.
    pub path: String,
    #[serde(flatten)]
    pub at: Option<Place>,
    pub what: String,
    /// What would be right.
    pub remedy: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            f.write_str(&self.path)?;
        }
        if let Some(at) = self.at {
            let gap = if self.path.is_empty() { "" } else { " " };
            write!(f, "{gap}({at})")?;
        }
        if !self.path.is_empty() || self.at.is_some() {
            f.write_str(": ")?;
        }
        f.write_str(&self.what)?;
        if !self.remedy.is_empty() {
            write!(f, "; {}", self.remedy)?;
        }
        Ok(())
    }
}

/// Collects what is wrong, and what is only worth a word.
#[derive(Debug, Default)]
pub struct Problems {
    pub errors: Vec<Problem>,
    pub warnings: Vec<Problem>,
    /// What came after the list was full.
    unlisted: usize,
}

/// A person corrects no more at a time; a file that is no install-config has thousands.
const MOST: usize = 200;

impl Problems {
    pub fn add(
        &mut self,
        path: impl Into<String>,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        if self.is_full() {
            self.unlisted += 1;
            return;
        }
        self.errors.push(Problem {
            path: path.into(),
            at: None,
            what: what.into(),
            remedy: remedy.into(),
        });
    }

    /// No more will be listed, only counted.
    pub fn is_full(&self) -> bool {
        self.errors.len() >= MOST
    }

    pub fn add_at(
        &mut self,
        path: impl Into<String>,
        at: Place,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        let full = self.is_full();
        self.add(path, what, remedy);
        if let (false, Some(last)) = (full, self.errors.last_mut()) {
            last.at = Some(at);
        }
    }

    pub fn warn(
        &mut self,
        path: impl Into<String>,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        if self.warnings.len() >= MOST {
            return;
        }
        self.warnings.push(Problem {
            path: path.into(),
            at: None,
            what: what.into(),
            remedy: remedy.into(),
        });
    }

    /// The problems in the order of the file, and how many are not among them.
    pub fn into_errors(mut self) -> Vec<Problem> {
        self.errors
            .sort_by_key(|p| p.at.map(|at| (at.line, at.column)));
        if self.unlisted > 0 {
            self.errors.push(Problem {
                path: String::new(),
                at: None,
                what: format!("{} more problems are not listed", self.unlisted),
                remedy: "correct these first".into(),
            });
        }
        self.errors
    }

    /// Gives every problem that has none the place of its field, or of the nearest field around it.
    pub fn locate(&mut self, find: impl Fn(&str) -> Option<Place>) {
        for problem in self.errors.iter_mut().chain(&mut self.warnings) {
            problem.at = problem.at.or_else(|| find(&problem.path));
        }
    }
}

/// The known word that was probably meant.
pub fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    // A person's typo is short; a long word of a stranger is not worth the arithmetic.
    if word.len() > 64 {
        return None;
    }
    let within = (word.len() / 3).max(2);
    known
        .into_iter()
        .map(|known| (distance(&word, &known.to_lowercase()), known))
        .filter(|(far, known)| *far <= within && *far < known.len())
        .min_by_key(|(far, _)| *far)
        .map(|(_, known)| known)
}

/// How many letters must change (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = corner + usize::from(x != *y);
            corner = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(corner + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_known_word_is_offered_and_a_stranger_is_not() {
        let known = ["apiVIPs", "ingressVIPs", "hosts"];
        assert_eq!(did_you_mean("apivip", known), Some("apiVIPs"));
        assert_eq!(did_you_mean("host", known), Some("hosts"));
        assert_eq!(did_you_mean("bananas", known), None);
        assert_eq!(did_you_mean("x", known), None);
    }
}
