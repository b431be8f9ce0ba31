//! Our console against our BMC over a link that loses datagrams, in virtual time.

use super::login::{LOG_IN, OPEN};
use super::*;
use crate::ipmi::bmc::{self, Bmc, Readings, Start, User, View};
use crate::ipmi::chassis::{BootDevice, BootFlags, Control, PowerState};
use crate::ipmi::wire::session::{PayloadKind, V15};
use proptest::prelude::*;
use std::net::SocketAddr;

/// Console and BMC, one virtual clock, and a link without delay.
struct Pair {
    console: Console,
    bmc: Bmc,
    now: Instant,
    /// Which of the datagrams to come are lost, by count; `true` is lost.
    losses: VecDeque<bool>,
    done: Vec<Action>,
    ordered: Vec<Control>,
}

#[expect(
    clippy::disallowed_methods,
    reason = "there is no other way to get an Instant to count from"
)]
fn pair() -> Pair {
    let now = Instant::now();
    let user = User {
        name: "admin".into(),
        password: secret("s3cret"),
        privilege: Privilege::Administrator,
    };
    let viewer = User {
        name: "viewer".into(),
        password: secret("look"),
        privilege: Privilege::User,
    };
    let config = bmc::Config::new(vec![user, viewer], [7; 16]);
    let mut bmc = Bmc::new(
        config,
        Start {
            now,
            unix_seconds: 0,
            seed: Secret::new([1; 32]),
        },
    );
    bmc.handle(
        now,
        bmc::Event::View(View {
            power: PowerState::On,
            readings: Readings::default(),
        }),
    );
    let console = Console::new(
        Config::new("admin".into(), secret("s3cret")),
        Secret::new([2; 32]),
    );
    Pair {
        console,
        bmc,
        now,
        losses: VecDeque::new(),
        done: vec![],
        ordered: vec![],
    }
}

fn secret(text: &str) -> Secret<String> {
    Secret::new(text.to_string())
}

impl Pair {
    fn with_config(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.console.config);
        self
    }

    fn losing(mut self, losses: &[bool]) -> Self {
        self.losses = losses.iter().copied().collect();
        self
    }

    fn event(&mut self, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            for action in self.console.handle(self.now, event) {
                match action {
                    Action::Send(bytes) => {
                        events.extend(self.deliver(bytes).into_iter().map(Event::Datagram));
                    }
                    done @ (Action::Answered { .. } | Action::Failed { .. }) => {
                        self.done.push(done);
                    }
                }
            }
        }
    }

    fn deliver(&mut self, bytes: Vec<u8>) -> Vec<Vec<u8>> {
        if self.losses.pop_front() == Some(true) {
            return vec![];
        }
        let from = SocketAddr::from(([192, 0, 2, 1], 40_000));
        let mut replies = Vec::new();
        for action in self
            .bmc
            .handle(self.now, bmc::Event::Datagram { from, bytes })
        {
            if let bmc::Action::Send { bytes, .. } = action {
                if self.losses.pop_front() != Some(true) {
                    replies.push(bytes);
                }
            } else if let bmc::Action::Chassis(control) = action {
                self.ordered.push(control);
            }
        }
        replies
    }

    /// Moves time on until everything asked is done, or nothing can happen any more.
    fn drive(&mut self) {
        for _ in 0..200 {
            let Some(at) = self.console.wake_at() else {
                return;
            };
            self.now = self.now.max(at);
            self.event(Event::Timer);
        }
        panic!("the console never comes to rest: {:?}", self.console.state);
    }

    fn ask(&mut self, request: Request) -> Result<Answer, Error> {
        self.event(Event::Run { id: 1, request });
        self.drive();
        match self.done.pop() {
            Some(Action::Answered { id: 1, answer }) => Ok(answer),
            Some(Action::Failed { id: 1, error }) => Err(error),
            other => panic!("neither answer nor failure: {other:?}"),
        }
    }
}

#[test]
fn it_logs_in_asks_and_uses_the_session_again() {
    let mut pair = pair();
    assert_eq!(
        pair.ask(Request::get_chassis_status()).unwrap().power(),
        Ok(PowerState::On)
    );
    let State::Ready(link) = &pair.console.state else {
        panic!("a session is kept")
    };
    let session = link.bmc_session;
    pair.ask(Request::keep_boot_flags()).unwrap().ok().unwrap();
    let flags = BootFlags::persistent(BootDevice::Pxe);
    pair.ask(Request::set_boot_flags(flags))
        .unwrap()
        .ok()
        .unwrap();
    assert_eq!(
        pair.ask(Request::get_boot_flags()).unwrap().boot_flags(),
        Ok(flags)
    );
    pair.ask(Request::chassis_control(Control::Cycle))
        .unwrap()
        .ok()
        .unwrap();
    assert_eq!(pair.ordered, [Control::Cycle]);
    let State::Ready(link) = &pair.console.state else {
        panic!("a session is kept")
    };
    assert_eq!(link.bmc_session, session);
}

#[test]
fn an_older_bmc_is_asked_for_suite_three() {
    let mut pair = pair();
    let user = User {
        name: "admin".into(),
        password: secret("s3cret"),
        privilege: Privilege::Administrator,
    };
    let config = bmc::Config {
        suites: vec![Suite::Three],
        ..bmc::Config::new(vec![user], [7; 16])
    };
    pair.bmc = Bmc::new(
        config,
        Start {
            now: pair.now,
            unix_seconds: 0,
            seed: Secret::new([1; 32]),
        },
    );
    assert_eq!(
        pair.ask(Request::get_chassis_status()).unwrap().power(),
        Ok(PowerState::Off)
    );

    let mut strict = pair.with_config(|config| config.suites = vec![Suite::Seventeen]);
    strict.event(Event::Close);
    let error = strict.ask(Request::get_chassis_status()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "open a session: the BMC refuses: invalid authentication algorithm"
    );
}

