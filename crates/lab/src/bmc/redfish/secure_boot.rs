//! Secure boot: wanted, current, and the keys.

use serde_json::{Value, json};

use super::body::Body;
use super::messages::Problem;
use super::path::{Action, Resource};
use super::{Answer, tell};
use crate::bmc::Bmc;
use crate::server::Event;

pub fn render(bmc: &Bmc) -> Value {
    let secure_boot = bmc.server.view().secure_boot;
    json!({
        "@odata.type": "#SecureBoot.v1_1_1.SecureBoot",
        "Id": "SecureBoot",
        "Name": "UEFI Secure Boot",
        "SecureBootEnable": secure_boot.enabled,
        "SecureBootCurrentBoot": if secure_boot.current { "Enabled" } else { "Disabled" },
        "SecureBootMode": bmc.memory().secure_boot_mode,
        "Actions": {
            "#SecureBoot.ResetKeys": {
                "target": Resource::Action(Action::ResetKeys).path(bmc.personality),
                "ResetKeysType@Redfish.AllowableValues": RESETS,
            },
        },
    })
}

const RESETS: [&str; 3] = ["ResetAllKeysToDefault", "DeleteAllKeys", "DeletePK"];

pub async fn change(bmc: &Bmc, mut body: Body, known: &Value) -> Result<(), Problem> {
    let enable = body.flag("SecureBootEnable");
    body.finish(known)?;
    if let Some(enable) = enable {
        tell(bmc, Event::SetSecureBoot(enable)).await?;
    }
    Ok(())
}

pub fn reset_keys(bmc: &Bmc, mut body: Body) -> Result<Answer, Problem> {
    body.require("ResetKeysType");
    let reset = body.one_of("ResetKeysType", &RESETS);
    body.finish(&Value::Null)?;
    bmc.memory().secure_boot_mode = if reset.as_deref() == Some("ResetAllKeysToDefault") {
        "UserMode"
    } else {
        "SetupMode"
    };
    Ok(Answer::no_content())
}
