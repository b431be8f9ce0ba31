//! Two control plane nodes that may switch each other off.

use model::{BmcAddress, Mac};

use super::super::written::Written;
use super::super::{BareMetal, Fencing, Pool};
use crate::problem::Problems;

/// Exactly two credentials, each of a host that there is.
pub fn resolve(
    written: &Written,
    control_plane: &Pool,
    baremetal: Option<&BareMetal>,
    problems: &mut Problems,
) -> Vec<Fencing> {
    let path = "controlPlane.fencing.credentials";
    let fencing = written
        .control_plane
        .as_ref()
        .and_then(|pool| pool.fencing.as_ref());
    let Some(fencing) = fencing else {
        return Vec::new();
    };
    if control_plane.replicas != 2 {
        problems.add(
            "controlPlane.fencing",
            format!(
                "is for two control plane nodes, not {}",
                control_plane.replicas
            ),
            "remove it",
        );
        return Vec::new();
    }
    if fencing.credentials.len() != 2 {
        problems.add(
            path,
            format!("{} of them", fencing.credentials.len()),
            "write two, one per node",
        );
    }
    let mut resolved = Vec::new();
    for (at, credential) in fencing.credentials.iter().enumerate() {
        let path = format!("{path}[{at}]");
        let Some(credential) = credential else {
            continue;
        };
        let address = credential
            .address
            .as_deref()
            .unwrap_or_default()
            .parse::<BmcAddress>();
        let address = match address {
            Ok(address) if address.scheme.is_redfish() => Some(address),
            Ok(_) => {
                problems.add(
                    format!("{path}.address"),
                    "is not a Redfish address",
                    "fencing is by Redfish only",
                );
                None
            }
            Err(error) => {
                problems.add(format!("{path}.address"), error.to_string(), "");
                None
            }
        };
        let named = credential
            .hostname
            .as_ref()
            .or(credential.host_name.as_ref());
        let mac = credential
            .boot_mac_address
            .as_deref()
            .and_then(|mac| mac.parse::<Mac>().ok());
        let host = baremetal.and_then(|baremetal| {
            baremetal
                .hosts
                .iter()
                .find(|host| Some(&host.name) == named || Some(host.boot_mac) == mac)
        });
        if host.is_none() && baremetal.is_some() {
            problems.add(
                &path,
                "names no host",
                "write hostname or bootMACAddress of a host in platform.baremetal.hosts",
            );
        }
        let (Some(host), Some(address), Some(password)) = (host, address, &credential.password)
        else {
            if credential.password.is_none() {
                problems.add(
                    format!("{path}.password"),
                    "is missing",
                    "write the BMC's password",
                );
            }
            continue;
        };
        resolved.push(Fencing {
            host: host.name.clone(),
            address,
            username: credential.username.clone().unwrap_or_default(),
            password: password.clone(),
            verify: credential.certificate_verification.as_deref() != Some("Disabled"),
        });
    }
    resolved
}
