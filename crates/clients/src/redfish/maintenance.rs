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

    /// What the BMC's clock shows, as it writes it; `None` where it has none.
    pub async fn clock(&self) -> Result<Option<String>, Error> {
        let managers = self.managers("read the BMC's clock").await?;
        Ok(managers
            .iter()
            .find_map(|manager| manager.text_at("/DateTime"))
            .map(ToString::to_string))
    }

    /// Names of the licences that the BMC lists; `None` where it lists none at all.
    pub async fn licences(&self) -> Result<Option<Vec<String>>, Error> {
        let operation = "read the BMC's licences";
        let root = self.get(operation, "/redfish/v1/").await?;
        let mut places: Vec<String> = Vec::new();
        if let Some(service) = root.link("/LicenseService")
            && let Some(service) = self.find(operation, service).await?
        {
            places.extend(service.link("/Licenses").map(ToString::to_string));
        }
        // HPE has its own, at the manager.
        for manager in self.managers(operation).await? {
            places.extend(
                manager
                    .link("/Oem/Hpe/Links/LicenseService")
                    .map(ToString::to_string),
            );
        }
        if places.is_empty() {
            return Ok(None);
        }
        let mut names = Vec::new();
        for place in places {
            for licence in self.members_if_any(operation, &place).await? {
                let said = ["/License", "/Name", "/Description", "/EntitlementId", "/Id"];
                names.extend(
                    said.iter()
                        .find_map(|pointer| licence.text_at(pointer))
                        .map(ToString::to_string),
                );
            }
        }
        Ok(Some(names))
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
