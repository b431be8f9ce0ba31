//! Sites of the examples, and everything that can be seen of them when all is well.

use model::Mac;
use model::inventory::Disk;

use crate::cluster::Plan;
use crate::install_config::{BootMode, Facts, InstallConfig, parse};
use crate::preflight::*;

pub const PXE: &str = include_str!("../../../../../examples/pxe.yaml");
pub const MEDIA: &str = include_str!("../../../../../examples/virtual-media.yaml");
pub const STATIC: &str = include_str!("../../../../../examples/static-bonds-vlans.yaml");

/// A site, and what is seen of it.
pub struct World {
    pub config: InstallConfig,
    pub seen: Observed,
}

/// 2026-06-01.
pub const NOW: i64 = 1_780_272_000;

/// Where everything is as it should be.
pub fn good(text: &str) -> World {
    let config = parse(text, &Facts::default()).unwrap().config;
    let plan = Plan::new(&config, None);
    let targets = Targets::of(&plan, &config);
    let mut seen = Observed {
        now: NOW,
        links: Fact::Known(links(&plan)),
        cached: Fact::Known(
            targets
                .cached
                .iter()
                .map(|name| (name.clone(), true))
                .collect(),
        ),
        here: Fact::Known(Here {
            root: true,
            cpus: 8,
            memory_mib: 32_000,
            disk_mib: 100_000,
            disk_path: "/var/cache".into(),
            no_kvm: None,
            missing: Vec::new(),
        }),
        listening: Fact::Known(Vec::new()),
        certificates: Fact::Known(Vec::new()),
        ..Observed::default()
    };
    for (at, host) in plan.hosts.iter().enumerate() {
        let server = server(at, host.boot_mac);
        seen.bmcs
            .insert(host.name.clone(), Bmc::Open(Box::new(server)));
    }
    for segment in &targets.segments {
        let claims = segment.addresses.iter().map(|address| {
            let router = targets::gateways(&plan).contains(address);
            (*address, router.then_some(Mac([2, 0, 0, 0, 0, 1])))
        });
        let wire = Wire {
            claims: Fact::Known(claims.collect()),
            vrrp: Fact::Known(Vec::new()),
            offers: Fact::Known(if segment.external {
                vec![offer()]
            } else {
                Vec::new()
            }),
        };
        seen.wires.insert(segment.bridge.clone(), wire);
    }
    let answer = |name: &str| match name.split('.').nth(usize::from(name.contains(".apps."))) {
        Some("api") => Answer::Addresses(plan.api_vips()),
        Some("apps") => Answer::Addresses(plan.ingress_vips()),
        _ => Answer::Nothing,
    };
    seen.dns = Fact::Known(vec![Resolver {
        server: "192.0.2.1".parse().unwrap(),
        answers: targets
            .names
            .all()
            .map(|name| (name.to_owned(), answer(name)))
            .into(),
    }]);
    seen.ntp = targets
        .ntp
        .iter()
        .map(|name| (name.clone(), Fact::Known(3)))
        .collect();
    seen.images = targets
        .images
        .iter()
        .map(|(source, sum)| {
            let image = Image {
                size: Some(1 << 30),
                sha256: sum.clone(),
            };
            (source.clone(), Fact::Known(image))
        })
        .collect();
    seen.open_ports = targets
        .bootstrap
        .iter()
        .map(|ip| (*ip, Fact::Known(Vec::new())))
        .collect();
    World { config, seen }
}

pub fn offer() -> Offer {
    Offer {
        server: "192.0.2.1".parse().unwrap(),
        address: "192.0.2.77".parse().unwrap(),
        router: Some("192.0.2.1".parse().unwrap()),
        dns: vec!["192.0.2.1".parse().unwrap()],
    }
}

pub fn links(plan: &Plan) -> Links {
    let port = |name: &str, bridge: bool, master: Option<&str>, number: u8| Port {
        name: name.into(),
        mac: Some(Mac([2, 0, 0, 0, 1, number])),
        bridge,
        tap: false,
        up: true,
        carrier: true,
        mtu: 1500,
        master: master.map(Into::into),
        addresses: Vec::new(),
    };
    let bootstrap = &plan.bootstrap;
    let external = bootstrap.external_bridge.as_str();
    let mut ports = vec![
        port(external, true, None, 1),
        port("eth0", false, Some(external), 2),
    ];
    ports[0].addresses.push("192.0.2.99/24".parse().unwrap());
    if let Some(bridge) = &bootstrap.provisioning_bridge {
        ports.push(port(bridge, true, None, 3));
        ports.push(port("eth1", false, Some(bridge), 4));
    }
    Links {
        ports,
        routes: vec!["192.0.2.0/24".parse().unwrap()],
        default_link: Some(external.into()),
    }
}

