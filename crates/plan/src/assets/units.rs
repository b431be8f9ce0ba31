//! systemd units of the daemons.

use std::fmt::Write;

pub const BINARY: &str = "/usr/local/bin/plinth";

pub struct Unit {
    pub daemon: &'static str,
    pub about: &'static str,
    /// Who runs it: ours, or a program of the OS image.
    pub program: Program,
    pub after: &'static [&'static str],
    /// What it may do beyond an ordinary process, by capability.
    pub real_time: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Program {
    Plinth,
    Etcd,
}

pub const NETD: Unit = Unit {
    daemon: "netd",
    about: "Virtual addresses, load balancing and names on this node",
    program: Program::Plinth,
    after: &[],
    real_time: true,
};

pub const MCS: Unit = Unit {
    daemon: "mcs",
    about: "Ignition configs for nodes that join",
    program: Program::Plinth,
    after: &[],
    real_time: false,
};

pub const IRONIC: Unit = Unit {
    daemon: "ironic",
    about: "The provisioning service",
    program: Program::Plinth,
    after: &["plinth-netd.service"],
    real_time: false,
};

/// Members find one another by name, and names are netd's.
pub const ETCD: Unit = Unit {
    daemon: "etcd",
    about: "The cluster's store",
    program: Program::Etcd,
    after: &["plinth-netd.service"],
    real_time: false,
};

pub const APISERVER: Unit = Unit {
    daemon: "apiserver",
    about: "The cluster's API",
    program: Program::Plinth,
    after: &["plinth-etcd.service"],
    real_time: false,
};

/// On the bootstrap VM it keeps its own store.
pub const BOOTSTRAP_APISERVER: Unit = Unit {
    after: &["plinth-netd.service"],
    ..APISERVER
};

pub const METAL3: Unit = Unit {
    daemon: "metal3",
    about: "Hosts and machines, on one of the control plane",
    program: Program::Plinth,
    after: &["plinth-apiserver.service"],
    real_time: false,
};

impl Unit {
    pub fn name(&self) -> String {
        format!("plinth-{}.service", self.daemon)
    }

    pub fn render(&self) -> String {
        self.render_after(&[])
    }

    /// After these as well: what this machine has and others do not.
    pub fn render_after(&self, more: &[&str]) -> String {
        let mut text = format!(
            "[Unit]\nDescription={}\nWants=network-online.target\nAfter=network-online.target\n",
            self.about
        );
        for after in self.after.iter().chain(more) {
            _ = write!(text, "Wants={after}\nAfter={after}\n");
        }
        let run = match self.program {
            Program::Plinth => format!(
                "{BINARY} --log info {0} --config /etc/plinth/{0}.yaml",
                self.daemon
            ),
            Program::Etcd => format!(
                "/usr/bin/etcd --config-file /etc/plinth/{}.yaml",
                self.daemon
            ),
        };
        _ = write!(
            text,
            "\n[Service]\nExecStart={run}\nRestart=always\nRestartSec=1\nTimeoutStopSec=20\nStateDirectory=plinth/{}\n",
            self.daemon
        );
        if self.program == Program::Etcd {
            // It says so when it is a member; until then the others may still be on their way.
            text.push_str(
                "Type=notify\nTimeoutStartSec=infinity\nLimitNOFILE=65536\nOOMScoreAdjust=-900\n",
            );
        }
        if self.real_time {
            text.push_str("LimitRTPRIO=50\nLimitMEMLOCK=infinity\nOOMScoreAdjust=-900\n");
        }
        text.push_str("\n[Install]\nWantedBy=multi-user.target\n");
        text
    }
}
