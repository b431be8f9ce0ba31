//! Sessions: who is logged in, for how long, and how many at most. Time is an argument.

use std::time::{Duration, Instant};

use axum::http::StatusCode;
use model::Secret;
use serde_json::{Value, json};

use super::body::Body;
use super::messages::{self as m, Problem};
use super::path::{ROOT, Resource};
use super::{Answer, collection, link, vendor};
use crate::bmc::{Bmc, lock, same};

#[derive(Debug)]
pub struct Sessions {
    max: usize,
    timeout: Duration,
    next: u64,
    list: Vec<Session>,
}

#[derive(Debug)]
struct Session {
    id: u64,
    user: String,
    token: Secret<String>,
    used: Instant,
}

impl Sessions {
    pub fn new(max: usize) -> Self {
        Self {
            max,
            timeout: Duration::from_mins(30),
            next: 1,
            list: vec![],
        }
    }

    /// A new session's id and token; `None` if there are as many as there may be.
    fn create(&mut self, now: Instant, user: &str) -> Option<(u64, Secret<String>)> {
        self.expire(now);
        if self.list.len() >= self.max {
            return None;
        }
        let id = self.next;
        self.next += 1;
        let token = format!("{:032x}", rand::random::<u128>());
        self.list.push(Session {
            id,
            user: user.into(),
            token: Secret::new(token.clone()),
            used: now,
        });
        Some((id, Secret::new(token)))
    }

    /// Whether a token is good; using it keeps its session alive.
    pub fn admit(&mut self, now: Instant, token: &str) -> bool {
        self.expire(now);
        // All are compared, so that the time taken does not tell which came close.
        let mut admitted = false;
        for session in &mut self.list {
            if same(token.as_bytes(), session.token.expose().as_bytes()) {
                session.used = now;
                admitted = true;
            }
        }
        admitted
    }

    pub fn forget_all(&mut self) {
        self.list.clear();
    }

    fn remove(&mut self, id: u64) -> bool {
        let before = self.list.len();
        self.list.retain(|session| session.id != id);
        self.list.len() < before
    }

    fn expire(&mut self, now: Instant) {
        let timeout = self.timeout;
        self.list
            .retain(|session| now.duration_since(session.used) < timeout);
    }
}

pub fn render_service(bmc: &Bmc) -> Value {
    json!({
        "@odata.type": "#SessionService.v1_1_8.SessionService",
        "Id": "SessionService",
        "Name": "Session Service",
        "Status": {"State": "Enabled", "Health": "OK"},
        "ServiceEnabled": true,
        "SessionTimeout": lock(&bmc.sessions).timeout.as_secs(),
        "Sessions": link(bmc, &Resource::Sessions),
    })
}

pub fn change_service(bmc: &Bmc, mut body: Body, known: &Value) -> Result<(), Problem> {
    let timeout = body.number("SessionTimeout");
    // The schema's own bounds.
    if let Some(seconds) = timeout.filter(|seconds| !(30..=86400).contains(seconds)) {
        body.malformed(
            "SessionTimeout",
            &seconds.to_string(),
            "It can be 30 to 86400",
        );
    }
    body.finish(known)?;
    if let Some(seconds) = timeout {
        lock(&bmc.sessions).timeout = Duration::from_secs(seconds);
    }
    Ok(())
}

pub fn render_all(bmc: &Bmc) -> Value {
    let mut sessions = lock(&bmc.sessions);
    sessions.expire(Instant::now());
    let members = sessions
        .list
        .iter()
        .map(|session| Resource::Session(session.id))
        .collect::<Vec<_>>();
    drop(sessions);
    collection(bmc, "SessionCollection", "Sessions", &members)
}

pub fn render(bmc: &Bmc, id: u64) -> Option<Value> {
    let sessions = lock(&bmc.sessions);
    let session = sessions.list.iter().find(|session| session.id == id)?;
    Some(json!({
        "@odata.type": "#Session.v1_3_0.Session",
        "Id": id.to_string(),
        "Name": "User Session",
        "UserName": session.user,
        "Password": null,
    }))
}

/// Logs in. The only request beside the root's that needs no login.
pub fn create(bmc: &Bmc, mut body: Body) -> Result<Answer, Problem> {
    body.require("UserName");
    body.require("Password");
    let user = body.text("UserName");
    let password = body.secret("Password");
    body.finish(&Value::Null)?;
    let (Some(user), Some(password)) = (user, password) else {
        return Err(Problem::new(&m::PROPERTY_MISSING, &["Password"]));
    };
    if !bmc.credentials.admit(&user, password.expose()) {
        return Err(Problem::new(
            &m::UNAUTHORIZED,
            &[&format!("{ROOT}/SessionService/Sessions")],
        ));
    }
    let full = bmc.personality.sessions_full;
    let (id, token) = lock(&bmc.sessions)
        .create(Instant::now(), &user)
        .ok_or_else(|| vendor(&full))?;
    let session = Resource::Session(id);
    let mut answer = Answer::new(StatusCode::CREATED, render(bmc, id));
    if let Some(body) = &mut answer.body {
        body["@odata.id"] = session.path(bmc.personality).into();
    }
    answer
        .headers
        .push(("x-auth-token", token.expose().clone()));
    answer
        .headers
        .push(("location", session.path(bmc.personality)));
    Ok(answer)
}

pub fn delete(bmc: &Bmc, id: u64) -> bool {
    lock(&bmc.sessions).remove(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_lives_while_it_is_used_and_ends_when_it_is_not() {
        let start = Instant::now();
        let mut sessions = Sessions::new(2);
        let (_, token) = sessions.create(start, "admin").unwrap();
        let almost = Duration::from_mins(29);
        let later = start + almost;
        assert!(sessions.admit(later, token.expose()));
        assert!(sessions.admit(later + almost, token.expose()));
        assert!(!sessions.admit(later + Duration::from_hours(1), token.expose()));
        assert!(!sessions.admit(start, "0123"));
    }

    #[test]
    fn there_are_no_more_sessions_than_allowed_until_one_ends() {
        let start = Instant::now();
        let mut sessions = Sessions::new(2);
        let (first, _) = sessions.create(start, "admin").unwrap();
        sessions.create(start, "admin").unwrap();
        assert!(sessions.create(start, "admin").is_none());
        assert!(sessions.remove(first) && !sessions.remove(first));
        assert!(sessions.create(start, "admin").is_some());
        assert!(
            sessions
                .create(start + Duration::from_mins(30), "admin")
                .is_some(),
            "the others timed out"
        );
    }
}
