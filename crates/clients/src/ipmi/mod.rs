//! An IPMI client: a task with a UDP socket around the pure console of `protocols::ipmi`.
//!
//! ```text
//!   Client ──(request, reply)──▶ task: Console + socket ◀──UDP──▶ BMC
//! ```
//!
//! One session is kept while there is something to ask, and closed when there has been nothing for a while or the
//! last [`Client`] is dropped. A BMC that is silent or busy is asked again, with a limit.
//!
//! [`Sol`] is a server's serial console, with a session of its own.

mod device;
mod error;
mod link;
mod sol;

use std::time::Duration;

use model::Secret;
use protocols::ipmi::chassis::{BootDevice as Selector, BootFlags, Control, PowerState};
use protocols::ipmi::console::{Answer, AnswerError, Request};
use tokio::time::Instant;
use tracing::info;

pub use device::{DeviceId, Quirks, quirks_of};
pub use error::Error;
pub use protocols::ipmi::console::Privilege;
pub use protocols::ipmi::console::sol::{Ended, Notice, Owner};
pub use protocols::ipmi::crypto::Suite;
pub use sol::{Keys, Received, Sol};

use crate::{BootMode, Lasting, Power};
use link::Link;

#[derive(Debug, Clone)]
pub struct Config {
    /// Host, or host and port; the port is 623 unless given.
    pub address: String,
    pub username: String,
    pub password: Secret<String>,
    pub privilege: Privilege,
    /// In the order to try them.
    pub suites: Vec<Suite>,
    pub limits: Limits,
}

/// Limits on everything that is asked of a BMC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// For one command with all its datagrams, login included.
    pub command: Duration,
    /// How often a datagram is sent, and the first pause between; each pause is twice the one before.
    pub attempts: u8,
    pub patience: Duration,
    /// How often a BMC that is silent or busy is asked, and the pause between.
    pub tries: u32,
    pub pause: Duration,
    pub poll: Duration,
    pub power_change: Duration,
    /// A session unused this long is closed.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            command: Duration::from_mins(1),
            attempts: 5,
            patience: Duration::from_millis(500),
            tries: 3,
            pause: Duration::from_secs(5),
            poll: Duration::from_secs(2),
            power_change: Duration::from_mins(1),
            idle: Duration::from_secs(20),
        }
    }
}

