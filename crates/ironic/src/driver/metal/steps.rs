//! Steps that go through the BMC: BIOS settings, firmware, its clock and its jobs.

use std::time::Duration;

use clients::redfish::{self, Attributes};
use jiff::Timestamp;
use lifecycle::node::{Interface, Outcome, Runner, StepSpec};
use serde_json::Value;
use tokio::time::Instant;
use tracing::info;

use super::super::Report;
use super::super::error::Error;
use super::super::lines::Bmc;
use super::{Metal, lacks, mirror, seen};
use crate::record::{Node, Object};

/// The steps a node's interfaces offer; none of them runs by itself, and none needs an agent.
pub fn offered(node: &Node) -> Vec<StepSpec> {
    let mut steps = Vec::new();
    let mut offer = |interface, step| {
        steps.push(StepSpec::new(interface, step, 0, Runner::Service));
    };
    if is_redfish(&node.interfaces.bios) {
        offer(Interface::Bios, "apply_configuration");
        offer(Interface::Bios, "factory_reset");
    }
    if is_redfish(&node.interfaces.firmware) {
        offer(Interface::Firmware, "update");
    }
    if is_redfish(&node.interfaces.management) {
        offer(Interface::Management, "set_bmc_clock");
    }
    if node.driver == "idrac" {
        offer(Interface::Management, "clear_job_queue");
    }
    steps
}

fn is_redfish(interface: &str) -> bool {
    matches!(interface, "redfish" | "idrac-redfish" | "idrac")
}

impl Metal {
    pub(super) async fn run_step(&self, node: &Node, step: &StepSpec) -> Result<Report, Error> {
        let known = offered(node);
        let is_known =
            |offer: &&StepSpec| offer.interface == step.interface && offer.step == step.step;
        if !known.iter().any(|offer| is_known(&offer)) {
            let known: Vec<_> = known.iter().map(ToString::to_string).collect();
            return Err(Error::Cannot(format!(
                "the BMC has no step {step}; it has {}",
                known.join(", ")
            )));
        }
        match step.step.as_str() {
            "apply_configuration" => self.apply_bios(node, &step.args).await,
            "factory_reset" => {
                self.redfish(node, async |client| client.reset_bios().await)
                    .await?;
                let hardware = self.power_cycle(node).await?;
                Ok(seen(hardware))
            }
            "update" => self.update_firmware(node, &step.args).await,
            "set_bmc_clock" => {
                let now = clock(&step.args)?;
                self.redfish(node, async |client| client.set_clock(&now).await)
                    .await?;
                Ok(Report::done())
            }
            "clear_job_queue" => {
                self.redfish(node, async |client| client.clear_jobs().await)
                    .await?;
                Ok(Report::done())
            }
            _ => unreachable!("all steps that are offered are here"),
        }
    }

    /// Is a step that was begun over? Only new BIOS settings are waited for.
    pub(super) async fn check_step(&self, node: &Node, step: &StepSpec) -> Result<Report, Error> {
        if step.step != "apply_configuration" {
            return Ok(Report::done());
        }
        let wanted = settings(&step.args)?;
        if self.bios_is(node, &wanted).await? {
            let hardware = self.read_facts(node).await?;
            return Ok(seen(hardware));
        }
        Ok(Report::of(Outcome::Pending))
    }

    /// Has the settings take effect by a boot. Nothing is booted where all is so already.
    async fn apply_bios(&self, node: &Node, args: &Object) -> Result<Report, Error> {
        let wanted = settings(args)?;
        let changed = self
            .redfish(node, async |client| {
                let now = client.bios().await?.map(|bios| bios.attributes);
                let typed = typed(&wanted, &now.unwrap_or_default());
                client.set_bios(&typed).await
            })
            .await?;
        if !changed {
            return Ok(Report::done());
        }
        info!(node = %node.uuid, settings = wanted.len(), "new BIOS settings, boot follows");
        let hardware = self.power_cycle(node).await?;
        // Most take effect at once; a server that takes its time is looked at later.
        let started = Instant::now();
        while started.elapsed() < SOON {
            if self.bios_is(node, &wanted).await? {
                let node = Node {
                    hardware,
                    ..node.clone()
                };
                return self.read_facts(&node).await.map(seen);
            }
            tokio::time::sleep(self.lines.options.poll()).await;
        }
        Ok(Report {
            hardware: Some(hardware),
            ..Report::of(Outcome::Pending)
        })
    }

    async fn bios_is(&self, node: &Node, wanted: &Attributes) -> Result<bool, Error> {
        let bios = self
            .redfish(node, async |client| client.bios().await)
            .await?;
        let now = bios.map(|bios| bios.attributes).unwrap_or_default();
        Ok(typed(wanted, &now)
            .iter()
            .all(|(name, value)| now.get(name) == Some(value)))
    }

    async fn update_firmware(&self, node: &Node, args: &Object) -> Result<Report, Error> {
        let updates = updates(args)?;
        let mut needs_boot = false;
        for (component, url) in &updates {
            info!(node = %node.uuid, component, "firmware update");
            self.redfish(node, async |client| client.update_firmware(url, &[]).await)
                .await?;
            if component == "bmc" {
                self.wait_for_bmc(node).await?;
            } else {
                needs_boot = true;
            }
        }
        let hardware = if needs_boot {
            self.power_cycle(node).await?
        } else {
            mirror(node)
        };
        let components: Vec<String> = updates
            .into_iter()
            .map(|(component, _)| component)
            .collect();
        self.note_flashed(node, &components).await?;
        Ok(seen(hardware))
    }

