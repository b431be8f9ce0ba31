//! From nothing to an open session: Open Session, RAKP 1, RAKP 3.

use std::time::Instant;

use super::link::Link;
use super::{Action, Console, Error, Job, Request, State, Tries};
use crate::ipmi::crypto::{Exchange, Keys, Suite};
use crate::ipmi::wire::Packet;
use crate::ipmi::wire::session::{PayloadKind, V20};
use crate::ipmi::wire::setup::{OpenRequest, OpenResponse, Rakp1, Rakp2, Rakp3, Rakp4, Status};

#[derive(Debug)]
pub(super) enum Step {
    /// Open Session sent.
    Opening { suite: usize, console_session: u32 },
    /// RAKP 1 sent.
    Greeting {
        suite: Suite,
        console_session: u32,
        bmc_session: u32,
        console_random: [u8; 16],
    },
    /// RAKP 3 sent.
    Proving { exchange: Exchange, keys: Keys },
}

/// A datagram of the set-up, which is repeated as it is.
#[derive(Debug)]
pub(super) struct Sending {
    pub(super) bytes: Vec<u8>,
    pub(super) tag: u8,
    pub(super) tries: Tries,
}

pub(super) const OPEN: &str = "open a session";
pub(super) const LOG_IN: &str = "log in";

impl Step {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Opening { .. } => OPEN,
            Self::Greeting { .. } | Self::Proving { .. } => LOG_IN,
        }
    }
}

impl Console {
    pub(super) fn open(&mut self, now: Instant, suite: usize, actions: &mut Vec<Action>) {
        let Some(choice) = self.config.suites.get(suite) else {
            return self.give_up(
                &Error::Refused {
                    step: OPEN,
                    status: Status::NO_CIPHER_SUITE,
                },
                actions,
            );
        };
        let algorithms = choice.algorithms();
        let console_session = self.randoms.session_id();
        let tag = self.next_tag();
        let open = OpenRequest {
            tag,
            privilege: self.config.privilege.code(),
            console_session,
            algorithms,
        };
        let step = Step::Opening {
            suite,
            console_session,
        };
        self.set_up(
            now,
            step,
            PayloadKind::OpenRequest,
            tag,
            open.encode(),
            actions,
        );
    }

    fn set_up(
        &mut self,
        now: Instant,
        step: Step,
        kind: PayloadKind,
        tag: u8,
        payload: Vec<u8>,
        actions: &mut Vec<Action>,
    ) {
        let bytes = Packet::V20(V20::outside_session(kind, payload)).encode();
        actions.push(Action::Send(bytes.clone()));
        let sending = Sending {
            bytes,
            tag,
            tries: self.tries(now),
        };
        self.state = State::SettingUp { step, sending };
    }

    /// Takes the next step if the packet is the answer waited for; else waits on.
    pub(super) fn set_up_answered(
        &mut self,
        now: Instant,
        step: Step,
        sending: Sending,
        packet: &V20,
        actions: &mut Vec<Action>,
    ) {
        let payload = &packet.payload;
        match step {
            Step::Opening {
                suite,
                console_session,
            } if packet.kind == PayloadKind::OpenResponse => {
                let answer = OpenResponse::decode(payload).ok();
                if let Some(answer) = answer.filter(|answer| answer.tag == sending.tag) {
                    return self.opened(now, suite, console_session, &answer, actions);
                }
            }
            Step::Greeting {
                suite,
                console_session,
                bmc_session,
                console_random,
            } if packet.kind == PayloadKind::Rakp2 => {
                let answer = Rakp2::decode(payload).ok();
                if let Some(answer) = answer.filter(|answer| answer.tag == sending.tag) {
                    let exchange = Exchange {
                        suite,
                        console_session,
                        bmc_session,
                        console_random,
                        bmc_random: [0; 16],
                        guid: [0; 16],
                        role: self.role(),
                        username: self.config.username.clone().into_bytes(),
                    };
                    return self.challenged(now, exchange, answer, actions);
                }
            }
            Step::Proving {
                ref exchange,
                ref keys,
            } if packet.kind == PayloadKind::Rakp4 => {
                let answer = Rakp4::decode(payload).ok();
                if let Some(answer) = answer.filter(|answer| answer.tag == sending.tag) {
                    return self.proved(now, exchange, keys, &answer, actions);
                }
            }
            Step::Opening { .. } | Step::Greeting { .. } | Step::Proving { .. } => {}
        }
        self.state = State::SettingUp { step, sending };
    }

