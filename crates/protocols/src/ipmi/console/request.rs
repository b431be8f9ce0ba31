//! What one asks a BMC, and what its answers mean.

use super::Privilege;
use crate::ipmi::chassis::{BootFlags, Control, PowerState};

/// A command: network function, command, data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub net_fn: u8,
    pub command: u8,
    pub data: Vec<u8>,
}

const CHASSIS: u8 = 0x00;
const APP: u8 = 0x06;

const SOL_PAYLOAD: u8 = 1;
const SOL_INSTANCE: u8 = 1;

impl Request {
    pub fn get_device_id() -> Self {
        Self {
            net_fn: APP,
            command: 0x01,
            data: vec![],
        }
    }

    pub fn get_chassis_status() -> Self {
        Self {
            net_fn: CHASSIS,
            command: 0x01,
            data: vec![],
        }
    }

    pub fn chassis_control(control: Control) -> Self {
        Self {
            net_fn: CHASSIS,
            command: 0x02,
            data: vec![control.code()],
        }
    }

    /// Boot option 3, "do not clear the flags if no power command comes within 60 seconds". Send it before the flags.
    pub fn keep_boot_flags() -> Self {
        Self {
            net_fn: CHASSIS,
            command: 0x08,
            data: vec![3, 0x08],
        }
    }

    pub fn set_boot_flags(flags: BootFlags) -> Self {
        let mut data = vec![5];
        data.extend(flags.encode());
        Self {
            net_fn: CHASSIS,
            command: 0x08,
            data,
        }
    }

    pub fn get_boot_flags() -> Self {
        Self {
            net_fn: CHASSIS,
            command: 0x09,
            data: vec![5, 0, 0],
        }
    }

    /// Activate Payload (24.1): SOL, encrypted and authenticated, alerts of the shared serial port put off meanwhile.
    pub(super) fn activate_sol() -> Self {
        let (encrypted, authenticated, alerts_deferred) = (0x80, 0x40, 0x04);
        Self {
            net_fn: APP,
            command: 0x48,
            data: vec![
                SOL_PAYLOAD,
                SOL_INSTANCE,
                encrypted | authenticated | alerts_deferred,
                0,
                0,
                0,
            ],
        }
    }

    /// Deactivate Payload (24.2), whosever it is.
    pub(super) fn deactivate_sol() -> Self {
        Self {
            net_fn: APP,
            command: 0x49,
            data: vec![SOL_PAYLOAD, SOL_INSTANCE, 0, 0, 0, 0],
        }
    }

    /// Get Payload Instance Info (24.4): which session has the port.
    pub(super) fn get_sol_owner() -> Self {
        Self {
            net_fn: APP,
            command: 0x4b,
            data: vec![SOL_PAYLOAD, SOL_INSTANCE],
        }
    }

    pub(super) fn set_session_privilege(privilege: Privilege) -> Self {
        Self {
            net_fn: APP,
            command: 0x3b,
            data: vec![privilege.code()],
        }
    }

    pub(super) fn close_session(session: u32) -> Self {
        Self {
            net_fn: APP,
            command: 0x3c,
            data: session.to_le_bytes().to_vec(),
        }
    }
}

/// A completion code, and the data after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub completion: u8,
    pub data: Vec<u8>,
}

/// Why an answer does not tell what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    #[error("completion code {code:#04x}: {}", completion_text(*code))]
    Refused { code: u8 },
    #[error("the answer has {length} bytes, too few")]
    Short { length: usize },
}

impl Answer {
    /// The data of a command that succeeded.
    pub fn ok(&self) -> Result<&[u8], AnswerError> {
        match self.completion {
            0 => Ok(&self.data),
            code => Err(AnswerError::Refused { code }),
        }
    }

    /// Of Get Chassis Status.
    pub fn power(&self) -> Result<PowerState, AnswerError> {
        let [state, ..] = self.ok()? else {
            return Err(self.short());
        };
        Ok(if state & 1 == 1 {
            PowerState::On
        } else {
            PowerState::Off
        })
    }

    /// Of Get System Boot Options for parameter 5.
    pub fn boot_flags(&self) -> Result<BootFlags, AnswerError> {
        let [_version, selector, flags @ ..] = self.ok()? else {
            return Err(self.short());
        };
        let (bytes, _) = flags.split_first_chunk().ok_or_else(|| self.short())?;
        let invalid = selector & 0x80 != 0;
        let flags = BootFlags::decode(*bytes);
        Ok(BootFlags {
            valid: flags.valid && !invalid,
            ..flags
        })
    }

    fn short(&self) -> AnswerError {
        AnswerError::Short {
            length: self.data.len(),
        }
    }
}

fn completion_text(code: u8) -> &'static str {
    match code {
        0xc0 => "node busy",
        0xc1 => "invalid command",
        0xc3 => "timeout",
        0xc4 => "out of space",
        0xc7 => "request data length invalid",
        0xc9 => "parameter out of range",
        0xcb => "not present",
        0xcc => "invalid data field",
        0xd2 => "BMC initialization in progress",
        0xd4 => "insufficient privilege level",
        0xd5 => "not supported in present state",
        0xff => "unspecified error",
        _ => "see the command's own codes",
    }
}
