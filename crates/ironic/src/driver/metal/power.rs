//! Power: changed, and read back until it is so.

use std::time::Duration;

use clients::redfish::Reset;
use lifecycle::node::Power;
use tracing::info;

use super::super::backoff::Asker;
use super::super::error::Error;
use super::super::lines::Bmc;
use super::{Metal, access, mirror};
use crate::record::{Errand, Hardware, Node, PowerTarget};

impl Metal {
    pub(super) async fn read_power(
        &self,
        node: &Node,
        asker: Asker,
    ) -> Result<Option<Power>, Error> {
        let access = access(node)?;
        self.lines
            .talk(&access, asker, async |bmc| bmc.power().await)
            .await
    }

    /// For the regular look at every node's power.
    pub async fn look_at_power(&self, node: &Node) -> Result<Option<Power>, Error> {
        self.read_power(node, Asker::Look).await
    }

    pub async fn set_power(
        &self,
        node: &Node,
        target: PowerTarget,
    ) -> Result<(Power, Hardware), Error> {
        let hardware = match target {
            PowerTarget::On => self.power_on(node).await?,
            PowerTarget::Off => self.power_off(node).await?,
            PowerTarget::Reboot => self.power_cycle(node).await?,
            PowerTarget::SoftOff => self.soft_off(node).await?,
            PowerTarget::SoftReboot if node.disable_power_off => self.power_cycle(node).await?,
            PowerTarget::SoftReboot => {
                self.soft_off(node).await?;
                self.power_on(node).await?
            }
        };
        Ok((target.result(), hardware))
    }

    pub(super) async fn power_off(&self, node: &Node) -> Result<Hardware, Error> {
        self.talk(node, async |bmc| bmc.set_power(Power::Off).await)
            .await?;
        Ok(with_power(node, Power::Off))
    }

    pub(super) async fn power_on(&self, node: &Node) -> Result<Hardware, Error> {
        self.resend_boot_device(node).await?;
        self.talk(node, async |bmc| bmc.set_power(Power::On).await)
            .await?;
        Ok(with_power(node, Power::On))
    }

    /// Off and on; or a hard reset, where the node must not be powered off.
    pub(super) async fn power_cycle(&self, node: &Node) -> Result<Hardware, Error> {
        if node.disable_power_off {
            self.resend_boot_device(node).await?;
            self.talk(node, async |bmc| bmc.restart().await).await?;
            return Ok(with_power(node, Power::On));
        }
        self.power_off(node).await?;
        self.power_on(node).await
    }

    /// Asks the system to shut down; one that does not is cut off.
    async fn soft_off(&self, node: &Node) -> Result<Hardware, Error> {
        let grace = self.grace(node);
        let outcome = self
            .talk(node, async |bmc| match bmc.shut_down(grace).await {
                // It was asked and is still on, or it cannot be asked.
                Err(error) if !error.is_silence() => Ok(Some(error)),
                Err(error) => Err(error),
                Ok(()) => Ok(None),
            })
            .await?;
        let Some(error) = outcome else {
            return Ok(with_power(node, Power::Off));
        };
        info!(node = %node.uuid, error = model::chain(&error), "the system did not shut down and is cut off");
        self.power_off(node).await
    }

    /// How long a system may take to shut down: half of what the caller waits for it all, so that it can still be cut
    /// off.
    fn grace(&self, node: &Node) -> Duration {
        let options = &self.lines.options;
        let all = match node.errand {
            Some(Errand::Power {
                timeout: Some(seconds),
                ..
            }) => Duration::from_secs(seconds),
            _ => options.power_change,
        };
        all.min(options.soft_power_off) / 2
    }
}

fn with_power(node: &Node, power: Power) -> Hardware {
    Hardware {
        power,
        ..mirror(node)
    }
}

impl Bmc {
    async fn power(&self) -> Result<Option<Power>, Error> {
        Ok(match self {
            Self::Redfish(client) => client.power().await?.map(ours),
            Self::Ipmi(client) => Some(ours(client.power().await?)),
        })
    }

    /// Sees to it, and waits until it is so.
    async fn set_power(&self, power: Power) -> Result<(), Error> {
        match self {
            Self::Redfish(client) => client.set_power(theirs(power)).await?,
            Self::Ipmi(client) => client.set_power(theirs(power)).await?,
        }
        Ok(())
    }

    async fn restart(&self) -> Result<(), Error> {
        match self {
            Self::Redfish(client) => match client.power().await? {
                Some(clients::Power::Off) => client.set_power(clients::Power::On).await?,
                Some(clients::Power::On) | None => client.reset(Reset::ForceRestart).await?,
            },
            Self::Ipmi(client) => client.reset().await?,
        }
        Ok(())
    }

    async fn shut_down(&self, grace: Duration) -> Result<(), Error> {
        match self {
            Self::Redfish(client) => client.shut_down(grace).await?,
            Self::Ipmi(client) => client.shut_down(grace).await?,
        }
        Ok(())
    }
}

fn ours(power: clients::Power) -> Power {
    match power {
        clients::Power::On => Power::On,
        clients::Power::Off => Power::Off,
    }
}

fn theirs(power: Power) -> clients::Power {
    match power {
        Power::On => clients::Power::On,
        Power::Off => clients::Power::Off,
    }
}
