//! How many machines of which kind.

use super::super::Pool;
use super::super::written::{self, List, Written};
use super::known;
use super::text::shown;
use crate::problem::Problems;

pub fn pool(pool: Option<&written::Pool>, path: &str, name: &str, problems: &mut Problems) -> Pool {
    let empty = written::Pool::default();
    let pool = pool.unwrap_or(&empty);
    if let Some(given) = &pool.name
        && given != name
    {
        problems.add(
            format!("{path}.name"),
            format!("{} is not its name", shown(given)),
            format!("write {name}"),
        );
    }
    let least = i64::from(name == "master");
    let replicas = pool.replicas.unwrap_or(least);
    if !(least..=5000).contains(&replicas) {
        problems.add(
            format!("{path}.replicas"),
            format!("{replicas} is not possible"),
            format!("write a number from {least} to 5000"),
        );
    }
    let hyperthreading = pool.hyperthreading.as_deref().unwrap_or("Enabled");
    known(
        &format!("{path}.hyperthreading"),
        hyperthreading,
        &["Enabled", "Disabled"],
        problems,
    );
    let architecture = pool.architecture.as_deref().unwrap_or("amd64");
    known(
        &format!("{path}.architecture"),
        architecture,
        &["amd64", "arm64", "s390x", "ppc64le"],
        problems,
    );
    Pool {
        replicas: u32::try_from(replicas).unwrap_or(0),
        architecture: architecture.into(),
        hyperthreading: hyperthreading == "Enabled",
    }
}

pub fn compute(pools: &List<written::Pool>, control_plane: &Pool, problems: &mut Problems) -> Pool {
    let mut first = None;
    for (at, written) in pools.iter().enumerate() {
        let path = format!("compute[{at}]");
        let pool = pool(written.as_ref(), &path, "worker", problems);
        if first.is_some() {
            problems.add(
                path,
                "is a second pool of workers",
                "write one, with the sum of replicas",
            );
            continue;
        }
        let (ours, theirs) = (&pool.architecture, &control_plane.architecture);
        if ours != theirs && (theirs.as_str(), ours.as_str()) != ("amd64", "arm64") {
            problems.add(
                format!("{path}.architecture"),
                format!("{ours} workers do not go with an {theirs} control plane"),
                "write the same for both; only amd64 with arm64 workers may differ",
            );
        }
        first = Some(pool);
    }
    first.unwrap_or(Pool {
        replicas: 0,
        architecture: control_plane.architecture.clone(),
        hyperthreading: true,
    })
}

pub fn counts(control_plane: &Pool, arbiter: &Pool, written: &Written, problems: &mut Problems) {
    let masters = control_plane.replicas;
    if arbiter.replicas > 0 && masters < 2 {
        problems.add(
            "arbiter.replicas",
            format!("arbiters need a control plane of two, not of {masters}"),
            "write controlPlane.replicas: 2, or no arbiter",
        );
    }
    let fenced = written
        .control_plane
        .as_ref()
        .is_some_and(|pool| pool.fencing.is_some());
    if masters == 2 && arbiter.replicas == 0 && !fenced {
        problems.add(
            "controlPlane.replicas",
            "two nodes cannot agree when one is lost",
            "write 3 (or 1), add an arbiter, or give fencing credentials",
        );
    } else if masters > 2 && masters.is_multiple_of(2) {
        problems.warn(
            "controlPlane.replicas",
            format!(
                "{masters} survive the loss of no more nodes than {}",
                masters - 1
            ),
            "write an odd number",
        );
    }
}
