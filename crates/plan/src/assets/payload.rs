//! The disc that the installer gives the bootstrap VM: the program, the images and the loaders.

use super::Inputs;
use super::ignition::Config;
use super::units::BINARY;

/// The label by which the disc is found, and where it is put.
pub const LABEL: &str = "PLINTH";
pub const MOUNT: &str = "/var/lib/plinth/payload";
/// The cluster's OS image in the payload, wherever that is.
pub fn os_image(source: &str) -> &'static str {
    // What the cache makes is always qcow2.
    if source == crate::cluster::OS_IMAGE || source.contains(".qcow2") {
        "images/os.qcow2"
    } else {
        "images/os.raw"
    }
}

/// Where Ironic finds it, on the bootstrap and on a master.
pub fn os_path(inputs: &Inputs) -> String {
    format!(
        "{MOUNT}/{}",
        os_image(&inputs.plan.images.cluster_os.source)
    )
}

pub const UNIT: &str = "plinth-payload.service";

/// Puts the disc in its place before any daemon starts.
pub fn unit(config: &mut Config) {
    let text = format!(
        "[Unit]\nDescription=The installer's disc\nBefore=network-online.target\nConditionPathExists=!/run/plinth-payload\n\n\
         [Service]\nType=oneshot\nRemainAfterExit=yes\nTimeoutStartSec=120\n\
         ExecStartPre=/bin/mkdir -p {MOUNT}\n\
         ExecStart=/bin/mount -o ro LABEL={LABEL} {MOUNT}\n\
         ExecStart=/usr/bin/install -m 0755 {MOUNT}/plinth {BINARY}\n\
         ExecStart=/bin/touch /run/plinth-payload\n\n\
         [Install]\nWantedBy=multi-user.target\n"
    );
    config.unit(UNIT, &text);
}
