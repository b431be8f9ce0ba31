//! `plinth wait-for`: until a cluster is as far as one wants it, saying what lacks.

use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use jiff::SignedDuration;
use tokio::time::Instant;

use crate::status::cluster::{Cluster, Condition};
use crate::status::look::At;

#[derive(Args)]
pub struct WaitFor {
    /// What is waited for
    #[arg(value_enum)]
    goal: Goal,
    #[command(flatten)]
    at: At,
    /// How long at most, such as 30m or 1h30m
    #[arg(long, default_value = "1h", value_parser = duration)]
    timeout: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Goal {
    /// The control plane stands on its own; the bootstrap VM may go
    BootstrapComplete,
    /// Also, every node is ready and every worker that was planned is one of them
    InstallComplete,
}

/// It did not come in time.
#[derive(Debug, thiserror::Error)]
#[error("after {} s it still waits for {lacks}", after.as_secs())]
pub struct TimedOut {
    after: Duration,
    lacks: String,
}

const PAUSE: Duration = Duration::from_secs(2);

pub fn run(command: &WaitFor) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    runtime.block_on(wait(command))
}

async fn wait(command: &WaitFor) -> Result<()> {
    let plan = command.at.plan()?;
    let workers = plan.as_ref().map(|plan| u64::from(plan.cluster.workers));
    let begun = Instant::now();
    let mut said = Vec::new();
    let mut site = None;
    let mut reasons_at = begun;
    loop {
        let opened = match site.take() {
            Some(site) => Ok(site),
            None => command.at.open(plan.clone()).await,
        };
        let lacks = match opened {
            Ok(opened) if command.goal == Goal::BootstrapComplete && opened.is_complete().await => {
                Vec::new()
            }
            // A cluster that forms has enough to do: why it is not there yet is asked now and then.
            Ok(opened) if !said.is_empty() && Instant::now() < reasons_at => {
                site = Some(opened);
                said.clone()
            }
            Ok(opened) => {
                reasons_at = Instant::now() + command.goal.reasons_every();
                let cluster = opened.look().await;
                // Where the API does not answer, its kubeconfig may be another one by now.
                site = cluster.api.problem.is_none().then_some(opened);
                lacks(command.goal, &cluster, workers)
            }
            // The install has not come so far.
            Err(error) => vec![format!("a kubeconfig: {error:#}")],
        };
        let took = begun.elapsed();
        if lacks.is_empty() {
            println!("{} after {} s", command.goal.done(), took.as_secs());
            return Ok(());
        }
        if lacks != said {
            println!("waits for {}", lacks.join("; "));
            said = lacks;
        }
        if took >= command.timeout {
            return Err(TimedOut {
                after: took,
                lacks: said.join("; "),
            }
            .into());
        }
        tokio::time::sleep(PAUSE.min(command.timeout.saturating_sub(took))).await;
    }
}

impl Goal {
    /// The first is reached in one step that can be asked for alone; the second only in many.
    fn reasons_every(self) -> Duration {
        match self {
            Self::BootstrapComplete => Duration::from_secs(15),
            Self::InstallComplete => Duration::ZERO,
        }
    }

    fn done(self) -> &'static str {
        match self {
            Self::BootstrapComplete => "the bootstrap is complete",
            Self::InstallComplete => "the install is complete",
        }
    }
}

