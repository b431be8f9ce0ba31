//! A simulated server's firmware: it tries its devices in order until one of them boots.
//!
//! Pure: [`Firmware::next`] says what to do, and is told how that went.
//!
//! ```text
//!   Pxe ─▶ DHCP on each NIC ─▶ fetch the boot file ─▶ a script: run it
//!                                       └▶ a loader: it is iPXE; DHCP again, as iPXE ─▶ fetch its script
//! ```

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use model::Mac;
use protocols::dhcp::client::{Lease, Pxe};

use super::ipxe::{Outcome, Script, Want};
use crate::hardware::{Firmware as Mode, Hardware, Network};
use crate::server::boot::{Device, Plan};
use crate::server::chassis::Media;

/// What is in the server when it starts.
#[derive(Debug, Clone, Default)]
pub struct Devices {
    pub cd: Option<Media>,
    /// What the first disk would boot, if it has been written.
    pub disk: Option<String>,
    pub disk_errors: bool,
}

/// What came to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// A kernel and ramdisk from the network: where the agent lives.
    Ramdisk {
        kernel: String,
        initrds: Vec<String>,
        arguments: String,
        nic: Mac,
        lease: Box<Lease>,
    },
    /// A virtual CD.
    Cd {
        url: String,
        /// Where its image lies.
        file: PathBuf,
    },
    /// A CD image fetched by the firmware itself.
    Http {
        url: String,
    },
    Disk {
        what: String,
    },
    Setup,
    /// Nothing could be booted; the machine waits for a person.
    Nothing {
        why: String,
    },
}

/// What the firmware does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Ask for an address on a NIC, as boot firmware does.
    Dhcp {
        nic: usize,
        pxe: Pxe,
        within: Duration,
    },
    /// `keep` is how much of it is looked at; the rest is read and thrown away.
    Fetch {
        source: Source,
        keep: usize,
    },
    Run(Payload),
    Pause(Duration),
    Reboot,
    PowerOff,
}

/// Where a file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    Tftp { server: Ipv4Addr, path: String },
    Http { url: String },
}

/// How the last step went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    PowerOn,
    Lease(Option<Box<Lease>>),
    /// The beginning of a file, as much as was to be kept.
    Fetched(Vec<u8>),
    FetchFailed {
        why: String,
    },
    Paused,
}

/// One boot.
#[derive(Debug)]
pub struct Firmware {
    plan: Plan,
    macs: Vec<Mac>,
    networks: Vec<Network>,
    uuid: [u8; 16],
    devices: Devices,
    /// The device being tried, as an index into the plan's order.
    device: usize,
    state: State,
    /// What the firmware shows on the console.
    pub screen: Vec<String>,
}

#[derive(Debug)]
enum State {
    /// About to try the current device.
    Begin,
    Dhcp {
        nic: usize,
        stage: Stage,
    },
    FetchLoader {
        nic: usize,
        stage: Stage,
        lease: Box<Lease>,
    },
    FetchHttp {
        url: String,
    },
    Scripts {
        nic: usize,
        lease: Box<Lease>,
        scripts: Vec<Script>,
        waits: Waits,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Rom,
    Ipxe,
    Http,
}

/// What the topmost script waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Waits {
    Image,
    Script { base: String, replace: bool },
    Pause,
}

/// A script is read whole; of a kernel only that it came.
const SCRIPT: usize = 256 << 10;
const LOADER: usize = SCRIPT;
const IMAGE: usize = 0;
/// Scripts that chain to scripts.
const DEEPEST: usize = 8;
/// The specification's four tries of 4, 8, 16 and 32 s (PXE 2.1, 2.2.2).
const DHCP_WITHIN: Duration = Duration::from_mins(1);

impl Firmware {
    pub fn new(hardware: &Hardware, plan: Plan, devices: Devices) -> Self {
        Self {
            plan,
            macs: hardware.nics.iter().map(|nic| nic.mac).collect(),
            networks: hardware.nics.iter().map(|nic| nic.network).collect(),
            uuid: hardware.uuid.into_bytes(),
            devices,
            device: 0,
            state: State::Begin,
            screen: vec![],
        }
    }