pub fn server(number: usize, boot_mac: Mac) -> Server {
    Server {
        vendor: Some("HPE".into()),
        model: Some("Server".into()),
        uuid: Some(format!("uuid-{number}")),
        on: Some(false),
        health: Some("OK".into()),
        boot_mode: Some(BootMode::Uefi),
        boot_targets: Fact::Known(vec!["Pxe".into(), "Cd".into(), "Hdd".into()]),
        secure_boot: Fact::Known(Some(false)),
        clock_ahead: Fact::Known(Some(1)),
        firmware: Fact::Known(Some("iLO 6 v1.60".into())),
        nics: Fact::Known(vec![Nic {
            mac: boot_mac,
            link: true,
        }]),
        disks: Fact::Known(vec![disk(&format!("DISK-{}", number + 1), 480)]),
        memory_mib: Fact::Known(65_536),
        cpus: Fact::Known(32),
        architecture: Fact::Known("x86_64".into()),
        media: Fact::Known(vec![Slot {
            id: "Cd".into(),
            cd: true,
            image: None,
        }]),
        licences: Fact::Known(Some(vec!["iLO Advanced".into()])),
    }
}

pub fn disk(serial: &str, gib: u64) -> Disk {
    Disk {
        name: format!("drive {serial}"),
        model: "Fast".into(),
        size: gib << 30,
        rotational: false,
        wwn: Some(format!("0x{serial}")),
        serial: Some(serial.into()),
        vendor: None,
        wwn_with_extension: None,
        wwn_vendor_extension: None,
        hctl: None,
        by_path: None,
        logical_sectors: None,
        physical_sectors: None,
        tran: None,
    }
}

impl World {
    pub fn findings(&self) -> Vec<Finding> {
        let plan = Plan::new(&self.config, None);
        check(&plan, &self.config, &self.seen, &Selection::default())
    }

    /// The worst that one check says.
    pub fn verdict(&self, id: &str) -> Verdict {
        let findings = self.findings();
        let of_it: Vec<Finding> = findings
            .into_iter()
            .filter(|finding| finding.id == id)
            .collect();
        assert!(!of_it.is_empty(), "{id} says nothing");
        worst(&of_it)
    }

    /// The first host's BMC.
    pub fn bmc(&mut self, bmc: Bmc) {
        let first = self.config.baremetal.hosts[0].name.clone();
        self.seen.bmcs.insert(first, bmc);
    }

    pub fn first(&mut self) -> &mut Server {
        let first = &self.config.baremetal.hosts[0].name;
        match self.seen.bmcs.get_mut(first) {
            Some(Bmc::Open(server)) => server,
            _ => panic!("the first host's BMC is open"),
        }
    }

    pub fn first_worker_on(&mut self) {
        if let Some(Bmc::Open(server)) = self.seen.bmcs.get_mut("worker-0") {
            server.on = Some(true);
        }
    }

    pub fn links(&mut self) -> &mut Links {
        inside(&mut self.seen.links)
    }

    pub fn here(&mut self) -> &mut Here {
        inside(&mut self.seen.here)
    }

    pub fn wire(&mut self, bridge: &str) -> &mut Wire {
        self.seen.wires.get_mut(bridge).unwrap()
    }

    pub fn taken(&mut self, bridge: &str, address: &str) {
        let claims = inside(&mut self.wire(bridge).claims);
        let known = claims.insert(address.parse().unwrap(), Some(Mac([2, 0, 0, 0, 9, 9])));
        assert!(known.is_some(), "{address} is not asked for on {bridge}");
    }

    pub fn says(&mut self, name: &str, answer: Answer) {
        let resolver = &mut inside(&mut self.seen.dns)[0];
        let full = resolver
            .answers
            .keys()
            .find(|key| key.starts_with(name))
            .unwrap()
            .clone();
        resolver.answers.insert(full, answer);
    }
}

pub fn inside<T>(fact: &mut Fact<T>) -> &mut T {
    match fact {
        Fact::Known(value) => value,
        Fact::Unasked | Fact::Unknown(_) => panic!("the fact is known"),
    }
}

pub fn elsewhere() -> Answer {
    Answer::Addresses(vec!["198.51.100.1".parse().unwrap()])
}

pub fn why(text: &str) -> String {
    text.into()
}
