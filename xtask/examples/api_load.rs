//! Load on an API server, or on etcd itself: `api_load api URL CA TOKEN SECONDS WATCHERS WRITES`, `api_load etcd URL
//! SECONDS WATCHERS WRITES`. Prints what it measured as JSON. `api_load certificate DIR` makes a server's certificate.
#![allow(clippy::print_stdout, reason = "it answers on standard output")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use clients::etcd;
use clients::etcd::wire::{PutRequest, RangeRequest, Request, RequestOp, TxnRequest};
use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// So many requests are under way at once.
const AT_ONCE: usize = 16;
/// Of one object.
const SIZE: usize = 1000;
/// In one page of a list.
const PAGE: usize = 500;
const PATIENCE: Duration = Duration::from_secs(30);

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    // Clients connect in it.
    let _entered = runtime.enter();
    let (server, seconds, watchers, writes) = match words[..] {
        ["certificate", dir] => return certificate(Path::new(dir)),
        ["api", url, ca, token, seconds, watchers, writes] => {
            (Server::api(url, ca, token)?, seconds, watchers, writes)
        }
        ["etcd", url, seconds, watchers, writes] => (Server::etcd(url)?, seconds, watchers, writes),
        _ => bail!("see the head of this file"),
    };
    let load = Load {
        server: Arc::new(server),
        time: Duration::from_secs_f64(seconds.parse()?),
        watchers: watchers.parse()?,
        writes: writes.parse()?,
        begin: Instant::now(),
    };
    println!("{}", runtime.block_on(load.run())?);
    Ok(())
}

fn certificate(dir: &Path) -> Result<()> {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names)?;
    std::fs::write(dir.join("server.crt"), made.cert.pem())?;
    std::fs::write(dir.join("server.key"), made.signing_key.serialize_pem())?;
    Ok(())
}

struct Load {
    server: Arc<Server>,
    time: Duration,
    watchers: usize,
    writes: usize,
    begin: Instant,
}

impl Load {
    async fn run(&self) -> Result<Value> {
        let (created, create) = self.rate(Server::create).await?;
        let objects = created.max(1);
        let some = move |number: usize| number * 7 % objects;
        let (_, update) = self
            .rate(move |server, number| server.update(some(number), ""))
            .await?;
        let (_, read) = self
            .rate(move |server, number| server.read(some(number)))
            .await?;
        let (_, list) = self.rate(|server, _| server.list()).await?;
        let mut delays = self.fan_out().await?;
        delays.sort_by(f64::total_cmp);
        let at = |share: f64| delays.get((delays.len() as f64 * share) as usize).copied();
        Ok(json!({
            "create": create, "update": update, "read": read, "list": list, "created": created,
            "watch_p50": at(0.5), "watch_p99": at(0.99), "seen": delays.len(),
        }))
    }

    /// How many were answered, and how many in a second.
    async fn rate<F, W>(&self, work: F) -> Result<(usize, f64)>
    where
        F: Fn(Arc<Server>, usize) -> W + Copy + Send + Sync + 'static,
        W: Future<Output = Result<()>> + Send,
    {
        let next = Arc::new(AtomicUsize::new(0));
        let begin = Instant::now();
        let until = begin + self.time;
        let workers: Vec<_> = (0..AT_ONCE)
            .map(|_| {
                let (server, next) = (Arc::clone(&self.server), Arc::clone(&next));
                tokio::spawn(async move {
                    while Instant::now() < until {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let work = work(Arc::clone(&server), number);
                        tokio::time::timeout(PATIENCE, work).await??;
                    }
                    Ok::<_, anyhow::Error>(())
                })
            })
            .collect();
        for worker in workers {
            worker.await??;
        }
        let answered = next.load(Ordering::Relaxed);
        Ok((answered, answered as f64 / begin.elapsed().as_secs_f64()))
    }

    /// Milliseconds from before a write until each watcher heard of it.
    async fn fan_out(&self) -> Result<Vec<f64>> {
        let (heard, mut hearing) = mpsc::unbounded_channel();
        for _ in 0..self.watchers {
            let feed = Arc::clone(&self.server).watch().await?;
            tokio::spawn(listen(feed, self.begin, heard.clone()));
        }
        let expected = self.watchers * self.writes;
        let mut delays = Vec::with_capacity(expected);
        for number in 0..self.writes {
            let sent = self.begin.elapsed().as_nanos().to_string();
            Arc::clone(&self.server).update(number, &sent).await?;
            // One write at a time: what is measured is a change, not a queue of them.
            while delays.len() < (number + 1) * self.watchers {
                let next = tokio::time::timeout(PATIENCE, hearing.recv()).await;
                let next = next
                    .with_context(|| format!("{} of {expected} events were heard", delays.len()))?;
                delays.push(next.context("the watchers ended")?);
            }
        }
        Ok(delays)
    }
}

/// Tells the delay of every event.
async fn listen(mut feed: Feed, begin: Instant, heard: mpsc::UnboundedSender<f64>) {
    while let Ok(text) = feed.next().await {
        let now = begin.elapsed().as_nanos();
        for part in text.split(MARK).skip(1) {
            let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
            let Ok(sent) = digits.parse::<u128>() else {
                continue;
            };
            if heard.send((now.saturating_sub(sent)) as f64 / 1e6).is_err() {
                return;
            }
        }
    }
}

/// Stands before the time in an object.
const MARK: &str = "sent-at-";

enum Server {
    Api {
        client: reqwest::Client,
        url: String,
        token: String,
    },
    Etcd(etcd::Client),
}

const MAPS: &str = "api/v1/namespaces/metal/configmaps";
const PREFIX: &str = "/registry/configmaps/metal/";

