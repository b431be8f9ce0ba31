//! The part of a server that decides: what a reset, a boot override, a medium or a dying board mean.
//!
//! ```text
//!            On, ForceOn, button            board started
//!     Off ───────────────────────▶ Starting ─────────────▶ On ──┐ reset (ours or the guest's):
//!      ▲                                                   │ ▲──┘ a new boot begins
//!      │  board stopped                                    │ ForceOff, cycle
//!      └──────────────────────────────────────── Stopping ◀┘
//! ```
//!
//! A boot *begins* at every start and every reset. Then, and only then: a `Once` override is used up, pending
//! BIOS attributes become current, and the faults that strike at boot do so.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::boot::{self, Device, Lasting, Override, Plan};
use crate::fault::{Faults, Kind};
use crate::hardware::{Firmware, Network};

pub type Attributes = BTreeMap<String, Value>;

/// The life of a server between its BMC and its board.
#[derive(Debug)]
pub struct Chassis {
    state: State,
    /// Firmware and secure boot as they will be at the next cold start.
    wanted: Cold,
    /// Firmware and secure boot of the last cold start.
    current: Cold,
    boot: Option<Override>,
    http_uri: Option<String>,
    media: Option<Media>,
    bios: Attributes,
    bios_pending: Attributes,
    boots: u64,
    wires: Wires,
    faults: Faults,
}

/// The faults that lie in cables and disks rather than in what the server does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wires {
    pub unplugged: BTreeSet<Network>,
    /// Percent of frames lost.
    pub lossy: BTreeMap<Network, u8>,
    pub disk_errors: bool,
}

/// What only a cold start can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cold {
    firmware: Firmware,
    secure_boot: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Off,
    Starting,
    On { then: AfterOff },
    Stopping { then: AfterOff },
}

/// What follows when the board has stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AfterOff {
    StayOff,
    StartAgain,
}

/// An image in the virtual drive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Media {
    /// Where the BMC fetched it from.
    pub url: String,
    /// The BMC's copy of it.
    pub file: PathBuf,
    pub write_protected: bool,
}

/// The reset types of Redfish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reset {
    On,
    ForceOn,
    ForceOff,
    GracefulShutdown,
    GracefulRestart,
    ForceRestart,
    PowerCycle,
    PushPowerButton,
    Nmi,
}

impl Reset {
    pub const ALL: [Self; 9] = [
        Self::On,
        Self::ForceOn,
        Self::ForceOff,
        Self::GracefulShutdown,
        Self::GracefulRestart,
        Self::ForceRestart,
        Self::PowerCycle,
        Self::PushPowerButton,
        Self::Nmi,
    ];
}

/// What reaches the chassis: a BMC's wish, or news from the board.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    Reset(Reset),
    /// `None` takes an override back.
    SetBoot(Option<Override>),
    SetHttpUri(Option<String>),
    SetFirmware(Firmware),
    SetSecureBoot(bool),
    Insert(Media),
    Eject,
    SetBios(Attributes),
    ResetBios,
    /// Faults were added or cleared.
    FaultsChanged,
    BoardStarted,
    BoardStopped,
    /// The guest, or its firmware, reset the machine.
    BoardReset,
}

/// What the board is to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    Start(Plan),
    Stop,
    Reset,
    PressPowerButton,
    Nmi,
    /// The order of the next boot, should there be one without a new start.
    NextBoot(Vec<Device>),
    Load(Media),
    Unload,
    /// Reset the machine after this long, unless it has stopped by then.
    ResetIn(Duration),
    /// How cables and disks are from now on, running or not.
    Wire(Wires),
}

/// Why a wish cannot be granted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("{0:?} needs a server that is on; it is off")]
    NeedsPower(Reset),
    #[error("UefiHttp needs UEFI firmware; this server starts in BIOS mode")]
    NeedsUefi,
    #[error("secure boot needs UEFI firmware; this server starts in BIOS mode")]
    SecureBootNeedsUefi,
    #[error("BIOS attribute {0:?} is not known")]
    UnknownAttribute(String),
    #[error("BIOS attribute {name:?} is {expected}; got {got}")]
    WrongAttributeType {
        name: String,
        expected: &'static str,
        got: String,
    },
}