    /// A BMC starts anew with its new firmware, and may answer once before it does.
    async fn wait_for_bmc(&self, node: &Node) -> Result<(), Error> {
        let started = Instant::now();
        let pause = self.lines.options.poll() * 5;
        let mut good = 0;
        loop {
            match self.look_at_power(node).await {
                Ok(_) => good += 1,
                Err(error) if started.elapsed() > BMC_BACK => return Err(error),
                Err(_) => good = 0,
            }
            if good >= 3 {
                return Ok(());
            }
            tokio::time::sleep(pause).await;
        }
    }

    async fn redfish<T>(
        &self,
        node: &Node,
        act: impl AsyncFnOnce(&redfish::Client) -> Result<T, redfish::Error>,
    ) -> Result<T, Error> {
        self.talk(node, async |bmc| match bmc {
            Bmc::Redfish(client) => Ok(act(client).await?),
            Bmc::Ipmi(_) => Err(lacks("such step")),
        })
        .await
    }
}

const SOON: Duration = Duration::from_secs(15);
const BMC_BACK: Duration = Duration::from_mins(8);

/// `settings: [{name, value}]`.
fn settings(args: &Object) -> Result<Attributes, Error> {
    let wrong = |what: &str| Error::Settings(vec![format!("settings{what}")]);
    let Some(Value::Array(list)) = args.get("settings") else {
        return Err(wrong(": must be a list of {name, value}"));
    };
    let mut settings = Attributes::new();
    for (at, item) in list.iter().enumerate() {
        let name = item.get("name").and_then(Value::as_str);
        let (Some(name), Some(value)) = (name, item.get("value")) else {
            return Err(wrong(&format!("[{at}]: must have a name and a value")));
        };
        settings.insert(name.to_owned(), value.clone());
    }
    Ok(settings)
}

/// `settings: [{component, url}]`.
fn updates(args: &Object) -> Result<Vec<(String, String)>, Error> {
    let wrong = |what: &str| Error::Settings(vec![format!("settings{what}")]);
    let Some(Value::Array(list)) = args.get("settings") else {
        return Err(wrong(": must be a list of {component, url}"));
    };
    let mut updates = Vec::new();
    for (at, item) in list.iter().enumerate() {
        let text = |key| item.get(key).and_then(Value::as_str);
        let (Some(component), Some(url)) = (text("component"), text("url")) else {
            return Err(wrong(&format!("[{at}]: must have a component and a url")));
        };
        if !matches!(component, "bios" | "bmc") && !component.starts_with("nic:") {
            return Err(wrong(&format!(
                "[{at}].component: must be bios, bmc or nic:<adapter>"
            )));
        }
        updates.push((component.to_owned(), url.to_owned()));
    }
    Ok(updates)
}

/// Values in the types the BMC has them in: clients send numbers and booleans as texts.
fn typed(wanted: &Attributes, now: &Attributes) -> Attributes {
    let cast = |(name, value): (&String, &Value)| {
        let text = value.as_str();
        let value = match (now.get(name), text) {
            (Some(Value::Number(_)), Some(text)) => text
                .trim()
                .parse::<i64>()
                .map_or_else(|_| value.clone(), Value::from),
            (Some(Value::Bool(_)), Some(text)) => match text.to_lowercase().as_str() {
                "true" => Value::Bool(true),
                "false" => Value::Bool(false),
                _ => value.clone(),
            },
            (Some(Value::String(_)), None) => Value::String(value.to_string()),
            (_, _) => value.clone(),
        };
        (name.clone(), value)
    };
    wanted.iter().map(cast).collect()
}

/// The time to set: the one given, or now.
fn clock(args: &Object) -> Result<String, Error> {
    let time = match args.get("target_datetime").and_then(Value::as_str) {
        None => Timestamp::now(),
        Some(text) => text
            .parse()
            .map_err(|error| Error::Settings(vec![format!("target_datetime: {error}")]))?,
    };
    Ok(time
        .to_zoned(jiff::tz::TimeZone::UTC)
        .strftime("%Y-%m-%dT%H:%M:%S+00:00")
        .to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_are_sent_in_the_types_the_bmc_has_them_in() {
        let now = Attributes::from([
            ("Cores".to_owned(), json!(4)),
            ("Turbo".to_owned(), json!(true)),
            ("Mode".to_owned(), json!("Uefi")),
        ]);
        let args = json!({"settings": [
            {"name": "Cores", "value": "8"}, {"name": "Turbo", "value": "False"}, {"name": "Mode", "value": 1}]});
        let wanted = settings(args.as_object().unwrap()).unwrap();
        let typed = typed(&wanted, &now);
        assert_eq!(typed["Cores"], json!(8));
        assert_eq!(typed["Turbo"], json!(false));
        assert_eq!(typed["Mode"], json!("1"));
    }

    #[test]
    fn arguments_that_are_wrong_are_named() {
        for (args, says) in [
            (json!({}), "settings: must be a list"),
            (
                json!({"settings": [{"name": "A", "value": "1"}, {"name": "B"}]}),
                "settings[1]: must have",
            ),
        ] {
            let error = settings(args.as_object().unwrap()).unwrap_err().to_string();
            assert!(error.starts_with(says), "{error}");
        }
        let args = json!({"settings": [{"component": "fan", "url": "http://x"}]});
        let error = updates(args.as_object().unwrap()).unwrap_err().to_string();
        assert!(error.starts_with("settings[0].component"), "{error}");
    }
}