#[test]
fn wrong_logins_fail_with_a_reason() {
    let mut wrong_password = pair().with_config(|config| config.password = secret("guess"));
    assert_eq!(
        wrong_password.ask(Request::get_device_id()),
        Err(Error::Password)
    );
    let mut wrong_name = pair().with_config(|config| config.username = "nobody".into());
    let refused = |status| {
        Err(Error::Refused {
            step: LOG_IN,
            status,
        })
    };
    assert_eq!(
        wrong_name.ask(Request::get_device_id()),
        refused(Status::UNAUTHORIZED_NAME)
    );
    let mut too_much = pair().with_config(|config| {
        config.username = "viewer".into();
        config.password = secret("look");
    });
    assert_eq!(
        too_much.ask(Request::get_device_id()),
        refused(Status::UNAUTHORIZED_ROLE)
    );
    assert!(
        !format!("{:?}", too_much.console).contains("look"),
        "secrets stay secret"
    );
}

#[test]
fn a_silent_bmc_fails_every_waiting_request_after_all_attempts() {
    let mut pair = pair().losing(&[true; 100]);
    let begun = pair.now;
    for id in 1..4 {
        pair.event(Event::Run {
            id,
            request: Request::get_chassis_status(),
        });
    }
    pair.drive();
    let failed: Vec<_> = (1..4)
        .map(|id| Action::Failed {
            id,
            error: Error::Silent { step: OPEN },
        })
        .collect();
    assert_eq!(pair.done, failed);
    assert_eq!(
        pair.now - begun,
        Duration::from_millis(500 * (1 + 2 + 4 + 8 + 16))
    );
}

#[test]
fn a_session_the_bmc_has_closed_meanwhile_is_opened_again() {
    let mut pair = pair();
    pair.ask(Request::get_chassis_status()).unwrap();
    pair.now += Duration::from_secs(90);
    pair.bmc.handle(pair.now, bmc::Event::Timer);
    assert!(pair.ask(Request::get_chassis_status()).is_ok());
}

#[test]
fn a_bmc_that_restarted_costs_one_request() {
    let mut pair = pair();
    let cold_reset = Request {
        net_fn: 0x06,
        command: 0x02,
        data: vec![],
    };
    pair.ask(cold_reset).unwrap();
    assert_eq!(
        pair.ask(Request::get_chassis_status()),
        Err(Error::Silent { step: "command" })
    );
    assert!(pair.ask(Request::get_chassis_status()).is_ok());
}

#[test]
fn closing_ends_the_session_and_fails_what_waits() {
    let mut pair = pair();
    pair.ask(Request::get_chassis_status()).unwrap();
    assert!(pair.bmc.wake_at().is_some());
    pair.event(Event::Close);
    assert_eq!(pair.bmc.wake_at(), None, "the BMC has no session left");
    pair.losses = VecDeque::from([true]);
    pair.event(Event::Run {
        id: 5,
        request: Request::get_device_id(),
    });
    pair.event(Event::Close);
    assert_eq!(
        pair.done,
        [Action::Failed {
            id: 5,
            error: Error::Closed
        }]
    );
}

/// Eleven at most: as many doublings of a millisecond are two seconds, and a few more would outgrow the BMC's timeouts.
fn any_losses() -> impl Strategy<Value = Vec<bool>> {
    prop::collection::vec(prop::bool::weighted(0.3), 0..30).prop_map(|losses| {
        let mut left = 11;
        let lost = |lost: bool| {
            let lost = lost && left > 0;
            left -= usize::from(lost);
            lost
        };
        losses.into_iter().map(lost).collect()
    })
}

proptest! {
    #[test]
    fn lost_datagrams_delay_but_a_power_command_acts_exactly_once(losses in any_losses()) {
        let mut pair = pair().losing(&losses).with_config(|config| {
            config.attempts = 31;
            config.patience = Duration::from_millis(1);
        });
        let answer = pair.ask(Request::chassis_control(Control::Reset)).unwrap();
        prop_assert_eq!(answer.completion, 0);
        prop_assert_eq!(&pair.ordered[..], [Control::Reset]);
    }

    #[test]
    fn any_datagram_is_survived_in_any_state(
        before in 0usize..5, bytes in prop::collection::vec(any::<u8>(), 0..100),
        kind in prop::sample::select(vec![PayloadKind::OpenResponse, PayloadKind::Rakp2, PayloadKind::Rakp4, PayloadKind::Ipmi]),
    ) {
        // Losing everything after some steps leaves the console in each of its states.
        let losses: Vec<bool> = (0..10).map(|at| at >= 2 * before).collect();
        let mut pair = pair().losing(&losses);
        pair.event(Event::Run { id: 1, request: Request::get_device_id() });
        pair.console.handle(pair.now, Event::Datagram(bytes.clone()));
        let outside = Packet::V20(V20::outside_session(kind, bytes.clone())).encode();
        pair.console.handle(pair.now, Event::Datagram(outside));
        pair.console.handle(pair.now, Event::Datagram(Packet::V15(V15::outside_session(bytes)).encode()));
    }
}
