//! The way from the public port to a listener, where the API server has the public port for itself.
//!
//! nft rules in a table of our own, in place exactly while the listener listens: without them a client of
//! the virtual address reaches the local API server, with them every API server.

use std::net::IpAddr;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::Serving;
use crate::config::Listener;

const TABLE: &str = "plinth";
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two tries.
const RETRY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Redirect {
    problem: Arc<Mutex<Option<String>>>,
    stop: watch::Sender<bool>,
    task: Option<JoinHandle<()>>,
}

/// Connections to the address and port go to another port here.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Rule {
    address: IpAddr,
    port: u16,
    to: u16,
}

impl Redirect {
    pub fn spawn(
        listeners: watch::Receiver<Vec<Listener>>,
        serving: watch::Receiver<Serving>,
    ) -> Self {
        let problem = Arc::new(Mutex::new(None));
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(keep(listeners, serving, stopped, Arc::clone(&problem)));
        Self {
            problem,
            stop,
            task: Some(task),
        }
    }

    pub fn problem(&self) -> Option<String> {
        let problem = self.problem.lock();
        problem.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes the rules away.
    pub async fn stop(&mut self) {
        self.stop.send_replace(true);
        if let Some(task) = self.task.take() {
            let _ = tokio::time::timeout(PATIENCE, task).await;
        }
    }
}

/// For whoever clears up after a process that was killed.
pub async fn clean_up() {
    let _ = nft(&script(&[])).await;
}

async fn keep(
    mut listeners: watch::Receiver<Vec<Listener>>,
    mut serving: watch::Receiver<Serving>,
    mut stop: watch::Receiver<bool>,
    problem: Arc<Mutex<Option<String>>>,
) {
    let mut applied: Option<Vec<Rule>> = None;
    loop {
        let stopped = *stop.borrow_and_update();
        let wanted = if stopped {
            Vec::new()
        } else {
            wanted(&listeners.borrow_and_update(), &serving.borrow_and_update())
        };
        // Who never asked for a redirect may have no nft at all.
        let idle = applied.is_none() && wanted.is_empty();
        let mut failed = false;
        if !idle && applied.as_ref() != Some(&wanted) {
            let done = nft(&script(&wanted)).await;
            failed = done.is_err();
            match &done {
                Ok(()) => {
                    tracing::info!(rules = wanted.len(), "redirect");
                    applied = Some(wanted);
                }
                Err(error) => tracing::warn!(error, "redirect"),
            }
            *problem.lock().unwrap_or_else(PoisonError::into_inner) = done.err();
        }
        if stopped {
            return;
        }
        let ended = tokio::select! {
            changed = listeners.changed() => changed.is_err(),
            changed = serving.changed() => changed.is_err(),
            changed = stop.changed() => changed.is_err(),
            () = tokio::time::sleep(RETRY), if failed => false,
        };
        if ended {
            if applied.is_some_and(|rules| !rules.is_empty()) {
                clean_up().await;
            }
            return;
        }
    }
}

fn wanted(listeners: &[Listener], serving: &Serving) -> Vec<Rule> {
    let mut rules = Vec::new();
    for listener in listeners {
        let (Some(redirect), Some(state)) = (&listener.redirect, serving.get(&listener.name))
        else {
            continue;
        };
        for address in redirect.addresses.iter().filter(|_| state.listening) {
            let family = |listen: &&std::net::SocketAddr| listen.is_ipv4() == address.is_ipv4();
            if let Some(listen) = listener.listen.iter().find(family) {
                rules.push(Rule {
                    address: *address,
                    port: redirect.port,
                    to: listen.port(),
                });
            }
        }
    }
    rules.sort();
    rules.dedup();
    rules
}

/// Replaces the whole table in one transaction; without rules there is none.
fn script(rules: &[Rule]) -> Value {
    let table = json!({"table": {"family": "inet", "name": TABLE}});
    let mut steps = vec![json!({"add": table}), json!({"delete": table})];
    if !rules.is_empty() {
        steps.push(json!({"add": table}));
        for hook in ["prerouting", "output"] {
            steps.push(json!({"add": {"chain": {
                "family": "inet", "table": TABLE, "name": hook,
                "type": "nat", "hook": hook, "prio": -100, "policy": "accept",
            }}}));
        }
    }
    for rule in rules {
        let protocol = if rule.address.is_ipv4() { "ip" } else { "ip6" };
        let matches = [
            is(
                &json!({"payload": {"protocol": protocol, "field": "daddr"}}),
                &json!(rule.address),
            ),
            is(
                &json!({"payload": {"protocol": "tcp", "field": "dport"}}),
                &json!(rule.port),
            ),
        ];
        // The address stays what it was, so that the backend can be told what the client asked for.
        let there = json!({"dnat": {"family": protocol, "addr": rule.address, "port": rule.to}});
        let arriving: Vec<_> = matches.iter().cloned().chain([there]).collect();
        // From this node to an address that is here.
        let local = is(&json!({"meta": {"key": "oifname"}}), &json!("lo"));
        let here = json!({"redirect": {"port": rule.to}});
        let leaving: Vec<_> = [local].into_iter().chain(matches).chain([here]).collect();
        for (chain, expr) in [("prerouting", arriving), ("output", leaving)] {
            steps.push(json!({"add": {"rule": {
                "family": "inet", "table": TABLE, "chain": chain, "expr": expr,
            }}}));
        }
    }
    json!({"nftables": steps})
}

fn is(left: &Value, right: &Value) -> Value {
    json!({"match": {"op": "==", "left": left, "right": right}})
}

async fn nft(script: &Value) -> Result<(), String> {
    let run = async {
        let mut child = Command::new("nft")
            .args(["-j", "-f", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("cannot run nft (Debian package nftables): {error}"))?;
        if let Some(mut stdin) = child.stdin.take() {
            let written = stdin.write_all(script.to_string().as_bytes()).await;
            written.map_err(|error| format!("nft does not listen: {error}"))?;
        }
        let output = child.wait_with_output().await;
        let output = output.map_err(|error| format!("nft: {error}"))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("nft: {}", said.lines().next().unwrap_or("failed")))
    };
    match tokio::time::timeout(PATIENCE, run).await {
        Ok(done) => done,
        Err(_) => Err(format!("nft does not end within {} s", PATIENCE.as_secs())),
    }
}
