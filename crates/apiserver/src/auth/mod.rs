//! Who asks, and whether they may.
//!
//! ```text
//!   client certificate --+
//!   bearer token --------+--> user --> impersonation --> policy: live Roles and bindings --> yes, or no opinion
//!     service account, bootstrap token, token file
//! ```
//!
//! Nobody is anonymous: a request that says nothing of its user is refused, but for health and version.

mod bootstrap_token;
mod certificate;
mod impersonate;
mod policy;
pub mod roles;
pub mod token_file;
pub mod tokens;

use std::sync::{Arc, PoisonError, RwLock};

use axum::http::{HeaderMap, header};
use jiff::Timestamp;
use objects::Status;
use objects::access::{Ask, Decision, Policy, Rule, User};
use serde_json::Value;

use crate::api::{Access, TokenWish};
use crate::store::Store;

pub use certificate::user as user_of_certificate;
pub use token_file::TokenFile;
pub use tokens::Tokens;

/// Whoever is in it may do anything, whatever the policy says: the way back in when the policy is broken.
pub const MASTERS: &str = "system:masters";
pub const AUTHENTICATED: &str = "system:authenticated";

pub struct Auth {
    store: Store,
    policy: RwLock<Policy>,
    tokens: Tokens,
    token_file: TokenFile,
}

impl Auth {
    pub fn new(store: Store, tokens: Tokens, token_file: TokenFile) -> Arc<Self> {
        Arc::new(Self {
            store,
            policy: RwLock::default(),
            tokens,
            token_file,
        })
    }

    pub fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// The user behind a request: of the connection's certificate or the bearer token, or whom they stand in for.
    pub fn identify(&self, peer: Option<&User>, headers: &HeaderMap) -> Result<User, Status> {
        let user = match (peer, bearer(headers)) {
            // A certificate was checked when the connection was made; it goes first, as in Kubernetes.
            (Some(peer), _) => peer.clone(),
            (None, Some(token)) => self.bearer(token, &[]).ok_or_else(Status::unauthorized)?,
            (None, None) => return Err(Status::unauthorized()),
        };
        impersonate::effective(self, user, headers)
    }

    fn bearer(&self, token: &str, audiences: &[String]) -> Option<User> {
        let now = Timestamp::now();
        let user = self
            .token_file
            .user(token)
            .or_else(|| bootstrap_token::user(&self.store, token, now))
            .or_else(|| self.tokens.user(&self.store, token, audiences, now))?;
        Some(authenticated(user))
    }

    fn policy(&self) -> std::sync::RwLockReadGuard<'_, Policy> {
        self.policy.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Access for Auth {
    fn decide(&self, user: &User, ask: &Ask<'_>) -> Decision {
        if user.groups.iter().any(|group| group == MASTERS) {
            return Decision::Allowed {
                reason: format!("group {MASTERS:?}"),
            };
        }
        self.policy().decide(user, ask)
    }

    fn rules(&self, user: &User, namespace: &str) -> Vec<Rule> {
        self.policy().rules(user, namespace)
    }

    fn check_write(&self, user: &User, object: &Value, old: Option<&Value>) -> Result<(), Status> {
        if user.groups.iter().any(|group| group == MASTERS) {
            return Ok(());
        }
        self.policy().check_write(user, object, old)
    }

    fn authenticate(&self, token: &str, audiences: &[String]) -> Option<User> {
        self.bearer(token, audiences)
    }

    fn issue(&self, wish: &TokenWish<'_>) -> Result<(String, Timestamp), Status> {
        self.tokens.issue(wish, Timestamp::now())
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Everybody who said who they are is in one group more.
pub fn authenticated(mut user: User) -> User {
    if !user.groups.iter().any(|group| group == AUTHENTICATED) {
        user.groups.push(AUTHENTICATED.to_owned());
    }
    user
}

/// Texts that are secrets are compared in a time that does not tell how much of them is right.
fn same(left: &[u8], right: &[u8]) -> bool {
    use sha2::{Digest as _, Sha256};
    Sha256::digest(left) == Sha256::digest(right)
}

#[cfg(test)]
mod tests;