/// Power as a BMC reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Power {
    Off,
    PoweringOn,
    On,
    PoweringOff,
}

impl Power {
    /// What a lying BMC says.
    fn inverted(self) -> Self {
        match self {
            Self::Off | Self::PoweringOff => Self::On,
            Self::On | Self::PoweringOn => Self::Off,
        }
    }
}

/// Everything there is to see of a chassis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct View {
    pub power: Power,
    /// What the BMC says of power, which is not always true.
    pub reported_power: Power,
    pub boot: Option<Override>,
    pub http_uri: Option<String>,
    /// The firmware that runs, or would run.
    pub firmware: Firmware,
    pub secure_boot: SecureBoot,
    pub media: Option<Media>,
    pub bios: Attributes,
    pub bios_pending: Attributes,
    /// How many boots have begun since the lab came up.
    pub boots: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecureBoot {
    /// As it will be at the next cold start.
    pub enabled: bool,
    /// As it was at the last.
    pub current: bool,
}

impl Chassis {
    pub fn new(firmware: Firmware, faults: Faults) -> Self {
        let cold = Cold {
            firmware,
            secure_boot: false,
        };
        Self {
            state: State::Off,
            wanted: cold,
            current: cold,
            boot: None,
            http_uri: None,
            media: None,
            bios: default_bios(),
            bios_pending: Attributes::new(),
            boots: 0,
            wires: Wires::default(),
            faults,
        }
    }

    pub fn view(&self) -> View {
        let power = match self.state {
            State::Off => Power::Off,
            State::Starting => Power::PoweringOn,
            State::On { .. } => Power::On,
            State::Stopping { .. } => Power::PoweringOff,
        };
        let lies = self.faults.holds(Kind::LiesAboutPower);
        View {
            power,
            reported_power: if lies { power.inverted() } else { power },
            boot: self.boot,
            http_uri: self.http_uri.clone(),
            firmware: self.wanted.firmware,
            secure_boot: SecureBoot {
                enabled: self.wanted.secure_boot,
                current: self.current.secure_boot,
            },
            media: self.media.clone(),
            bios: self.bios.clone(),
            bios_pending: self.bios_pending.clone(),
            boots: self.boots,
        }
    }

    /// Takes in what happened; a refused wish changes nothing.
    pub fn handle(&mut self, event: Event) -> Result<Vec<Action>, Refusal> {
        match event {
            Event::Reset(reset) => self.reset(reset),
            Event::SetBoot(wanted) => self.set_boot(wanted),
            Event::SetHttpUri(uri) => {
                self.http_uri = uri;
                Ok(vec![])
            }
            Event::SetFirmware(firmware) => {
                self.wanted.firmware = firmware;
                self.wanted.secure_boot &= firmware == Firmware::Uefi;
                Ok(vec![])
            }
            Event::SetSecureBoot(on) if on && self.wanted.firmware == Firmware::Bios => {
                Err(Refusal::SecureBootNeedsUefi)
            }
            Event::SetSecureBoot(on) => {
                self.wanted.secure_boot = on;
                Ok(vec![])
            }
            Event::Insert(media) => {
                self.media = Some(media.clone());
                Ok(vec![Action::Load(media)])
            }
            Event::Eject => Ok(match self.media.take() {
                Some(_) => vec![Action::Unload],
                None => vec![],
            }),
            Event::SetBios(attributes) => self.set_bios(attributes),
            Event::ResetBios => {
                self.bios_pending = default_bios();
                Ok(vec![])
            }
            Event::FaultsChanged => Ok(self.faults_changed()),
            Event::BoardStarted => Ok(self.board_started()),
            Event::BoardStopped => Ok(self.board_stopped()),
            Event::BoardReset => Ok(self.board_reset()),
        }
    }

