//! What is answered to whoever may look.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{self, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::io::AsyncReadExt as _;
use tokio::sync::Semaphore;

use super::program;
use crate::config::Server;
use crate::decide::show;

pub struct Answers {
    config: Server,
    /// Programs take memory and the machine's time: so many at once.
    turns: Semaphore,
}

const TURNS: usize = 2;
/// Of one log.
const LOG: usize = 4 << 20;
const ENTRIES: usize = 50_000;
/// Of one kind of counters.
const COUNTERS: usize = 1 << 20;
const JOURNALCTL: Duration = Duration::from_secs(30);
const NFT: Duration = Duration::from_secs(5);
const NETD: Duration = Duration::from_secs(3);
/// Of the kernel, for the network that we are in.
const FILES: [&str; 2] = ["/proc/net/dev", "/proc/net/snmp"];

impl Answers {
    pub fn new(config: Server) -> Self {
        Self {
            config,
            turns: Semaphore::new(TURNS),
        }
    }
}

pub fn app(answers: Arc<Answers>) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/logs", get(list))
        .route("/logs/{unit}", get(log))
        .route("/counters", get(counters))
        .with_state(answers)
}

/// The same for everybody else.
pub fn refusal() -> Router {
    Router::new().fallback(|| async {
        let why = "only a certificate of the organization system:masters may look here\n";
        (StatusCode::FORBIDDEN, why).into_response()
    })
}

async fn list(State(answers): State<Arc<Answers>>) -> Response {
    match answers.units().await {
        Ok(units) => {
            let lines = units.iter().map(|unit| format!("{unit}\n"));
            lines.collect::<String>().into_response()
        }
        Err(why) => failed(&why),
    }
}

async fn log(
    State(answers): State<Arc<Answers>>,
    extract::Path(unit): extract::Path<String>,
) -> Response {
    let units = match answers.units().await {
        Ok(units) => units,
        Err(why) => return failed(&why),
    };
    if !units.contains(&unit) {
        let why = "no such unit is here; /logs lists those that are\n";
        return (StatusCode::NOT_FOUND, why).into_response();
    }
    let Ok(_turn) = answers.turns.acquire().await else {
        return failed("the node is about to end");
    };
    let arguments = show::journal(&unit, ENTRIES);
    let said = program::run(&answers.config.journalctl, &arguments, LOG, JOURNALCTL).await;
    if let (true, Some(problem)) = (said.text.is_empty(), &said.problem) {
        return failed(problem);
    }
    let mut body = Vec::new();
    if said.left_out > 0 {
        let line = format!("-- {} bytes before this are left out --\n", said.left_out);
        body.extend(line.into_bytes());
    }
    body.extend(said.text);
    if let Some(problem) = said.problem {
        body.extend(format!("-- this may not be all: {problem} --\n").into_bytes());
    }
    text(body)
}

async fn counters(State(answers): State<Arc<Answers>>) -> Response {
    let Ok(_turn) = answers.turns.acquire().await else {
        return failed("the node is about to end");
    };
    let mut told = String::new();
    for path in FILES {
        let read = read(Path::new(path)).await;
        section(&mut told, path, read);
    }
    section(&mut told, "netd", metrics(answers.config.netd).await);
    section(&mut told, "nft", rules(&answers.config.nft).await);
    text(told.into_bytes())
}

impl Answers {
    /// The daemons of this machine, as systemd knows them.
    async fn units(&self) -> Result<Vec<String>, String> {
        let dir = self.config.units.clone();
        let list = move || -> std::io::Result<Vec<String>> {
            let entries = std::fs::read_dir(&dir)?;
            let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
            let names: Vec<String> = names.collect();
            Ok(show::units(names.iter().map(String::as_str)))
        };
        let listed = tokio::task::spawn_blocking(list).await;
        listed
            .unwrap_or_else(|error| Err(std::io::Error::other(error)))
            .map_err(|error| {
                let dir = self.config.units.display();
                format!("could not list the units in {dir}: {error}")
            })
    }
}

fn section(told: &mut String, name: &str, content: Result<String, String>) {
    let content = content.unwrap_or_else(|why| format!("not to be had: {why}"));
    _ = writeln!(told, "== {name}\n{}\n", content.trim_end());
}

async fn read(path: &Path) -> Result<String, String> {
    let work = async {
        let file = tokio::fs::File::open(path).await?;
        let mut bytes = Vec::new();
        file.take(COUNTERS as u64).read_to_end(&mut bytes).await?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    work.await
        .map_err(|error: std::io::Error| error.to_string())
}

async fn metrics(netd: SocketAddr) -> Result<String, String> {
    let work = async {
        let client = reqwest::Client::builder().no_proxy().build()?;
        let url = format!("http://{netd}/metrics");
        let mut answer = client.get(url).send().await?.error_for_status()?;
        let mut bytes = Vec::new();
        while let Some(chunk) = answer.chunk().await? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() >= COUNTERS {
                break;
            }
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    match tokio::time::timeout(NETD, work).await {
        Ok(done) => done.map_err(|error: reqwest::Error| model::chain(&error)),
        Err(_) => Err(format!("no answer within {} s", NETD.as_secs())),
    }
}

async fn rules(nft: &Path) -> Result<String, String> {
    let arguments = ["list".to_owned(), "ruleset".to_owned()];
    let said = program::run(nft, &arguments, COUNTERS, NFT).await;
    match said.problem {
        Some(problem) => Err(problem),
        None => Ok(show::counters(&String::from_utf8_lossy(&said.text))),
    }
}

fn text(body: Vec<u8>) -> Response {
    let kind = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    (kind, body).into_response()
}

fn failed(why: &str) -> Response {
    (StatusCode::BAD_GATEWAY, format!("{why}\n")).into_response()
}
