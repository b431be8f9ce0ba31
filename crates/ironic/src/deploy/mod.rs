//! Writing an operating system to a host: its image, its config drive, the steps of the agent, and the agent's logs when
//! it went wrong.
//!
//! ```text
//!   conductor ── Work ──▶ agent.rs ── commands ──▶ the agent on the host
//!                            │  image.rs     what is to be written, and how it is known to be right
//!                            │  store.rs     images we serve ourselves, each fetched once
//!                            │  config_drive.rs
//!                            │  steps.rs     which steps there are, in which order, with which arguments
//!                            └─ logs.rs
//! ```

pub mod agent;
pub mod checksum;
pub mod config_drive;
pub mod image;
pub mod logs;
mod probe;
pub mod steps;
pub mod store;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What the configuration says about deployments. Times are in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Who fetches an image: the agent from where it is, or we, to serve it.
    pub image_download_source: Source,
    /// Where our images are kept; beside the state file where it is not said.
    pub images: Option<PathBuf>,
    /// Where agents find them: the address of the boot files' HTTP server, and `/images`.
    pub images_url: Option<String>,
    pub images_max_gib: u64,
    /// Directories whose files anybody may fetch by name, beside our images.
    pub public_images: Vec<PathBuf>,
    /// Directories that `file://` images may come from.
    pub image_directories: Vec<PathBuf>,
    /// Whole disks are overwritten before a host is used again; hours for large ones.
    pub erase_devices_priority: u32,
    /// Partition tables and signatures are.
    pub erase_devices_metadata_priority: u32,
    /// Other priorities by step, `deploy.erase_devices_express: 10`; 0 is never.
    pub step_priorities: BTreeMap<String, u32>,
    /// How many agents' logs are kept, each of at most 32 MiB.
    pub logs: usize,
    /// How long a host may take to power off when its agent was told to.
    pub agent_power_off: f64,
    /// How often an agent at work is asked how far it is.
    pub progress: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    Http,
    Local,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            image_download_source: Source::Http,
            images: None,
            images_url: None,
            images_max_gib: 64,
            public_images: Vec::new(),
            image_directories: Vec::new(),
            erase_devices_priority: 0,
            erase_devices_metadata_priority: 10,
            step_priorities: BTreeMap::new(),
            logs: 100,
            agent_power_off: 30.0,
            progress: 2.0,
        }
    }
}

impl Settings {
    /// Everything that cannot be, each with its field.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for (key, seconds) in [
            ("agent_power_off", self.agent_power_off),
            ("progress", self.progress),
        ] {
            if !(0.01..=86400.0).contains(&seconds) {
                problems.push(format!("deploy.{key}: must be seconds, from 0.01 to 86400"));
            }
        }
        if let Some(url) = &self.images_url
            && !["http://", "https://"]
                .iter()
                .any(|scheme| url.starts_with(scheme))
        {
            problems.push(format!(
                "deploy.images_url: {url:?} must begin with http:// or https://"
            ));
        }
        if self.images_max_gib == 0 {
            problems.push("deploy.images_max_gib: must be at least 1".into());
        }
        for step in self.step_priorities.keys() {
            if !step.contains('.') {
                problems.push(format!(
                    "deploy.step_priorities: {step:?} must be an interface and a step, such as deploy.erase_devices"
                ));
            }
        }
        problems
    }

    pub fn poll(&self) -> Duration {
        Duration::from_secs_f64(self.progress)
    }

    pub fn power_off_wait(&self) -> Duration {
        Duration::from_secs_f64(self.agent_power_off)
    }
}