    pub fn next(&mut self, event: Event) -> Step {
        match std::mem::replace(&mut self.state, State::Begin) {
            State::Begin => self.try_device(),
            State::Dhcp { nic, stage } => match event {
                Event::Lease(Some(lease)) => self.leased(nic, stage, lease),
                Event::Lease(None)
                | Event::PowerOn
                | Event::Fetched(_)
                | Event::FetchFailed { .. }
                | Event::Paused => {
                    self.say(format!("net{nic}: no DHCP answer"));
                    self.next_nic(nic, stage)
                }
            },
            State::FetchLoader { nic, stage, lease } => match event {
                Event::Fetched(head) => self.loaded(nic, stage, lease, &head),
                Event::FetchFailed { why } => self.network_failed(nic, &why),
                Event::PowerOn | Event::Lease(_) | Event::Paused => {
                    self.network_failed(nic, "interrupted")
                }
            },
            State::FetchHttp { url } => match event {
                Event::Fetched(_) => Step::Run(Payload::Http { url }),
                Event::FetchFailed { why } => {
                    self.device_failed(&format!("HTTP boot of {url}: {why}"))
                }
                Event::PowerOn | Event::Lease(_) | Event::Paused => {
                    self.device_failed("interrupted")
                }
            },
            State::Scripts {
                nic,
                lease,
                scripts,
                waits,
            } => self.script_told(nic, lease, scripts, &waits, event),
        }
    }

    fn say(&mut self, line: String) {
        self.screen.push(line);
    }

    fn try_device(&mut self) -> Step {
        let Some(device) = self.plan.order.get(self.device).copied() else {
            self.say("No bootable device.".into());
            return Step::Run(Payload::Nothing {
                why: "no device in the boot order booted".into(),
            });
        };
        self.say(format!("Trying {device:?}"));
        match device {
            Device::Hdd => match self.bootable_disk() {
                Ok(what) => Step::Run(Payload::Disk { what }),
                Err(why) => self.device_failed(why),
            },
            Device::Cd => match self.devices.cd.clone() {
                Some(media) => Step::Run(Payload::Cd {
                    url: media.url,
                    file: media.file,
                }),
                None => self.device_failed("no medium"),
            },
            Device::Pxe => self.dhcp(self.nics(Stage::Rom)[0], Stage::Rom),
            Device::BiosSetup => Step::Run(Payload::Setup),
            Device::UefiHttp if self.plan.http_uri.is_none() => {
                self.device_failed("no HTTP boot URI is set")
            }
            Device::UefiHttp => self.dhcp(self.nics(Stage::Http)[0], Stage::Http),
        }
    }

