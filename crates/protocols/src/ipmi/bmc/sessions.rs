//! Sessions: who is being believed, who is believed, and which packets are fresh.
//!
//! ```text
//!   Open Session ─▶ Opened ── RAKP 1 ─▶ Challenged ── RAKP 3 ─▶ Active
//!                     └─ setup timeout ──┴─▶ gone ◀─ idle timeout, Close Session ┘
//! ```

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::{Bmc, Privilege};
use crate::ipmi::crypto::{Exchange, Keys, Suite};
use crate::ipmi::window::Window;
use crate::ipmi::wire::message::Message;
use crate::ipmi::wire::session::{PayloadKind, V20};
use crate::ipmi::wire::setup::{
    Challenge, MAX_USERNAME, OpenRequest, OpenResponse, Opened, Rakp1, Rakp2, Rakp3, Rakp4, Status,
};

/// Sessions by the id the BMC gave them.
#[derive(Debug)]
pub(super) struct Sessions {
    table: BTreeMap<u32, Session>,
}

#[derive(Debug)]
struct Session {
    /// The console's own id for it, which packets to the console carry.
    theirs: u32,
    peer: SocketAddr,
    suite: Suite,
    /// The most this session may ask for, from Open Session.
    limit: Privilege,
    expires_at: Instant,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Opened,
    Challenged { exchange: Exchange, user: usize },
    Active(Active),
}

/// A session whose two sides have proved themselves.
#[derive(Debug)]
pub(super) struct Active {
    /// Kept so that a repeated RAKP 3 gets its answer again.
    exchange: Exchange,
    keys: Keys,
    /// Index into the configured users.
    pub(super) user: usize,
    /// Highest privilege this session may be raised to.
    pub(super) limit: Privilege,
    pub(super) privilege: Privilege,
    /// Small number that names the session to Get Session Info.
    pub(super) handle: u8,
    window: Window,
    next_sequence: u32,
    answered: Option<Answered>,
}

/// The last command that changed something, and its response, for consoles that ask again.
#[derive(Debug)]
struct Answered {
    request: Message,
    response: Message,
    until: Instant,
}

/// How long a repeated request is taken for a retry: consoles retry within seconds, and reuse a sequence number only
/// 64 commands later.
const RETRY_WINDOW: Duration = Duration::from_secs(5);

impl Bmc {
    pub(super) fn open_session(
        &mut self,
        now: Instant,
        from: SocketAddr,
        open: &OpenRequest,
    ) -> OpenResponse {
        let result = self.try_open(now, from, open);
        OpenResponse {
            tag: open.tag,
            console_session: open.console_session,
            result,
        }
    }

    fn try_open(
        &mut self,
        now: Instant,
        from: SocketAddr,
        open: &OpenRequest,
    ) -> Result<Opened, Status> {
        let suite = Suite::choose(&self.config.suites, open.algorithms)?;
        if open.console_session == 0 {
            return Err(Status::INVALID_SESSION);
        }
        let limit = match open.privilege {
            0 => Privilege::Administrator,
            code => Privilege::from_code(code).ok_or(Status::INVALID_ROLE)?,
        };
        let bmc_session = match self.sessions.opened(from, open.console_session, suite) {
            Some(again) => again,
            None => self
                .sessions
                .make_room(self.config.max_sessions)
                .ok_or(Status::NO_RESOURCES)
                .map(|()| {
                    let mut id = self.randoms.session_id();
                    while self.sessions.table.contains_key(&id) {
                        id = self.randoms.session_id();
                    }
                    id
                })?,
        };
        let session = Session {
            theirs: open.console_session,
            peer: from,
            suite,
            limit,
            expires_at: now + self.config.setup_timeout,
            stage: Stage::Opened,
        };
        self.sessions.table.insert(bmc_session, session);
        Ok(Opened {
            privilege: limit.code(),
            bmc_session,
            algorithms: suite.algorithms(),
        })
    }

    pub(super) fn rakp1(&mut self, rakp1: &Rakp1) -> Rakp2 {
        let console_session = self
            .sessions
            .table
            .get(&rakp1.bmc_session)
            .map_or(0, |session| session.theirs);
        Rakp2 {
            tag: rakp1.tag,
            console_session,
            result: self.challenge(rakp1),
        }
    }

