//! How often the control plane asks itself whether it is well, and how long it waits for the answer (ADR 18).

use crate::install_config::HardwareSpeed;

pub struct Pace {
    /// Between two VRRP adverts.
    pub advertise_ms: u32,
    /// The balancer's looks at API servers; `None` leaves netd's own.
    pub api_looks: Option<Looks>,
    /// Its looks at other servers, of which nobody counts the milliseconds.
    pub other_looks: Looks,
    /// A node's checks of what it serves itself.
    pub checks: Looks,
    pub etcd_heartbeat_ms: u32,
    pub etcd_election_ms: u32,
}

#[derive(Clone, Copy)]
pub struct Looks {
    pub interval_ms: u32,
    pub timeout_ms: u32,
}

impl Pace {
    /// etcd's numbers are those of OpenShift's profiles of the same names.
    pub fn of(speed: HardwareSpeed) -> Self {
        let looks = |interval_ms, timeout_ms| Looks {
            interval_ms,
            timeout_ms,
        };
        match speed {
            HardwareSpeed::Standard => Self {
                advertise_ms: 40,
                api_looks: None,
                other_looks: looks(2000, 1500),
                checks: looks(1000, 900),
                etcd_heartbeat_ms: 100,
                etcd_election_ms: 1000,
            },
            HardwareSpeed::Slower => Self {
                advertise_ms: 120,
                api_looks: Some(looks(500, 1500)),
                other_looks: looks(5000, 4000),
                checks: looks(3000, 2500),
                etcd_heartbeat_ms: 500,
                etcd_election_ms: 2500,
            },
        }
    }
}
