//! The `Boot` property: an override of the next boot, in Redfish's words and in the chassis'.

use serde_json::{Value, json};

use super::body::{Body, Said};
use super::messages::Problem;
use super::tell;
use crate::bmc::media::Address;
use crate::bmc::personality::Target;
use crate::bmc::{Bmc, Personality};
use crate::hardware::Firmware;
use crate::server::boot::{Device, Lasting, Override};
use crate::server::{Event, View};

pub fn render(p: &Personality, view: &View) -> Value {
    let names: Vec<&str> = p.boot_targets.iter().map(|(name, _)| *name).collect();
    json!({
        "BootSourceOverrideEnabled": match view.boot {
            None => "Disabled",
            Some(Override { lasting: Lasting::Once, .. }) => "Once",
            Some(Override { lasting: Lasting::Continuous, .. }) => "Continuous",
        },
        "BootSourceOverrideEnabled@Redfish.AllowableValues": ENABLED,
        "BootSourceOverrideTarget": target_name(p, view.boot.map(|boot| boot.device)),
        "BootSourceOverrideTarget@Redfish.AllowableValues": names,
        "BootSourceOverrideMode": match view.firmware {
            Firmware::Uefi => "UEFI",
            Firmware::Bios => "Legacy",
        },
        "BootSourceOverrideMode@Redfish.AllowableValues": MODES,
        "UefiTargetBootSourceOverride": null,
        "HttpBootUri": view.http_uri,
    })
}

fn target_name(p: &Personality, device: Option<Device>) -> &'static str {
    p.boot_targets
        .iter()
        .find(|(_, target)| *target == device)
        .map_or("None", |(name, _)| name)
}

const ENABLED: [&str; 3] = ["Disabled", "Once", "Continuous"];
const MODES: [&str; 2] = ["UEFI", "Legacy"];

/// Takes `Boot` out of a change of the system: what is to be told to the chassis, if all of the change is good.
///
/// The order is one in which only the first can be refused: the firmware never is, and a target that needs UEFI
/// is refused only where the firmware was not changed before it.
pub fn read(bmc: &Bmc, body: &mut Body, known: &Value) -> Vec<Event> {
    let Some(mut boot) = body.object("Boot") else {
        return vec![];
    };
    let p = bmc.personality;
    let names: Vec<&str> = p.boot_targets.iter().map(|(name, _)| *name).collect();
    if boot.has("BootSourceOverrideTarget") {
        for needed in p.boot_needs {
            boot.require(needed);
        }
    }
    let target = boot.one_of("BootSourceOverrideTarget", &names);
    let target = target.and_then(|name| p.boot_targets.iter().find(|(known, _)| *known == name));
    let enabled = boot.one_of("BootSourceOverrideEnabled", &ENABLED);
    let firmware = boot
        .one_of("BootSourceOverrideMode", &MODES)
        .map(|mode| match mode.as_str() {
            "Legacy" => Firmware::Bios,
            _ => Firmware::Uefi,
        });
    let http_uri = match boot.nullable_text("HttpBootUri") {
        Said::Nothing => None,
        Said::Text(uri) if !uri.is_empty() => {
            if let Err(error) = Address::parse(&uri) {
                boot.malformed("HttpBootUri", &uri, &error.to_string());
            }
            Some(Event::SetHttpUri(Some(uri)))
        }
        Said::Null | Said::Text(_) => Some(Event::SetHttpUri(None)),
    };
    if target.is_some_and(|(_, device)| *device == Some(Device::UefiHttp))
        && firmware == Some(Firmware::Bios)
    {
        boot.conflict("BootSourceOverrideTarget", "BootSourceOverrideMode");
    }
    body.absorb(boot, &known["Boot"]);
    let boot = combine(bmc.server.view().boot, target, enabled.as_deref());
    firmware
        .map(Event::SetFirmware)
        .into_iter()
        .chain(boot)
        .chain(http_uri)
        .collect()
}

/// What target and duration mean together, given what is in force.
///
/// DEVIATION: a target alone, while nothing is in force, holds for one boot. The schema would have it wait for
/// somebody to enable it; real BMCs do as we do, and clients count on it.
fn combine(now: Option<Override>, target: Option<&Target>, enabled: Option<&str>) -> Option<Event> {
    if target.is_none() && enabled.is_none() {
        return None;
    }
    let lasting = match enabled {
        Some("Disabled") => return Some(Event::SetBoot(None)),
        Some("Continuous") => Lasting::Continuous,
        Some(_) => Lasting::Once,
        None => now.map_or(Lasting::Once, |boot| boot.lasting),
    };
    let device = match target {
        Some((_, device)) => *device,
        None => now.map(|boot| boot.device),
    };
    Some(Event::SetBoot(
        device.map(|device| Override { device, lasting }),
    ))
}

pub async fn apply(bmc: &Bmc, events: Vec<Event>) -> Result<(), Problem> {
    for event in events {
        tell(bmc, event).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_and_duration_combine_with_what_is_in_force() {
        let over = |device, lasting| Some(Override { device, lasting });
        let cd = over(Device::Cd, Lasting::Continuous);
        let set = |boot| Some(Event::SetBoot(boot));
        let (pxe, hdd, none) = (
            ("Pxe", Some(Device::Pxe)),
            ("Hdd", Some(Device::Hdd)),
            ("None", None),
        );
        let table = [
            ("nothing said", cd, None, None, None),
            (
                "target alone",
                None,
                Some(&pxe),
                None,
                set(over(Device::Pxe, Lasting::Once)),
            ),
            (
                "target keeps duration",
                cd,
                Some(&pxe),
                None,
                set(over(Device::Pxe, Lasting::Continuous)),
            ),
            (
                "both",
                cd,
                Some(&hdd),
                Some("Once"),
                set(over(Device::Hdd, Lasting::Once)),
            ),
            (
                "duration alone",
                cd,
                None,
                Some("Once"),
                set(over(Device::Cd, Lasting::Once)),
            ),
            ("duration of nothing", None, None, Some("Once"), set(None)),
            ("disabled", cd, None, Some("Disabled"), set(None)),
            (
                "disabled with target",
                cd,
                Some(&hdd),
                Some("Disabled"),
                set(None),
            ),
            ("none", cd, Some(&none), Some("Once"), set(None)),
        ];
        for (name, now, target, enabled, want) in table {
            assert_eq!(combine(now, target, enabled), want, "{name}");
        }
    }
}
