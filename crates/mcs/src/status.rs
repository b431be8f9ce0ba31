//! What was served to whom, as the state directory knows it.

use std::fmt::Write;
use std::path::Path;

use serde::Serialize;

use crate::config::Config;
pub use crate::ledger::Error;
use crate::ledger::{self, Served, Use};

#[derive(Debug, Serialize)]
pub struct Status {
    pub hosts: Vec<HostStatus>,
    pub served: Vec<Served>,
}

#[derive(Debug, Serialize)]
pub struct HostStatus {
    pub name: String,
    pub pool: String,
    /// The first time its token was used.
    pub used: Option<Use>,
}

pub fn read(config: &Config, state: &Path) -> Result<Status, Error> {
    let (used, served) = ledger::look(state)?;
    let hosts = config.hosts.iter().map(|host| HostStatus {
        name: host.name.clone(),
        pool: host.pool.clone(),
        used: used
            .iter()
            .find(|used| used.token_sha256 == host.token_sha256)
            .cloned(),
    });
    Ok(Status {
        hosts: hosts.collect(),
        served,
    })
}

impl Status {
    pub fn render(&self) -> String {
        let mut text = String::from("HOST                 POOL     TOKEN\n");
        for host in &self.hosts {
            let used = match &host.used {
                Some(used) => format!("used {} by {}", used.at, used.peer),
                None => "not used yet".into(),
            };
            _ = writeln!(text, "{:20} {:8} {used}", host.name, host.pool);
        }
        text.push_str("\nSERVED               TO                   PEER             WHAT\n");
        // The latest last, where a person looks.
        let skip = self.served.len().saturating_sub(20);
        for served in &self.served[skip..] {
            let at = served.at.to_string();
            let short = at.split('.').next().unwrap_or(&at);
            _ = writeln!(
                text,
                "{short:20} {:20} {:16} {} ({} bytes)",
                served.to,
                served.peer.to_string(),
                served.what,
                served.bytes
            );
        }
        text
    }
}
