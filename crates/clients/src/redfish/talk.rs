//! One request to a BMC and its answer: logged in, asked again while the BMC is not ready, bounded in size and time.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use rand::RngExt as _;
use reqwest::header::{ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, IF_MATCH};
use reqwest::{Method, Response, Url, redirect};
use serde_json::Value;
use tokio::sync::{Mutex, OnceCell, Semaphore};
use tokio::time::Instant;
use tracing::{debug, info};

use super::json::{clip, messages};
use super::login::{Credential, Login, Refusal};
use super::{Config, Error, Limits, Quirks, Verify};

/// A client of one BMC.
#[derive(Debug)]
pub struct Client {
    pub(super) config: Config,
    pub(super) http: reqwest::Client,
    /// Shared by the clients of all systems behind this BMC, as is the gate.
    pub(super) login: Arc<Mutex<Login>>,
    gate: Arc<Semaphore>,
    pub(super) system_path: OnceCell<String>,
    pub(super) quirks: OnceCell<&'static Quirks>,
}

/// A request, but for the login.
#[derive(Debug, Clone)]
pub struct Ask<'a> {
    pub operation: &'static str,
    pub method: Method,
    pub path: &'a str,
    pub body: Option<&'a Value>,
    pub if_match: Option<&'a str>,
}

/// An answer with a good status.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub url: String,
    pub headers: HeaderMap,
    pub body: Value,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .get(name)?
            .to_str()
            .ok()
            .map(str::trim)
            .filter(|text| !text.is_empty())
    }
}

impl Client {
    pub fn new(config: Config) -> Result<Self, Error> {
        // It fails if there is one already, which is as good.
        _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let address = config.address.to_string();
        let origin = config.address.origin();
        let same_origin = redirect::Policy::custom(move |attempt| {
            if attempt.previous().len() > 3 || attempt.url().origin() != origin {
                attempt.stop()
            } else {
                attempt.follow()
            }
        });
        let builder = reqwest::Client::builder()
            .connect_timeout(config.limits.connect)
            .timeout(config.limits.answer)
            .redirect(same_origin)
            // A BMC is next door; a proxy of the environment is for the world outside.
            .no_proxy()
            .pool_max_idle_per_host(1)
            .pool_idle_timeout(Duration::from_secs(10))
            .http1_only();
        let builder = match &config.verify {
            Verify::System => builder,
            Verify::Nobody => builder.tls_danger_accept_invalid_certs(true),
            Verify::Pem(pem) => {
                let read = reqwest::Certificate::from_pem_bundle(pem);
                let certificates = read.map_err(|source| Error::Certificates {
                    address: address.clone(),
                    source,
                })?;
                builder.tls_certs_only(certificates)
            }
        };
        let http = builder
            .build()
            .map_err(|source| Error::Prepare { address, source })?;
        let login = Arc::new(Mutex::new(Login::new(config.auth)));
        let gate = Arc::new(Semaphore::new(config.limits.in_flight.max(1)));
        Ok(Self {
            config,
            http,
            login,
            gate,
            system_path: OnceCell::new(),
            quirks: OnceCell::new(),
        })
    }

    /// A client of another system behind the same BMC: same session, same limit on requests in flight.
    #[must_use]
    pub fn of_system(&self, system: Option<String>) -> Self {
        Self {
            config: Config {
                system,
                ..self.config.clone()
            },
            http: self.http.clone(),
            login: Arc::clone(&self.login),
            gate: Arc::clone(&self.gate),
            system_path: OnceCell::new(),
            quirks: OnceCell::new(),
        }
    }

    pub fn limits(&self) -> &Limits {
        &self.config.limits
    }

