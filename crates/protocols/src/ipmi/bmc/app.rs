//! The device itself and its sessions (20 and 22).

use std::net::IpAddr;

use super::Privilege;
use super::channel::LAN_CHANNEL;
use super::table::{After, Answer, Call, Completion};

pub(super) fn get_device_id(call: &mut Call) -> Answer {
    let device = &call.bmc.config.device;
    let [m0, m1, m2, _] = device.manufacturer.to_le_bytes();
    let [p0, p1] = device.product.to_le_bytes();
    let minor = device.firmware_minor.min(99);
    Ok(vec![
        device.id,
        device.revision & 0x0f,
        device.firmware_major & 0x7f,
        ((minor / 10) << 4) | (minor % 10),
        IPMI_2_0,
        CHASSIS_DEVICE | FRU_DEVICE | SEL_DEVICE | SDR_DEVICE | SENSOR_DEVICE,
        m0,
        m1,
        m2,
        p0,
        p1,
        0,
        0,
        0,
        0,
    ])
}

/// Binary coded, low digit first.
const IPMI_2_0: u8 = 0x02;
const CHASSIS_DEVICE: u8 = 0x80;
const FRU_DEVICE: u8 = 0x08;
const SEL_DEVICE: u8 = 0x04;
const SDR_DEVICE: u8 = 0x02;
const SENSOR_DEVICE: u8 = 0x01;

pub(super) fn cold_reset(call: &mut Call) -> Answer {
    call.after = After::Restart { cold: true };
    Ok(vec![])
}

pub(super) fn warm_reset(call: &mut Call) -> Answer {
    call.after = After::Restart { cold: false };
    Ok(vec![])
}

/// 55h: all tests passed.
pub(super) fn get_self_test(_call: &mut Call) -> Answer {
    Ok(vec![0x55, 0x00])
}

pub(super) fn get_guid(call: &mut Call) -> Answer {
    Ok(call.bmc.config.guid.to_vec())
}

pub(super) fn set_privilege(call: &mut Call) -> Answer {
    let [level] = call.exactly()?;
    let id = call.session.ok_or(Completion::PRIVILEGE)?;
    let active = call
        .bmc
        .sessions
        .active_mut(id)
        .ok_or(Completion::PRIVILEGE)?;
    match level & 0x0f {
        0 => {}
        code => {
            let asked = Privilege::from_code(code).ok_or(LEVEL_UNAVAILABLE)?;
            if asked > active.limit {
                return Err(LEVEL_TOO_HIGH);
            }
            active.privilege = asked;
        }
    }
    Ok(vec![active.privilege.code()])
}

/// Set Session Privilege Level: not available for this user (22.18).
const LEVEL_UNAVAILABLE: Completion = Completion(0x80);
/// Set Session Privilege Level: above the user's or session's limit.
const LEVEL_TOO_HIGH: Completion = Completion(0x81);
/// Close Session: there is no such session (22.19).
const NO_SUCH_SESSION: Completion = Completion(0x87);

/// One may close one's own session; an administrator may close any.
pub(super) fn close_session(call: &mut Call) -> Answer {
    let (id, _) = call.at_least()?;
    let id = u32::from_le_bytes(id);
    let own = call.session.ok_or(Completion::PRIVILEGE)?;
    let id = if id == 0 { own } else { id };
    if call.bmc.sessions.active(id).is_none() {
        return Err(NO_SUCH_SESSION);
    }
    let caller = call.bmc.sessions.active(own).ok_or(Completion::PRIVILEGE)?;
    if id != own && caller.privilege < Privilege::Administrator {
        return Err(Completion::PRIVILEGE);
    }
    call.after = After::Close(id);
    Ok(vec![])
}

pub(super) fn get_session_info(call: &mut Call) -> Answer {
    let ([index], rest) = call.at_least()?;
    let sessions = &call.bmc.sessions;
    let ids = sessions.active_ids();
    let id = match (index, rest) {
        (0, _) => call.session,
        (0xfe, [handle]) => ids.iter().copied().find(|id| {
            sessions
                .active(*id)
                .is_some_and(|active| active.handle == *handle)
        }),
        (0xff, [a, b, c, d]) => Some(u32::from_le_bytes([*a, *b, *c, *d])),
        (0xfe | 0xff, _) => return Err(Completion::LENGTH),
        (nth, _) => ids.get(usize::from(nth) - 1).copied(),
    };
    let counts = [
        call.bmc.config.max_sessions.min(63) as u8,
        ids.len().min(63) as u8,
    ];
    let Some((id, active)) = id.and_then(|id| Some((id, sessions.active(id)?))) else {
        return Ok(vec![0, counts[0], counts[1]]);
    };
    // Six bits; more users than that nobody has.
    let user_id = (active.user.min(61) + 2) as u8;
    let mut answer = vec![active.handle, counts[0], counts[1]];
    answer.extend([user_id, active.privilege.code(), RMCP_PLUS | LAN_CHANNEL]);
    if let Some(peer) = sessions.peer(id) {
        let address = match peer.ip() {
            IpAddr::V4(address) => address.octets(),
            IpAddr::V6(address) => address
                .to_ipv4_mapped()
                .map_or([0; 4], |address| address.octets()),
        };
        answer.extend(address);
        // The console's MAC: a BMC behind a router cannot know it.
        answer.extend([0; 6]);
        answer.extend(peer.port().to_le_bytes());
    }
    Ok(answer)
}

/// Session type in the upper half of the channel byte.
const RMCP_PLUS: u8 = 0x10;
