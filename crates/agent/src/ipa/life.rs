//! When to inspect, look up, serve and beat: the agent's side of its conversation with Ironic, as a machine.
//!
//! ```text
//!   Start ──▶ Inspecting ──▶ LookingUp ──▶ Serving (heartbeats, for ever)
//!              5 tries         until known      │
//!                                ▲              │ the node is gone (404), several times
//!                                └──────────────┘
//! ```

use std::time::{Duration, Instant};

use model::Secret;

/// What the machine must know beforehand.
#[derive(Debug, Clone)]
pub struct Config {
    /// How many API URLs there are; the machine names them by number.
    pub apis: usize,
    pub inspect: bool,
    pub token: Option<Secret<String>>,
    /// The first pause between lookups.
    pub lookup_interval: Duration,
    /// After so long without a node the console says so on every try.
    pub lookup_timeout: Duration,
    /// For jitter: a thousand servers that lose power together must not come back in step.
    pub seed: u64,
}

#[derive(Debug)]
pub enum Event {
    Start,
    Inspected(Result<Option<String>, Failed>),
    LookedUp(Result<Node, Failed>),
    Beaten(Result<(), Failed>),
    /// An asynchronous command came to its end.
    Finished,
    /// Ironic spoke to our API with the right token.
    Heard,
    Timer,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    Inspect,
    Lookup {
        api: usize,
        node: Option<String>,
    },
    /// Open the API; comes before the first heartbeat.
    Serve(Assignment),
    /// Close the API: the node this agent served is not its own any more.
    Stop,
    Beat {
        api: usize,
        node: String,
    },
    /// Something a person at the console must know.
    Say(String),
}

/// A lookup's answer, as far as the machine cares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub uuid: String,
    pub heartbeat_timeout: Duration,
    /// As sent: may be the stars that stand for "handed out before".
    pub token: Option<Secret<String>>,
    pub token_required: bool,
}

/// Which node this agent serves, and the password both sides use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    pub node: String,
    pub token: Option<Secret<String>>,
}

/// How a call to Ironic failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failed {
    /// No answer, or 5xx: another API URL may do.
    Unreachable(String),
    /// 409: the node is locked.
    Locked(String),
    /// 404: no such node, or not one that expects an agent.
    NotFound(String),
    /// Any other refusal.
    Refused(String),
}

const MASKED: &str = "******";
const INSPECTIONS: u32 = 5;
const LOOKUP_LONGEST: Duration = Duration::from_mins(1);
/// A heartbeat may be dropped silently while the conductor holds the node's lock, so what came of it is watched.
const UNHEARD: [Duration; 3] = [
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(20),
];
/// So many heartbeats for an unknown node, and the agent looks itself up again.
const LOST: u32 = 3;

#[derive(Debug)]
pub struct Life {
    config: Config,
    phase: Phase,
    api: usize,
    random: Random,
    said: Option<String>,
}

#[derive(Debug)]
enum Phase {
    New,
    Inspecting {
        attempt: u32,
        pause: Pause,
    },
    LookingUp {
        attempt: u32,
        since: Instant,
        conflicts: u32,
        node: Option<String>,
        pause: Pause,
    },
    Serving(Serving),
}

/// Waiting for an answer, or for the time to ask again.
#[derive(Debug, Clone, Copy)]
enum Pause {
    Asked,
    Until(Instant),
}

#[derive(Debug)]
struct Serving {
    node: String,
    timeout: Duration,
    pause: Pause,
    /// Heartbeat again as soon as the one in flight is answered.
    again: bool,
    /// How many of [`UNHEARD`] were used, while an answer from Ironic is awaited.
    unheard: Option<usize>,
    lost: u32,
}

impl Life {
    pub fn new(config: Config) -> Self {
        let random = Random(config.seed);
        Self {
            config,
            phase: Phase::New,
            api: 0,
            random,
            said: None,
        }
    }

    pub fn handle(&mut self, now: Instant, event: Event) -> Vec<Action> {
        match event {
            Event::Start => self.start(now),
            Event::Inspected(answer) => self.inspected(now, answer),
            Event::LookedUp(answer) => self.looked_up(now, answer),
            Event::Beaten(answer) => self.beaten(now, answer),
            Event::Finished => self.finished(),
            Event::Heard => self.heard(now),
            Event::Timer => self.timer(now),
        }
    }

    /// When to send `Event::Timer`, if at all.
    pub fn wake_at(&self) -> Option<Instant> {
        let pause = match &self.phase {
            Phase::New => return None,
            Phase::Inspecting { pause, .. } | Phase::LookingUp { pause, .. } => *pause,
            Phase::Serving(serving) => serving.pause,
        };
        match pause {
            Pause::Asked => None,
            Pause::Until(at) => Some(at),
        }
    }