impl Server {
    fn api(url: &str, ca: &str, token: &str) -> Result<Self> {
        _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let ca = reqwest::Certificate::from_pem(&std::fs::read(ca)?)?;
        let client = reqwest::Client::builder()
            .tls_certs_only([ca])
            .no_proxy()
            .build()?;
        Ok(Self::Api {
            client,
            url: url.trim_end_matches('/').to_owned(),
            token: token.to_owned(),
        })
    }

    fn etcd(url: &str) -> Result<Self> {
        let config = etcd::Config::new(vec![url.to_owned()]);
        Ok(Self::Etcd(etcd::Client::new(&config)?))
    }

    async fn create(self: Arc<Self>, number: usize) -> Result<()> {
        match &*self {
            Self::Api { .. } => {
                let object = object(number, "").to_string();
                self.ask("POST", MAPS, Some(object)).await.map(drop)
            }
            Self::Etcd(client) => put(client, number, "").await,
        }
    }

    /// Whole, whatever was there.
    async fn update(self: Arc<Self>, number: usize, sent: &str) -> Result<()> {
        match &*self {
            Self::Api { .. } => {
                let path = format!("{MAPS}/{}", name(number));
                let object = object(number, sent).to_string();
                self.ask("PUT", &path, Some(object)).await.map(drop)
            }
            Self::Etcd(client) => put(client, number, sent).await,
        }
    }

    async fn read(self: Arc<Self>, number: usize) -> Result<()> {
        match &*self {
            Self::Api { .. } => {
                let path = format!("{MAPS}/{}", name(number));
                self.ask("GET", &path, None).await.map(drop)
            }
            Self::Etcd(client) => {
                let key = format!("{PREFIX}{}", name(number));
                range(client, key, Bytes::new(), 1).await
            }
        }
    }

    async fn list(self: Arc<Self>) -> Result<()> {
        match &*self {
            Self::Api { .. } => {
                let path = format!("{MAPS}?limit={PAGE}");
                self.ask("GET", &path, None).await.map(drop)
            }
            Self::Etcd(client) => {
                // The byte behind the slash ends the prefix.
                let end = Bytes::from(PREFIX.trim_end_matches('/').to_owned() + "0");
                range(client, PREFIX.to_owned(), end, PAGE as i64).await
            }
        }
    }

    async fn watch(self: Arc<Self>) -> Result<Feed> {
        match &*self {
            Self::Api { .. } => {
                let newest = self.ask("GET", &format!("{MAPS}?limit=1"), None).await?;
                let newest: Value = serde_json::from_slice(&newest)?;
                let version = newest["metadata"]["resourceVersion"].as_str();
                let version = version.context("a list has a version")?;
                let path = format!("{MAPS}?watch=true&resourceVersion={version}");
                let answer = self.send("GET", &path, None).await?;
                Ok(Feed::Api(Box::pin(answer.bytes_stream()), Vec::new()))
            }
            Self::Etcd(client) => Ok(Feed::Etcd(Box::new(client.watch(PREFIX, 0).await?))),
        }
    }

    async fn ask(&self, method: &str, path: &str, body: Option<String>) -> Result<Bytes> {
        Ok(self.send(method, path, body).await?.bytes().await?)
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<String>,
    ) -> Result<reqwest::Response> {
        let Self::Api { client, url, token } = self else {
            bail!("only an API server is asked so");
        };
        let mut request = client
            .request(method.parse()?, format!("{url}/{path}"))
            .bearer_auth(token);
        if let Some(body) = body {
            request = request
                .header("content-type", "application/json")
                .body(body);
        }
        let answer = request.send().await?;
        if !answer.status().is_success() {
            let status = answer.status();
            bail!("{method} {path}: {status}: {}", answer.text().await?);
        }
        Ok(answer)
    }
}

async fn put(client: &etcd::Client, number: usize, sent: &str) -> Result<()> {
    let put = PutRequest {
        key: format!("{PREFIX}{}", name(number)).into(),
        value: object(number, sent).to_string().into(),
        ..PutRequest::default()
    };
    let request = Some(Request::Put(put));
    let txn = TxnRequest {
        success: vec![RequestOp { request }],
        ..TxnRequest::default()
    };
    Ok(client.txn(txn).await.map(drop)?)
}

async fn range(client: &etcd::Client, key: String, end: Bytes, limit: i64) -> Result<()> {
    let range = RangeRequest {
        key: key.into(),
        range_end: end,
        limit,
        ..RangeRequest::default()
    };
    Ok(client.range(range).await.map(drop)?)
}

fn name(number: usize) -> String {
    format!("map-{number}")
}

fn object(number: usize, sent: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name(number), "namespace": "metal"},
        "data": {"sent": format!("{MARK}{sent}"), "text": "x".repeat(SIZE)},
    })
}

/// What a watcher hears.
enum Feed {
    Api(
        std::pin::Pin<Box<dyn futures::Stream<Item = reqwest::Result<Bytes>> + Send>>,
        /// The beginning of a line of which the end is not here yet.
        Vec<u8>,
    ),
    Etcd(Box<etcd::Watch>),
}

impl Feed {
    /// Some whole events.
    async fn next(&mut self) -> Result<String> {
        match self {
            Self::Api(stream, rest) => loop {
                rest.extend_from_slice(&stream.next().await.context("the watch ended")??);
                if let Some(end) = rest.iter().rposition(|byte| *byte == b'\n') {
                    let whole: Vec<u8> = rest.drain(..=end).collect();
                    return Ok(String::from_utf8_lossy(&whole).into_owned());
                }
            },
            Self::Etcd(watch) => {
                let mut text = String::new();
                for event in watch.next().await?.events {
                    let value = event.kv.unwrap_or_default().value;
                    text.push_str(&String::from_utf8_lossy(&value));
                }
                Ok(text)
            }
        }
    }
}
