//! Power and boot flags.

use super::client::bmc_of;
use super::*;

const PXE_ONCE: [u8; 6] = [5, 0xa0, 0x04, 0, 0, 0];
const PXE_ALWAYS: [u8; 6] = [5, 0xe0, 0x04, 0, 0, 0];

impl Client {
    fn set_boot(&mut self, data: &[u8]) {
        assert_eq!(self.ask(0x00, 0x08, data).0, 0);
    }
}

#[test]
fn a_power_command_asked_twice_acts_once() {
    let mut client = Client::admin();
    assert_eq!(client.ask(0x00, 0x02, &[2]).0, 0);
    client.now += seconds(1);
    assert_eq!(client.ask_again(0x00, 0x02, &[2]), Some((0, vec![])));
    assert_eq!(client.actions, [Action::Chassis(Control::Cycle)]);
    client.now += seconds(6);
    assert_eq!(client.ask_again(0x00, 0x02, &[2]), Some((0, vec![])));
    assert_eq!(
        client.actions.len(),
        2,
        "no retry comes that late: this is a new command"
    );
}

#[test]
fn users_look_and_operators_switch() {
    let mut viewer = Client::login(bmc(), "viewer", Privilege::User);
    assert_eq!(viewer.ask(0x00, 0x01, &[]).0, 0);
    assert_eq!(viewer.ask(0x00, 0x02, &[0]).0, 0xd4);
    assert!(viewer.actions.is_empty());
    let mut operator = Client::login(bmc(), "operator", Privilege::Operator);
    assert_eq!(operator.ask(0x00, 0x02, &[0]).0, 0);
    assert_eq!(operator.actions, [Action::Chassis(Control::PowerOff)]);
}

#[test]
fn boot_flags_lapse_after_sixty_seconds_without_a_power_command() {
    let mut client = Client::admin();
    client.set_boot(&PXE_ONCE);
    let flags = BootFlags::once(BootDevice::Pxe);
    assert_eq!(client.actions, [Action::SetBootFlags(flags)]);
    client.now += seconds(59);
    client.event(Event::Timer);
    assert!(client.bmc.boot_flags().valid);
    client.now += seconds(1);
    client.event(Event::Timer);
    assert_eq!(
        client.actions[1..],
        [Action::SetBootFlags(BootFlags {
            valid: false,
            ..flags
        })]
    );
    assert_eq!(client.bmc.boot_flags().device_override(), None);
}

#[test]
fn boot_flags_stay_after_a_power_command_or_when_told_to() {
    for (name, before, after) in [
        ("a power command", None, Some([0x02, 3])),
        ("parameter 3 before", Some([3, 8]), None),
        ("parameter 3 after", None, Some([0x08, 0])),
    ] {
        let mut client = Client::admin();
        if let Some(data) = before {
            client.set_boot(&data);
        }
        client.set_boot(&PXE_ONCE);
        match after {
            Some([0x02, control]) => assert_eq!(client.ask(0x00, 0x02, &[control]).0, 0),
            Some(_) => client.set_boot(&[3, 8]),
            None => {}
        }
        client.now += seconds(300);
        client.event(Event::Timer);
        assert!(client.bmc.boot_flags().valid, "{name}");
    }
}

#[test]
fn a_boot_uses_up_flags_for_one_boot_and_keeps_persistent_ones() {
    let mut client = Client::admin();
    client.set_boot(&PXE_ONCE);
    client.event(Event::Booted);
    assert_eq!(client.bmc.boot_flags(), BootFlags::NONE);
    assert_eq!(
        client.actions.last(),
        Some(&Action::SetBootFlags(BootFlags::NONE))
    );
    client.set_boot(&PXE_ALWAYS);
    client.event(Event::Booted);
    client.event(Event::Booted);
    assert_eq!(
        client.bmc.boot_flags(),
        BootFlags::persistent(BootDevice::Pxe)
    );
}

#[test]
fn flags_set_by_other_means_are_read_and_do_not_lapse() {
    let mut client = Client::admin();
    client.event(Event::BootFlags(BootFlags::once(BootDevice::Disk)));
    client.now += seconds(59);
    assert_eq!(
        client.ask(0x00, 0x09, &[5, 0, 0]),
        (0, vec![1, 5, 0xa0, 0x08, 0, 0, 0])
    );
    client.now += seconds(59);
    client.event(Event::Timer);
    assert!(client.bmc.boot_flags().valid);
}

#[test]
fn setting_boot_options_is_for_one_console_at_a_time() {
    let mut client = Client::admin();
    client.set_boot(&[0, 1]);
    assert_eq!(client.ask(0x00, 0x08, &[0, 1]).0, 0x81);
    client.set_boot(&[0, 0]);
    client.set_boot(&[0, 1]);
    assert_eq!(client.ask(0x00, 0x08, &[5, 0xa0]).0, 0xc7, "too short");
    assert_eq!(
        client.ask(0x00, 0x08, &[99, 0]).0,
        0x80,
        "no such parameter"
    );
    client.set_boot(&[0x85]);
    assert_eq!(
        client.ask(0x00, 0x09, &[5, 0, 0]).1[1],
        0x85,
        "marked invalid"
    );
}

#[test]
fn a_changed_power_state_is_seen_and_logged() {
    let mut client = Client::admin();
    assert_eq!(client.ask(0x00, 0x01, &[]).1[0] & 1, 1);
    client.event(Event::View(View {
        power: PowerState::Off,
        readings: Readings::default(),
    }));
    assert_eq!(client.ask(0x00, 0x01, &[]).1[0] & 1, 0);
    assert_eq!(
        client.ask(0x00, 0x02, &[2]).0,
        0xd5,
        "what is off cannot be cycled"
    );
    let (_, info) = client.ask(0x0a, 0x40, &[]);
    assert_eq!(info[1], 2, "on, then off");
}

#[test]
fn power_on_hours_count_only_while_on() {
    let mut client = Client::login(
        bmc_of(Config {
            idle_timeout: seconds(1_000_000),
            ..config()
        }),
        "admin",
        Privilege::Administrator,
    );
    client.now += seconds(2 * 3600);
    client.event(Event::View(View {
        power: PowerState::Off,
        readings: Readings::default(),
    }));
    client.now += seconds(5 * 3600);
    assert_eq!(client.ask(0x00, 0x0f, &[]), (0, vec![60, 2, 0, 0, 0]));
}
