//! Sessions where the BMC has them, Basic where it has not.
//!
//! ```text
//!   Unknown ── log in ─▶ Session ── 401, 403 ─▶ Unknown (once per request)
//!      │ no session service, no session free        │ 401 again
//!      └──────────────▶ Basic ◀──────────────────────┘
//! ```

use std::sync::Arc;

use model::Secret;
use reqwest::header::HeaderValue;
use reqwest::{Method, RequestBuilder};
use serde_json::json;
use tracing::{debug, warn};

use super::talk::{Ask, Client, Failure, Reply};
use super::{Auth, Config, Error};

#[derive(Debug)]
pub struct Login {
    auth: Auth,
    state: State,
}

#[derive(Debug)]
enum State {
    Unknown,
    Using(Arc<Credential>),
}

#[derive(Debug)]
pub enum Credential {
    Session {
        token: Secret<String>,
        location: String,
    },
    Basic,
}

/// A request was not let through.
#[derive(Debug, Clone, Copy)]
pub struct Refusal {
    pub status: u16,
    /// With a new login already.
    pub again: bool,
}

impl Credential {
    pub fn sign(&self, request: RequestBuilder, config: &Config) -> RequestBuilder {
        match self {
            Self::Session { token, .. } => match HeaderValue::from_str(token.expose()) {
                Ok(mut value) => {
                    value.set_sensitive(true);
                    request.header("X-Auth-Token", value)
                }
                // Checked when the session was made.
                Err(_) => request,
            },
            Self::Basic => request.basic_auth(&config.username, Some(config.password.expose())),
        }
    }
}

impl Login {
    pub fn new(auth: Auth) -> Self {
        Self {
            auth,
            state: State::Unknown,
        }
    }

    pub async fn credential(
        &mut self,
        client: &Client,
        operation: &'static str,
    ) -> Result<Option<Arc<Credential>>, Error> {
        if let State::Using(credential) = &self.state {
            return Ok(Some(Arc::clone(credential)));
        }
        let credential = match self.auth {
            Auth::Nobody => return Ok(None),
            Auth::Basic => Credential::Basic,
            Auth::Session | Auth::Auto => match open(client, operation).await {
                Ok(session) => session,
                Err(error) if self.auth == Auth::Auto && falls_back(&error) => {
                    debug!(bmc = %client.config.address, error = model::chain(&error), "no session, Basic instead");
                    Credential::Basic
                }
                Err(error) => return Err(error),
            },
        };
        let credential = Arc::new(credential);
        self.state = State::Using(Arc::clone(&credential));
        Ok(Some(credential))
    }

    /// A request with `used` was refused, for the first time or again. Is there something else to try?
    pub async fn refused(
        &mut self,
        client: &Client,
        used: Option<&Credential>,
        refusal: Refusal,
    ) -> bool {
        let State::Using(current) = &self.state else {
            return true;
        };
        if !used.is_some_and(|used| std::ptr::eq(used, Arc::as_ptr(current))) {
            return true; // Somebody else has logged in anew meanwhile.
        }
        match (&**current, refusal) {
            // The BMC has forgotten the session.
            (
                Credential::Session { .. },
                Refusal {
                    status: 401,
                    again: false,
                },
            ) => {
                self.state = State::Unknown;
                true
            }
            (Credential::Session { .. }, Refusal { again: false, .. }) => {
                self.close(client).await;
                true
            }
            (
                Credential::Session { .. },
                Refusal {
                    status: 401,
                    again: true,
                },
            ) if self.auth == Auth::Auto => {
                self.state = State::Using(Arc::new(Credential::Basic));
                true
            }
            (Credential::Basic, _) | (Credential::Session { .. }, Refusal { again: true, .. }) => {
                false
            }
        }
    }

