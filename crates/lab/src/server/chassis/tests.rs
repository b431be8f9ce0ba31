use super::*;
use crate::fault::Order;
use proptest::prelude::*;

fn chassis() -> Chassis {
    Chassis::new(Firmware::Uefi, Faults::default())
}

fn faulty(kind: Kind) -> Chassis {
    let faults = Faults::default();
    faults.add(Order::new(kind));
    Chassis::new(Firmware::Uefi, faults)
}

impl Chassis {
    fn on(mut self) -> Self {
        self.handle(Event::Reset(Reset::On)).unwrap();
        self.handle(Event::BoardStarted).unwrap();
        self
    }

    fn told(mut self, event: Event) -> Self {
        self.handle(event).unwrap();
        self
    }
}

fn cd(lasting: Lasting) -> Event {
    Event::SetBoot(Some(Override {
        device: Device::Cd,
        lasting,
    }))
}

fn media() -> Media {
    Media {
        url: "http://h/a.iso".into(),
        file: "a.iso".into(),
        write_protected: true,
    }
}

fn started_order(actions: &[Action]) -> Option<Vec<Device>> {
    actions.iter().find_map(|a| {
        if let Action::Start(plan) = a {
            Some(plan.order.clone())
        } else {
            None
        }
    })
}

#[test]
fn once_is_used_by_one_start_and_gone() {
    let mut c = chassis().told(cd(Lasting::Once));
    let actions = c.handle(Event::Reset(Reset::On)).unwrap();
    assert_eq!(started_order(&actions).unwrap()[0], Device::Cd);
    assert_eq!(
        c.handle(Event::BoardStarted).unwrap(),
        [Action::NextBoot(boot::DEFAULT_ORDER.to_vec())]
    );
    assert_eq!(c.view().boot, None);
}

#[test]
fn continuous_stays_over_starts_and_resets() {
    let mut c = chassis().told(cd(Lasting::Continuous)).on();
    assert_eq!(c.handle(Event::BoardReset).unwrap(), []);
    assert_eq!(c.view().boot.unwrap().device, Device::Cd);
}

#[test]
fn an_override_set_while_on_reaches_the_guests_own_reboot() {
    let mut c = chassis().on();
    let actions = c.handle(cd(Lasting::Once)).unwrap();
    assert_eq!(
        actions,
        [Action::NextBoot(vec![Device::Cd, Device::Hdd, Device::Pxe])]
    );
    assert_eq!(
        c.handle(Event::BoardReset).unwrap(),
        [Action::NextBoot(boot::DEFAULT_ORDER.to_vec())]
    );
    assert_eq!(c.view().boot, None);
}

#[test]
fn reset_types_do_what_their_names_say() {
    let off: [(Reset, bool); 8] = [
        (Reset::On, true),
        (Reset::ForceOn, true),
        (Reset::ForceOff, false),
        (Reset::GracefulShutdown, false),
        (Reset::GracefulRestart, true),
        (Reset::ForceRestart, true),
        (Reset::PowerCycle, true),
        (Reset::PushPowerButton, true),
    ];
    for (reset, starts) in off {
        let actions = chassis().handle(Event::Reset(reset)).unwrap();
        assert_eq!(
            started_order(&actions).is_some(),
            starts,
            "{reset:?} while off"
        );
    }
    let on = [
        (Reset::On, vec![]),
        (Reset::ForceOff, vec![Action::Stop]),
        (Reset::GracefulShutdown, vec![Action::PressPowerButton]),
        (Reset::GracefulRestart, vec![Action::PressPowerButton]),
        (Reset::ForceRestart, vec![Action::Reset]),
        (Reset::PowerCycle, vec![Action::Stop]),
        (Reset::PushPowerButton, vec![Action::PressPowerButton]),
        (Reset::Nmi, vec![Action::Nmi]),
    ];
    for (reset, actions) in on {
        assert_eq!(
            chassis().on().handle(Event::Reset(reset)).unwrap(),
            actions,
            "{reset:?} while on"
        );
    }
    assert_eq!(
        chassis().handle(Event::Reset(Reset::Nmi)),
        Err(Refusal::NeedsPower(Reset::Nmi))
    );
}

#[test]
fn a_graceful_restart_starts_again_when_the_guest_has_gone_off() {
    let mut c = chassis().on().told(Event::Reset(Reset::GracefulRestart));
    assert!(started_order(&c.handle(Event::BoardStopped).unwrap()).is_some());
    let mut c = chassis().on().told(Event::Reset(Reset::GracefulShutdown));
    assert_eq!(c.handle(Event::BoardStopped).unwrap(), []);
    assert_eq!(c.view().power, Power::Off);
}

#[test]
fn on_while_stopping_starts_again_afterwards() {
    let mut c = chassis().on().told(Event::Reset(Reset::ForceOff));
    assert_eq!(c.view().power, Power::PoweringOff);
    assert_eq!(c.handle(Event::Reset(Reset::On)).unwrap(), []);
    assert!(started_order(&c.handle(Event::BoardStopped).unwrap()).is_some());
}

#[test]
fn a_board_that_fails_to_start_leaves_the_server_off() {
    let mut c = chassis().told(Event::Reset(Reset::On));
    assert_eq!(c.handle(Event::BoardStopped).unwrap(), []);
    assert_eq!(c.view().power, Power::Off);
}

#[test]
fn a_firmware_change_turns_a_warm_reset_into_a_cold_one() {
    let mut c = chassis().on().told(Event::SetFirmware(Firmware::Bios));
    assert_eq!(
        c.handle(Event::Reset(Reset::ForceRestart)).unwrap(),
        [Action::Stop]
    );
    let actions = c.handle(Event::BoardStopped).unwrap();
    assert!(matches!(&actions[..], [Action::Start(plan)] if plan.firmware == Firmware::Bios));
}

