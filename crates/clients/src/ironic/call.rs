//! One request: its headers, its tries, its answer.

use std::time::Duration;

use model::Secret;
use reqwest::{Method, Response, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;
use tracing::debug;

use super::error::message;
use super::{Error, NEWEST, OLDEST};
use crate::redfish::Verify;

#[derive(Debug, Clone)]
pub struct Config {
    /// Scheme, host, port and perhaps a path before `/v1`.
    pub address: String,
    pub login: Option<Login>,
    pub verify: Verify,
    pub limits: Limits,
}

#[derive(Debug, Clone)]
pub struct Login {
    pub username: String,
    pub password: Secret<String>,
}

#[derive(Debug, Clone)]
pub struct Limits {
    pub connect: Duration,
    /// From the request to the end of the answer.
    pub answer: Duration,
    pub body_bytes: usize,
    /// A locked node or a busy service is asked again for so long.
    pub patience: Duration,
    pub pause: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            answer: Duration::from_secs(30),
            body_bytes: 64 << 20,
            patience: Duration::from_secs(15),
            pause: Duration::from_millis(250),
        }
    }
}

impl Config {
    pub fn new(address: &str) -> Self {
        Self {
            address: address.trim_end_matches('/').to_owned(),
            login: None,
            verify: Verify::System,
            limits: Limits::default(),
        }
    }
}

/// An Ironic that was found to be one.
#[derive(Debug, Clone)]
pub struct Ironic {
    http: reqwest::Client,
    base: String,
    login: Option<Login>,
    limits: Limits,
    version: u16,
}

impl Ironic {
    /// Asks which versions are spoken, and agrees on one.
    pub async fn connect(config: Config) -> Result<Self, Error> {
        let wrong = |why: &str| Error::Address {
            address: config.address.clone(),
            why: why.to_owned(),
        };
        let url = Url::parse(&config.address).map_err(|error| wrong(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong("the scheme is neither http nor https"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("a login does not belong into the address"));
        }
        let http = client(&config).map_err(|source| Error::Prepare {
            address: config.address.clone(),
            source,
        })?;
        let mut ironic = Self {
            http,
            base: config.address,
            login: config.login,
            limits: config.limits,
            version: 1,
        };
        ironic.version = ironic.agree().await?;
        Ok(ironic)
    }

    /// The minor version that is spoken.
    pub fn version(&self) -> u16 {
        self.version
    }

    async fn agree(&self) -> Result<u16, Error> {
        let operation = "ask for the API's versions";
        let (answer, url, _) = self.send(operation, &Method::GET, "/v1", None).await?;
        let header = answer
            .headers()
            .get("x-openstack-ironic-api-maximum-version")
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.strip_prefix("1."))
            .and_then(|minor| minor.parse().ok());
        let newest: u16 = header.ok_or_else(|| Error::NotIronic { url: url.clone() })?;
        if newest < OLDEST {
            return Err(Error::TooOld { url, newest });
        }
        Ok(newest.min(NEWEST))
    }

    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        operation: &'static str,
        path: &str,
    ) -> Result<T, Error> {
        self.ask(operation, &Method::GET, path, None).await
    }

    /// Asks, and understands the answer.
    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        operation: &'static str,
        method: &Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T, Error> {
        let (url, bytes) = self.call(operation, method, path, body).await?;
        serde_json::from_slice(&bytes).map_err(|source| Error::NotUnderstood {
            operation,
            url,
            source,
        })
    }

    /// Asks, and is content with a yes.
    pub(super) async fn tell(
        &self,
        operation: &'static str,
        method: &Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(), Error> {
        self.call(operation, method, path, body).await.map(drop)
    }

    /// Asks until there is an answer other than "later", or patience ends.
    async fn call(
        &self,
        operation: &'static str,
        method: &Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(String, Vec<u8>), Error> {
        let begin = Instant::now();
        let mut pause = self.limits.pause;
        loop {
            let error = match self.once(operation, method, path, body).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            if !later(method, &error) || begin.elapsed() + pause > self.limits.patience {
                return Err(error);
            }
            debug!(%error, ?pause, "Ironic is asked again");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(5));
        }
    }

    async fn once(
        &self,
        operation: &'static str,
        method: &Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(String, Vec<u8>), Error> {
        let (answer, url, tries) = self.send(operation, method, path, body).await?;
        let status = answer.status();
        let bytes = self.read(operation, answer, &url, tries).await?;
        if status.is_success() {
            return Ok((url, bytes));
        }
        Err(Error::Refused {
            operation,
            url,
            status: status.as_u16(),
            message: message(&bytes),
        })
    }

    /// A connection that cannot be made is tried again; a request that was sent is not.
    async fn send(
        &self,
        operation: &'static str,
        method: &Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(Response, String, u32), Error> {
        let url = format!("{}{path}", self.base);
        let begin = Instant::now();
        let mut tries = 0;
        loop {
            tries += 1;
            let mut request = self
                .http
                .request(method.clone(), &url)
                .header(
                    "X-OpenStack-Ironic-API-Version",
                    format!("1.{}", self.version),
                )
                .header("Accept", "application/json");
            if let Some(login) = &self.login {
                request = request.basic_auth(&login.username, Some(login.password.expose()));
            }
            if let Some(body) = body {
                request = request.json(body);
            }
            match request.send().await {
                Ok(answer) => return Ok((answer, url, tries)),
                Err(error) if error.is_connect() && begin.elapsed() < self.limits.patience => {
                    debug!(url, error = model::chain(&error), "Ironic does not answer");
                    tokio::time::sleep(self.limits.pause).await;
                }
                Err(source) => {
                    return Err(Error::Unreachable {
                        operation,
                        url,
                        tries,
                        source: source.without_url(),
                    });
                }
            }
        }
    }

    async fn read(
        &self,
        operation: &'static str,
        mut answer: Response,
        url: &str,
        tries: u32,
    ) -> Result<Vec<u8>, Error> {
        let limit = self.limits.body_bytes;
        let mut bytes = Vec::new();
        loop {
            match answer.chunk().await {
                Ok(None) => return Ok(bytes),
                Ok(Some(chunk)) if bytes.len() + chunk.len() <= limit => {
                    bytes.extend_from_slice(&chunk);
                }
                Ok(Some(_)) => {
                    return Err(Error::TooLarge {
                        operation,
                        url: url.to_owned(),
                        limit,
                    });
                }
                Err(source) => {
                    return Err(Error::Unreachable {
                        operation,
                        url: url.to_owned(),
                        tries,
                        source: source.without_url(),
                    });
                }
            }
        }
    }
}

/// Locked, or too busy: nothing was done, and it will pass. A conflict over something new is with what exists already.
fn later(method: &Method, error: &Error) -> bool {
    match error.status() {
        Some(409) => *method != Method::POST,
        status => status == Some(503),
    }
}

fn client(config: &Config) -> Result<reqwest::Client, reqwest::Error> {
    let builder = reqwest::Client::builder()
        .connect_timeout(config.limits.connect)
        .timeout(config.limits.answer)
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy();
    let builder = match &config.verify {
        Verify::System => builder,
        Verify::Nobody => builder.tls_danger_accept_invalid_certs(true),
        Verify::Pem(pem) => builder.tls_certs_only(reqwest::Certificate::from_pem_bundle(pem)?),
    };
    builder.build()
}
