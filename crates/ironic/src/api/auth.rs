//! Who may call: everyone, or those in an htpasswd file of bcrypt hashes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::{HeaderMap, StatusCode, header};
use base64::Engine as _;
use serde_json::json;
use sha2::{Digest as _, Sha256};

#[derive(Clone)]
pub enum Auth {
    None,
    Basic(Arc<Users>),
}

/// Users and their hashes. Remembers who was right lately: bcrypt is slow on purpose.
pub struct Users {
    hashes: BTreeMap<String, String>,
    recent: Mutex<VecDeque<[u8; 32]>>,
}

/// As many right passwords are remembered.
const RECENT: usize = 256;

/// Why a call is refused: the status, and the body in the shape of Ironic's own middleware.
pub struct Refusal {
    pub status: StatusCode,
    text: &'static str,
}

impl Refusal {
    pub fn body(&self) -> Vec<u8> {
        json!({"error": {"message": self.text, "code": self.status.as_u16()}})
            .to_string()
            .into_bytes()
    }
}

impl Users {
    /// Reads an htpasswd file; reports every line that cannot be used.
    pub fn parse(text: &str) -> Result<Self, Vec<String>> {
        let mut hashes = BTreeMap::new();
        let mut problems = Vec::new();
        for (at, line) in text
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'))
        {
            match line.trim().split_once(':') {
                Some((user, hash)) if !user.is_empty() && is_bcrypt(hash) => {
                    hashes.insert(user.to_owned(), hash.to_owned());
                }
                _ => problems.push(format!(
                    "line {}: must be a user, a colon and a bcrypt hash ($2y$, $2a$ or $2b$)",
                    at + 1
                )),
            }
        }
        if hashes.is_empty() && problems.is_empty() {
            problems.push("holds no user".into());
        }
        if problems.is_empty() {
            Ok(Self {
                hashes,
                recent: Mutex::default(),
            })
        } else {
            Err(problems)
        }
    }

    fn knows(&self, key: &[u8; 32]) -> bool {
        self.recent
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(key)
    }

    fn remember(&self, key: [u8; 32]) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.push_back(key);
        if recent.len() > RECENT {
            recent.pop_front();
        }
    }
}

fn is_bcrypt(hash: &str) -> bool {
    ["$2y$", "$2a$", "$2b$"]
        .iter()
        .any(|prefix| hash.starts_with(prefix))
        && hash.parse::<bcrypt::HashParts>().is_ok()
}

impl Auth {
    pub async fn check(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let Self::Basic(users) = self else {
            return Ok(());
        };
        let Some(value) = headers.get(header::AUTHORIZATION) else {
            return Err(Refusal {
                status: StatusCode::UNAUTHORIZED,
                text: "Authorization required",
            });
        };
        let malformed = || Refusal {
            status: StatusCode::BAD_REQUEST,
            text: "Could not parse Authorization header",
        };
        let token = value
            .to_str()
            .ok()
            .and_then(|text| text.trim().split_once(' '))
            .ok_or_else(malformed)?;
        if !token.0.eq_ignore_ascii_case("basic") {
            return Err(malformed());
        }
        let pair = base64::engine::general_purpose::STANDARD
            .decode(token.1.trim())
            .map_err(|_| malformed())?;
        let pair = String::from_utf8(pair).map_err(|_| malformed())?;
        let (user, password) = pair.split_once(':').ok_or_else(malformed)?;
        let key: [u8; 32] = Sha256::digest(pair.as_bytes()).into();
        if users.knows(&key) {
            return Ok(());
        }
        let wrong = Refusal {
            status: StatusCode::UNAUTHORIZED,
            text: "Incorrect username or password",
        };
        // An unknown user takes as long as a wrong password.
        let known = users
            .hashes
            .get(user)
            .or_else(|| users.hashes.values().next())
            .cloned();
        let (exists, password) = (users.hashes.contains_key(user), password.to_owned());
        let right = tokio::task::spawn_blocking(move || {
            known.is_some_and(|hash| bcrypt::verify(&password, &hash).unwrap_or(false))
        });
        if !right.await.unwrap_or(false) || !exists {
            return Err(wrong);
        }
        users.remember(key);
        Ok(())
    }
}
