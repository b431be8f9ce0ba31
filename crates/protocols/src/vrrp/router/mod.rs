//! The virtual router itself (RFC 9568, section 6).

mod config;
mod jitter;
mod report;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::time::{Duration, Instant};

use model::Mac;

use super::{Advertisement, Priority, Version};
pub use config::{Announce, Config, Preempt};
use jitter::Jitter;
pub use report::Report;
use report::Reports;

/// An announcement may reach others of the link a little later than us.
const LINGER: Duration = Duration::from_millis(2);

/// One virtual router on one link.
#[derive(Debug)]
pub struct Router {
    config: Config,
    link_up: bool,
    listened: bool,
    reports: Reports,
    jitter: Jitter,
    state: State,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Stopped,
    /// A required check fails, or there is no carrier.
    Unfit,
    Listening {
        until: Instant,
        /// Who the address answers from.
        claimed: Option<Mac>,
    },
    Backup {
        down_at: Instant,
        leader: Option<Leader>,
        patience: Patience,
    },
    /// Has spoken, and waits for a better answer.
    Candidate {
        win_at: Instant,
    },
    Active {
        advertise_at: Instant,
        announce_at: Instant,
        burst_left: u8,
    },
    /// Has given the address up and keeps it until another has it, so that nobody asks in vain.
    Leaving {
        drop_at: Instant,
        then: Then,
    },
}

/// What comes after the address is handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Stopped,
    Backup,
}

/// The active router as last heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leader {
    pub from: IpAddr,
    pub priority: Priority,
    pub interval: Duration,
    pub heard: Instant,
}

/// What a backup has against a lesser active router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patience {
    /// It has not heard one.
    Fresh,
    Since(Instant),
    /// It gave up the address itself, and does not want it back while another holds it with no less than
    /// this priority. Until the time given the others decide among themselves, and the lesser of them speak too.
    Yielded {
        to: Option<Priority>,
        until: Instant,
    },
}

#[derive(Debug, Clone)]
pub enum Event {
    Start,
    Stop,
    Heard {
        from: IpAddr,
        advertisement: Advertisement,
    },
    /// An ARP frame for the address from a MAC that is not ours.
    Claimed {
        by: Mac,
    },
    /// `None`: must not hold the address.
    PriorityChanged(Option<Priority>),
    Link {
        up: bool,
    },
    /// Let another have it: the planned move.
    Resign,
    /// The planned move is over: want the address again, as if it had never been given up.
    Reclaim,
    Timer,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Send(Advertisement),
    TakeVip,
    DropVip,
    /// Tell the link where the address is.
    Announce,
    /// Ask the link who has the address.
    Probe,
    Report(Report),
    Changed {
        from: Role,
        to: Role,
        why: Why,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    Stopped,
    Unfit,
    Listening,
    Backup,
    Candidate,
    Active,
    /// Still has the address, and waits for another to take it.
    Leaving,
}

impl Role {
    pub fn holds(self) -> bool {
        matches!(self, Self::Active | Self::Leaving)
    }
}

/// The reason of a change, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    #[error("started")]
    Started,
    #[error("stopped")]
    Stopped,
    #[error("heard out the link")]
    Listened,
    #[error("the active router fell silent")]
    Silence,
    #[error("no router speaks for the address")]
    Vacant,
    #[error("{from} has only priority {}", priority.0)]
    Lesser { from: IpAddr, priority: Priority },
    #[error("nobody better answered")]
    Won,
    #[error("{from} has priority {}", priority.0)]
    Better { from: IpAddr, priority: Priority },
    #[error("a required check fails")]
    CheckFailed,
    #[error("the link is down")]
    LinkDown,
    #[error("fit again")]
    Recovered,
    #[error("asked to resign")]
    Resigned,
    #[error("ran late: others may have taken over")]
    Overslept,
    #[error("owns the address")]
    Owner,
}

