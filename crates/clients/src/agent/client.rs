//! What is asked of an agent.

use std::time::Duration;

use model::Secret;
use reqwest::Method;
use serde::Deserialize as _;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::call::Ask;
use super::command::{Command, Status};
use super::error::Error;
use super::pin;

pub struct Config {
    /// As it was sent with the heartbeat: `https://192.0.2.7:9999`.
    pub address: String,
    /// PEM, as it was sent with the heartbeat.
    pub certificate: String,
    pub token: Secret<String>,
    pub limits: Limits,
}

/// Limits on everything that is asked of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    pub connect: Duration,
    pub answer: Duration,
    /// For a command that is waited for in one request.
    pub command: Duration,
    pub body_bytes: usize,
    /// How often an agent that does not answer is asked.
    pub tries: u32,
    pub pause: Duration,
    /// How long an agent may be busy with another command before a new one is given up.
    pub busy: Duration,
    /// How often a command that is waited for is looked at.
    pub poll: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            answer: Duration::from_mins(1),
            command: Duration::from_mins(3),
            body_bytes: 64 << 20,
            tries: 3,
            pause: Duration::from_secs(2),
            busy: Duration::from_mins(1),
            poll: Duration::from_secs(1),
        }
    }
}

/// A client of one agent, for as long as that agent runs.
pub struct Client {
    /// For messages.
    pub(super) address: String,
    pub(super) url: reqwest::Url,
    pub(super) token: Secret<String>,
    pub(super) limits: Limits,
    pub(super) http: reqwest::Client,
}

impl Client {
    pub fn new(config: Config) -> Result<Self, Error> {
        let address = config.address.trim_end_matches('/').to_string();
        let url = match reqwest::Url::parse(&address) {
            Ok(url) if url.scheme() == "https" => url,
            Ok(_) | Err(_) => return Err(Error::Address { address }),
        };
        let Some(tls) = pin::config(&config.certificate) else {
            return Err(Error::Certificate { address });
        };
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .connect_timeout(config.limits.connect)
            .timeout(config.limits.answer)
            // An agent has no reason to send us anywhere else.
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .pool_max_idle_per_host(1)
            .http1_only()
            .build()
            .map_err(|source| Error::Prepare {
                address: address.clone(),
                source,
            })?;
        Ok(Self {
            address,
            url,
            token: config.token,
            limits: config.limits,
            http,
        })
    }

    /// All commands the agent was given since it started, oldest first.
    pub async fn commands(&self) -> Result<Vec<Command>, Error> {
        let operation = "reading the commands";
        let answer = self
            .ask(&Ask {
                operation,
                method: Method::GET,
                path: "/v1/commands/",
                wait: None,
                body: None,
                tries: self.limits.tries,
            })
            .await?;
        let list = answer.get("commands").cloned().unwrap_or_default();
        Vec::deserialize(list).map_err(|source| self.nonsense(operation, source))
    }

    /// Like [`Client::commands`], for those who look often and come again: one try, soon over.
    pub async fn glance(&self) -> Result<Vec<Command>, Error> {
        let once = Ask {
            operation: "asking after a command",
            method: Method::GET,
            path: "/v1/commands/",
            wait: None,
            body: None,
            tries: 1,
        };
        let answer = self.ask(&once).await?;
        let list = answer.get("commands").cloned().unwrap_or_default();
        Vec::deserialize(list).map_err(|source| self.nonsense(once.operation, source))
    }

    /// Runs a command that ends soon, and gives what came of it.
    pub async fn run(&self, name: &str, params: &Value) -> Result<Value, Error> {
        let command = self.post(name, params, true, self.limits.tries).await?;
        finished(name, command)
    }

    /// Starts a command that goes on, unless there is one of this name that is newer than `after`: then that is it.
    ///
    /// `after` is the id of the newest command before this one was first tried. With it, a command whose start was not
    /// answered, or not written down, is not started twice.
    pub async fn start(
        &self,
        name: &str,
        params: &Value,
        after: Option<&str>,
    ) -> Result<Command, Error> {
        let bare = name.rsplit('.').next().unwrap_or(name);
        let began = Instant::now();
        let mut tries = 0;
        loop {
            let commands = self.commands().await?;
            if let Some(command) = newer(&commands, after).rev().find(|c| c.name() == bare) {
                return Ok(command.clone());
            }
            let error = match self.post(name, params, false, 1).await {
                Ok(command) => return Ok(command),
                Err(error) => error,
            };
            tries += 1;
            let again = match &error {
                Error::Busy { .. } => began.elapsed() < self.limits.busy,
                Error::Unreachable { .. } => tries < self.limits.tries,
                Error::Address { .. }
                | Error::Certificate { .. }
                | Error::Prepare { .. }
                | Error::Stranger { .. }
                | Error::Refused { .. }
                | Error::TooLarge { .. }
                | Error::Nonsense { .. }
                | Error::Failed { .. }
                | Error::Slow { .. } => false,
            };
            if !again {
                return Err(error);
            }
            tokio::time::sleep(self.limits.pause).await;
        }
    }

    /// Starts a command, or takes one of its name that is running, and waits for its end.
    pub async fn see_through(
        &self,
        name: &str,
        params: &Value,
        limit: Duration,
    ) -> Result<Value, Error> {
        let bare = name.rsplit('.').next().unwrap_or(name);
        let commands = self.commands().await?;
        let running = commands
            .iter()
            .find(|c| c.name() == bare && c.status == Status::Running);
        let mut command = if let Some(command) = running {
            command.clone()
        } else {
            let after = commands.last().map(|command| command.id.as_str());
            self.start(name, params, after).await?
        };
        let deadline = Instant::now() + limit;
        while command.status == Status::Running {
            if Instant::now() >= deadline {
                return Err(Error::Slow {
                    command: name.into(),
                    limit,
                });
            }
            tokio::time::sleep(self.limits.poll).await;
            let id = command.id;
            let all = self.commands().await?;
            command = all
                .into_iter()
                .find(|known| known.id == id)
                .ok_or_else(|| Error::Failed {
                    command: name.into(),
                    trouble: "the agent has forgotten it; it was restarted".into(),
                })?;
        }
        finished(name, command)
    }

    async fn post(
        &self,
        name: &str,
        params: &Value,
        wait: bool,
        tries: u32,
    ) -> Result<Command, Error> {
        let body = json!({"name": name, "params": params});
        let answer = self
            .ask(&Ask {
                operation: name,
                method: Method::POST,
                path: "/v1/commands/",
                wait: Some(wait),
                body: Some(&body),
                tries,
            })
            .await?;
        Command::deserialize(answer).map_err(|source| self.nonsense(name, source))
    }

    fn nonsense(&self, operation: &str, source: serde_json::Error) -> Error {
        Error::Nonsense {
            operation: operation.into(),
            address: self.address.clone(),
            source,
        }
    }
}

/// The commands after the one with this id; all where it is not among them, for then the agent is a new one.
pub fn newer<'a>(
    commands: &'a [Command],
    after: Option<&str>,
) -> impl DoubleEndedIterator<Item = &'a Command> {
    let at = after.and_then(|after| commands.iter().position(|command| command.id == after));
    commands[at.map_or(0, |at| at + 1)..].iter()
}

fn finished(name: &str, command: Command) -> Result<Value, Error> {
    match command.status {
        Status::Succeeded => Ok(command.result),
        Status::Failed | Status::Running | Status::VersionMismatch => Err(Error::Failed {
            command: name.into(),
            trouble: command.trouble(),
        }),
    }
}
