//! The life of process 1.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use agent::http::Way;
use agent::ipa::{self, End, Settings};
use agent::parameters::{self, Parameters};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::console::{self, line, say};
use crate::medium::Medium;
use crate::metal::Metal;
use crate::network::fixed::{self, Fixed};
use crate::{button, coldplug, inventory, network};

/// Tests and people look for the inventory between these.
const BEGIN: &str = "PLINTH-INVENTORY-BEGIN";
const END: &str = "PLINTH-INVENTORY-END";

/// How long the reason of a failure stays on the console before the server goes off.
const LAST_WORDS: Duration = Duration::from_secs(30);

/// Never returns while the machine is on: the kernel panics when process 1 ends.
pub fn run() -> ExitCode {
    std::panic::set_hook(Box::new(|panic| {
        give_up(&format!("this is a bug: {panic}"));
    }));
    if let Err(error) = linux::mount::system() {
        give_up(&model::chain(&error));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    match runtime {
        Ok(runtime) => match runtime.block_on(live()) {
            Ok(Last::PowerOff) => end(linux::power::power_off),
            Ok(Last::Reboot) => end(linux::power::reboot),
            Ok(Last::Kexec) => {
                let Err(error) = linux::power::kexec();
                say(&format!(
                    "the installed system does not start from here: {error}"
                ));
                end(linux::power::reboot);
            }
            Err(error) => give_up(&model::chain(&error)),
        },
        Err(error) => give_up(&model::chain(&error)),
    }
    ExitCode::FAILURE
}

enum Last {
    PowerOff,
    Reboot,
    Kexec,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("listening for signals")]
    Signals(#[source] std::io::Error),
}

async fn live() -> Result<Last, Error> {
    say(concat!("plinth-agent ", env!("CARGO_PKG_VERSION")));
    let mut signals = Signals::open()?;
    let line = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    let (given, _) = Parameters::parse(&line);
    console::log_here(given.debug);
    coldplug::run(Path::new("/sys")).await;
    let buttons = button::watch(Path::new("/"));
    let work = async {
        let medium = Medium::look(given.virtual_media).await;
        // The kernel line is the nearer of the two, so it has the last word.
        let line = format!("{} {line}", medium.parameters);
        let (parameters, problems) = Parameters::parse(&line);
        for problem in problems {
            say(&problem.to_string());
        }
        let network = network::up(&fixed_addresses(&line, &medium)).await;
        let addresses = network::addresses().await;
        let found = inventory::collect(Path::new("/"), &addresses);
        report(&found);
        tokio::select! {
            () = network.keep() => Last::PowerOff,
            last = obey(parameters, medium, &found) => last,
        }
    };
    tokio::select! {
        last = work => Ok(last),
        why = signals.last() => Ok(why),
        () = button::pressed(buttons) => {
            say("power button pressed: switching off");
            Ok(Last::PowerOff)
        }
    }
}

/// Works for Ironic. Without one, or when that fails, the reason stays on the console.
async fn obey(
    parameters: Parameters,
    medium: Medium,
    inventory: &model::inventory::Inventory,
) -> Last {
    let name = inventory.hostname.clone().or_else(|| {
        let first = inventory.interfaces.first()?;
        Some(first.mac_address.to_string().replace(':', "-"))
    });
    let settings = Settings {
        name: name.unwrap_or_else(|| "plinth-agent".into()),
        way: Way {
            authorities: medium.authorities,
            insecure: parameters.insecure,
            source: None,
            own_resolver: true,
        },
        parameters,
        identity: None,
        set_clock: true,
        seed: uuid::Uuid::new_v4().as_u64_pair().0,
    };
    match ipa::run(settings, std::sync::Arc::new(Metal::new())).await {
        Ok(End::PowerOff) => {
            say("told to switch off");
            Last::PowerOff
        }
        Ok(End::Reboot) => {
            say("told to restart");
            Last::Reboot
        }
        Ok(End::Kexec) => {
            say("starting the installed system");
            Last::Kexec
        }
        Err(error) => {
            say(&model::chain(&error));
            say("ready; waiting for orders");
            std::future::pending().await
        }
    }
}

/// The CD knows every card; the kernel's `ip=` one.
fn fixed_addresses(line: &str, medium: &Medium) -> Vec<Fixed> {
    let mut fixed = vec![];
    if let Some(data) = &medium.network_data {
        let (found, problems) = fixed::from_network_data(data);
        fixed.extend(found);
        for problem in problems {
            say(&problem);
        }
    }
    if let Some(value) = parameters::words(line).get("ip") {
        match fixed::from_kernel(value) {
            Ok(found) => fixed.extend(found),
            Err(problem) => say(&problem),
        }
    }
    fixed
}

fn report(inventory: &model::inventory::Inventory) {
    for disk in &inventory.disks {
        say(&format!(
            "disk {} {} {} GB",
            disk.name,
            disk.model,
            disk.size / 1_000_000_000
        ));
    }
    for nic in &inventory.interfaces {
        let carrier = if nic.has_carrier {
            "carrier"
        } else {
            "no carrier"
        };
        let address = nic.ipv4_address.as_deref().unwrap_or("no address");
        say(&format!(
            "nic {} {} {carrier}, {address}",
            nic.name, nic.mac_address
        ));
    }
    // Kernel messages on the same console would break the line in two.
    let printk = Path::new("/proc/sys/kernel/printk");
    let before = fs::read_to_string(printk).unwrap_or_default();
    let _ = fs::write(printk, "1");
    line(BEGIN);
    line(&serde_json::to_string(inventory).expect("an inventory has only string keys"));
    line(END);
    let _ = fs::write(printk, before);
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    child: Signal,
}

impl Signals {
    fn open() -> Result<Self, Error> {
        // Ctrl-Alt-Del then reaches us as an interrupt instead of stopping the machine at once.
        let _ = fs::write("/proc/sys/kernel/ctrl-alt-del", "0");
        let open = |kind| signal(kind).map_err(Error::Signals);
        Ok(Self {
            terminate: open(SignalKind::terminate())?,
            interrupt: open(SignalKind::interrupt())?,
            child: open(SignalKind::child())?,
        })
    }

    async fn last(&mut self) -> Last {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => {
                    say("asked to stop: switching off");
                    return Last::PowerOff;
                }
                _ = self.interrupt.recv() => {
                    say("Ctrl-Alt-Del: restarting");
                    return Last::Reboot;
                }
                _ = self.child.recv() => reap(),
            }
        }
    }
}

/// Orphans become our children; each that ends must be asked for its status once.
fn reap() {
    use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
    while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
        if status == WaitStatus::StillAlive {
            return;
        }
    }
}

fn give_up(why: &str) {
    say(&format!("FAILED: {why}"));
    say(&format!("switching off in {} s", LAST_WORDS.as_secs()));
    std::thread::sleep(LAST_WORDS);
    end(linux::power::power_off);
}

fn end(how: impl Fn() -> std::io::Result<std::convert::Infallible>) {
    let Err(error) = how();
    say(&format!("the kernel does not let us go: {error}"));
    loop {
        std::thread::park();
    }
}