    fn challenge(&mut self, rakp1: &Rakp1) -> Result<Challenge, Status> {
        let session = self
            .sessions
            .table
            .get_mut(&rakp1.bmc_session)
            .ok_or(Status::INVALID_SESSION)?;
        if rakp1.username.len() > MAX_USERNAME {
            return Err(Status::INVALID_NAME_LENGTH);
        }
        let privilege = Privilege::from_code(rakp1.role & 0x0f).ok_or(Status::INVALID_ROLE)?;
        let user = self
            .config
            .users
            .iter()
            .position(|user| user.name.as_bytes() == rakp1.username)
            .ok_or(Status::UNAUTHORIZED_NAME)?;
        let who = &self.config.users[user];
        if privilege > who.privilege.min(session.limit) {
            return Err(Status::UNAUTHORIZED_ROLE);
        }
        // A repeated RAKP 1 must get the same nonce, or the console's proof of the first would fail.
        let bmc_random = match &session.stage {
            Stage::Challenged { exchange, .. }
                if exchange.console_random == rakp1.console_random =>
            {
                exchange.bmc_random
            }
            Stage::Opened | Stage::Challenged { .. } => self.randoms.nonce(),
            Stage::Active(_) => return Err(Status::INVALID_SESSION),
        };
        let exchange = Exchange {
            suite: session.suite,
            console_session: session.theirs,
            bmc_session: rakp1.bmc_session,
            console_random: rakp1.console_random,
            bmc_random,
            guid: self.config.guid,
            role: rakp1.role,
            username: rakp1.username.clone(),
        };
        let auth_code = exchange.bmc_proof(&who.password);
        session.stage = Stage::Challenged { exchange, user };
        Ok(Challenge {
            bmc_random,
            guid: self.config.guid,
            auth_code,
        })
    }

    /// `None` when the console gave up: it wants no answer.
    pub(super) fn rakp3(&mut self, now: Instant, from: SocketAddr, rakp3: &Rakp3) -> Option<Rakp4> {
        let id = rakp3.bmc_session;
        let answer = |console_session, result| Rakp4 {
            tag: rakp3.tag,
            console_session,
            result,
        };
        let Some(session) = self.sessions.table.get(&id) else {
            return Some(answer(0, Err(Status::INVALID_SESSION)));
        };
        let console_session = session.theirs;
        let (exchange, user, fresh) = match &session.stage {
            Stage::Opened => return Some(answer(console_session, Err(Status::INACTIVE_SESSION))),
            Stage::Challenged { exchange, user } => (exchange.clone(), *user, true),
            Stage::Active(active) => (active.exchange.clone(), active.user, false),
        };
        let Ok(proof) = &rakp3.result else {
            if fresh {
                self.sessions.table.remove(&id);
            }
            return None;
        };
        let who = &self.config.users[user];
        if !exchange.console_proof_holds(&who.password, proof) {
            if fresh {
                self.sessions.table.remove(&id);
            }
            return Some(answer(console_session, Err(Status::INVALID_CHECK_VALUE)));
        }
        let keys = exchange.keys(&who.password);
        let check = exchange.check_value(&keys);
        if fresh {
            let limit = Privilege::from_code(exchange.role & 0x0f).unwrap_or(Privilege::Callback);
            let handle = self.sessions.free_handle();
            let active = Active {
                exchange,
                keys,
                user,
                limit,
                // 13.17: a session starts at User, or below where it may not reach that.
                privilege: limit.min(Privilege::User),
                handle,
                window: Window::default(),
                next_sequence: 1,
                answered: None,
            };
            let session = self
                .sessions
                .table
                .get_mut(&id)
                .expect("it was there a moment ago");
            session.stage = Stage::Active(active);
            session.peer = from;
            session.expires_at = now + self.config.idle_timeout;
        }
        Some(answer(console_session, Ok(check)))
    }
}

impl Sessions {
    pub(super) fn new() -> Self {
        Self {
            table: BTreeMap::new(),
        }
    }

    pub(super) fn active(&self, id: u32) -> Option<&Active> {
        match &self.table.get(&id)?.stage {
            Stage::Active(active) => Some(active),
            Stage::Opened | Stage::Challenged { .. } => None,
        }
    }

