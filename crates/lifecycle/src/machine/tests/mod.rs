//! Tables and stories of a Machine.

mod csr;
mod stories;

use jiff::Timestamp;
use serde_json::json;

use super::{Config, HostSeen, Machine, Observed, Step, next};
use crate::host::State;

pub fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

pub fn machine() -> Machine {
    Machine {
        namespace: "api".into(),
        name: "m0".into(),
        uid: "uid-m0".into(),
        labels: [(
            "machine.openshift.io/cluster-api-cluster".to_owned(),
            "lab".to_owned(),
        )]
        .into(),
        finalizer: true,
        provider_spec: json!({
            "apiVersion": "baremetal.cluster.k8s.io/v1alpha1", "kind": "BareMetalMachineProviderSpec",
            "image": {"url": "http://images/a", "checksum": "c0ffee"},
            "userData": {"name": "worker-user-data"},
        }),
        ..Machine::default()
    }
}

pub fn host(name: &str, state: State) -> HostSeen {
    HostSeen {
        namespace: "api".into(),
        name: name.into(),
        uid: format!("uid-{name}"),
        resource_version: "7".into(),
        state,
        hardware: Some(json!({
            "hostname": name,
            "nics": [{"ip": ""}, {"ip": "192.0.2.7"}, {"ip": "192.0.2.7"}, {"ip": "2001:db8::7"}],
        })),
        ..HostSeen::default()
    }
}

pub fn step(machine: &Machine, hosts: &[HostSeen]) -> Step {
    let seen = Observed {
        hosts: hosts.to_vec(),
        node: None,
    };
    let step = next(machine, &seen, &Config::default(), now());
    assert_eq!(step, next(machine, &seen, &Config::default(), now()));
    step
}
