//! Which disk the operating system goes to: hints, as Ironic and metal3 write them, and the one disk they mean.
//!
//! DEVIATION: Ironic's agent takes the first disk that matches. Here hints that fit several disks are an error that
//! names them: no disk is written by guess.

mod pattern;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::inventory::Disk;
pub use pattern::{Pattern, PatternError};

/// What a disk must be like; all hints together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(into = "BTreeMap<String, Value>", try_from = "BTreeMap<String, Value>")]
pub struct Hints(BTreeMap<Field, Pattern>);

/// What can be hinted at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    /// GiB, rounded down.
    Size,
    Model,
    Vendor,
    Serial,
    Wwn,
    WwnWithExtension,
    WwnVendorExtension,
    Name,
    Hctl,
    ByPath,
    Rotational,
    Tran,
}

impl Field {
    pub const ALL: [Self; 12] = [
        Self::Size,
        Self::Model,
        Self::Vendor,
        Self::Serial,
        Self::Wwn,
        Self::WwnWithExtension,
        Self::WwnVendorExtension,
        Self::Name,
        Self::Hctl,
        Self::ByPath,
        Self::Rotational,
        Self::Tran,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Size => "size",
            Self::Model => "model",
            Self::Vendor => "vendor",
            Self::Serial => "serial",
            Self::Wwn => "wwn",
            Self::WwnWithExtension => "wwn_with_extension",
            Self::WwnVendorExtension => "wwn_vendor_extension",
            Self::Name => "name",
            Self::Hctl => "hctl",
            Self::ByPath => "by_path",
            Self::Rotational => "rotational",
            Self::Tran => "tran",
        }
    }

    /// What a disk has to say to this; more than one where a disk has several names.
    fn of(self, disk: &Disk) -> Vec<String> {
        let one = |value: &Option<String>| value.iter().cloned().collect();
        match self {
            Self::Size => vec![(disk.size >> 30).to_string()],
            Self::Model => vec![disk.model.clone()],
            Self::Vendor => one(&disk.vendor),
            Self::Serial => one(&disk.serial),
            Self::Wwn => one(&disk.wwn),
            Self::WwnWithExtension => one(&disk.wwn_with_extension),
            Self::WwnVendorExtension => one(&disk.wwn_vendor_extension),
            // A hint may name the disk by its path, which is a link to the name.
            Self::Name => std::iter::once(disk.name.clone())
                .chain(disk.by_path.clone())
                .collect(),
            Self::Hctl => one(&disk.hctl),
            Self::ByPath => one(&disk.by_path),
            Self::Rotational => vec![disk.rotational.to_string()],
            Self::Tran => one(&disk.tran),
        }
    }
}

/// What is wrong with hints as written; every problem, by field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct HintsError(pub Vec<String>);

/// Why no disk can be chosen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    #[error("the server has no disk")]
    NoDisks,
    #[error("no disk matches the root device hints: {}", .0.join("; "))]
    NoMatch(Vec<String>),
    #[error("{} disks match the root device hints, and one is wanted: {}; add a hint that tells them apart, such as serial", .0.len(), .0.join(", "))]
    Several(Vec<String>),
    #[error("without root device hints the smallest disk of at least {SMALLEST_GIB} GiB is taken, and there is none: {}", .0.join(", "))]
    TooSmall(Vec<String>),
    #[error("without root device hints the smallest disk is taken, and {} are of one size; give a hint that tells them apart, such as serial", .0.join(", "))]
    Tie(Vec<String>),
}

/// Without hints, a disk must have room for an operating system.
const SMALLEST_GIB: u64 = 4;

impl Hints {
    /// Reads hints from a JSON object, as in `root_device`.
    pub fn parse(written: &BTreeMap<String, Value>) -> Result<Self, HintsError> {
        let mut hints = BTreeMap::new();
        let mut problems = vec![];
        for (name, value) in written {
            let Some(field) = Field::ALL.into_iter().find(|field| field.name() == name) else {
                let known = Field::ALL.map(Field::name).join(", ");
                problems.push(format!(
                    "root device hint {name:?} is not known; there are {known}"
                ));
                continue;
            };
            match Pattern::parse(field, value) {
                Ok(pattern) => _ = hints.insert(field, pattern),
                Err(error) => problems.push(format!("root device hint {name}: {error}")),
            }
        }
        if problems.is_empty() {
            Ok(Self(hints))
        } else {
            Err(HintsError(problems))
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The one disk that is meant.
    pub fn select<'a>(&self, disks: &'a [Disk]) -> Result<&'a Disk, SelectError> {
        if disks.is_empty() {
            return Err(SelectError::NoDisks);
        }
        if self.is_empty() {
            return smallest(disks);
        }
        let refused: Vec<_> = disks
            .iter()
            .map(|disk| (disk, self.mismatch(disk)))
            .collect();
        let matching: Vec<_> = refused.iter().filter(|(_, why)| why.is_none()).collect();
        match matching[..] {
            [(disk, _)] => Ok(disk),
            [] => {
                let why = |(disk, why): &(&Disk, Option<String>)| {
                    format!("{}: {}", disk.name, why.as_deref().unwrap_or_default())
                };
                Err(SelectError::NoMatch(refused.iter().map(why).collect()))
            }
            _ => Err(SelectError::Several(
                matching.iter().map(|(disk, _)| disk.name.clone()).collect(),
            )),
        }
    }

    /// The first hint that the disk does not meet, in words.
    fn mismatch(&self, disk: &Disk) -> Option<String> {
        self.0.iter().find_map(|(field, pattern)| {
            let values = field.of(disk);
            if values.iter().any(|value| pattern.matches(value)) {
                return None;
            }
            let is = if values.is_empty() {
                "not known".to_string()
            } else {
                format!("{:?}", values.join(" or "))
            };
            Some(format!("{} is {is}, not {pattern}", field.name()))
        })
    }
}

fn smallest(disks: &[Disk]) -> Result<&Disk, SelectError> {
    let sized = |disk: &Disk| format!("{} ({} GiB)", disk.name, disk.size >> 30);
    let mut fit: Vec<_> = disks
        .iter()
        .filter(|disk| disk.size >> 30 >= SMALLEST_GIB)
        .collect();
    fit.sort_by_key(|disk| disk.size);
    match fit[..] {
        [] => Err(SelectError::TooSmall(disks.iter().map(sized).collect())),
        [first, second, ..] if first.size == second.size => {
            let same = fit.iter().filter(|disk| disk.size == first.size);
            Err(SelectError::Tie(same.map(|disk| sized(disk)).collect()))
        }
        [first, ..] => Ok(first),
    }
}

impl TryFrom<BTreeMap<String, Value>> for Hints {
    type Error = HintsError;

    fn try_from(written: BTreeMap<String, Value>) -> Result<Self, HintsError> {
        Self::parse(&written)
    }
}

impl From<Hints> for BTreeMap<String, Value> {
    fn from(hints: Hints) -> Self {
        let written = |(field, pattern): (Field, Pattern)| {
            (field.name().to_string(), Value::String(pattern.to_string()))
        };
        hints.0.into_iter().map(written).collect()
    }
}

impl fmt::Display for Hints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hints: Vec<_> = self
            .0
            .iter()
            .map(|(field, pattern)| format!("{} {pattern}", field.name()))
            .collect();
        f.write_str(&hints.join(", "))
    }
}

#[cfg(test)]
mod tests;