    /// The URL of a path on this BMC. What a BMC sends as an address elsewhere is read as a path here.
    pub(super) fn url(&self, path: &str) -> Url {
        let mut url = self.config.address.clone();
        let path = Url::parse(path)
            .map_or_else(|_| path.to_string(), |absolute| absolute.path().to_string());
        let path = path.split('#').next().unwrap_or_default();
        let (path, query) = path
            .split_once('?')
            .map_or((path, None), |(path, query)| (path, Some(query)));
        url.set_path(path);
        url.set_query(query);
        url
    }

    /// Asks until there is an answer that is not "not yet". A refusal is an error.
    ///
    /// What it awaits is boxed: this is part of every future of the client.
    pub(super) async fn ask(&self, ask: &Ask<'_>) -> Result<Reply, Error> {
        let limits = &self.config.limits;
        let mut refusals = 0;
        let mut identity = true;
        let mut tries = 1;
        let started = Instant::now();
        loop {
            let last = tries >= limits.tries || started.elapsed() >= limits.patience;
            let credential = Box::pin(self.credential(ask.operation)).await?;
            let outcome = Box::pin(self.once(ask, credential.as_deref(), identity)).await;
            let (why, pause) = match outcome {
                Ok(reply) if reply.status < 300 => return Ok(reply),
                Ok(reply) if reply.status == 406 && identity => {
                    identity = false;
                    continue;
                }
                Ok(reply) if matches!(reply.status, 401 | 403) && refusals < 2 => {
                    let refusal = Refusal {
                        status: reply.status,
                        again: refusals > 0,
                    };
                    refusals += 1;
                    if !Box::pin(self.log_in_again(credential.as_deref(), refusal)).await {
                        return Err(self.refused(ask, &reply, tries));
                    }
                    continue;
                }
                Ok(reply) => match not_yet(&ask.method, &reply) {
                    Some(pause) if !last => (format!("status {}", reply.status), pause),
                    Some(_) | None => return Err(self.refused(ask, &reply, tries)),
                },
                Err(Failure::Transport(error)) => {
                    // A change may have been made although its answer was lost: only what never left is sent again.
                    let again = ask.method == Method::GET || error.is_connect();
                    if !again || last {
                        let url = self.url(ask.path).to_string();
                        let source = error.without_url();
                        return Err(Error::Unreachable {
                            operation: ask.operation,
                            url,
                            tries,
                            source,
                        });
                    }
                    (model::chain(&error), None)
                }
                Err(Failure::Final(error)) => return Err(error),
            };
            let pause = jittered(pause.unwrap_or_else(|| grown(limits.pause, tries)));
            let left = limits.tries - tries;
            info!(bmc = %self.config.address, operation = ask.operation, error = why, left, ?pause, "the BMC is asked again");
            tokio::time::sleep(pause).await;
            tries += 1;
        }
    }

