//! What iPXE is told: a script for each server, made from its record whenever it asks.
//!
//! ```text
//!   /boot.ipxe ── for each network card ──▶ /pxelinux.cfg/<mac> ── known ──▶ the agent | its live system | its disk
//!                    └── none is known ──▶ /boot/<mac>.ipxe ──▶ wait, say how to enrol, ask again
//! ```

use std::fmt::Write as _;

use lifecycle::node::{BootBy, BootInto};
use model::Mac;
use serde_json::Value;

use super::Settings;
use super::arguments::{self, Carrier};
use crate::record::{BootOrder, Node};

/// The first script of all: it finds the card we know.
pub const START: &str = "\
#!ipxe
set id:int8 -1
:next
inc id
isset ${net${id}/mac} || goto none
chain --autofree pxelinux.cfg/${net${id}/mac:hexhyp} || goto next
exit 0
:none
chain --autofree boot/${netX/mac:hexhyp}.ipxe || chain --autofree boot/${mac:hexhyp}.ipxe || exit 1
";

/// The script of a node whose card asks.
pub fn of(node: &Node, mac: Mac, settings: &Settings) -> String {
    let Some(order) = &node.boot_order else {
        return disk(node, "boots from its disk");
    };
    let made = match (order.by, order.into) {
        (BootBy::VirtualMedia | BootBy::Fake, _) => {
            return disk(node, "is to boot from its virtual CD, not from the network");
        }
        (BootBy::Pxe | BootBy::UefiHttp, BootInto::Ramdisk | BootInto::Inspection) => {
            agent(node, order, mac, settings)
        }
        (BootBy::Pxe | BootBy::UefiHttp, BootInto::BootIso) => live(node, order, settings),
    };
    made.unwrap_or_else(|problem| trouble(node, mac, &problem))
}

fn title(node: &Node) -> String {
    match &node.name {
        Some(name) => format!("{} ({name})", node.uuid),
        None => node.uuid.to_string(),
    }
}

/// BIOS can be handed the disk. UEFI is left alone, with an error, for after a success firmware stops at its menu
/// instead of going on with the next device.
fn disk(node: &Node, why: &str) -> String {
    format!(
        "#!ipxe\necho Node {} {why}\niseq ${{platform}} pcbios && sanboot --no-describe --drive 0x80 ||\nexit 1\n",
        plain(&title(node))
    )
}

fn agent(node: &Node, order: &BootOrder, mac: Mac, settings: &Settings) -> Result<String, String> {
    let (kernel, initrd) = settings.system_urls(node, mac)?;
    let arguments = arguments::of(
        node,
        order,
        Carrier::Network,
        settings.append(),
        &settings.api,
    )?;
    // The card that iPXE booted from, which need not be the one this script was found by.
    Ok(kernel_script(
        node,
        &kernel,
        &initrd,
        &format!("{arguments} BOOTIF=${{mac}}"),
        order.into.as_str(),
    ))
}

/// The user's own system: a kernel and its ramdisk, or a CD.
fn live(node: &Node, order: &BootOrder, settings: &Settings) -> Result<String, String> {
    let text = |key: &str| node.instance_info.get(key).and_then(Value::as_str);
    if let Some(iso) = text("boot_iso") {
        let iso = url(iso)?;
        return Ok(format!(
            "#!ipxe\necho Node {} boots {iso}\nsanboot --no-describe {iso} || goto failed\n:failed\necho It could not be booted\nsleep 30\nexit 1\n",
            plain(&title(node))
        ));
    }
    let (Some(kernel), Some(initrd)) = (text("kernel"), text("ramdisk")) else {
        return Err("instance_info has neither boot_iso nor kernel and ramdisk".into());
    };
    let arguments = arguments::of(node, order, Carrier::Network, "", &settings.api)?;
    Ok(kernel_script(
        node,
        url(kernel)?,
        url(initrd)?,
        &arguments,
        order.into.as_str(),
    ))
}

/// An address that is one word to iPXE.
pub fn url(text: &str) -> Result<&str, String> {
    let known = ["http://", "https://", "tftp://"];
    let is_word = text
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && !b"\"'`\\$;|&<>{}#".contains(&byte));
    if is_word && text.len() <= 1024 && known.iter().any(|scheme| text.starts_with(scheme)) {
        Ok(text)
    } else {
        Err(format!(
            "{:?} is not an address that firmware can fetch",
            text.chars().take(80).collect::<String>()
        ))
    }
}

/// `initrd=` is how a kernel started by UEFI finds it. Ten tries, each after a longer pause.
fn kernel_script(node: &Node, kernel: &str, initrd: &str, arguments: &str, what: &str) -> String {
    let mut script = String::from("#!ipxe\n");
    // Writing to a String cannot fail.
    _ = writeln!(script, "echo Node {} boots {what}", plain(&title(node)));
    script += "set tries:int32 0\n:again\nimgfree\n";
    _ = writeln!(
        script,
        "kernel {kernel} {arguments} initrd=initrd || goto failed"
    );
    _ = writeln!(script, "initrd --name initrd {initrd} || goto failed");
    script += "boot || goto failed\n:failed\ninc tries\niseq ${tries} 10 && goto done ||\n";
    script += "echo Could not be booted, next try in ${tries} s\nsleep ${tries}\ngoto again\n";
    script += ":done\necho Could not be booted in 10 tries, powering off in 30 s\nsleep 30\npoweroff\nexit 1\n";
    script
}

/// Nobody of ours: it waits, and asks again.
pub fn hold(mac: Mac, settings: &Settings) -> String {
    format!(
        "#!ipxe\n\
         echo\necho This server is not enrolled: {mac}\n\
         echo Enrol it with a port of this address, or adopt it:\n\
         echo   POST {}/plinth/v1/discovered/{mac}/enroll\n\
         echo It waits here and asks again every 20 s\n\
         sleep 20\n\
         chain --autofree --replace {}/boot/{}.ipxe || reboot\n",
        settings.api.url,
        settings.http_url,
        dashed(mac)
    )
}

fn trouble(node: &Node, mac: Mac, problem: &str) -> String {
    format!(
        "#!ipxe\necho Node {} cannot be booted:\necho {}\nsleep 30\nchain --autofree --replace pxelinux.cfg/{} || exit 1\n",
        plain(&title(node)),
        plain(problem),
        dashed(mac)
    )
}

/// For the screen: nothing that iPXE would expand or run.
fn plain(text: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || " .,:/()[]_=+-".contains(c);
    text.chars()
        .map(|c| if safe(c) { c } else { '?' })
        .collect()
}

pub fn dashed(mac: Mac) -> String {
    mac.to_string().replace(':', "-")
}

/// A MAC as it is in a path: with dashes or colons, with or without the `01-` of pxelinux.
pub fn parse_mac(text: &str) -> Option<Mac> {
    let text = text
        .strip_prefix("01-")
        .filter(|rest| rest.len() == 17)
        .unwrap_or(text);
    text.replace('-', ":").parse().ok()
}