    fn reset(&mut self, reset: Reset) -> Result<Vec<Action>, Refusal> {
        let off = matches!(
            self.state,
            State::Off
                | State::Stopping {
                    then: AfterOff::StayOff
                }
        );
        if reset == Reset::Nmi && off {
            return Err(Refusal::NeedsPower(reset));
        }
        if self.faults.hits(Kind::IgnoresReset) {
            return Ok(vec![]);
        }
        let starts = match reset {
            Reset::On | Reset::ForceOn => true,
            Reset::GracefulRestart
            | Reset::ForceRestart
            | Reset::PowerCycle
            | Reset::PushPowerButton => off,
            Reset::ForceOff | Reset::GracefulShutdown | Reset::Nmi => false,
        };
        if starts {
            return Ok(self.start());
        }
        Ok(match reset {
            Reset::On | Reset::ForceOn => vec![],
            Reset::ForceOff => self.stop(AfterOff::StayOff),
            Reset::GracefulShutdown | Reset::PushPowerButton => {
                self.press_button(AfterOff::StayOff)
            }
            Reset::GracefulRestart => self.press_button(AfterOff::StartAgain),
            // The boot that was asked for is about to begin.
            Reset::ForceRestart | Reset::Nmi if self.state == State::Starting => vec![],
            // What only a cold start can change needs one.
            Reset::ForceRestart if self.wanted != self.current => self.stop(AfterOff::StartAgain),
            Reset::ForceRestart => vec![Action::Reset],
            Reset::PowerCycle => self.stop(AfterOff::StartAgain),
            Reset::Nmi => vec![Action::Nmi],
        })
    }

    fn faults_changed(&mut self) -> Vec<Action> {
        let mut wires = Wires::default();
        for fault in self
            .faults
            .list()
            .into_iter()
            .filter(|fault| !fault.is_spent())
        {
            match fault.order.kind {
                Kind::LinkDown { network } => _ = wires.unplugged.insert(network),
                Kind::LinkLossy { network, percent } => _ = wires.lossy.insert(network, percent),
                Kind::DiskErrors => wires.disk_errors = true,
                Kind::BmcDown
                | Kind::BmcSlow { .. }
                | Kind::BmcError { .. }
                | Kind::DropsSessions
                | Kind::IgnoresReset
                | Kind::LiesAboutPower
                | Kind::ForgetsBootOverride
                | Kind::EjectsMedia
                | Kind::LosesPower
                | Kind::BootLoop { .. }
                | Kind::CorruptsTransfer => {}
            }
        }
        let mut actions = vec![];
        if wires != self.wires {
            self.wires = wires.clone();
            actions.push(Action::Wire(wires));
        }
        if self.faults.hits(Kind::LosesPower) {
            actions.extend(self.stop(AfterOff::StayOff));
        }
        actions
    }

    fn start(&mut self) -> Vec<Action> {
        match self.state {
            State::Off => {
                self.state = State::Starting;
                self.current = self.wanted;
                let mut actions = self.begin_boot();
                let plan = Plan {
                    firmware: self.current.firmware,
                    secure_boot: self.current.secure_boot,
                    order: boot::order(self.boot),
                    http_uri: self.http_uri.clone(),
                };
                actions.insert(
                    actions.iter().take_while(|a| **a == Action::Unload).count(),
                    Action::Start(plan),
                );
                actions
            }
            State::Stopping { .. } => {
                self.state = State::Stopping {
                    then: AfterOff::StartAgain,
                };
                vec![]
            }
            State::Starting | State::On { .. } => vec![],
        }
    }

    fn stop(&mut self, then: AfterOff) -> Vec<Action> {
        match self.state {
            State::Off => vec![],
            State::Starting | State::On { .. } => {
                self.state = State::Stopping { then };
                vec![Action::Stop]
            }
            State::Stopping { .. } => {
                self.state = State::Stopping { then };
                vec![]
            }
        }
    }

    fn press_button(&mut self, then: AfterOff) -> Vec<Action> {
        match self.state {
            State::Off | State::Stopping { .. } => vec![],
            // Firmware that has not started yet obeys the button at once.
            State::Starting => self.stop(then),
            State::On { .. } => {
                self.state = State::On { then };
                vec![Action::PressPowerButton]
            }
        }
    }