    fn opened(
        &mut self,
        now: Instant,
        suite: usize,
        console_session: u32,
        answer: &OpenResponse,
        actions: &mut Vec<Action>,
    ) {
        let opened = match answer.result {
            Ok(opened) => opened,
            Err(
                Status::INVALID_AUTHENTICATION
                | Status::INVALID_INTEGRITY
                | Status::INVALID_CONFIDENTIALITY
                | Status::NO_CIPHER_SUITE,
            ) if suite + 1 < self.config.suites.len() => return self.open(now, suite + 1, actions),
            Err(status) => return self.give_up(&Error::Refused { step: OPEN, status }, actions),
        };
        let suite = self.config.suites[suite];
        if opened.algorithms != suite.algorithms() {
            // Weaker than asked for: someone in between, or a BMC not worth trusting.
            return self.give_up(
                &Error::Refused {
                    step: OPEN,
                    status: Status::NO_CIPHER_SUITE,
                },
                actions,
            );
        }
        let console_random = self.randoms.nonce();
        let tag = self.next_tag();
        let bmc_session = opened.bmc_session;
        let username = self.config.username.clone().into_bytes();
        let rakp1 = Rakp1 {
            tag,
            bmc_session,
            console_random,
            role: self.role(),
            username,
        };
        let step = Step::Greeting {
            suite,
            console_session,
            bmc_session,
            console_random,
        };
        self.set_up(now, step, PayloadKind::Rakp1, tag, rakp1.encode(), actions);
    }

    fn challenged(
        &mut self,
        now: Instant,
        exchange: Exchange,
        answer: Rakp2,
        actions: &mut Vec<Action>,
    ) {
        let challenge = match answer.result {
            Ok(challenge) => challenge,
            Err(status) => {
                return self.give_up(
                    &Error::Refused {
                        step: LOG_IN,
                        status,
                    },
                    actions,
                );
            }
        };
        let exchange = Exchange {
            bmc_random: challenge.bmc_random,
            guid: challenge.guid,
            ..exchange
        };
        let tag = self.next_tag();
        let bmc_session = exchange.bmc_session;
        if !exchange.bmc_proof_holds(&self.config.password, &challenge.auth_code) {
            // Tell the BMC, so that it forgets the session at once.
            let refusal = Rakp3 {
                tag,
                bmc_session,
                result: Err(Status::INVALID_CHECK_VALUE),
            };
            let packet = V20::outside_session(PayloadKind::Rakp3, refusal.encode());
            actions.push(Action::Send(Packet::V20(packet).encode()));
            return self.give_up(&Error::Password, actions);
        }
        let proof = exchange.console_proof(&self.config.password);
        let keys = exchange.keys(&self.config.password);
        let rakp3 = Rakp3 {
            tag,
            bmc_session,
            result: Ok(proof),
        };
        self.set_up(
            now,
            Step::Proving { exchange, keys },
            PayloadKind::Rakp3,
            tag,
            rakp3.encode(),
            actions,
        );
    }

    fn proved(
        &mut self,
        now: Instant,
        exchange: &Exchange,
        keys: &Keys,
        answer: &Rakp4,
        actions: &mut Vec<Action>,
    ) {
        let check = match &answer.result {
            Ok(check) => check,
            Err(status) => {
                return self.give_up(
                    &Error::Refused {
                        step: LOG_IN,
                        status: *status,
                    },
                    actions,
                );
            }
        };
        if !exchange.check_value_holds(keys, check) {
            return self.give_up(&Error::Impostor, actions);
        }
        let link = Link::new(now, exchange, keys.clone());
        let raise = Request::set_session_privilege(self.config.privilege);
        self.start(now, link, Job::Raise, raise, actions);
    }

    fn next_tag(&mut self) -> u8 {
        self.tag = self.tag.wrapping_add(1);
        self.tag
    }

    /// Look the user up by name alone; ask for this privilege.
    fn role(&self) -> u8 {
        0x10 | self.config.privilege.code()
    }
}