    fn start(&mut self, now: Instant) -> Vec<Action> {
        if self.config.inspect {
            self.phase = Phase::Inspecting {
                attempt: 1,
                pause: Pause::Asked,
            };
            return vec![Action::Inspect];
        }
        self.look_up(now, None)
    }

    fn inspected(&mut self, now: Instant, answer: Result<Option<String>, Failed>) -> Vec<Action> {
        let Phase::Inspecting { attempt, pause } = &mut self.phase else {
            return vec![];
        };
        let (why, again) = match answer {
            Ok(node) => return self.look_up(now, node),
            Err(Failed::Unreachable(why) | Failed::Locked(why)) => (why, *attempt < INSPECTIONS),
            Err(Failed::NotFound(why) | Failed::Refused(why)) => (why, false),
        };
        let left = INSPECTIONS - *attempt;
        if again {
            let step = 5 << (*attempt - 1).min(3);
            *pause = Pause::Until(now + Duration::from_secs(step).min(Duration::from_secs(30)));
            *attempt += 1;
            return vec![Action::Say(format!(
                "inspection data not taken: {why}; {left} tries left"
            ))];
        }
        let mut actions = vec![Action::Say(format!(
            "inspection data not taken, giving up: {why}"
        ))];
        actions.extend(self.look_up(now, None));
        actions
    }

    fn look_up(&mut self, now: Instant, node: Option<String>) -> Vec<Action> {
        if self.config.apis == 0 {
            // Inspection only: somebody else decides what comes next.
            self.phase = Phase::New;
            return vec![Action::Say("no ipa-api-url: nothing more to do".into())];
        }
        self.phase = Phase::LookingUp {
            attempt: 1,
            since: now,
            conflicts: 0,
            node: node.clone(),
            pause: Pause::Asked,
        };
        vec![Action::Lookup {
            api: self.api,
            node,
        }]
    }

    fn looked_up(&mut self, now: Instant, answer: Result<Node, Failed>) -> Vec<Action> {
        let Phase::LookingUp { .. } = &self.phase else {
            return vec![];
        };
        let why = match answer {
            Ok(node) => match self.token(&node) {
                Ok(token) => return self.serve(node, token),
                Err(why) => why,
            },
            Err(failed) => {
                if let Phase::LookingUp { conflicts, .. } = &mut self.phase {
                    *conflicts = match &failed {
                        Failed::Locked(_) => *conflicts + 1,
                        Failed::Unreachable(_) | Failed::NotFound(_) | Failed::Refused(_) => 0,
                    };
                }
                match failed {
                    Failed::Unreachable(why) => {
                        self.api = (self.api + 1) % self.config.apis;
                        why
                    }
                    Failed::Locked(why) | Failed::NotFound(why) | Failed::Refused(why) => why,
                }
            }
        };
        self.look_up_later(now, &why)
    }

    fn look_up_later(&mut self, now: Instant, why: &str) -> Vec<Action> {
        let Phase::LookingUp {
            attempt,
            since,
            conflicts,
            pause,
            ..
        } = &mut self.phase
        else {
            return vec![];
        };
        // As the original does: a random part of a doubling time, and more while the node is locked.
        let longest = self
            .config
            .lookup_interval
            .saturating_mul(1 << (*attempt).min(8))
            .clamp(Duration::from_millis(500), LOOKUP_LONGEST);
        let locked = match *conflicts {
            0 => 0,
            1 => 1,
            2 => 5,
            _ => 10,
        };
        let wait = longest.mul_f64(self.random.between(0.5, 1.0)) + Duration::from_secs(locked);
        *pause = Pause::Until(now + wait);
        *attempt += 1;
        let waited = now.saturating_duration_since(*since);
        let late = waited > self.config.lookup_timeout;
        let text = if late {
            format!(
                "still no node for this server after {} s: {why}",
                waited.as_secs()
            )
        } else {
            format!("lookup: {why}; trying again")
        };
        let key = format!("{late} {why}");
        if self.said.as_ref() == Some(&key) && !late {
            return vec![];
        }
        self.said = Some(key);
        vec![Action::Say(text)]
    }

    /// Which token to use from now on, or why there is none.
    fn token(&mut self, node: &Node) -> Result<Option<Secret<String>>, String> {
        match &node.token {
            Some(new) if new.expose() != MASKED => {
                self.config.token = Some(new.clone());
                Ok(Some(new.clone()))
            }
            _ if self.config.token.is_some() => Ok(self.config.token.clone()),
            Some(_) => Err(format!(
                "the token of node {} was handed out before and this agent does not have it; it serves nobody until \
                 Ironic restarts the server",
                node.uuid
            )),
            None if node.token_required => Err(format!(
                "Ironic wants a token for node {} but gave none",
                node.uuid
            )),
            None => Ok(None),
        }
    }

