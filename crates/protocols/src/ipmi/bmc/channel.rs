//! The LAN channel: what it offers before login, who its users are, and its addresses (22 and 23).

use super::Privilege;
use super::table::{Answer, Call, Completion};

/// The one channel we have.
pub(super) const LAN_CHANNEL: u8 = 1;
/// "The channel this came in on."
const PRESENT_CHANNEL: u8 = 0x0e;

fn check_channel(byte: u8) -> Result<(), Completion> {
    match byte & 0x0f {
        LAN_CHANNEL | PRESENT_CHANNEL => Ok(()),
        _ => Err(Completion::INVALID_FIELD),
    }
}

/// 22.13. Tells consoles to use RMCP+: no IPMI 1.5 authentication type is offered.
pub(super) fn get_authentication_capabilities(call: &mut Call) -> Answer {
    let [channel, level] = call.exactly()?;
    check_channel(channel)?;
    Privilege::from_code(level & 0x0f).ok_or(Completion::INVALID_FIELD)?;
    let extended = channel & 0x80 != 0;
    let non_null_users = 0x04;
    if extended {
        let (available, v2_0_only) = (0x80, 0x02);
        Ok(vec![
            LAN_CHANNEL,
            available,
            non_null_users,
            v2_0_only,
            0,
            0,
            0,
            0,
        ])
    } else {
        Ok(vec![LAN_CHANNEL, 0, non_null_users, 0, 0, 0, 0, 0])
    }
}

/// 22.15: records of five bytes each, sixteen bytes at a time.
pub(super) fn get_cipher_suites(call: &mut Call) -> Answer {
    let [channel, _payload, index] = call.exactly()?;
    check_channel(channel)?;
    let mut records = Vec::new();
    for suite in &call.bmc.config.suites {
        let algorithms = suite.algorithms();
        let number = |algorithm: Option<u8>| algorithm.unwrap_or(0);
        records.extend([0xc0, suite.id(), number(algorithms.authentication)]);
        records.extend([
            0x40 | number(algorithms.integrity),
            0x80 | number(algorithms.confidentiality),
        ]);
    }
    let mut answer = vec![LAN_CHANNEL];
    answer.extend(
        records
            .chunks(16)
            .nth(usize::from(index & 0x3f))
            .unwrap_or_default(),
    );
    Ok(answer)
}

pub(super) fn get_access(call: &mut Call) -> Answer {
    let [channel, _which] = call.exactly()?;
    check_channel(channel)?;
    let (always_available, no_alerts) = (0x02, 0x20);
    Ok(vec![
        always_available | no_alerts,
        Privilege::Administrator.code(),
    ])
}

pub(super) fn get_info(call: &mut Call) -> Answer {
    let [channel] = call.exactly()?;
    check_channel(channel)?;
    let (medium_lan, protocol_ipmb, multi_session) = (0x04, 0x01, 0x80);
    let active = call.bmc.sessions.active_ids().len().min(63) as u8;
    // Bytes 5-7: the IPMI forum's own enterprise number, as the protocol is theirs.
    Ok(vec![
        LAN_CHANNEL,
        medium_lan,
        protocol_ipmb,
        multi_session | active,
        0xf2,
        0x1b,
        0x00,
        0,
        0,
    ])
}

/// User ids: 1 is the nameless user without access, the configured ones follow.
pub(super) fn get_user_access(call: &mut Call) -> Answer {
    let [channel, id] = call.exactly()?;
    check_channel(channel)?;
    let users = &call.bmc.config.users;
    let count = users.len().min(MAX_USERS - 1) as u8;
    let (enabled, disabled, messaging, no_access) = (0x40, 0x80, 0x10, 0x0f);
    let (status, access) = match usize::from(id & 0x3f) {
        0 => return Err(Completion::INVALID_FIELD),
        1 => (disabled, no_access),
        id => match users.get(id - 2) {
            Some(user) => (enabled, messaging | user.privilege.code()),
            None => return Err(Completion::INVALID_FIELD),
        },
    };
    Ok(vec![count + 1, status | count, 1, access])
}

const MAX_USERS: usize = 63;

pub(super) fn get_user_name(call: &mut Call) -> Answer {
    let [id] = call.exactly()?;
    let mut name = match usize::from(id & 0x3f) {
        0 => return Err(Completion::INVALID_FIELD),
        1 => Vec::new(),
        id => call
            .bmc
            .config
            .users
            .get(id - 2)
            .ok_or(Completion::INVALID_FIELD)?
            .name
            .clone()
            .into_bytes(),
    };
    name.resize(16, 0);
    Ok(name)
}

/// 23.2. Addresses are the shell's to give; there is no way to set them from here.
pub(super) fn get_lan_parameter(call: &mut Call) -> Answer {
    let [channel, parameter, _set, _block] = call.exactly()?;
    check_channel(channel)?;
    let config = &call.bmc.config;
    let lan = &config.lan;
    let mut answer = vec![0x11];
    if channel & 0x80 != 0 {
        return Ok(answer);
    }
    match parameter {
        // Set in progress: no. Authentication types: none, RMCP+ alone. Gratuitous ARP: never. VLAN priority: none.
        0 | 1 | 11 | 21 => answer.push(0),
        2 => answer.extend([0; 5]),
        3 => answer.extend(lan.address.octets()),
        4 => answer.push(if lan.dhcp { 2 } else { 1 }),
        5 => answer.extend(lan.mac.octets()),
        6 => answer.extend(lan.netmask.octets()),
        // TTL 64, don't fragment, no service precedence.
        7 => answer.extend([0x40, 0x40, 0x10]),
        8 => answer.extend(lan.port.to_le_bytes()),
        // ARP: answers, and does not announce.
        10 => answer.push(0x02),
        12 => answer.extend(lan.gateway.octets()),
        13 | 15 => answer.extend([0; 6]),
        14 => answer.extend([0; 4]),
        // No VLAN.
        20 => answer.extend([0; 2]),
        22 => answer.push(config.suites.len() as u8),
        23 => {
            answer.push(0);
            answer.extend(
                config
                    .suites
                    .iter()
                    .map(|suite| suite.id())
                    .chain(std::iter::repeat(0))
                    .take(16),
            );
        }
        24 => {
            answer.push(0);
            answer.extend(privilege_nibbles(config.suites.len()));
        }
        _ => return Err(Completion::PARAMETER_NOT_SUPPORTED),
    }
    Ok(answer)
}

/// Four bits for each suite of parameter 23, low half first: all reach administrator.
fn privilege_nibbles(suites: usize) -> [u8; 8] {
    let mut nibbles = [0; 8];
    for suite in 0..suites.min(16) {
        nibbles[suite / 2] |= Privilege::Administrator.code() << (4 * (suite % 2));
    }
    nibbles
}