#[test]
fn bios_settings_wait_for_the_next_boot_and_unknown_ones_are_refused() {
    let mut c = chassis();
    let set = |name: &str, value| Event::SetBios([(name.to_string(), value)].into());
    c.handle(set("MemTest", json!("Enabled"))).unwrap();
    assert_eq!(c.view().bios["MemTest"], "Disabled");
    assert_eq!(
        c.handle(set("Nope", json!(1))),
        Err(Refusal::UnknownAttribute("Nope".into()))
    );
    assert!(matches!(
        c.handle(set("NumCores", json!("many"))),
        Err(Refusal::WrongAttributeType { .. })
    ));
    let c = c.on();
    assert_eq!(c.view().bios["MemTest"], "Enabled");
    assert!(c.view().bios_pending.is_empty());
}

#[test]
fn uefi_only_wishes_are_refused_in_bios_mode() {
    let mut c = Chassis::new(Firmware::Bios, Faults::default());
    let http = Override {
        device: Device::UefiHttp,
        lasting: Lasting::Once,
    };
    assert_eq!(
        c.handle(Event::SetBoot(Some(http))),
        Err(Refusal::NeedsUefi)
    );
    assert_eq!(
        c.handle(Event::SetSecureBoot(true)),
        Err(Refusal::SecureBootNeedsUefi)
    );
}

#[test]
fn an_ignored_reset_is_acknowledged_and_changes_nothing() {
    let mut c = faulty(Kind::IgnoresReset);
    assert_eq!(c.handle(Event::Reset(Reset::On)), Ok(vec![]));
    assert_eq!(c.view().power, Power::Off);
}

#[test]
fn a_lying_bmc_reports_the_opposite_and_the_truth_stays_visible() {
    let c = faulty(Kind::LiesAboutPower).on();
    assert_eq!(
        (c.view().power, c.view().reported_power),
        (Power::On, Power::Off)
    );
}

#[test]
fn a_forgotten_override_boots_the_default_order() {
    let mut c = faulty(Kind::ForgetsBootOverride).told(cd(Lasting::Continuous));
    let actions = c.handle(Event::Reset(Reset::On)).unwrap();
    assert_eq!(started_order(&actions).unwrap(), boot::DEFAULT_ORDER);
}

#[test]
fn ejected_media_is_gone_before_the_start() {
    let mut c = faulty(Kind::EjectsMedia).told(Event::Insert(media()));
    let actions = c.handle(Event::Reset(Reset::On)).unwrap();
    assert!(matches!(&actions[..], [Action::Unload, Action::Start(_)]));
    assert_eq!(c.view().media, None);
}

#[test]
fn a_boot_loop_resets_after_every_start() {
    let mut c = faulty(Kind::BootLoop { millis: 5 });
    let again = Action::ResetIn(Duration::from_millis(5));
    assert!(c.handle(Event::Reset(Reset::On)).unwrap().contains(&again));
    c.handle(Event::BoardStarted).unwrap();
    assert!(c.handle(Event::BoardReset).unwrap().contains(&again));
}

#[test]
fn pulled_cables_reach_the_board_once_and_power_loss_stops_it() {
    let faults = Faults::default();
    let mut c = Chassis::new(Firmware::Uefi, faults.clone()).on();
    faults.add(Order::new(Kind::LinkDown {
        network: Network::Baremetal,
    }));
    let actions = c.handle(Event::FaultsChanged).unwrap();
    assert!(matches!(&actions[..], [Action::Wire(w)] if w.unplugged.contains(&Network::Baremetal)));
    assert_eq!(c.handle(Event::FaultsChanged).unwrap(), []);
    faults.add(Order::new(Kind::LosesPower).times(1));
    assert_eq!(c.handle(Event::FaultsChanged).unwrap(), [Action::Stop]);
    faults.clear(None);
    assert_eq!(
        c.handle(Event::FaultsChanged).unwrap(),
        [Action::Wire(Wires::default())]
    );
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (0..Reset::ALL.len()).prop_map(|i| Event::Reset(Reset::ALL[i])),
        Just(cd(Lasting::Once)),
        Just(cd(Lasting::Continuous)),
        Just(Event::SetBoot(None)),
        Just(Event::SetFirmware(Firmware::Bios)),
        Just(Event::SetFirmware(Firmware::Uefi)),
        Just(Event::Insert(media())),
        Just(Event::Eject),
        Just(Event::FaultsChanged),
        Just(Event::BoardStarted),
        Just(Event::BoardStopped),
        Just(Event::BoardReset),
    ]
}

proptest! {
    /// The board is a thing that is stopped or runs: it is never started twice nor stopped when it is not there.
    #[test]
    fn the_board_is_started_only_when_stopped(events in proptest::collection::vec(any_event(), 0..60)) {
        let mut c = chassis();
        let mut running = false;
        for event in events {
            // News that the board itself would not send in this state is left out.
            let news = matches!(event, Event::BoardStarted | Event::BoardStopped | Event::BoardReset);
            if news && !running {
                continue;
            }
            running &= event != Event::BoardStopped;
            for action in c.handle(event).unwrap_or_default() {
                match action {
                    Action::Start(_) => { prop_assert!(!running); running = true; }
                    Action::Stop | Action::Reset | Action::Nmi | Action::PressPowerButton => prop_assert!(running),
                    Action::NextBoot(_) | Action::Load(_) | Action::Unload | Action::ResetIn(_) | Action::Wire(_) => {}
                }
            }
            prop_assert_eq!(running, c.view().power != Power::Off);
        }
    }
}
