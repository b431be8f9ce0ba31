//! Names, help and kinds.

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    Reconcile,
    ReconcileError,
    ReconcileDuration,
    HostError,
    StateChange,
    PowerChange,
    CredentialsMissing,
    CredentialsInvalid,
    DelayedProvisioning,
    DelayedDeprovisioning,
    NotReady,
    Register,
    Inspect,
    Provision,
    Deprovision,
    Hosts,
    HostsInError,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    Counter,
    Gauge,
    /// With the upper ends of its buckets, in seconds.
    Histogram(&'static [f64]),
}

const QUICK: Kind = Kind::Histogram(&[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
]);
const LONG: Kind = Kind::Histogram(&[30.0, 90.0, 180.0, 360.0, 720.0, 1440.0]);

impl Family {
    pub const ALL: [Self; 15] = [
        Self::Reconcile,
        Self::ReconcileError,
        Self::ReconcileDuration,
        Self::HostError,
        Self::StateChange,
        Self::PowerChange,
        Self::CredentialsMissing,
        Self::CredentialsInvalid,
        Self::DelayedProvisioning,
        Self::DelayedDeprovisioning,
        Self::NotReady,
        Self::Register,
        Self::Inspect,
        Self::Provision,
        Self::Deprovision,
    ];

    pub fn name(self) -> &'static str {
        self.about().0
    }

    pub fn kind(self) -> Kind {
        self.about().1
    }

    pub fn head(self, text: &mut String) {
        let (name, kind, help) = self.about();
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram(_) => "histogram",
        };
        for line in [
            "# HELP ",
            name,
            " ",
            help,
            "\n# TYPE ",
            name,
            " ",
            kind,
            "\n",
        ] {
            text.push_str(line);
        }
    }

    fn about(self) -> (&'static str, Kind, &'static str) {
        use Kind::{Counter, Gauge};
        match self {
            Self::Reconcile => (
                "metal3_reconcile_total",
                Counter,
                "Times a host was looked at",
            ),
            Self::ReconcileError => (
                "metal3_reconcile_error_total",
                Counter,
                "Times looking at a host failed",
            ),
            Self::ReconcileDuration => (
                "metal3_reconcile_duration_seconds",
                QUICK,
                "How long one look at a host took",
            ),
            Self::HostError => (
                "metal3_host_error_total",
                Counter,
                "Errors written into a host's status",
            ),
            Self::StateChange => (
                "metal3_provisioning_state_change_total",
                Counter,
                "Changes of a host's provisioning state",
            ),
            Self::PowerChange => (
                "metal3_operation_power_change_total",
                Counter,
                "Changes of power asked of Ironic",
            ),
            Self::CredentialsMissing => (
                "metal3_credentials_missing_total",
                Counter,
                "Times the Secret of a BMC was not there",
            ),
            Self::CredentialsInvalid => (
                "metal3_credentials_invalid_total",
                Counter,
                "Times the Secret of a BMC lacked something",
            ),
            // Two underscores, as metal3 has them.
            Self::DelayedProvisioning => (
                "metal3_delayed__provisioning_total",
                Counter,
                "Times a host waited because too many were being provisioned",
            ),
            Self::DelayedDeprovisioning => (
                "metal3_delayed__deprovisioning_total",
                Counter,
                "Times a host waited because too many were being deprovisioned",
            ),
            Self::NotReady => (
                "metal3_provisioner_not_ready_total",
                Counter,
                "Times Ironic was not ready for a host",
            ),
            Self::Register => (
                "metal3_operation_register_duration_seconds",
                QUICK,
                "How long a registration took",
            ),
            Self::Inspect => (
                "metal3_operation_inspect_duration_seconds",
                LONG,
                "How long an inspection took",
            ),
            Self::Provision => (
                "metal3_operation_provision_duration_seconds",
                LONG,
                "How long a deployment took",
            ),
            Self::Deprovision => (
                "metal3_operation_deprovision_duration_seconds",
                LONG,
                "How long taking a system off took",
            ),
            Self::Hosts => ("metal3_hosts", Gauge, "Hosts by provisioning state"),
            Self::HostsInError => (
                "metal3_hosts_in_error",
                Gauge,
                "Hosts in error, by its type",
            ),
        }
    }
}
