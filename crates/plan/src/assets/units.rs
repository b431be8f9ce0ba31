//! systemd units of the daemons.

use std::fmt::Write;

pub const BINARY: &str = "/usr/local/bin/plinth";

pub struct Unit {
    pub daemon: &'static str,
    pub about: &'static str,
    pub after: &'static [&'static str],
    /// What it may do beyond an ordinary process, by capability.
    pub real_time: bool,
}

pub const NETD: Unit = Unit {
    daemon: "netd",
    about: "Virtual addresses, load balancing and names on this node",
    after: &[],
    real_time: true,
};

pub const MCS: Unit = Unit {
    daemon: "mcs",
    about: "Ignition configs for nodes that join",
    after: &[],
    real_time: false,
};

pub const IRONIC: Unit = Unit {
    daemon: "ironic",
    about: "The provisioning service",
    after: &["plinth-netd.service"],
    real_time: false,
};

impl Unit {
    pub fn name(&self) -> String {
        format!("plinth-{}.service", self.daemon)
    }

    pub fn render(&self) -> String {
        let mut text = format!(
            "[Unit]\nDescription={}\nWants=network-online.target\nAfter=network-online.target\n",
            self.about
        );
        for after in self.after {
            _ = write!(text, "Wants={after}\nAfter={after}\n");
        }
        _ = write!(
            text,
            "\n[Service]\nExecStart={BINARY} --log info {0} --config /etc/plinth/{0}.yaml\nRestart=always\nRestartSec=1\nTimeoutStopSec=20\nStateDirectory=plinth/{0}\n",
            self.daemon
        );
        if self.real_time {
            text.push_str("LimitRTPRIO=50\nLimitMEMLOCK=infinity\nOOMScoreAdjust=-900\n");
        }
        text.push_str("\n[Install]\nWantedBy=multi-user.target\n");
        text
    }
}
