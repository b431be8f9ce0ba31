//! Power, the identify light, and what to boot from (28).

use std::time::{Duration, Instant};

use super::Action;
use super::table::{Answer, Call, Completion};
use crate::ipmi::chassis::{BootFlags, Control, Identify, PowerState, RestorePolicy};

#[derive(Debug)]
pub(super) struct State {
    pub(super) restore_policy: RestorePolicy,
    boot: BootOptions,
    identify: Light,
    /// Whether the last change of power was asked for by a Chassis Control.
    by_command: bool,
    on_for: Duration,
    power: Power,
}

#[derive(Debug)]
struct BootOptions {
    flags: BootFlags,
    /// When the flags stop being valid, unless a Chassis Control comes first.
    lapse_at: Option<Instant>,
    /// Parameter 3: five bits, each a reason not to clear the valid bit.
    clearing: u8,
    /// Parameter 4: who has handled the boot info.
    acknowledge: u8,
    /// Parameter 6: who set the options; kept for whoever asks.
    initiator: [u8; 9],
    /// Parameter 0.
    progress: u8,
    /// Bit n: parameter n is marked invalid.
    invalid: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Light {
    Off,
    Until(Instant),
    Forever,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Power {
    Off,
    OnSince(Instant),
}

/// 28.13, parameter 3: "don't clear the valid bit if no Chassis Control comes within 60 seconds".
const KEEP_WITHOUT_CONTROL: u8 = 0x08;
const BOOT_FLAGS_LAPSE: Duration = Duration::from_mins(1);
const IDENTIFY_DEFAULT: Duration = Duration::from_secs(15);

impl State {
    pub(super) fn new() -> Self {
        Self {
            restore_policy: RestorePolicy::Previous,
            boot: BootOptions {
                flags: BootFlags::NONE,
                lapse_at: None,
                clearing: 0,
                acknowledge: 0,
                initiator: [0; 9],
                progress: 0,
                invalid: 0,
            },
            identify: Light::Off,
            by_command: false,
            on_for: Duration::ZERO,
            power: Power::Off,
        }
    }

    pub(super) fn flags(&self) -> BootFlags {
        self.boot.flags
    }

    pub(super) fn wake_at(&self) -> Option<Instant> {
        let light = match self.identify {
            Light::Until(at) => Some(at),
            Light::Off | Light::Forever => None,
        };
        [self.boot.lapse_at, light].into_iter().flatten().min()
    }

    pub(super) fn expire(&mut self, now: Instant, actions: &mut Vec<Action>) {
        if self.boot.lapse_at.is_some_and(|at| at <= now) {
            self.boot.lapse_at = None;
            self.boot.flags.valid = false;
            actions.push(Action::SetBootFlags(self.boot.flags));
        }
        if matches!(self.identify, Light::Until(at) if at <= now) {
            self.identify = Light::Off;
            actions.push(Action::Identify(Identify::Off));
        }
    }

    pub(super) fn booted(&mut self, actions: &mut Vec<Action>) {
        self.boot.lapse_at = None;
        if self.boot.flags.valid && !self.boot.flags.persistent {
            self.boot.flags = BootFlags::NONE;
            actions.push(Action::SetBootFlags(BootFlags::NONE));
        }
    }

    pub(super) fn set_flags_from_outside(&mut self, flags: BootFlags) {
        self.boot.flags = flags;
        self.boot.lapse_at = None;
    }

    pub(super) fn powered(&mut self, now: Instant, power: PowerState) {
        self.on_for = self.on_for(now);
        self.power = match power {
            PowerState::Off => Power::Off,
            PowerState::On => Power::OnSince(now),
        };
    }

    fn on_for(&self, now: Instant) -> Duration {
        match self.power {
            Power::Off => self.on_for,
            Power::OnSince(since) => self.on_for + now.saturating_duration_since(since),
        }
    }
}

pub(super) fn get_capabilities(_call: &mut Call) -> Answer {
    let bmc = crate::ipmi::wire::message::BMC_ADDRESS;
    // No intrusion sensor, lockout or interlock; FRU, SDR, SEL and management are all here.
    Ok(vec![0, bmc, bmc, bmc, bmc])
}

pub(super) fn get_status(call: &mut Call) -> Answer {
    let state = &call.bmc.chassis;
    let on = u8::from(call.bmc.view.power == PowerState::On);
    let light = match state.identify {
        Light::Off => 0,
        Light::Until(_) => 1,
        Light::Forever => 2,
    };
    let identify_supported = 0x40;
    Ok(vec![
        on | state.restore_policy.code() << 5,
        u8::from(state.by_command && on == 1) << 4,
        identify_supported | light << 4,
        0,
    ])
}

pub(super) fn control(call: &mut Call) -> Answer {
    let [code] = call.exactly()?;
    let control = Control::from_code(code & 0x0f).ok_or(Completion::INVALID_FIELD)?;
    let act = match (control, call.bmc.view.power) {
        (Control::Cycle | Control::Reset | Control::DiagnosticInterrupt, PowerState::Off) => {
            return Err(Completion::WRONG_STATE);
        }
        (Control::SoftShutdown, PowerState::Off) => false,
        (
            Control::PowerOn
            | Control::PowerOff
            | Control::Cycle
            | Control::Reset
            | Control::DiagnosticInterrupt
            | Control::SoftShutdown,
            PowerState::On,
        )
        | (Control::PowerOn | Control::PowerOff, PowerState::Off) => true,
    };
    call.bmc.chassis.boot.lapse_at = None;
    call.bmc.chassis.by_command = true;
    if act {
        call.actions.push(Action::Chassis(control));
    }
    Ok(vec![])
}

pub(super) fn identify(call: &mut Call) -> Answer {
    let wish = match call.data {
        [] => Identify::For(IDENTIFY_DEFAULT),
        [_, force, ..] if force & 1 == 1 => Identify::Forever,
        [0, ..] => Identify::Off,
        [seconds, ..] => Identify::For(Duration::from_secs((*seconds).into())),
    };
    call.bmc.chassis.identify = match wish {
        Identify::Off => Light::Off,
        Identify::For(time) => Light::Until(call.now + time),
        Identify::Forever => Light::Forever,
    };
    call.actions.push(Action::Identify(wish));
    Ok(vec![])
}

pub(super) fn set_restore_policy(call: &mut Call) -> Answer {
    let [code] = call.exactly()?;
    // 3 asks which policies exist and changes nothing.
    if code & 0x07 != 3 {
        let policy = RestorePolicy::from_code(code & 0x07).ok_or(Completion::INVALID_FIELD)?;
        call.bmc.chassis.restore_policy = policy;
        call.actions.push(Action::SetRestorePolicy(policy));
    }
    let all_three = 0x07;
    Ok(vec![all_three])
}

pub(super) fn get_restart_cause(call: &mut Call) -> Answer {
    let (unknown, chassis_control) = (0, 1);
    let cause = if call.bmc.chassis.by_command {
        chassis_control
    } else {
        unknown
    };
    Ok(vec![cause, super::channel::LAN_CHANNEL])
}

pub(super) fn get_power_on_hours(call: &mut Call) -> Answer {
    let minutes_per_count: u8 = 60;
    let hours = call.bmc.chassis.on_for(call.now).as_secs() / 3600;
    let mut answer = vec![minutes_per_count];
    answer.extend((hours as u32).to_le_bytes());
    Ok(answer)
}

pub(super) fn set_boot_option(call: &mut Call) -> Answer {
    let ([selector], data) = call.at_least()?;
    let parameter = selector & 0x7f;
    let options = &mut call.bmc.chassis.boot;
    match (parameter, data) {
        (0..=6, []) => {}
        (0, [progress]) => {
            // 28.12: two consoles must not mix their settings.
            if progress & 3 == 1 && options.progress == 1 {
                return Err(SET_IN_PROGRESS);
            }
            // "Commit write" has nothing left to commit: each write takes effect at once.
            options.progress = u8::from(progress & 3 == 1);
        }
        (3, [clearing]) => {
            options.clearing = clearing & 0x1f;
            if options.clearing & KEEP_WITHOUT_CONTROL != 0 {
                options.lapse_at = None;
            }
        }
        (4, [mask, acknowledge]) => {
            options.acknowledge = options.acknowledge & !mask | acknowledge & mask;
        }
        (5, data) => {
            let flags = BootFlags::decode(data.try_into().map_err(|_| Completion::LENGTH)?);
            let lapses = flags.valid && options.clearing & KEEP_WITHOUT_CONTROL == 0;
            options.flags = flags;
            options.lapse_at = lapses.then(|| call.now + BOOT_FLAGS_LAPSE);
            call.actions.push(Action::SetBootFlags(flags));
        }
        (6, data) => options.initiator = data.try_into().map_err(|_| Completion::LENGTH)?,
        (0 | 3 | 4, _) => return Err(Completion::LENGTH),
        _ => return Err(Completion::PARAMETER_NOT_SUPPORTED),
    }
    let mark = 1 << parameter;
    if selector & 0x80 == 0 {
        options.invalid &= !mark;
    } else {
        options.invalid |= mark;
    }
    Ok(vec![])
}

/// Set System Boot Options: another console is setting them.
const SET_IN_PROGRESS: Completion = Completion(0x81);

pub(super) fn get_boot_option(call: &mut Call) -> Answer {
    let [selector, _set, _block] = call.exactly()?;
    let options = &call.bmc.chassis.boot;
    let parameter = selector & 0x7f;
    let data = match parameter {
        0 => vec![options.progress],
        3 => vec![options.clearing],
        4 => vec![0, options.acknowledge],
        5 => options.flags.encode().to_vec(),
        6 => options.initiator.to_vec(),
        _ => return Err(Completion::PARAMETER_NOT_SUPPORTED),
    };
    let version = 1;
    let mut answer = vec![version, (options.invalid >> parameter & 1) << 7 | parameter];
    answer.extend(data);
    Ok(answer)
}
