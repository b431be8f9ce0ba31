//! Adding hosts to the API: what would be refused is found out first, and what was begun is taken back.

use std::collections::BTreeMap;

use anyhow::Result;
use crd::BareMetalHost;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use model::BmcAddress;

use super::entry::{Entry, server};
use super::objects;
use crate::kubernetes::answer;

/// The API would refuse some, so none was added.
#[derive(Debug, thiserror::Error)]
#[error("no host was added; {} {}:\n  {}", .0.len(), if .0.len() == 1 { "problem" } else { "problems" }, .0.join("\n  "))]
pub struct Refused(Vec<String>);

pub async fn all(client: &Client, entries: &[Entry], skip_existing: bool) -> Result<()> {
    let hosts: Api<BareMetalHost> = Api::default_namespaced(client.clone());
    let secrets: Api<Secret> = Api::default_namespaced(client.clone());
    let there = answer("list the hosts", hosts.list(&ListParams::default())).await?;
    let (known, new): (Vec<&Entry>, Vec<&Entry>) = entries
        .iter()
        .partition(|entry| there.iter().any(|host| host.name_any() == entry.name));
    let mut problems = if skip_existing {
        for entry in &known {
            println!("host {} is there already", entry.name);
        }
        Vec::new()
    } else {
        let taken = |entry: &&Entry| {
            let name = &entry.name;
            let why = format!("the host {name} exists already; --skip-existing leaves it out");
            at(entry, "name", &why)
        };
        known.iter().map(taken).collect()
    };
    problems.extend(clashes(&new, &there.items));
    if problems.is_empty() {
        problems = tried(&new, &secrets, &hosts).await?;
    }
    if !problems.is_empty() {
        return Err(Refused(problems).into());
    }
    let mut made = Made {
        secrets,
        hosts,
        done: Vec::new(),
    };
    for entry in &new {
        if let Err(error) = made.add(entry).await {
            let left = made.take_back().await;
            return Err(if left.is_empty() {
                error.context("no host was added: what had been made was taken back")
            } else {
                error.context(format!("some objects are left: {}", left.join(", ")))
            });
        }
    }
    for entry in &new {
        println!("host {} added", entry.name);
    }
    if !new.is_empty() {
        println!("`plinth status hosts --watch` shows how they come along");
    }
    Ok(())
}

fn at(entry: &Entry, field: &str, why: &str) -> String {
    if entry.place.is_empty() {
        format!("{field}: {why}")
    } else {
        format!("{}: {field}: {why}", entry.place)
    }
}

/// Servers that another host has.
fn clashes(entries: &[&Entry], there: &[BareMetalHost]) -> Vec<String> {
    let mut macs = BTreeMap::new();
    let mut servers = BTreeMap::new();
    for host in there {
        if let Some(mac) = &host.spec.boot_mac_address {
            macs.insert(mac.to_ascii_lowercase(), host.name_any());
        }
        let bmc = host.spec.bmc.as_ref();
        if let Some(Ok(bmc)) = bmc.map(|bmc| bmc.address.parse::<BmcAddress>()) {
            servers.insert(server(&bmc), host.name_any());
        }
    }
    let mut problems = Vec::new();
    for entry in entries {
        if let Some(holder) = servers.get(&entry.server()) {
            problems.push(at(
                entry,
                "bmc",
                &format!("this server is the host {holder}"),
            ));
        }
        if let Some(holder) = entry.mac.and_then(|mac| macs.get(&mac.to_string())) {
            problems.push(at(
                entry,
                "mac",
                &format!("it is the boot MAC of the host {holder}"),
            ));
        }
    }
    problems
}

/// What the API says to all of it, without keeping any.
async fn tried(
    entries: &[&Entry],
    secrets: &Api<Secret>,
    hosts: &Api<BareMetalHost>,
) -> Result<Vec<String>> {
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let mut problems = Vec::new();
    for entry in entries {
        let secret = objects::secret(entry);
        let trying = answer("try the Secret", secrets.create(&dry, &secret)).await;
        problems.extend(refusal(entry, trying)?);
        let host = objects::host(entry);
        let trying = answer("try the host", hosts.create(&dry, &host)).await;
        problems.extend(refusal(entry, trying)?);
    }
    Ok(problems)
}

/// A refusal is a problem of the host; no answer at all ends everything.
fn refusal<T>(entry: &Entry, tried: Result<T>) -> Result<Option<String>> {
    let Err(error) = tried else {
        return Ok(None);
    };
    match error.downcast_ref::<kube::Error>() {
        Some(kube::Error::Api(status)) => Ok(Some(at(entry, &entry.name, &status.message))),
        Some(_) | None => Err(error),
    }
}

/// What was made in this run.
struct Made<'a> {
    secrets: Api<Secret>,
    hosts: Api<BareMetalHost>,
    done: Vec<(Kind, &'a Entry)>,
}

enum Kind {
    Secret,
    Host,
}

impl<'a> Made<'a> {
    async fn add(&mut self, entry: &'a Entry) -> Result<()> {
        let ours = PostParams {
            field_manager: Some("plinth-host-add".to_owned()),
            ..PostParams::default()
        };
        // The login first: a host without one would tell of an error.
        let secret = objects::secret(entry);
        let what = format!("make the Secret of {}", entry.name);
        answer(&what, self.secrets.create(&ours, &secret)).await?;
        self.done.push((Kind::Secret, entry));
        let host = objects::host(entry);
        let what = format!("make the host {}", entry.name);
        answer(&what, self.hosts.create(&ours, &host)).await?;
        self.done.push((Kind::Host, entry));
        Ok(())
    }

    /// Deletes it all, and names what could not be.
    async fn take_back(&self) -> Vec<String> {
        let now = DeleteParams::default();
        let mut left = Vec::new();
        for (kind, entry) in self.done.iter().rev() {
            let (what, outcome) = match kind {
                Kind::Host => {
                    let outcome = answer("delete", self.hosts.delete(&entry.name, &now)).await;
                    (format!("host {}", entry.name), outcome.map(drop))
                }
                Kind::Secret => {
                    let name = objects::secret_name(entry);
                    let outcome = answer("delete", self.secrets.delete(&name, &now)).await;
                    (format!("Secret {name}"), outcome.map(drop))
                }
            };
            if outcome.is_err() {
                left.push(what);
            }
        }
        left
    }
}
