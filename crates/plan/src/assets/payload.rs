//! The disc that the installer gives the bootstrap VM: the program, the images and the loaders.

use super::Inputs;
use super::ignition::Config;
use super::units::BINARY;

/// The label by which the disc is found, and where it is put.
pub const LABEL: &str = "PLINTH";
pub const MOUNT: &str = "/var/lib/plinth/payload";
/// What mcs serves by checksum.
const FILES: &str = "/var/lib/plinth/files";

pub const UNIT: &str = "plinth-payload.service";

/// Puts the disc in its place before any daemon starts.
pub fn unit(config: &mut Config, inputs: &Inputs) {
    let sha256 = &inputs.binary.sha256;
    let text = format!(
        "[Unit]\nDescription=The installer's disc\nBefore=network-online.target\nConditionPathExists=!/run/plinth-payload\n\n\
         [Service]\nType=oneshot\nRemainAfterExit=yes\nTimeoutStartSec=120\n\
         ExecStartPre=/bin/mkdir -p {MOUNT} {FILES}\n\
         ExecStart=/bin/mount -o ro LABEL={LABEL} {MOUNT}\n\
         ExecStart=/usr/bin/install -m 0755 {MOUNT}/plinth {BINARY}\n\
         ExecStart=/bin/ln -sf {BINARY} {FILES}/{sha256}\n\
         ExecStart=/bin/touch /run/plinth-payload\n\n\
         [Install]\nWantedBy=multi-user.target\n"
    );
    config.unit(UNIT, &text);
}
