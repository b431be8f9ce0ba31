//! Which commands there are, and the privilege each needs (appendix G).

use std::time::Instant;

use super::{Action, Bmc, Privilege, app, channel, chassis, fru, sdr, sel, sol};
use crate::ipmi::wire::message::Message;

/// Completion codes (5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Completion(pub(super) u8);

impl Completion {
    pub(super) const PARAMETER_NOT_SUPPORTED: Self = Self(0x80);
    pub(super) const INVALID_COMMAND: Self = Self(0xc1);
    pub(super) const OUT_OF_SPACE: Self = Self(0xc4);
    pub(super) const RESERVATION: Self = Self(0xc5);
    pub(super) const LENGTH: Self = Self(0xc7);
    pub(super) const OUT_OF_RANGE: Self = Self(0xc9);
    pub(super) const NOT_PRESENT: Self = Self(0xcb);
    pub(super) const INVALID_FIELD: Self = Self(0xcc);
    pub(super) const PRIVILEGE: Self = Self(0xd4);
    pub(super) const WRONG_STATE: Self = Self(0xd5);
}

pub(super) type Answer = Result<Vec<u8>, Completion>;

/// One command being run.
pub(super) struct Call<'a> {
    pub(super) bmc: &'a mut Bmc,
    pub(super) now: Instant,
    /// `None` outside a session.
    pub(super) session: Option<u32>,
    pub(super) data: &'a [u8],
    pub(super) actions: Vec<Action>,
    pub(super) after: After,
}

/// What is left to do once the response is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    Nothing,
    /// The command acted: a retry of it gets the same response and does not act again.
    Remember,
    Close(u32),
    Restart {
        cold: bool,
    },
}

impl<'a> Call<'a> {
    /// The request's data, if it is exactly this long.
    pub(super) fn exactly<const N: usize>(&self) -> Result<[u8; N], Completion> {
        self.data.try_into().map_err(|_| Completion::LENGTH)
    }

    /// The first bytes of the request's data, and the rest.
    pub(super) fn at_least<const N: usize>(&self) -> Result<([u8; N], &'a [u8]), Completion> {
        self.data
            .split_first_chunk()
            .map(|(head, rest)| (*head, rest))
            .ok_or(Completion::LENGTH)
    }
}

pub(super) struct Outcome {
    pub(super) response: Message,
    pub(super) actions: Vec<Action>,
    pub(super) after: After,
}

/// Runs a request, from the session or from outside any.
pub(super) fn run(bmc: &mut Bmc, now: Instant, session: Option<u32>, request: &Message) -> Outcome {
    let refuse = |completion: Completion| Outcome {
        response: request.response(completion.0, &[]),
        actions: Vec::new(),
        after: After::Nothing,
    };
    let found = COMMANDS
        .iter()
        .find(|command| (command.net_fn, command.code) == (request.net_fn, request.command));
    let Some(command) = found.filter(|_| request.to_lun == 0) else {
        return refuse(Completion::INVALID_COMMAND);
    };
    let privilege = session
        .and_then(|id| bmc.sessions.active(id))
        .map(|active| active.privilege);
    let acts = match command.needs {
        Needs::Nothing => false,
        Needs::At(least) => {
            if privilege.is_none_or(|privilege| privilege < least) {
                return refuse(Completion::PRIVILEGE);
            }
            least >= Privilege::Operator
        }
    };
    let after = if acts {
        After::Remember
    } else {
        After::Nothing
    };
    let mut call = Call {
        bmc,
        now,
        session,
        data: &request.data,
        actions: Vec::new(),
        after,
    };
    let (response, after) = match (command.run)(&mut call) {
        Ok(data) => (request.response(0, &data), call.after),
        Err(completion) => (request.response(completion.0, &[]), After::Nothing),
    };
    Outcome {
        response,
        actions: call.actions,
        after,
    }
}

struct Command {
    net_fn: u8,
    code: u8,
    needs: Needs,
    run: fn(&mut Call) -> Answer,
}

#[derive(Clone, Copy)]
enum Needs {
    /// Answered outside sessions too.
    Nothing,
    At(Privilege),
}

const CHASSIS: u8 = 0x00;
const SENSOR: u8 = 0x04;
const APP: u8 = 0x06;
const STORAGE: u8 = 0x0a;
const TRANSPORT: u8 = 0x0c;

