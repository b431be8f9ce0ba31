//! Faults on demand: what is broken on one server, how often, and how many times it has struck.
//!
//! A fault is asked for where it would strike: [`Faults::strikes`] says whether it does this time, and counts.
//! With a chance below 100 the answer comes from a generator seeded by the fault, so a run can be repeated.

use std::sync::{Arc, Mutex, PoisonError};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::hardware::Network;

/// What is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Kind {
    /// The BMC does not answer at all: its address is gone from the network.
    BmcDown,
    /// Every answer of the BMC takes this much longer.
    BmcSlow { millis: u64 },
    /// The BMC answers requests with this server error.
    BmcError { status: u16 },
    /// The BMC forgets its sessions: a token that was valid is refused.
    DropsSessions,
    /// A reset is acknowledged and not carried out.
    IgnoresReset,
    /// The BMC reports on for off and off for on.
    LiesAboutPower,
    /// A boot override is acknowledged and forgotten at the next power change.
    ForgetsBootOverride,
    /// Inserted media is gone when the server starts.
    EjectsMedia,
    /// The server loses power now.
    LosesPower,
    /// The link to a network has no carrier.
    LinkDown { network: Network },
    /// Frames to and from a network are lost at random.
    LinkLossy { network: Network, percent: u8 },
    /// Reads and writes of the disks fail.
    DiskErrors,
    /// The server resets itself, this long after every start.
    BootLoop { millis: u64 },
    /// Data fetched for this server arrives with bytes changed.
    CorruptsTransfer,
}

impl Kind {
    /// One example of each kind with its default parameters, in the order of the manual.
    pub const EXAMPLES: [Self; 14] = [
        Self::BmcDown,
        Self::BmcSlow { millis: 3000 },
        Self::BmcError { status: 503 },
        Self::DropsSessions,
        Self::IgnoresReset,
        Self::LiesAboutPower,
        Self::ForgetsBootOverride,
        Self::EjectsMedia,
        Self::LosesPower,
        Self::LinkDown {
            network: Network::Provisioning,
        },
        Self::LinkLossy {
            network: Network::Provisioning,
            percent: 20,
        },
        Self::DiskErrors,
        Self::BootLoop { millis: 5000 },
        Self::CorruptsTransfer,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::BmcDown => "bmc-down",
            Self::BmcSlow { .. } => "bmc-slow",
            Self::BmcError { .. } => "bmc-error",
            Self::DropsSessions => "drops-sessions",
            Self::IgnoresReset => "ignores-reset",
            Self::LiesAboutPower => "lies-about-power",
            Self::ForgetsBootOverride => "forgets-boot-override",
            Self::EjectsMedia => "ejects-media",
            Self::LosesPower => "loses-power",
            Self::LinkDown { .. } => "link-down",
            Self::LinkLossy { .. } => "link-lossy",
            Self::DiskErrors => "disk-errors",
            Self::BootLoop { .. } => "boot-loop",
            Self::CorruptsTransfer => "corrupts-transfer",
        }
    }
}

/// A fault as the operator asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    #[serde(flatten)]
    pub kind: Kind,
    /// How many times it strikes before it is over; without a count, until cleared.
    #[serde(default)]
    pub count: Option<u32>,
    /// Percent of the occasions on which it strikes.
    #[serde(default = "always")]
    pub chance: u8,
    #[serde(default)]
    pub seed: u64,
}

fn always() -> u8 {
    100
}

impl Order {
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            count: None,
            chance: always(),
            seed: 0,
        }
    }

    /// Whether it makes sense. A fault that lasts has no occasions to count or to roll dice on.
    pub fn check(&self) -> Result<(), String> {
        let lasts = match self.kind {
            Kind::BmcDown
            | Kind::LiesAboutPower
            | Kind::LinkDown { .. }
            | Kind::LinkLossy { .. }
            | Kind::DiskErrors => true,
            Kind::BmcSlow { .. }
            | Kind::BmcError { .. }
            | Kind::DropsSessions
            | Kind::IgnoresReset
            | Kind::ForgetsBootOverride
            | Kind::EjectsMedia
            | Kind::LosesPower
            | Kind::BootLoop { .. }
            | Kind::CorruptsTransfer => false,
        };
        if lasts && (self.count.is_some() || self.chance < 100) {
            return Err(format!(
                "{} lasts until it is cleared: it takes no --count and no --chance",
                self.kind.name()
            ));
        }
        if !(1..=100).contains(&self.chance) {
            return Err(format!("a chance of {} %: give 1 to 100", self.chance));
        }
        match self.kind {
            Kind::LinkLossy { percent, .. } if !(1..=100).contains(&percent) => {
                Err(format!("{percent} % of frames: give 1 to 100"))
            }
            Kind::BmcError { status } if !(400..=599).contains(&status) => {
                Err(format!("status {status}: give 400 to 599"))
            }
            Kind::BmcDown
            | Kind::BmcSlow { .. }
            | Kind::BmcError { .. }
            | Kind::DropsSessions
            | Kind::IgnoresReset
            | Kind::LiesAboutPower
            | Kind::ForgetsBootOverride
            | Kind::EjectsMedia
            | Kind::LosesPower
            | Kind::LinkDown { .. }
            | Kind::LinkLossy { .. }
            | Kind::DiskErrors
            | Kind::BootLoop { .. }
            | Kind::CorruptsTransfer => Ok(()),
        }
    }

    #[must_use]
    pub fn times(self, count: u32) -> Self {
        Self {
            count: Some(count),
            ..self
        }
    }
}