    fn serve(&mut self, node: Node, token: Option<Secret<String>>) -> Vec<Action> {
        self.said = None;
        self.phase = Phase::Serving(Serving {
            node: node.uuid.clone(),
            timeout: node.heartbeat_timeout,
            pause: Pause::Asked,
            again: false,
            unheard: Some(0),
            lost: 0,
        });
        vec![
            Action::Serve(Assignment {
                node: node.uuid.clone(),
                token,
            }),
            Action::Beat {
                api: self.api,
                node: node.uuid,
            },
        ]
    }

    fn beaten(&mut self, now: Instant, answer: Result<(), Failed>) -> Vec<Action> {
        let Phase::Serving(serving) = &mut self.phase else {
            return vec![];
        };
        match answer {
            Ok(()) => {
                serving.lost = 0;
                let usual = serving
                    .timeout
                    .mul_f64(self.random.between(0.3, 0.6))
                    .max(Duration::from_millis(100));
                let wait = match serving.unheard {
                    Some(used) if used < UNHEARD.len() => {
                        serving.unheard = Some(used + 1);
                        UNHEARD[used].min(usual)
                    }
                    Some(_) | None => usual,
                };
                serving.pause = Pause::Until(now + wait);
                let recovered = self.said.take().is_some();
                let mut actions = vec![];
                if recovered {
                    actions.push(Action::Say("heartbeats are taken again".into()));
                }
                if std::mem::take(&mut serving.again) {
                    actions.extend(self.beat());
                }
                actions
            }
            Err(failed) => {
                serving.again = false;
                let gone = matches!(failed, Failed::NotFound(_));
                serving.lost = if gone { serving.lost + 1 } else { 0 };
                let why = match failed {
                    Failed::Unreachable(why) => {
                        self.api = (self.api + 1) % self.config.apis;
                        why
                    }
                    Failed::Locked(why) | Failed::NotFound(why) | Failed::Refused(why) => why,
                };
                if serving.lost >= LOST {
                    let mut actions = vec![
                        Action::Say(format!("node {} is gone: {why}", serving.node)),
                        Action::Stop,
                    ];
                    actions.extend(self.look_up(now, None));
                    return actions;
                }
                let wait = Duration::from_secs(5).mul_f64(self.random.between(1.0, 2.0));
                serving.pause = Pause::Until(now + wait);
                if self.said.as_ref() == Some(&why) {
                    return vec![];
                }
                self.said = Some(why.clone());
                vec![Action::Say(format!("heartbeat: {why}; trying again"))]
            }
        }
    }

    fn finished(&mut self) -> Vec<Action> {
        let Phase::Serving(serving) = &mut self.phase else {
            return vec![];
        };
        serving.unheard = Some(0);
        match serving.pause {
            Pause::Asked => {
                serving.again = true;
                vec![]
            }
            Pause::Until(_) => self.beat(),
        }
    }

    fn heard(&mut self, now: Instant) -> Vec<Action> {
        let Phase::Serving(serving) = &mut self.phase else {
            return vec![];
        };
        if serving.unheard.take().is_some()
            && let Pause::Until(_) = serving.pause
            && self.said.is_none()
        {
            let wait = serving.timeout.mul_f64(self.random.between(0.3, 0.6));
            serving.pause = Pause::Until(now + wait.max(Duration::from_millis(100)));
        }
        vec![]
    }

    fn beat(&mut self) -> Vec<Action> {
        let Phase::Serving(serving) = &mut self.phase else {
            return vec![];
        };
        serving.pause = Pause::Asked;
        vec![Action::Beat {
            api: self.api,
            node: serving.node.clone(),
        }]
    }

    fn timer(&mut self, now: Instant) -> Vec<Action> {
        let due = |pause: &Pause| matches!(pause, Pause::Until(at) if *at <= now);
        match &mut self.phase {
            Phase::Inspecting { pause, .. } if due(pause) => {
                *pause = Pause::Asked;
                vec![Action::Inspect]
            }
            Phase::LookingUp { pause, node, .. } if due(pause) => {
                *pause = Pause::Asked;
                vec![Action::Lookup {
                    api: self.api,
                    node: node.clone(),
                }]
            }
            Phase::Serving(serving) if due(&serving.pause) => self.beat(),
            Phase::New | Phase::Inspecting { .. } | Phase::LookingUp { .. } | Phase::Serving(_) => {
                vec![]
            }
        }
    }
}

/// SplitMix64: enough to keep servers out of step.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn between(&mut self, low: f64, high: f64) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let unit = ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64;
        low + (high - low) * unit
    }
}

#[cfg(test)]
#[path = "life_tests.rs"]
mod tests;