    fn board_started(&mut self) -> Vec<Action> {
        match self.state {
            State::Starting => {
                self.state = State::On {
                    then: AfterOff::StayOff,
                };
                self.use_up_override()
            }
            State::Off | State::On { .. } | State::Stopping { .. } => vec![],
        }
    }

    fn board_stopped(&mut self) -> Vec<Action> {
        let then = match self.state {
            State::Off | State::Starting => AfterOff::StayOff,
            State::On { then } | State::Stopping { then } => then,
        };
        self.state = State::Off;
        match then {
            AfterOff::StayOff => vec![],
            AfterOff::StartAgain => self.start(),
        }
    }

    fn board_reset(&mut self) -> Vec<Action> {
        match self.state {
            State::On { .. } => {
                let mut actions = self.begin_boot();
                actions.extend(self.use_up_override());
                actions
            }
            State::Off | State::Starting | State::Stopping { .. } => vec![],
        }
    }

    /// What every boot begins with, whether by a start or by a reset.
    fn begin_boot(&mut self) -> Vec<Action> {
        self.boots += 1;
        self.bios.append(&mut self.bios_pending);
        let mut actions = vec![];
        if self.media.is_some() && self.faults.hits(Kind::EjectsMedia) {
            self.media = None;
            actions.push(Action::Unload);
        }
        if self.boot.is_some() && self.faults.hits(Kind::ForgetsBootOverride) {
            self.boot = None;
        }
        let loops = self.faults.strikes(|kind| {
            if let Kind::BootLoop { millis } = kind {
                Some(millis)
            } else {
                None
            }
        });
        if let Some(millis) = loops {
            actions.push(Action::ResetIn(Duration::from_millis(millis)));
        }
        actions
    }

    /// A `Once` override has had its boot: the next one follows the firmware's order again.
    fn use_up_override(&mut self) -> Vec<Action> {
        match self.boot {
            Some(Override {
                lasting: Lasting::Once,
                ..
            }) => {
                self.boot = None;
                vec![Action::NextBoot(boot::order(None))]
            }
            Some(Override {
                lasting: Lasting::Continuous,
                ..
            })
            | None => vec![],
        }
    }

    fn set_boot(&mut self, wanted: Option<Override>) -> Result<Vec<Action>, Refusal> {
        if wanted.is_some_and(|o| o.device == Device::UefiHttp)
            && self.wanted.firmware == Firmware::Bios
        {
            return Err(Refusal::NeedsUefi);
        }
        self.boot = wanted;
        Ok(match self.state {
            State::On { .. } => vec![Action::NextBoot(boot::order(wanted))],
            // `Starting` has its order already: the override waits for the boot after this one.
            State::Off | State::Starting | State::Stopping { .. } => vec![],
        })
    }

    fn set_bios(&mut self, attributes: Attributes) -> Result<Vec<Action>, Refusal> {
        for (name, value) in &attributes {
            let known = self
                .bios
                .get(name)
                .ok_or_else(|| Refusal::UnknownAttribute(name.clone()))?;
            if kind_of(known) != kind_of(value) {
                return Err(Refusal::WrongAttributeType {
                    name: name.clone(),
                    expected: kind_of(known),
                    got: value.to_string(),
                });
            }
        }
        self.bios_pending.extend(attributes);
        Ok(vec![])
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Attributes such as a server's set-up menu has.
fn default_bios() -> Attributes {
    [
        ("BootSeqRetry", json!("Enabled")),
        ("LogicalProc", json!("Enabled")),
        ("MemTest", json!("Disabled")),
        ("NumCores", json!(0)),
        ("PowerProfile", json!("PerfPerWatt")),
        ("ProcTurboMode", json!("Enabled")),
        ("ProcVirtualization", json!("Enabled")),
        ("PxeDev1EnDis", json!("Enabled")),
        ("SerialComm", json!("OnConRedir")),
        ("SriovGlobalEnable", json!("Disabled")),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_string(), value))
    .collect()
}