    pub async fn close(&mut self, client: &Client) {
        let State::Using(credential) = std::mem::replace(&mut self.state, State::Unknown) else {
            return;
        };
        let Credential::Session { location, .. } = &*credential else {
            return;
        };
        let ask = Ask {
            operation: "close the session",
            method: Method::DELETE,
            path: location,
            body: None,
            if_match: None,
        };
        match client.once(&ask, Some(&credential), true).await {
            Ok(reply) if reply.status < 300 || matches!(reply.status, 401 | 404) => {}
            Ok(reply) => {
                warn!(bmc = %client.config.address, status = reply.status, "the session stays open");
            }
            Err(Failure::Transport(error)) => {
                warn!(bmc = %client.config.address, error = model::chain(&error.without_url()), "the session stays open");
            }
            Err(Failure::Final(error)) => {
                warn!(bmc = %client.config.address, error = model::chain(&error), "the session stays open");
            }
        }
    }
}

const SESSIONS: &str = "/redfish/v1/SessionService/Sessions";

async fn open(client: &Client, operation: &'static str) -> Result<Credential, Error> {
    let limits = client.limits();
    let started = tokio::time::Instant::now();
    let mut tries = 1;
    loop {
        let last = tries >= limits.tries || started.elapsed() >= limits.patience;
        match open_once(client, operation).await {
            Ok(credential) => return Ok(credential),
            Err(error) if !last && unready(&error) => {
                tokio::time::sleep(limits.pause).await;
                tries += 1;
            }
            Err(Error::Unreachable {
                operation,
                url,
                source,
                ..
            }) => {
                return Err(Error::Unreachable {
                    operation,
                    url,
                    tries,
                    source,
                });
            }
            Err(error) => return Err(error),
        }
    }
}

async fn open_once(client: &Client, operation: &'static str) -> Result<Credential, Error> {
    let root = Ask {
        operation,
        method: Method::GET,
        path: "/redfish/v1/",
        body: None,
        if_match: None,
    };
    let root = exchange(client, &root).await?;
    let sessions = root
        .body
        .pointer("/Links/Sessions/@odata.id")
        .and_then(|path| path.as_str())
        .unwrap_or(SESSIONS);
    let body =
        json!({"UserName": client.config.username, "Password": client.config.password.expose()});
    let ask = Ask {
        operation,
        method: Method::POST,
        path: sessions,
        body: Some(&body),
        if_match: None,
    };
    let reply = exchange(client, &ask).await?;
    let missing = |property: &str| Error::Missing {
        operation,
        url: reply.url.clone(),
        property: property.to_string(),
    };
    let token = reply
        .header("x-auth-token")
        .ok_or_else(|| missing("X-Auth-Token"))?;
    let location = reply
        .header("location")
        .or_else(|| reply.body.pointer("/@odata.id")?.as_str());
    let location = location.ok_or_else(|| missing("Location"))?;
    Ok(Credential::Session {
        token: Secret::new(token.to_string()),
        location: location.to_string(),
    })
}

/// An exchange of the login itself: nothing is asked twice here.
async fn exchange(client: &Client, ask: &Ask<'_>) -> Result<Reply, Error> {
    match client.once(ask, None, true).await {
        Ok(reply) if reply.status < 300 => Ok(reply),
        Ok(reply) => Err(client.refused(ask, &reply, 1)),
        Err(Failure::Final(error)) => Err(error),
        Err(Failure::Transport(error)) => {
            let url = client.url(ask.path).to_string();
            Err(Error::Unreachable {
                operation: ask.operation,
                url,
                tries: 1,
                source: error.without_url(),
            })
        }
    }
}

/// Not the login's fault: the BMC starts, or is not there.
fn unready(error: &Error) -> bool {
    let full = error.says("SessionLimitExceeded") || error.says("RAC0218");
    match error {
        Error::Unreachable { .. } => true,
        Error::Refused { status, .. } => *status >= 500 && *status != 501 && !full,
        Error::Address { .. }
        | Error::Certificates { .. }
        | Error::Prepare { .. }
        | Error::Login { .. }
        | Error::TooLarge { .. }
        | Error::NotJson { .. }
        | Error::Missing { .. }
        | Error::Task { .. }
        | Error::Slow { .. }
        | Error::Unsupported { .. } => false,
    }
}

/// No session to be had: the service is missing, refuses, or is full. A BMC that is silent is silent to Basic too.
fn falls_back(error: &Error) -> bool {
    !matches!(error, Error::Unreachable { .. })
}
