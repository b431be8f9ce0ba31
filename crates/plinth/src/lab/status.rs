//! `plinth lab status` as a table.

use lab::hardware::Network;
use lab::status::Status;

/// Servers beyond this many are counted, not listed.
const LISTED: usize = 24;

pub fn print(status: &Status) {
    println!(
        "lab {} in namespace {} ({})",
        status.name, status.namespace, status.accelerator
    );
    println!(
        "site {} router {} domain {}",
        status.site.subnet, status.site.router, status.site.domain
    );
    if let Some(first) = status.servers.first() {
        println!(
            "BMC user {} password {} CA {}\n",
            first.user,
            first.password,
            status.ca_file.display()
        );
    }
    let url = status
        .servers
        .iter()
        .map(|server| server.redfish.len())
        .max()
        .unwrap_or(0);
    println!(
        "{:12} {:url$} {:16} {:11} {:18} {:18} BOOT / MEDIA",
        "SERVER", "REDFISH", "IPMI", "POWER", "BAREMETAL", "PROVISIONING"
    );
    for server in status.servers.iter().take(LISTED) {
        let mac = |network| {
            server
                .macs
                .iter()
                .find(|port| port.network == network)
                .map(|port| port.mac.to_string())
                .unwrap_or_default()
        };
        let boot = server
            .boot
            .map(|o| format!("{:?} {:?}", o.device, o.lasting))
            .unwrap_or_default();
        println!(
            "{:12} {:url$} {:16} {:11} {:18} {:18} {boot} {}",
            server.name,
            server.redfish,
            server.ipmi,
            format!("{:?}", server.power),
            mac(Network::Baremetal),
            mac(Network::Provisioning),
            server.media.as_deref().unwrap_or_default(),
        );
        if server.faults > 0 {
            println!(
                "             {} faults; `plinth lab fault list`",
                server.faults
            );
        }
        if let Some(trouble) = &server.trouble {
            println!("             trouble: {trouble}");
        }
    }
    if status.servers.len() > LISTED {
        println!(
            "… and {} more; -o json lists all",
            status.servers.len() - LISTED
        );
    }
}
