//! What a server boots from next, and how long that stays so.

use serde::{Deserialize, Serialize};

use crate::hardware::Firmware;

/// A device a BMC can point the next boot at; the names are Redfish's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Device {
    Pxe,
    Hdd,
    Cd,
    BiosSetup,
    UefiHttp,
}

/// How long an override lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lasting {
    /// For the next boot only.
    Once,
    /// Until changed.
    Continuous,
}

/// The BMC's word on the next boot. Without one, the firmware's own order decides: disk, CD, network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Override {
    pub device: Device,
    pub lasting: Lasting,
}

/// Everything a board needs to know to start: nothing is left to choose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub firmware: Firmware,
    pub secure_boot: bool,
    /// Devices in the order in which they are tried.
    pub order: Vec<Device>,
    /// The image to boot where the order starts with `UefiHttp`.
    pub http_uri: Option<String>,
}

/// The firmware's own order.
pub const DEFAULT_ORDER: [Device; 3] = [Device::Hdd, Device::Cd, Device::Pxe];

/// The order of one boot: the overriding device first, then the firmware's own order.
pub fn order(overridden: Option<Override>) -> Vec<Device> {
    let first = overridden.map(|o| o.device);
    first
        .into_iter()
        .chain(
            DEFAULT_ORDER
                .into_iter()
                .filter(|device| Some(*device) != first),
        )
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_overriding_device_comes_first_and_only_once() {
        let cd = Override {
            device: Device::Cd,
            lasting: Lasting::Once,
        };
        assert_eq!(order(Some(cd)), [Device::Cd, Device::Hdd, Device::Pxe]);
        assert_eq!(order(None), DEFAULT_ORDER);
        let http = Override {
            device: Device::UefiHttp,
            lasting: Lasting::Once,
        };
        assert_eq!(
            order(Some(http)),
            [Device::UefiHttp, Device::Hdd, Device::Cd, Device::Pxe]
        );
    }
}