impl Config {
    pub fn new(address: &str, username: &str, password: Secret<String>) -> Self {
        Self {
            address: address.to_string(),
            username: username.to_string(),
            password,
            privilege: Privilege::Administrator,
            suites: Suite::ALL.to_vec(),
            limits: Limits::default(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BootDevice {
    Pxe,
    Disk,
    Cdrom,
    BiosSetup,
    /// The disk, in the firmware's safe mode.
    Safe,
}

/// A client of one BMC.
#[derive(Debug)]
pub struct Client {
    link: Link,
    address: String,
    limits: Limits,
}

impl Client {
    /// Finds the BMC's address and starts the task. Nothing is sent before something is asked.
    pub async fn new(config: Config) -> Result<Self, Error> {
        let (address, limits) = (config.address.clone(), config.limits.clone());
        let link = Link::spawn(config).await?;
        Ok(Self {
            link,
            address,
            limits,
        })
    }

    pub async fn device_id(&self) -> Result<DeviceId, Error> {
        let operation = "read the device id";
        let answer = self.ask(operation, Request::get_device_id()).await?;
        let short = AnswerError::Short {
            length: answer.data.len(),
        };
        DeviceId::decode(&answer.data).ok_or_else(|| self.senseless(operation, short))
    }

    pub async fn power(&self) -> Result<Power, Error> {
        let operation = "read the power state";
        let answer = self.ask(operation, Request::get_chassis_status()).await?;
        match answer
            .power()
            .map_err(|source| self.senseless(operation, source))?
        {
            PowerState::On => Ok(Power::On),
            PowerState::Off => Ok(Power::Off),
        }
    }

    /// Sees to it that the server is on or off (at once, asking nobody), and waits until it is.
    pub async fn set_power(&self, power: Power) -> Result<(), Error> {
        if self.power().await? != power {
            let control = match power {
                Power::On => Control::PowerOn,
                Power::Off => Control::PowerOff,
            };
            self.control(control).await?;
        }
        self.wait_for_power(power, self.limits.power_change).await
    }

    /// Asks the operating system to shut down, and waits until it has. It may not.
    pub async fn shut_down(&self, patience: Duration) -> Result<(), Error> {
        if self.power().await? == Power::Off {
            return Ok(());
        }
        self.control(Control::SoftShutdown).await?;
        self.wait_for_power(Power::Off, patience).await
    }

    /// Off and on again. BMCs refuse to cycle a server that is off, so that one is only put on.
    pub async fn power_cycle(&self) -> Result<(), Error> {
        self.set_power(Power::Off).await?;
        self.set_power(Power::On).await
    }

    /// Starts a server anew without taking its power; one that is off is put on.
    pub async fn reset(&self) -> Result<(), Error> {
        if self.power().await? == Power::Off {
            return self.set_power(Power::On).await;
        }
        self.control(Control::Reset).await
    }

    /// A non-maskable interrupt, for a crash dump.
    pub async fn inject_nmi(&self) -> Result<(), Error> {
        self.control(Control::DiagnosticInterrupt).await
    }

    /// Sets what to boot from, by the bytes Ironic sends.
    pub async fn set_boot_device(
        &self,
        device: BootDevice,
        lasting: Lasting,
        mode: BootMode,
    ) -> Result<(), Error> {
        let operation = "set the boot device";
        let quirks = quirks_of(self.device_id().await?.manufacturer);
        let selector = match device {
            BootDevice::Pxe => Selector::Pxe,
            BootDevice::Disk if mode == BootMode::Uefi => quirks.uefi_disk,
            BootDevice::Disk => Selector::Disk,
            BootDevice::Cdrom => Selector::Cdrom,
            BootDevice::BiosSetup => Selector::BiosSetup,
            BootDevice::Safe => Selector::DiskSafeMode,
        };
        let flags = BootFlags {
            valid: true,
            persistent: lasting == Lasting::Continuous,
            uefi: mode == BootMode::Uefi,
            device: selector,
            ..BootFlags::NONE
        };
        // Without this the flags are gone after a minute. Not all BMCs know it, and those keep them anyway.
        match self.ask(operation, Request::keep_boot_flags()).await {
            Ok(_) | Err(Error::Answer { .. }) => {}
            Err(error) => return Err(error),
        }
        self.ask(operation, Request::set_boot_flags(flags))
            .await
            .map(drop)
    }

    /// What the firmware was told to boot from, and for how long.
    pub async fn boot_device(&self) -> Result<Option<(BootDevice, Lasting)>, Error> {
        let operation = "read the boot device";
        let answer = self.ask(operation, Request::get_boot_flags()).await?;
        let flags = answer
            .boot_flags()
            .map_err(|source| self.senseless(operation, source))?;
        let lasting = if flags.persistent {
            Lasting::Continuous
        } else {
            Lasting::Once
        };
        let device = match flags.device_override() {
            Some(Selector::Pxe) => BootDevice::Pxe,
            Some(Selector::Disk | Selector::RemoteMedia | Selector::RemoteDisk) => BootDevice::Disk,
            Some(Selector::Cdrom | Selector::RemoteCdrom) => BootDevice::Cdrom,
            Some(Selector::BiosSetup) => BootDevice::BiosSetup,
            Some(Selector::DiskSafeMode) => BootDevice::Safe,
            Some(
                Selector::NoOverride
                | Selector::DiagnosticPartition
                | Selector::RemoteFloppy
                | Selector::Floppy
                | Selector::Other(_),
            )
            | None => return Ok(None),
        };
        Ok(Some((device, lasting)))
    }

    /// Closes the session and ends the task.
    pub async fn close(self) {
        self.link.close().await;
    }

    async fn control(&self, control: Control) -> Result<(), Error> {
        self.ask("change the power", Request::chassis_control(control))
            .await
            .map(drop)
    }

    async fn wait_for_power(&self, wanted: Power, patience: Duration) -> Result<(), Error> {
        let started = Instant::now();
        loop {
            let power = self.power().await?;
            if power == wanted {
                return Ok(());
            }
            if started.elapsed() >= patience {
                let bmc = self.address.clone();
                return Err(Error::PowerStays {
                    bmc,
                    power: power.as_str(),
                    wanted: wanted.as_str(),
                    waited: patience,
                });
            }
            tokio::time::sleep(self.limits.poll).await;
        }
    }

    /// A good answer, or why there is none. A BMC that is silent or busy is asked again.
    async fn ask(&self, operation: &'static str, request: Request) -> Result<Answer, Error> {
        let mut tries = 1;
        loop {
            let error = match self.link.ask(operation, request.clone()).await {
                Ok(answer) => match answer.ok() {
                    Ok(_) => return Ok(answer),
                    Err(source) => self.senseless(operation, source),
                },
                Err(error) => error,
            };
            if tries >= self.limits.tries || !error.may_pass() {
                return Err(error.after(tries));
            }
            let left = self.limits.tries - tries;
            info!(
                bmc = self.address,
                operation,
                error = model::chain(&error),
                left,
                "the BMC is asked again"
            );
            tokio::time::sleep(self.limits.pause).await;
            tries += 1;
        }
    }

    fn senseless(&self, operation: &'static str, source: AnswerError) -> Error {
        Error::Answer {
            operation,
            bmc: self.address.clone(),
            source,
        }
    }
}