/// What is not yet as the goal wants it; nothing when it is reached. `planned` workers, or those of the MachineSets.
fn lacks(goal: Goal, cluster: &Cluster, planned: Option<u64>) -> Vec<String> {
    if let Some(problem) = &cluster.api.problem {
        return vec![format!("the API: {problem}")];
    }
    let nodes: Vec<String> = cluster
        .nodes
        .iter()
        .filter_map(|node| {
            let conditions = [Some(&node.ready), node.api.as_ref(), node.etcd.as_ref()];
            let ill = |condition: &&Condition| !condition.holds();
            let ill = conditions.into_iter().flatten().find(ill)?;
            Some(format!("{}: {}", node.name, ill.why))
        })
        .collect();
    if cluster.bootstrap_complete != Some(true) {
        let mut lacks = vec!["the bootstrap to be complete".to_owned()];
        if cluster.metal3.holder.is_none() {
            lacks.push("metal3 on a master".into());
        }
        lacks.extend(nodes);
        return lacks;
    }
    match goal {
        Goal::BootstrapComplete => Vec::new(),
        Goal::InstallComplete => {
            let mut lacks = nodes;
            let sets = || cluster.machine_sets.iter().map(|set| set.wanted).sum();
            let planned = planned.unwrap_or_else(sets);
            let ready =
                |node: &&crate::status::cluster::Node| node.is_worker() && node.ready.holds();
            let ready = cluster.nodes.iter().filter(ready).count() as u64;
            if ready < planned {
                lacks.push(format!("workers: {ready} of {planned} are ready"));
            }
            if cluster.nodes.is_empty() {
                lacks.push("nodes".into());
            }
            lacks
        }
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let parsed: SignedDuration = text
        .parse()
        .map_err(|_| "write a time such as 90s, 30m or 1h30m".to_owned())?;
    Duration::try_from(parsed).map_err(|_| "a time cannot be less than nothing".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::cluster::{Api, Metal3, Node};

    fn node(name: &str, role: &str, ready: bool) -> Node {
        Node {
            name: name.into(),
            roles: vec![role.into()],
            addresses: Vec::new(),
            ready: Condition {
                status: if ready { "True" } else { "False" }.into(),
                why: "why".into(),
                since: None,
            },
            api: None,
            etcd: None,
        }
    }

    fn cluster(complete: Option<bool>, nodes: Vec<Node>) -> Cluster {
        Cluster {
            name: None,
            api: Api {
                url: String::new(),
                version: None,
                problem: None,
            },
            bootstrap_complete: complete,
            vips: Vec::new(),
            metal3: Metal3::default(),
            nodes,
            machines: std::collections::BTreeMap::new(),
            machine_sets: Vec::new(),
            hosts: std::collections::BTreeMap::new(),
            troubles: Vec::new(),
        }
    }

    #[test]
    fn what_lacks_is_named_until_nothing_does() {
        use Goal::{BootstrapComplete, InstallComplete};
        let master = || node("m", "master", true);
        for (name, goal, cluster, planned, expected) in [
            (
                "begun",
                BootstrapComplete,
                cluster(Some(false), vec![]),
                None,
                "the bootstrap to be complete; metal3 on a master",
            ),
            (
                "half",
                BootstrapComplete,
                cluster(Some(false), vec![node("m", "master", false)]),
                None,
                "the bootstrap to be complete; metal3 on a master; m: why",
            ),
            (
                "nobody knows",
                BootstrapComplete,
                cluster(None, vec![]),
                None,
                "the bootstrap to be complete; metal3 on a master",
            ),
            (
                "bootstrapped",
                BootstrapComplete,
                cluster(Some(true), vec![]),
                None,
                "",
            ),
            (
                "no workers yet",
                InstallComplete,
                cluster(Some(true), vec![master()]),
                Some(1),
                "workers: 0 of 1 are ready",
            ),
            (
                "one is ill",
                InstallComplete,
                cluster(Some(true), vec![master(), node("w", "worker", false)]),
                Some(1),
                "w: why; workers: 0 of 1 are ready",
            ),
            (
                "no nodes",
                InstallComplete,
                cluster(Some(true), vec![]),
                Some(0),
                "nodes",
            ),
            (
                "compact",
                InstallComplete,
                cluster(Some(true), vec![master()]),
                Some(0),
                "",
            ),
            (
                "all",
                InstallComplete,
                cluster(Some(true), vec![master(), node("w", "worker", true)]),
                Some(1),
                "",
            ),
        ] {
            assert_eq!(
                lacks(goal, &cluster, planned).join("; "),
                expected,
                "{name}"
            );
        }
        let mut silent = cluster(None, vec![]);
        silent.api.problem = Some("no answer".into());
        assert_eq!(
            lacks(InstallComplete, &silent, None),
            ["the API: no answer"]
        );
    }

    #[test]
    fn times_have_units() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("1h30m"), Ok(Duration::from_mins(90)));
        for bad in ["", "soon", "-1m"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
