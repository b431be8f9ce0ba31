//! systemd units of the daemons.

use std::fmt::Write;

pub const BINARY: &str = "/usr/local/bin/plinth";

pub struct Unit {
    pub daemon: &'static str,
    pub about: &'static str,
    /// Who runs it: ours, or a program of the OS image.
    pub program: Program,
    pub after: &'static [&'static str],
    /// It says when it serves, however long that takes: others may still be on their way.
    pub tells: bool,
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
    tells: false,
    real_time: true,
};

pub const MCS: Unit = Unit {
    daemon: "mcs",
    about: "Ignition configs for nodes that join",
    program: Program::Plinth,
    after: &[],
    tells: false,
    real_time: false,
};

/// On a master: bringing the payload there must not slow down the forming of the cluster.
pub const MASTER_MCS: Unit = Unit {
    after: &["plinth-apiserver.service"],
    ..MCS
};

pub const IRONIC: Unit = Unit {
    daemon: "ironic",
    about: "The provisioning service",
    program: Program::Plinth,
    after: &["plinth-netd.service"],
    tells: false,
    real_time: false,
};

/// Members find one another by name, and names are netd's.
pub const ETCD: Unit = Unit {
    daemon: "etcd",
    about: "The cluster's store",
    program: Program::Etcd,
    after: &["plinth-netd.service"],
    tells: true,
    real_time: false,
};

pub const APISERVER: Unit = Unit {
    daemon: "apiserver",
    about: "The cluster's API",
    program: Program::Plinth,
    after: &["plinth-etcd.service"],
    tells: true,
    real_time: false,
};

/// On the bootstrap VM its store is the masters'.
pub const BOOTSTRAP_APISERVER: Unit = Unit {
    after: &["plinth-netd.service"],
    ..APISERVER
};

pub const METAL3: Unit = Unit {
    daemon: "metal3",
    about: "Hosts and machines, on one of the control plane",
    program: Program::Plinth,
    after: &["plinth-apiserver.service"],
    tells: false,
    real_time: false,
};

pub const NODE: Unit = Unit {
    daemon: "node",
    about: "This node's place in the cluster",
    program: Program::Plinth,
    after: &["plinth-netd.service"],
    tells: false,
    real_time: false,
};

pub const ROUTER: Unit = Unit {
    daemon: "router",
    about: "Stand-in for an ingress router",
    program: Program::Plinth,
    after: &[],
    tells: false,
    real_time: false,
};

/// Nodes of a pool learn their name from the config drive, before anything tells it to others.
pub const NAME: &str = "plinth-name.service";

pub fn name_unit() -> String {
    format!(
        "[Unit]\nDescription=This node's name, from its config drive\nAfter=local-fs.target systemd-udev-settle.service\n\
         Wants=systemd-udev-settle.service\nBefore=plinth-netd.service plinth-node.service\n\n\
         [Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart={BINARY} --log info node name\nTimeoutStartSec=120\n\n\
         [Install]\nWantedBy=multi-user.target\n"
    )
}

/// The bootstrap's last act: once the cluster needs it no more, the API's address goes to a master and the VM is off.
/// Nothing else here is worth an orderly end: its disk is removed next.
pub const LEAVE: &str = "plinth-leave.service";

pub fn leave_unit() -> String {
    format!(
        "[Unit]\nDescription=Leaves when the cluster does without its bootstrap\nWants=plinth-netd.service\n\
         After=plinth-netd.service plinth-apiserver.service\nStartLimitIntervalSec=0\n\n\
         [Service]\nType=oneshot\nTimeoutStartSec=infinity\nRestart=on-failure\nRestartSec=5\n\
         ExecStart={BINARY} --log info wait-for bootstrap-complete --kubeconfig /etc/plinth/kubeconfig --timeout 24h\n\
         ExecStart=/bin/systemctl stop plinth-netd.service\nExecStart=/bin/systemctl --force poweroff\n\n\
         [Install]\nWantedBy=multi-user.target\n"
    )
}

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
            "[Unit]\nDescription={}\nWants=network-online.target\nAfter=network-online.target\nStartLimitIntervalSec=0\n",
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
        if self.tells {
            text.push_str("Type=notify\nTimeoutStartSec=infinity\n");
        }
        if self.program == Program::Etcd {
            // Its words are in the journal, but there are too many of them for a console.
            text.push_str("LimitNOFILE=65536\nOOMScoreAdjust=-900\nSyslogLevel=debug\n");
        }
        if self.daemon == MCS.daemon {
            // Whoever fetches images can wait; whoever asks for an address or for the API cannot.
            text.push_str("Nice=10\n");
        }
        if self.real_time {
            text.push_str("LimitRTPRIO=50\nLimitMEMLOCK=infinity\nOOMScoreAdjust=-900\n");
        }
        text.push_str("\n[Install]\nWantedBy=multi-user.target\n");
        text
    }
}