    pub(super) fn active_mut(&mut self, id: u32) -> Option<&mut Active> {
        match &mut self.table.get_mut(&id)?.stage {
            Stage::Active(active) => Some(active),
            Stage::Opened | Stage::Challenged { .. } => None,
        }
    }

    /// Ids of the active sessions, in the order Get Session Info counts them.
    pub(super) fn active_ids(&self) -> Vec<u32> {
        self.table
            .keys()
            .copied()
            .filter(|id| self.active(*id).is_some())
            .collect()
    }

    pub(super) fn ids(&self) -> Vec<u32> {
        self.table.keys().copied().collect()
    }

    pub(super) fn peer(&self, id: u32) -> Option<SocketAddr> {
        self.table.get(&id).map(|session| session.peer)
    }

    pub(super) fn remove(&mut self, id: u32) {
        self.table.remove(&id);
    }

    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.table.values().map(|session| session.expires_at).min()
    }

    pub(super) fn expired(&self, now: Instant) -> Vec<u32> {
        self.table
            .iter()
            .filter(|(_, session)| session.expires_at <= now)
            .map(|(id, _)| *id)
            .collect()
    }

    /// Checks and decrypts a packet; `None` for any that is forged, repeated or of no session.
    pub(super) fn receive(
        &mut self,
        expires_at: Instant,
        from: SocketAddr,
        packet: &V20,
    ) -> Option<Vec<u8>> {
        let session = self.table.get_mut(&packet.session)?;
        let Stage::Active(active) = &mut session.stage else {
            return None;
        };
        let payload = active.keys.open(packet).ok()?;
        if !active.window.accept(packet.sequence) {
            return None;
        }
        session.peer = from;
        session.expires_at = expires_at;
        Some(payload)
    }

    pub(super) fn seal(
        &mut self,
        id: u32,
        kind: PayloadKind,
        payload: &[u8],
        iv: [u8; 16],
    ) -> Option<(SocketAddr, V20)> {
        let session = self.table.get_mut(&id)?;
        let Stage::Active(active) = &mut session.stage else {
            return None;
        };
        let sequence = active.next_sequence;
        // Zero is the number of packets outside a session.
        active.next_sequence = sequence.checked_add(1).unwrap_or(1);
        Some((
            session.peer,
            active
                .keys
                .seal(kind, session.theirs, sequence, payload, iv),
        ))
    }

    /// The response this very request got before, if it looks like a retry.
    pub(super) fn answered(&self, now: Instant, id: u32, request: &Message) -> Option<Message> {
        let answered = self.active(id)?.answered.as_ref()?;
        (answered.request == *request && now < answered.until).then(|| answered.response.clone())
    }

    pub(super) fn remember(&mut self, now: Instant, id: u32, request: Message, response: Message) {
        if let Some(active) = self.active_mut(id) {
            active.answered = Some(Answered {
                request,
                response,
                until: now + RETRY_WINDOW,
            });
        }
    }

    /// The id already given to an Open Session that is asked again.
    fn opened(&self, from: SocketAddr, console_session: u32, suite: Suite) -> Option<u32> {
        let same = |session: &Session| {
            session.peer == from
                && session.theirs == console_session
                && session.suite == suite
                && matches!(session.stage, Stage::Opened)
        };
        self.table
            .iter()
            .find(|(_, session)| same(session))
            .map(|(id, _)| *id)
    }

    /// Room for one more; strangers who never finish must not lock users out, so the oldest of them goes first.
    fn make_room(&mut self, max: usize) -> Option<()> {
        if self.table.len() < max {
            return Some(());
        }
        let oldest = self
            .table
            .iter()
            .filter(|(_, session)| !matches!(session.stage, Stage::Active(_)))
            .min_by_key(|(_, session)| session.expires_at)
            .map(|(id, _)| *id)?;
        self.table.remove(&oldest);
        Some(())
    }

    fn free_handle(&self) -> u8 {
        let taken: Vec<u8> = self
            .active_ids()
            .iter()
            .filter_map(|id| self.active(*id))
            .map(|active| active.handle)
            .collect();
        (1..=u8::MAX)
            .find(|handle| !taken.contains(handle))
            .unwrap_or(u8::MAX)
    }
}