    /// One exchange.
    pub(super) async fn once(
        &self,
        ask: &Ask<'_>,
        credential: Option<&Credential>,
        identity: bool,
    ) -> Result<Reply, Failure> {
        let url = self.url(ask.path);
        let mut request = self
            .http
            .request(ask.method.clone(), url.clone())
            .header("OData-Version", "4.0");
        if identity {
            request = request.header(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        if let Some(tag) = ask.if_match {
            request = request.header(IF_MATCH, tag);
        }
        if let Some(body) = ask.body {
            request = request
                .header(CONTENT_TYPE, "application/json")
                .body(body.to_string());
        }
        if let Some(credential) = credential {
            request = credential.sign(request, &self.config);
        }
        // Weak BMCs fall over when asked too much at once. The gate is never closed.
        let _place = self.gate.acquire().await;
        let response = request.send().await.map_err(Failure::Transport)?;
        let reply = self.read(ask, response).await?;
        debug!(bmc = %self.config.address, method = %ask.method, path = ask.path, status = reply.status, "Redfish");
        Ok(reply)
    }

    async fn read(&self, ask: &Ask<'_>, response: Response) -> Result<Reply, Failure> {
        let limit = self.config.limits.body_bytes;
        let url = self.url(ask.path).to_string();
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let too_large = || {
            Failure::Final(Error::TooLarge {
                operation: ask.operation,
                url: url.clone(),
                limit,
            })
        };
        let mut bytes = Vec::new();
        let mut stream = response.bytes_stream();
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(Failure::Transport)?;
            if bytes.len() + chunk.len() > limit {
                return Err(too_large());
            }
            bytes.extend_from_slice(&chunk);
        }
        let body = match serde_json::from_slice(&bytes) {
            Ok(body) => body,
            Err(_) if bytes.is_empty() => Value::Null,
            // What a refusal says need not be JSON; where a resource was asked for, it must be.
            Err(_) if status >= 300 => Value::String(clip(
                &String::from_utf8_lossy(&bytes[..bytes.len().min(2048)]),
                300,
            )),
            Err(_) if ask.method != Method::GET => Value::Null,
            Err(source) => {
                return Err(Failure::Final(Error::NotJson {
                    operation: ask.operation,
                    url,
                    source: Some(source),
                }));
            }
        };
        Ok(Reply {
            status,
            url,
            headers,
            body,
        })
    }

    pub(super) fn refused(&self, ask: &Ask<'_>, reply: &Reply, tries: u32) -> Error {
        let (mut message, ids) = messages(&reply.body);
        if message.is_empty() {
            let text = reply.body.as_str().unwrap_or("it says nothing more");
            message = text.to_string();
        }
        let (operation, url) = (ask.operation, reply.url.clone());
        if reply.status == 401 {
            return Error::Login {
                operation,
                url,
                user: self.config.username.clone(),
                message,
            };
        }
        Error::Refused {
            operation,
            url,
            status: reply.status,
            tries,
            message,
            ids,
        }
    }

    /// The credential to use now. The first asker logs in; the others wait for that.
    async fn credential(&self, operation: &'static str) -> Result<Option<Arc<Credential>>, Error> {
        let mut login = self.login.lock().await;
        login.credential(self, operation).await
    }

    /// After a refusal of `used`: is there another credential to try?
    async fn log_in_again(&self, used: Option<&Credential>, refusal: Refusal) -> bool {
        let mut login = self.login.lock().await;
        login.refused(self, used, refusal).await
    }

    /// Gives the session back. The client can be used afterwards; it then opens another.
    pub async fn close(&self) {
        let mut login = self.login.lock().await;
        login.close(self).await;
    }
}

/// Why there is no answer: the wire, which may be better later; or the answer, which will not.
#[derive(Debug)]
pub enum Failure {
    Transport(reqwest::Error),
    Final(Error),
}

/// Is the BMC not ready, so that asking again later helps? Perhaps it says when.
#[expect(
    clippy::option_option,
    reason = "whether to ask again, and when if it says so"
)]
fn not_yet(method: &Method, reply: &Reply) -> Option<Option<Duration>> {
    const NOT_READY: [&str; 3] = [
        "SYS518",
        "ServiceTemporarilyUnavailable",
        "ServiceInUnknownState",
    ];
    let (_, ids) = messages(&reply.body);
    let says = |key: &str| ids.iter().any(|id| id.ends_with(key));
    let reading = method == Method::GET;
    // A change is sent again only where the BMC says that it did nothing with it.
    let again = NOT_READY.iter().any(|key| says(key))
        || matches!(reply.status, 429 | 503)
        || (reading && (reply.status >= 500 || says("InvalidOperationForSystemState")));
    let after = reply
        .header("retry-after")
        .and_then(|text| text.parse().ok())
        .map(|seconds: u64| seconds.min(60));
    again.then_some(after.map(Duration::from_secs))
}

fn grown(pause: Duration, tries: u32) -> Duration {
    pause.mul_f64(1.5_f64.powi(tries.min(20) as i32 - 1).min(3.0))
}

/// A rack that lost power must not ask all at once.
fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(rand::rng().random_range(0.75..1.25))
}