/// A fault in force, or spent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    pub id: u32,
    #[serde(flatten)]
    pub order: Order,
    /// How many times it has struck.
    pub struck: u32,
}

impl Fault {
    pub fn is_spent(&self) -> bool {
        self.order.count.is_some_and(|count| self.struck >= count)
    }
}

/// The faults of one server, shared by its board, its chassis and its BMC.
#[derive(Debug, Clone, Default)]
pub struct Faults(Arc<Mutex<Shared>>);

#[derive(Debug, Default)]
struct Shared {
    next_id: u32,
    list: Vec<(Fault, SmallRng)>,
}

impl Faults {
    pub fn add(&self, order: Order) -> Fault {
        let mut shared = self.lock();
        shared.next_id += 1;
        let rng = SmallRng::seed_from_u64(order.seed);
        // Power that is lost is lost once.
        let once = (order.kind == Kind::LosesPower).then_some(1);
        let order = Order {
            count: order.count.or(once),
            ..order
        };
        let fault = Fault {
            id: shared.next_id,
            order,
            struck: 0,
        };
        shared.list.push((fault.clone(), rng));
        fault
    }

    /// All faults ever ordered and not cleared, spent ones included.
    pub fn list(&self) -> Vec<Fault> {
        self.lock()
            .list
            .iter()
            .map(|(fault, _)| fault.clone())
            .collect()
    }

    /// Removes one fault, or all; returns what was removed.
    pub fn clear(&self, id: Option<u32>) -> Vec<Fault> {
        let mut shared = self.lock();
        let (gone, kept) = std::mem::take(&mut shared.list)
            .into_iter()
            .partition(|(fault, _)| id.is_none_or(|id| fault.id == id));
        shared.list = kept;
        gone.into_iter()
            .map(|(fault, _): (Fault, SmallRng)| fault)
            .collect()
    }

    /// Asks whether a fault strikes on this occasion, and counts it if so.
    ///
    /// `pick` chooses the kind and takes out its parameters:
    /// `faults.strikes(|kind| match kind { Kind::BmcSlow { millis } => Some(millis), .. })`.
    pub fn strikes<T>(&self, pick: impl Fn(Kind) -> Option<T>) -> Option<T> {
        for (fault, rng) in &mut self.lock().list {
            if fault.is_spent() {
                continue;
            }
            let Some(picked) = pick(fault.order.kind) else {
                continue;
            };
            if fault.order.chance >= 100 || rng.random_range(0..100) < fault.order.chance {
                fault.struck += 1;
                return Some(picked);
            }
        }
        None
    }

    /// As [`Self::strikes`], for a kind without parameters.
    pub fn hits(&self, wanted: Kind) -> bool {
        self.strikes(|kind| (kind == wanted).then_some(()))
            .is_some()
    }

    /// As [`Self::in_force`], for a kind without parameters.
    pub fn holds(&self, wanted: Kind) -> bool {
        self.in_force(|kind| (kind == wanted).then_some(()))
            .is_some()
    }

    /// Whether a lasting fault is in force; does not count.
    pub fn in_force<T>(&self, pick: impl Fn(Kind) -> Option<T>) -> Option<T> {
        self.lock()
            .list
            .iter()
            .filter(|(fault, _)| !fault.is_spent())
            .find_map(|(fault, _)| pick(fault.order.kind))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ignores_reset(faults: &Faults) -> bool {
        faults.hits(Kind::IgnoresReset)
    }

    #[test]
    fn a_counted_fault_strikes_that_often_and_stays_listed_as_spent() {
        let faults = Faults::default();
        faults.add(Order::new(Kind::IgnoresReset).times(2));
        assert!(ignores_reset(&faults) && ignores_reset(&faults));
        assert!(!ignores_reset(&faults));
        let list = faults.list();
        assert!(list[0].is_spent());
        assert_eq!(list[0].struck, 2);
    }

    #[test]
    fn the_same_seed_strikes_on_the_same_occasions() {
        let run = |seed| {
            let faults = Faults::default();
            faults.add(Order {
                chance: 50,
                seed,
                ..Order::new(Kind::IgnoresReset)
            });
            (0..64).map(|_| ignores_reset(&faults)).collect::<Vec<_>>()
        };
        assert_eq!(run(7), run(7));
        assert_ne!(run(7), run(8));
        assert!(run(7).contains(&true) && run(7).contains(&false));
    }

    #[test]
    fn clearing_one_leaves_the_others() {
        let faults = Faults::default();
        let first = faults.add(Order::new(Kind::IgnoresReset));
        faults.add(Order::new(Kind::BmcDown));
        assert_eq!(faults.clear(Some(first.id)), [first]);
        assert!(!ignores_reset(&faults));
        assert_eq!(faults.clear(None).len(), 1);
    }

    #[test]
    fn an_order_is_written_flat() {
        let order: Order = serde_json::from_str(
            r#"{"kind":"link-lossy","network":"baremetal","percent":5,"count":3}"#,
        )
        .unwrap();
        assert_eq!(
            order.kind,
            Kind::LinkLossy {
                network: Network::Baremetal,
                percent: 5
            }
        );
        assert_eq!((order.count, order.chance), (Some(3), 100));
        for kind in Kind::EXAMPLES {
            assert_eq!(serde_json::to_value(kind).unwrap()["kind"], kind.name());
        }
    }
}