    fn bootable_disk(&self) -> Result<String, &'static str> {
        if self.devices.disk_errors {
            return Err("disk read error");
        }
        self.devices
            .disk
            .clone()
            .ok_or("the disk holds nothing to boot")
    }

    /// NICs in the order in which they are tried: network boot is the provisioning network's, a URL is routed.
    fn nics(&self, stage: Stage) -> Vec<usize> {
        let first = match stage {
            Stage::Rom | Stage::Ipxe => Network::Provisioning,
            Stage::Http => Network::Baremetal,
        };
        let mut nics: Vec<usize> = (0..self.networks.len()).collect();
        nics.sort_by_key(|nic| self.networks[*nic] != first);
        nics
    }

    fn device_failed(&mut self, why: &str) -> Step {
        self.say(format!("  {why}"));
        self.device += 1;
        self.try_device()
    }

    fn dhcp(&mut self, nic: usize, stage: Stage) -> Step {
        self.state = State::Dhcp { nic, stage };
        let arch = match (self.plan.firmware, stage) {
            (_, Stage::Http) => 16,
            (Mode::Bios, Stage::Rom | Stage::Ipxe) => 0,
            (Mode::Uefi, Stage::Rom | Stage::Ipxe) => 7,
        };
        let ipxe = stage == Stage::Ipxe;
        let pxe = Pxe {
            class: if stage == Stage::Http {
                "HTTPClient"
            } else {
                "PXEClient"
            }
            .into(),
            arch,
            interface: (1, 3, 16),
            uuid: Some(self.uuid),
            user_class: ipxe.then(|| "iPXE".into()),
            // Encapsulated: HTTP (19) and EFI or PCBIOS support.
            ipxe: ipxe.then(|| vec![0x13, 1, 1, 0x24, 1, 1]),
            patience: Duration::from_secs(2),
        };
        Step::Dhcp {
            nic,
            pxe,
            within: DHCP_WITHIN,
        }
    }

    fn next_nic(&mut self, nic: usize, stage: Stage) -> Step {
        let stage = if stage == Stage::Ipxe {
            Stage::Rom
        } else {
            stage
        };
        let next = self
            .nics(stage)
            .into_iter()
            .skip_while(|n| *n != nic)
            .nth(1);
        match next {
            Some(nic) => self.dhcp(nic, stage),
            None => self.device_failed("no NIC could boot"),
        }
    }

    fn network_failed(&mut self, nic: usize, why: &str) -> Step {
        self.say(format!("net{nic}: {why}"));
        self.next_nic(nic, Stage::Rom)
    }

    fn leased(&mut self, nic: usize, stage: Stage, lease: Box<Lease>) -> Step {
        self.say(format!("net{nic}: {} from {}", lease.address, lease.server));
        if let (Stage::Http, Some(url)) = (stage, self.plan.http_uri.clone()) {
            self.state = State::FetchHttp { url: url.clone() };
            return Step::Fetch {
                source: Source::Http { url },
                keep: IMAGE,
            };
        }
        let Some(source) = source(&lease) else {
            return self.network_failed(nic, "the answer names no boot file");
        };
        self.state = State::FetchLoader { nic, stage, lease };
        Step::Fetch {
            source,
            keep: LOADER,
        }
    }

    fn loaded(&mut self, nic: usize, stage: Stage, lease: Box<Lease>, head: &[u8]) -> Step {
        let file = lease.boot_file.clone().unwrap_or_default();
        let base = match source(&lease) {
            Some(Source::Tftp { server, path }) => format!("tftp://{server}/{path}"),
            Some(Source::Http { url }) => url,
            None => String::new(),
        };
        match (self.script(head, &base, nic), stage) {
            (Some(script), _) => {
                self.say(format!("net{nic}: running {file}"));
                self.run_scripts(nic, lease, vec![script], Outcome::Begin)
            }
            (None, Stage::Rom) => {
                self.say(format!("net{nic}: started {file} as iPXE"));
                self.dhcp(nic, Stage::Ipxe)
            }
            (None, Stage::Ipxe | Stage::Http) => self.network_failed(
                nic,
                &format!("iPXE was given {file} again, which is not a script"),
            ),
        }
    }

    fn script(&self, head: &[u8], base: &str, nic: usize) -> Option<Script> {
        let platform = match self.plan.firmware {
            Mode::Uefi => "efi",
            Mode::Bios => "pcbios",
        };
        let text = String::from_utf8_lossy(head);
        Script::parse(&text, base, platform, &self.macs, nic)
    }

    fn run_scripts(
        &mut self,
        nic: usize,
        lease: Box<Lease>,
        mut scripts: Vec<Script>,
        mut outcome: Outcome,
    ) -> Step {
        while let Some(script) = scripts.last_mut() {
            match script.step(outcome) {
                Want::Fetch { uri } => {
                    let Some(source) = parse_uri(&uri) else {
                        self.say(format!("{uri}: not a URL iPXE can fetch"));
                        outcome = Outcome::Failed;
                        continue;
                    };
                    self.state = State::Scripts {
                        nic,
                        lease,
                        scripts,
                        waits: Waits::Image,
                    };
                    return Step::Fetch {
                        source,
                        keep: IMAGE,
                    };
                }
                Want::Chain { uri, replace } => {
                    let source = parse_uri(&uri).filter(|_| replace || scripts.len() < DEEPEST);
                    let Some(source) = source else {
                        self.say(format!("{uri}: cannot be chained"));
                        outcome = Outcome::Failed;
                        continue;
                    };
                    self.state = State::Scripts {
                        nic,
                        lease,
                        scripts,
                        waits: Waits::Script { base: uri, replace },
                    };
                    return Step::Fetch {
                        source,
                        keep: SCRIPT,
                    };
                }
                Want::Pause(pause) => {
                    self.state = State::Scripts {
                        nic,
                        lease,
                        scripts,
                        waits: Waits::Pause,
                    };
                    return Step::Pause(pause);
                }
                Want::Boot {
                    kernel,
                    initrds,
                    arguments,
                } => {
                    let nic = self.macs[nic];
                    return Step::Run(Payload::Ramdisk {
                        kernel,
                        initrds,
                        arguments,
                        nic,
                        lease,
                    });
                }
                Want::Disk => match self.bootable_disk() {
                    Ok(what) => return Step::Run(Payload::Disk { what }),
                    Err(why) => {
                        self.say(format!("sanboot: {why}"));
                        outcome = Outcome::Failed;
                    }
                },
                Want::San { uri } => return Step::Run(Payload::Http { url: uri }),
                Want::Exit { success } => {
                    scripts.pop();
                    outcome = if success {
                        Outcome::Fetched
                    } else {
                        Outcome::Failed
                    };
                }
                Want::Reboot => return Step::Reboot,
                Want::PowerOff => return Step::PowerOff,
                Want::Stuck { why } => {
                    self.say(format!("iPXE: {why}"));
                    scripts.pop();
                    outcome = Outcome::Failed;
                }
            }
        }
        self.device_failed("the boot script left it to the next device")
    }

    fn script_told(
        &mut self,
        nic: usize,
        lease: Box<Lease>,
        mut scripts: Vec<Script>,
        waits: &Waits,
        event: Event,
    ) -> Step {
        let outcome = match (event, waits) {
            (Event::Fetched(_), Waits::Image | Waits::Pause) | (Event::Paused, _) => {
                Outcome::Fetched
            }
            (Event::Fetched(head), Waits::Script { base, replace }) => {
                if let Some(script) = self.script(&head, base, nic) {
                    self.say(format!("net{nic}: running {base}"));
                    if *replace {
                        scripts.pop();
                    }
                    scripts.push(script);
                    Outcome::Begin
                } else {
                    self.say(format!("{base}: not an iPXE script"));
                    Outcome::Failed
                }
            }
            (Event::FetchFailed { why }, _) => {
                self.say(why);
                Outcome::Failed
            }
            (Event::PowerOn | Event::Lease(_), _) => Outcome::Failed,
        };
        self.run_scripts(nic, lease, scripts, outcome)
    }
}

