//! A table of what was measured, for people and as JSON.

use std::fs;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::build;

/// All rows of one benchmark.
pub struct Report {
    name: &'static str,
    about: String,
    rows: Vec<Row>,
}

impl Report {
    pub fn new(name: &'static str, about: impl Into<String>) -> Self {
        Self {
            name,
            about: about.into(),
            rows: Vec::new(),
        }
    }

    pub fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Prints the table, writes it beside the build, and fails if a target was missed.
    pub fn finish(self) -> Result<()> {
        println!("\n{}", self.about);
        println!("median (least to most); the ratio says how many times better ours is\n");
        let mut lines =
            vec![["what", "incumbent", "", "ours", "ratio", "target", "met"].map(String::from)];
        lines.extend(self.rows.iter().map(Row::cells));
        let widths: Vec<usize> = (0..7)
            .map(|at| {
                lines
                    .iter()
                    .map(|line| line[at].chars().count())
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        for line in &lines {
            let cells = line
                .iter()
                .zip(&widths)
                .map(|(cell, width)| format!("{cell:width$}"));
            println!("{}", cells.collect::<Vec<_>>().join("  ").trim_end());
        }
        let dir = build::target_dir().join("bench");
        fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
        let path = dir.join(format!("{}.json", self.name));
        let rows: Vec<Value> = self.rows.iter().map(Row::json).collect();
        let document = json!({"name": self.name, "about": self.about, "rows": rows});
        fs::write(&path, format!("{document:#}\n"))
            .with_context(|| format!("write {}", path.display()))?;
        println!("\nalso in {}", path.display());
        let missed: Vec<&str> = self
            .rows
            .iter()
            .filter(|row| row.met() == Some(false))
            .map(|row| row.what.as_str())
            .collect();
        if !missed.is_empty() {
            bail!("targets missed: {}", missed.join(", "));
        }
        Ok(())
    }
}

/// One thing measured, of theirs and of ours.
pub struct Row {
    what: String,
    unit: &'static str,
    better: Better,
    target: Target,
    incumbent: &'static str,
    theirs: Vec<f64>,
    ours: Vec<f64>,
}

#[derive(Clone, Copy)]
pub enum Better {
    More,
    Less,
}

/// What ours must reach.
#[derive(Clone, Copy)]
pub enum Target {
    /// So many times better than the incumbent, by the medians.
    Times(f64),
    /// Our median, at most.
    Under(f64),
    /// Our worst, at most.
    NeverOver(f64),
    /// Our median, at least.
    Over(f64),
    /// Only shown.
    None,
}

impl Row {
    pub fn new(
        what: impl Into<String>,
        unit: &'static str,
        better: Better,
        target: Target,
    ) -> Self {
        Self {
            what: what.into(),
            unit,
            better,
            target,
            incumbent: "",
            theirs: Vec::new(),
            ours: Vec::new(),
        }
    }

    pub fn beside(mut self, incumbent: &'static str) -> Self {
        self.incumbent = incumbent;
        self
    }

    pub fn theirs(&mut self, value: f64) {
        self.theirs.push(value);
    }

    pub fn ours(&mut self, value: f64) {
        self.ours.push(value);
    }

    /// All samples at once.
    pub fn with(
        mut self,
        theirs: impl IntoIterator<Item = f64>,
        ours: impl IntoIterator<Item = f64>,
    ) -> Self {
        self.theirs.extend(theirs);
        self.ours.extend(ours);
        self
    }

    pub fn their_median(&self) -> Option<f64> {
        median(&self.theirs)
    }

    /// How many times better ours is; above 1 is better.
    fn ratio(&self) -> Option<f64> {
        let (theirs, ours) = (self.their_median()?, median(&self.ours)?);
        let ratio = match self.better {
            Better::More => ours / theirs,
            Better::Less => theirs / ours,
        };
        ratio.is_finite().then_some(ratio)
    }

    fn met(&self) -> Option<bool> {
        let ours = median(&self.ours)?;
        match self.target {
            Target::Times(times) => Some(self.ratio()? >= times),
            Target::Under(most) => Some(ours <= most),
            Target::NeverOver(most) => Some(self.ours.iter().all(|value| *value <= most)),
            Target::Over(least) => Some(ours >= least),
            Target::None => None,
        }
    }

    fn cells(&self) -> [String; 7] {
        let target = match self.target {
            Target::Times(times) => format!(">= {times:.0}x"),
            Target::Under(most) => format!("< {}", round(most)),
            Target::NeverOver(most) => format!("worst < {}", round(most)),
            Target::Over(least) => format!("> {}", round(least)),
            Target::None => String::new(),
        };
        let met = match self.met() {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "",
        };
        [
            format!("{}, {}", self.what, self.unit),
            self.incumbent.to_string(),
            spread(&self.theirs),
            spread(&self.ours),
            self.ratio()
                .map_or(String::new(), |ratio| format!("{}x", round(ratio))),
            target,
            met.to_string(),
        ]
    }

    fn json(&self) -> Value {
        json!({
            "what": self.what,
            "unit": self.unit,
            "incumbent": self.incumbent,
            "theirs": self.theirs,
            "ours": self.ours,
            "ratio": self.ratio(),
            "target": self.cells()[5],
            "met": self.met(),
        })
    }
}

pub fn median(values: &[f64]) -> Option<f64> {
    percentile(values, 0.5)
}

/// The value that this share of all does not exceed.
pub fn percentile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len() as f64 * share) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied()
}

fn spread(values: &[f64]) -> String {
    let (Some(middle), Some(least), Some(most)) = (
        median(values),
        percentile(values, 0.0),
        percentile(values, 1.0),
    ) else {
        return "-".into();
    };
    format!("{} ({} to {})", round(middle), round(least), round(most))
}

/// Three digits that mean something.
fn round(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(better: Better, target: Target) -> Row {
        let mut row = Row::new("x", "ms", better, target);
        row.theirs = vec![10.0, 30.0, 20.0];
        row.ours = vec![2.0, 8.0, 4.0];
        row
    }

    #[test]
    fn a_ratio_above_one_is_better_whatever_is_counted() {
        assert_eq!(row(Better::Less, Target::None).ratio(), Some(5.0));
        assert_eq!(row(Better::More, Target::None).ratio(), Some(0.2));
    }

    #[test]
    fn a_target_is_met_by_the_median_or_by_the_worst() {
        assert_eq!(row(Better::Less, Target::Times(5.0)).met(), Some(true));
        assert_eq!(row(Better::Less, Target::Times(5.1)).met(), Some(false));
        assert_eq!(row(Better::Less, Target::Under(5.0)).met(), Some(true));
        assert_eq!(row(Better::Less, Target::NeverOver(5.0)).met(), Some(false));
        assert_eq!(row(Better::Less, Target::Over(4.0)).met(), Some(true));
        assert_eq!(row(Better::Less, Target::None).met(), None);
    }

    #[test]
    fn a_row_without_samples_claims_nothing() {
        let empty = Row::new("x", "ms", Better::Less, Target::Times(1.0));
        assert_eq!(empty.met(), None);
        assert_eq!(empty.cells()[2], "-");
    }
}