impl Router {
    /// With the link up until told otherwise.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            link_up: true,
            listened: false,
            reports: Reports::default(),
            jitter: Jitter::default(),
            state: State::Stopped,
        }
    }

    pub fn handle(&mut self, now: Instant, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Start => self.start(now, &mut actions),
            Event::Stop => self.stop(now, &mut actions),
            Event::Heard {
                from,
                advertisement,
            } => self.heard(now, from, &advertisement, &mut actions),
            Event::Claimed { by } => self.claimed(now, by, &mut actions),
            Event::PriorityChanged(priority) => self.reprioritise(now, priority, &mut actions),
            Event::Link { up } => self.link(now, up, &mut actions),
            Event::Resign => self.resign(now, &mut actions),
            Event::Reclaim => self.reclaim(),
            Event::Timer => self.timer(now, &mut actions),
        }
        actions
    }

    /// When to send [`Event::Timer`], if at all.
    pub fn wake_at(&self) -> Option<Instant> {
        match self.state {
            State::Stopped | State::Unfit => None,
            State::Listening { until, .. } => Some(until),
            State::Backup { down_at, .. } => Some(down_at),
            State::Candidate { win_at } => Some(win_at),
            State::Active {
                advertise_at,
                announce_at,
                ..
            } => Some(advertise_at.min(announce_at)),
            State::Leaving { drop_at, .. } => Some(drop_at),
        }
    }

    pub fn role(&self) -> Role {
        match self.state {
            State::Stopped => Role::Stopped,
            State::Unfit => Role::Unfit,
            State::Listening { .. } => Role::Listening,
            State::Backup { .. } => Role::Backup,
            State::Candidate { .. } => Role::Candidate,
            State::Active { .. } => Role::Active,
            State::Leaving { .. } => Role::Leaving,
        }
    }

    /// Whom a backup follows.
    pub fn leader(&self) -> Option<Leader> {
        match self.state {
            State::Backup { leader, .. } => leader,
            State::Stopped
            | State::Unfit
            | State::Listening { .. }
            | State::Candidate { .. }
            | State::Active { .. }
            | State::Leaving { .. } => None,
        }
    }

    /// `None` while a required check fails.
    pub fn priority(&self) -> Option<Priority> {
        self.config.priority
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What every advertisement and timer is reckoned with, while fit.
    fn own(&self) -> Priority {
        self.config.priority.unwrap_or(Priority::RESIGN)
    }

    fn start(&mut self, now: Instant, actions: &mut Vec<Action>) {
        if self.role() == Role::Stopped {
            self.enter(now, Why::Started, actions);
        }
    }

    /// From outside into the election, or to its edge.
    fn enter(&mut self, now: Instant, why: Why, actions: &mut Vec<Action>) {
        if !self.link_up {
            return self.turn(State::Unfit, Why::LinkDown, actions);
        }
        let Some(priority) = self.config.priority else {
            return self.turn(State::Unfit, Why::CheckFailed, actions);
        };
        if priority == Priority::OWNER {
            return self.win(now, Why::Owner, actions);
        }
        if self.listened || self.config.listen.is_zero() {
            let down_at = now + self.config.down_interval(priority, self.config.interval);
            return self.turn(State::backup(down_at, None), why, actions);
        }
        let until = now + self.config.listen;
        let listening = State::Listening {
            until,
            claimed: None,
        };
        self.turn(listening, why, actions);
        actions.push(Action::Probe);
    }

    fn heard(
        &mut self,
        now: Instant,
        from: IpAddr,
        heard: &Advertisement,
        actions: &mut Vec<Action>,
    ) {
        if heard.id != self.config.id || self.role() == Role::Stopped {
            return;
        }
        if let Some(report) = self.objection(from, heard) {
            actions.extend(self.reports.due(now, report).map(Action::Report));
            return;
        }
        let own = self.own();
        let fit = self.role() != Role::Unfit;
        if fit && heard.priority == own {
            let equal = self.reports.due(now, Report::EqualPriority { from });
            actions.extend(equal.map(Action::Report));
        }
        let leader = Leader {
            from,
            priority: heard.priority,
            interval: heard.interval,
            heard: now,
        };
        let resigned = heard.priority == Priority::RESIGN;
        if resigned {
            self.jitter.left();
        } else {
            self.jitter.heard(now, &leader);
        }
        let down_at = now + self.down_interval(now, heard.interval);
        let better = (heard.priority, from) > (own, self.config.source);
        let why = Why::Better {
            from,
            priority: heard.priority,
        };
        let contest = self.config.contest();
        let burst = self.config.announce.burst;
        match &mut self.state {
            State::Stopped | State::Unfit => {}
            State::Listening { .. } | State::Leaving { .. } if resigned => {}
            State::Listening { .. } => {
                // The virtual router exists: id and address are ours.
                self.listened = true;
                self.turn(State::backup(down_at, Some(leader)), Why::Listened, actions);
                self.follow(now, leader);
            }
            State::Backup { .. } => self.follow(now, leader),
            State::Candidate { .. } if better => {
                self.turn(State::backup(down_at, Some(leader)), why, actions);
            }
            State::Candidate { win_at } => {
                // Say it again for the one who has just spoken, but do not let the lesser put off the end.
                *win_at = (*win_at).min(now + contest);
                if !resigned {
                    actions.push(self.advertise());
                }
            }
            State::Active { .. } if better => {
                // The last word is for the better one, who may not know that the link was told otherwise
                // and only announces again when it hears of a conflict.
                actions.extend([Action::DropVip, self.advertise()]);
                self.turn(State::backup(down_at, Some(leader)), why, actions);
            }
            State::Active {
                advertise_at,
                announce_at,
                burst_left,
            } => {
                *advertise_at = now + self.config.interval;
                if !resigned {
                    // It may have told the link that the address is there: tell it otherwise.
                    *burst_left = burst;
                    *announce_at = (*announce_at).min(now + contest);
                }
                actions.push(self.advertise());
            }
            // It takes the address now, or has just been taken note of by others who will.
            State::Leaving { drop_at, .. } => *drop_at = (*drop_at).min(now + contest * 2),
        }
    }

    /// What makes an advertisement under our id not one of our virtual router's.
    fn objection(&self, from: IpAddr, heard: &Advertisement) -> Option<Report> {
        let ours = &self.config;
        let stranger = heard.addresses.first().filter(|_| {
            !ours
                .addresses
                .iter()
                .all(|address| heard.addresses.contains(address))
        });
        if from == ours.source {
            return Some(Report::OwnAddress(from));
        }
        if let Some(&address) = stranger {
            return Some(Report::ForeignId { from, address });
        }
        if heard.version != ours.version {
            let theirs = heard.version;
            return Some(Report::OtherVersion { from, theirs });
        }
        if heard.authentication != ours.authentication {
            return Some(Report::Password { from });
        }
        // RFC 3768, 7.1; version 3 learns the interval instead.
        (ours.version == Version::V2 && heard.interval != ours.interval).then_some(
            Report::Interval {
                from,
                theirs: heard.interval,
                ours: ours.interval,
            },
        )
    }

    /// Silence after which the active router is taken for dead.
    fn down_interval(&self, now: Instant, advertised: Duration) -> Duration {
        let least = self.config.down_interval(self.own(), advertised);
        let skew = self.config.skew(self.own(), advertised);
        least.max(self.jitter.patience(now, advertised) + skew)
    }

    /// A backup hears the active router.
    fn follow(&mut self, now: Instant, heard: Leader) {
        let own = self.own();
        let down_at_after = now + self.down_interval(now, heard.interval);
        let hurry_at = now + self.config.hurry(own, heard.interval);
        let run_out_at = now + self.config.down_interval(own, heard.interval);
        let (preempt, swift) = (self.config.preempt, self.config.swift);
        let State::Backup {
            down_at,
            leader,
            patience,
        } = &mut self.state
        else {
            return;
        };
        // A lesser voice beside a good one that still speaks changes nothing.
        let good = |known: &Leader| known.priority >= own && known.from != heard.from;
        if heard.priority < own && now < *down_at && leader.as_ref().is_some_and(good) {
            return;
        }
        if heard.priority == Priority::RESIGN {
            *leader = leader.filter(|leader| leader.from != heard.from);
            *down_at = (*down_at).min(hurry_at);
            return;
        }
        *leader = Some(heard);
        if heard.priority >= own {
            *patience = Patience::Fresh;
            *down_at = down_at_after;
            return;
        }
        *patience = match *patience {
            Patience::Fresh => Patience::Since(now),
            Patience::Yielded {
                to: Some(to),
                until,
            } if heard.priority < to && until <= now => Patience::Since(now),
            Patience::Yielded { until, .. } => Patience::Yielded {
                to: Some(heard.priority),
                until,
            },
            Patience::Since(since) => Patience::Since(since),
        };
        let may_preempt = match (preempt, *patience) {
            (Preempt::Never, _)
            | (_, Patience::Yielded { .. })
            | (Preempt::After(_), Patience::Fresh) => false,
            (Preempt::AtOnce, _) => true,
            (Preempt::After(delay), Patience::Since(since)) => now >= since + delay,
        };
        if !may_preempt {
            *down_at = down_at_after;
        } else if swift {
            *down_at = (*down_at).min(hurry_at);
        } else {
            // The RFCs let the timer run out: theirs, not one that was made longer for a silence.
            *down_at = (*down_at).min(run_out_at);
        }
    }

    fn claimed(&mut self, now: Instant, by: Mac, actions: &mut Vec<Action>) {
        let gap = self.config.announce.gap;
        match &mut self.state {
            State::Listening { claimed, .. } => *claimed = Some(by),
            State::Active {
                announce_at,
                burst_left,
                ..
            } => {
                // At most one answer per gap: the other side may be doing the same.
                *announce_at = (*announce_at).min(now + gap);
                *burst_left = (*burst_left).max(1);
                let contested = self.reports.due(now, Report::Contested { by });
                actions.extend(contested.map(Action::Report));
            }
            // The link has been told: what is on its way to us is all that will come.
            State::Leaving { drop_at, .. } => *drop_at = (*drop_at).min(now + LINGER),
            State::Stopped | State::Unfit | State::Backup { .. } | State::Candidate { .. } => {}
        }
    }

    fn reprioritise(
        &mut self,
        now: Instant,
        priority: Option<Priority>,
        actions: &mut Vec<Action>,
    ) {
        if self.config.priority == priority {
            return;
        }
        let was_fit = self.config.priority.is_some();
        self.config.priority = priority;
        if self.role() == Role::Stopped {
            return;
        }
        if priority.is_none() {
            return self.leave(self.outside(), Why::CheckFailed, actions);
        }
        if !was_fit {
            return self.enter(now, Why::Recovered, actions);
        }
        if let State::Active { advertise_at, .. } = &mut self.state {
            *advertise_at = now + self.config.interval;
            actions.push(self.advertise());
        }
    }

    fn link(&mut self, now: Instant, up: bool, actions: &mut Vec<Action>) {
        if self.link_up == up {
            return;
        }
        self.link_up = up;
        match self.role() {
            Role::Stopped => {}
            Role::Unfit => self.enter(now, Why::Recovered, actions),
            Role::Listening | Role::Backup | Role::Candidate | Role::Active | Role::Leaving => {
                self.leave(self.outside(), Why::LinkDown, actions);
            }
        }
    }

    fn stop(&mut self, now: Instant, actions: &mut Vec<Action>) {
        match &mut self.state {
            State::Active { .. } => self.hand_over(now, Then::Stopped, Why::Stopped, actions),
            State::Leaving { then, .. } => *then = Then::Stopped,
            State::Stopped
            | State::Unfit
            | State::Listening { .. }
            | State::Backup { .. }
            | State::Candidate { .. } => self.leave(State::Stopped, Why::Stopped, actions),
        }
    }

    fn resign(&mut self, now: Instant, actions: &mut Vec<Action>) {
        if let State::Active { .. } = self.state {
            self.hand_over(now, Then::Backup, Why::Resigned, actions);
        }
    }

    /// Says that another may have the address, and keeps it until one has: longer than the least of them waits.
    fn hand_over(&mut self, now: Instant, then: Then, why: Why, actions: &mut Vec<Action>) {
        actions.push(Action::Send(self.config.advertisement(Priority::RESIGN)));
        let slowest = self.config.skew(Priority::RESIGN, self.config.interval);
        let drop_at = now + slowest + self.config.contest() * 2;
        self.turn(State::Leaving { drop_at, then }, why, actions);
    }

    /// Another has the address, or nobody wants it.
    fn handed_over(&mut self, now: Instant, then: Then, actions: &mut Vec<Action>) {
        actions.push(Action::DropVip);
        match then {
            Then::Stopped => self.turn(State::Stopped, Why::Stopped, actions),
            Then::Backup => {
                // Long enough that any other comes first, even a busy one; if there is none, we take it back.
                let patience = self.config.down_interval(self.own(), self.config.interval);
                let down_at = now + patience * 3;
                let yielded = State::Backup {
                    down_at,
                    leader: None,
                    patience: Patience::Yielded {
                        to: None,
                        until: down_at,
                    },
                };
                self.turn(yielded, Why::Resigned, actions);
            }
        }
    }

    /// Where one goes who cannot take part.
    fn outside(&self) -> State {
        match self.state {
            State::Leaving {
                then: Then::Stopped,
                ..
            } => State::Stopped,
            State::Stopped
            | State::Unfit
            | State::Listening { .. }
            | State::Backup { .. }
            | State::Candidate { .. }
            | State::Active { .. }
            | State::Leaving { .. } => State::Unfit,
        }
    }

    fn reclaim(&mut self) {
        if let State::Backup { patience, .. } = &mut self.state
            && let Patience::Yielded { .. } = patience
        {
            *patience = Patience::Fresh;
        }
    }

    /// Gives up whatever part was played; others need not wait for silence.
    fn leave(&mut self, to: State, why: Why, actions: &mut Vec<Action>) {
        let (held, spoke) = match self.state {
            State::Stopped | State::Unfit | State::Listening { .. } | State::Backup { .. } => {
                (false, false)
            }
            State::Candidate { .. } => (false, true),
            State::Active { .. } => (true, true),
            // It has said so already.
            State::Leaving { .. } => (true, false),
        };
        if held {
            actions.push(Action::DropVip);
        }
        if spoke && self.link_up {
            actions.push(Action::Send(self.config.advertisement(Priority::RESIGN)));
        }
        self.turn(to, why, actions);
    }

    fn timer(&mut self, now: Instant, actions: &mut Vec<Action>) {
        match self.state {
            State::Listening { until, claimed } if now >= until => {
                self.heard_out(now, claimed, actions);
            }
            State::Backup {
                down_at, leader, ..
            } if now >= down_at => self.stand(now, self.why_stand(now, leader), actions),
            State::Candidate { win_at } if now >= win_at + self.config.interval => {
                self.stand(now, Why::Overslept, actions);
            }
            State::Candidate { win_at } if now >= win_at => self.win(now, Why::Won, actions),
            State::Active { advertise_at, .. } if now >= self.lost_at(advertise_at) => {
                actions.push(Action::DropVip);
                self.stand(now, Why::Overslept, actions);
            }
            State::Active { .. } => self.keep(now, actions),
            State::Leaving { drop_at, then } if now >= drop_at => {
                self.handed_over(now, then, actions);
            }
            State::Stopped
            | State::Unfit
            | State::Listening { .. }
            | State::Backup { .. }
            | State::Candidate { .. }
            | State::Leaving { .. } => {}
        }
    }

    fn heard_out(&mut self, now: Instant, claimed: Option<Mac>, actions: &mut Vec<Action>) {
        self.listened = true;
        if let Some(by) = claimed {
            let foreign = self.reports.due(now, Report::ForeignAddress { by });
            actions.extend(foreign.map(Action::Report));
        }
        // The listening counts as the silence; the skew still lets the better go first.
        let down_at = now + self.config.skew(self.own(), self.config.interval);
        self.turn(State::backup(down_at, None), Why::Listened, actions);
    }

    fn why_stand(&self, now: Instant, leader: Option<Leader>) -> Why {
        let Some(leader) = leader else {
            return Why::Vacant;
        };
        let own = self.own();
        let speaks = now < leader.heard + self.config.down_interval(own, leader.interval);
        if speaks && leader.priority < own {
            let (from, priority) = (leader.from, leader.priority);
            return Why::Lesser { from, priority };
        }
        Why::Silence
    }

    fn stand(&mut self, now: Instant, why: Why, actions: &mut Vec<Action>) {
        let win_at = now + self.config.contest();
        actions.push(self.advertise());
        self.turn(State::Candidate { win_at }, why, actions);
    }

    fn win(&mut self, now: Instant, why: Why, actions: &mut Vec<Action>) {
        self.listened = true;
        let announce = self.config.announce;
        actions.extend([Action::TakeVip, Action::Announce, self.advertise()]);
        let active = State::Active {
            advertise_at: now + self.config.interval,
            announce_at: now + announce.gap,
            burst_left: announce.burst.saturating_sub(1),
        };
        self.turn(active, why, actions);
    }

    /// When the others must have lost patience with us.
    fn lost_at(&self, advertise_at: Instant) -> Instant {
        // The last one went out one interval before this one was due.
        let patience = self.config.down_interval(self.own(), self.config.interval);
        advertise_at + patience.saturating_sub(self.config.interval)
    }

    /// The active router's two chores.
    fn keep(&mut self, now: Instant, actions: &mut Vec<Action>) {
        let advertise = self.advertise();
        let announce = self.config.announce;
        let State::Active {
            advertise_at,
            announce_at,
            burst_left,
        } = &mut self.state
        else {
            return;
        };
        if now >= *advertise_at {
            // Keep the beat, unless it is lost.
            let next = *advertise_at + self.config.interval;
            *advertise_at = if next > now {
                next
            } else {
                now + self.config.interval
            };
            actions.push(advertise);
        }
        if now >= *announce_at {
            *burst_left = burst_left.saturating_sub(1);
            let wait = match *burst_left {
                0 => announce.refresh,
                _ => announce.gap,
            };
            *announce_at = now + wait;
            actions.push(Action::Announce);
        }
    }

    fn advertise(&self) -> Action {
        Action::Send(self.config.advertisement(self.own()))
    }

    fn turn(&mut self, state: State, why: Why, actions: &mut Vec<Action>) {
        let from = self.role();
        self.state = state;
        let to = self.role();
        if from != to {
            actions.push(Action::Changed { from, to, why });
        }
    }
}

impl State {
    fn backup(down_at: Instant, leader: Option<Leader>) -> Self {
        Self::Backup {
            down_at,
            leader,
            patience: Patience::Fresh,
        }
    }
}