fn source(lease: &Lease) -> Option<Source> {
    let file = lease.boot_file.as_deref().filter(|file| !file.is_empty())?;
    if file.contains("://") {
        return parse_uri(file);
    }
    let server = lease.next_server.unwrap_or(lease.server);
    Some(Source::Tftp {
        server,
        path: file.to_string(),
    })
}

fn parse_uri(uri: &str) -> Option<Source> {
    if uri.starts_with("http://") || uri.starts_with("https://") {
        return Some(Source::Http {
            url: uri.to_string(),
        });
    }
    let (server, path) = uri.strip_prefix("tftp://")?.split_once('/')?;
    Some(Source::Tftp {
        server: server.parse().ok()?,
        path: path.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rack::{Options, Rack};
    use crate::server::boot;

    fn firmware(first: Device) -> Firmware {
        let hardware = Rack::plan(&Options::default())
            .unwrap()
            .places
            .remove(0)
            .hardware;
        let order = boot::order(Some(boot::Override {
            device: first,
            lasting: boot::Lasting::Once,
        }));
        let plan = Plan {
            firmware: Mode::Uefi,
            secure_boot: false,
            order,
            http_uri: Some("http://h/a.iso".into()),
        };
        Firmware::new(&hardware, plan, Devices::default())
    }

    fn lease(boot_file: &str) -> Event {
        let address = Ipv4Addr::new(172, 22, 0, 50);
        let server = Ipv4Addr::new(172, 22, 0, 2);
        let hour = Duration::from_hours(1);
        Event::Lease(Some(Box::new(Lease {
            address,
            prefix: 24,
            server,
            router: None,
            dns: vec![],
            domain: None,
            ntp: vec![],
            hostname: None,
            mtu: None,
            next_server: None,
            boot_file: (!boot_file.is_empty()).then(|| boot_file.into()),
            lease: hour,
            renew: hour / 2,
            rebind: hour,
        })))
    }

    fn fetched(text: &str) -> Event {
        Event::Fetched(text.as_bytes().to_vec())
    }

    #[test]
    fn a_loader_becomes_ipxe_which_asks_again_and_runs_its_script() {
        let mut f = firmware(Device::Pxe);
        let Step::Dhcp { nic: 1, pxe, .. } = f.next(Event::PowerOn) else {
            panic!("the provisioning NIC boots first")
        };
        assert_eq!((pxe.arch, pxe.user_class), (7, None));
        let tftp = Source::Tftp {
            server: Ipv4Addr::new(172, 22, 0, 2),
            path: "snponly.efi".into(),
        };
        assert_eq!(
            f.next(lease("snponly.efi")),
            Step::Fetch {
                source: tftp,
                keep: LOADER
            }
        );
        let Step::Dhcp { pxe, .. } = f.next(fetched("MZ")) else {
            panic!()
        };
        assert_eq!(pxe.user_class.as_deref(), Some("iPXE"));
        assert!(matches!(
            f.next(lease("http://172.22.0.2:6180/boot.ipxe")),
            Step::Fetch {
                source: Source::Http { .. },
                ..
            }
        ));
        assert!(matches!(
            f.next(fetched("#!ipxe\nchain cfg || exit 1\n")),
            Step::Fetch { .. }
        ));
        assert!(matches!(
            f.next(fetched("#!ipxe\nkernel k x=1\ninitrd i\nboot\n")),
            Step::Fetch { keep: IMAGE, .. }
        ));
        f.next(fetched(""));
        let Step::Run(Payload::Ramdisk {
            kernel, arguments, ..
        }) = f.next(fetched(""))
        else {
            panic!()
        };
        assert_eq!(
            (kernel.as_str(), arguments.as_str()),
            ("http://172.22.0.2:6180/k", "x=1")
        );
    }

    #[test]
    fn without_an_answer_the_other_nic_then_the_other_devices_are_tried() {
        let mut f = firmware(Device::Pxe);
        f.next(Event::PowerOn);
        assert!(matches!(
            f.next(Event::Lease(None)),
            Step::Dhcp { nic: 0, .. }
        ));
        assert!(matches!(
            f.next(lease("")),
            Step::Run(Payload::Nothing { .. })
        ));
        assert!(
            f.screen
                .iter()
                .any(|line| line.contains("names no boot file")),
            "{:?}",
            f.screen
        );
    }

    #[test]
    fn ipxe_given_the_loader_again_does_not_go_in_circles() {
        let mut f = firmware(Device::Pxe);
        f.next(Event::PowerOn);
        f.next(lease("undionly.kpxe"));
        f.next(fetched("MZ"));
        f.next(lease("undionly.kpxe"));
        assert!(matches!(f.next(fetched("MZ")), Step::Dhcp { nic: 0, .. }));
    }

    #[test]
    fn a_script_that_leaves_hands_over_to_the_disk() {
        let mut f = firmware(Device::Pxe);
        f.devices.disk = Some("an OS".into());
        f.next(Event::PowerOn);
        f.next(lease("http://h/s"));
        assert_eq!(
            f.next(fetched("#!ipxe\nexit\n")),
            Step::Run(Payload::Disk {
                what: "an OS".into()
            })
        );
    }

    #[test]
    fn http_boot_and_cd_boot_what_they_name() {
        let mut f = firmware(Device::UefiHttp);
        assert!(matches!(f.next(Event::PowerOn), Step::Dhcp { nic: 0, .. }));
        assert!(matches!(
            f.next(lease("")),
            Step::Fetch {
                source: Source::Http { .. },
                ..
            }
        ));
        assert_eq!(
            f.next(fetched("")),
            Step::Run(Payload::Http {
                url: "http://h/a.iso".into()
            })
        );
        let mut f = firmware(Device::Cd);
        f.devices.cd = Some(Media {
            url: "http://h/c.iso".into(),
            file: "c".into(),
            write_protected: true,
        });
        assert_eq!(
            f.next(Event::PowerOn),
            Step::Run(Payload::Cd {
                url: "http://h/c.iso".into(),
                file: "c".into()
            })
        );
    }
}