const ANYONE: Needs = Needs::Nothing;
const CALLBACK: Needs = Needs::At(Privilege::Callback);
const USER: Needs = Needs::At(Privilege::User);
const OPERATOR: Needs = Needs::At(Privilege::Operator);
const ADMIN: Needs = Needs::At(Privilege::Administrator);

const fn command(net_fn: u8, code: u8, needs: Needs, run: fn(&mut Call) -> Answer) -> Command {
    Command {
        net_fn,
        code,
        needs,
        run,
    }
}

static COMMANDS: &[Command] = &[
    command(CHASSIS, 0x00, USER, chassis::get_capabilities),
    command(CHASSIS, 0x01, USER, chassis::get_status),
    command(CHASSIS, 0x02, OPERATOR, chassis::control),
    command(CHASSIS, 0x04, OPERATOR, chassis::identify),
    command(CHASSIS, 0x06, OPERATOR, chassis::set_restore_policy),
    command(CHASSIS, 0x07, USER, chassis::get_restart_cause),
    command(CHASSIS, 0x08, OPERATOR, chassis::set_boot_option),
    command(CHASSIS, 0x09, OPERATOR, chassis::get_boot_option),
    command(CHASSIS, 0x0f, USER, chassis::get_power_on_hours),
    command(SENSOR, 0x27, USER, sdr::get_thresholds),
    command(SENSOR, 0x2d, USER, sdr::get_reading),
    command(APP, 0x01, USER, app::get_device_id),
    command(APP, 0x02, ADMIN, app::cold_reset),
    command(APP, 0x03, ADMIN, app::warm_reset),
    command(APP, 0x04, USER, app::get_self_test),
    command(APP, 0x08, USER, app::get_guid),
    command(APP, 0x37, ANYONE, app::get_guid),
    command(APP, 0x38, ANYONE, channel::get_authentication_capabilities),
    command(APP, 0x3b, CALLBACK, app::set_privilege),
    command(APP, 0x3c, CALLBACK, app::close_session),
    command(APP, 0x3d, USER, app::get_session_info),
    command(APP, 0x41, USER, channel::get_access),
    command(APP, 0x42, USER, channel::get_info),
    command(APP, 0x44, OPERATOR, channel::get_user_access),
    command(APP, 0x46, OPERATOR, channel::get_user_name),
    command(APP, 0x48, USER, sol::activate),
    command(APP, 0x49, USER, sol::deactivate),
    command(APP, 0x4a, USER, sol::get_activation_status),
    command(APP, 0x4b, USER, sol::get_instance_info),
    command(APP, 0x4e, USER, sol::get_payload_support),
    command(APP, 0x4f, USER, sol::get_payload_version),
    command(APP, 0x54, ANYONE, channel::get_cipher_suites),
    command(STORAGE, 0x10, USER, fru::get_info),
    command(STORAGE, 0x11, USER, fru::read),
    command(STORAGE, 0x20, USER, sdr::get_info),
    command(STORAGE, 0x22, USER, sdr::reserve),
    command(STORAGE, 0x23, USER, sdr::get_record),
    command(STORAGE, 0x40, USER, sel::get_info),
    command(STORAGE, 0x41, USER, sel::get_allocation),
    command(STORAGE, 0x42, USER, sel::reserve),
    command(STORAGE, 0x43, USER, sel::get_entry),
    command(STORAGE, 0x44, OPERATOR, sel::add_entry),
    command(STORAGE, 0x47, OPERATOR, sel::clear),
    command(STORAGE, 0x48, USER, sel::get_time),
    command(STORAGE, 0x49, OPERATOR, sel::set_time),
    command(TRANSPORT, 0x02, OPERATOR, channel::get_lan_parameter),
    command(TRANSPORT, 0x21, ADMIN, sol::set_parameter),
    command(TRANSPORT, 0x22, USER, sol::get_parameter),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_command_is_listed_once() {
        let codes: BTreeSet<_> = COMMANDS
            .iter()
            .map(|command| (command.net_fn, command.code))
            .collect();
        assert_eq!(codes.len(), COMMANDS.len());
        assert!(
            COMMANDS.iter().all(|command| command.net_fn & 1 == 0),
            "odd network functions are responses"
        );
    }
}
