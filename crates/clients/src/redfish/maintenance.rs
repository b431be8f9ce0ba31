//! Care of the BMC itself: its clock, and jobs that were left behind.

use serde_json::{Value, json};
use tracing::debug;

use super::Error;
use super::talk::Client;

impl Client {
    /// The version of the BMC's own firmware, where it says so.
    pub async fn bmc_version(&self) -> Result<Option<String>, Error> {
        let managers = self.managers("read the BMC's version").await?;
        Ok(managers
            .iter()
            .find_map(|manager| manager.text_at("/FirmwareVersion"))
            .map(ToString::to_string))
    }

    /// Sets the clock of every manager of the system. The time is written as Redfish wants it,
    /// `2026-01-02T03:04:05+00:00`.
    pub async fn set_clock(&self, now: &str) -> Result<(), Error> {
        let operation = "set the BMC's clock";
        for manager in self.managers(operation).await? {
            if manager.body.get("DateTime").is_none() {
                continue;
            }
            self.patch(operation, &manager.path, &json!({"DateTime": now}))
                .await?;
        }
        Ok(())
    }

    /// Throws away jobs that wait in a Dell's queue: an old one would be run, or keep a new one from running.
    /// Returns false where the BMC has no such queue.
    pub async fn clear_jobs(&self) -> Result<bool, Error> {
        let operation = "clear the job queue";
        for manager in self.managers(operation).await? {
            let service = manager
                .body
                .pointer("/Links/Oem/Dell/DellJobService/@odata.id")
                .and_then(Value::as_str);
            let Some(path) = service else { continue };
            let Some(service) = self.find(operation, path).await? else {
                continue;
            };
            let Some(target) = service.action("#DellJobService.DeleteJobQueue") else {
                continue;
            };
            self.post(operation, target, Some(&json!({"JobID": "JID_CLEARALL"})))
                .await?;
            debug!(bmc = %self.config.address, "the job queue is empty");
            return Ok(true);
        }
        Ok(false)
    }
}
