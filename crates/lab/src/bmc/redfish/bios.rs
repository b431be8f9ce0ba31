//! BIOS attributes: as they are, as they will be after the next boot, and what they may be.

use serde_json::{Value, json};

use super::body::Body;
use super::messages::Problem;
use super::path::{ATTRIBUTES, Action, Resource};
use super::{Answer, etag, link, tell};
use crate::bmc::{BiosChange, Bmc};
use crate::server::chassis::Attributes;
use crate::server::{Event, View};

pub fn render(bmc: &Bmc) -> Value {
    let view = bmc.server.view();
    let mut settings = json!({
        "@odata.type": "#Settings.v1_3_5.Settings",
        "SettingsObject": link(bmc, &Resource::BiosSettings),
        "SupportedApplyTimes": APPLY_TIMES,
        // Clients send it as If-Match with a change of the settings object, so it is that object's.
        "ETag": etag::of(bmc.personality, &render_settings(bmc)),
        "Messages": [],
    });
    if let Some(at) = applied_at(bmc, &view) {
        settings["Time"] = at.into();
    }
    json!({
        "@odata.type": "#Bios.v1_2_1.Bios",
        "Id": "Bios",
        "Name": "BIOS Configuration",
        "AttributeRegistry": ATTRIBUTES,
        "Attributes": view.bios,
        "@Redfish.Settings": settings,
        "Actions": {"#Bios.ResetBios": {"target": Resource::Action(Action::ResetBios).path(bmc.personality)}},
    })
}

const APPLY_TIMES: [&str; 1] = ["OnReset"];

/// When the last change was first seen to have taken effect.
fn applied_at(bmc: &Bmc, view: &View) -> Option<String> {
    let now = bmc.now();
    let mut memory = bmc.memory();
    if let BiosChange::Pending { boots } = memory.bios_change
        && view.boots > boots
    {
        memory.bios_change = BiosChange::Applied { at: now };
    }
    match memory.bios_change {
        BiosChange::Applied { at } => Some(at.to_string()),
        BiosChange::Never | BiosChange::Pending { .. } => None,
    }
}

pub fn render_settings(bmc: &Bmc) -> Value {
    json!({
        "@odata.type": "#Bios.v1_2_1.Bios",
        "Id": "Settings",
        "Name": "BIOS Configuration Pending Settings",
        "AttributeRegistry": ATTRIBUTES,
        "Attributes": bmc.server.view().bios_pending,
        "@Redfish.SettingsApplyTime": {
            "@odata.type": "#Settings.v1_3_5.PreferredApplyTime",
            "ApplyTime": "OnReset",
            "ApplyTime@Redfish.AllowableValues": APPLY_TIMES,
        },
    })
}

pub async fn change(bmc: &Bmc, mut body: Body, known: &Value) -> Result<(), Problem> {
    if let Some(mut when) = body.object("@Redfish.SettingsApplyTime") {
        when.one_of("ApplyTime", &APPLY_TIMES);
        body.absorb(when, &Value::Null);
    }
    let view = bmc.server.view();
    let attributes = body.object("Attributes").map(|mut object| {
        let wanted: Attributes = object.take_rest().into_iter().collect();
        for (name, value) in &wanted {
            if let (Some(Value::String(now)), Value::String(value)) = (view.bios.get(name), value) {
                let allowed = choices(now);
                if !allowed.is_empty() && !allowed.contains(&value.as_str()) {
                    object.not_in_list(name, value, allowed);
                }
            }
        }
        body.absorb(object, &Value::Null);
        wanted
    });
    body.finish(known)?;
    let Some(attributes) = attributes else {
        return Ok(());
    };
    tell(bmc, Event::SetBios(attributes)).await?;
    bmc.memory().bios_change = BiosChange::Pending { boots: view.boots };
    Ok(())
}

pub async fn reset(bmc: &Bmc, body: Body) -> Result<Answer, Problem> {
    body.finish(&Value::Null)?;
    let boots = bmc.server.view().boots;
    tell(bmc, Event::ResetBios).await?;
    bmc.memory().bios_change = BiosChange::Pending { boots };
    Ok(Answer::no_content())
}

/// What an attribute can be, where that is a list.
fn choices(now: &str) -> &'static [&'static str] {
    const SWITCH: [&str; 2] = ["Enabled", "Disabled"];
    if SWITCH.contains(&now) { &SWITCH } else { &[] }
}

pub fn render_registry(bmc: &Bmc) -> Value {
    let attributes: Vec<Value> = bmc
        .server
        .view()
        .bios
        .iter()
        .map(|(name, value)| {
            let mut entry = json!({
                "AttributeName": name,
                "DisplayName": name,
                "CurrentValue": null,
                "ReadOnly": false,
                "Immutable": false,
                "ResetRequired": true,
                "IsSystemUniqueProperty": false,
            });
            match value {
                Value::Number(_) => {
                    entry["Type"] = "Integer".into();
                    entry["LowerBound"] = 0.into();
                    // More than 32 bits, as real ones may be.
                    entry["UpperBound"] = (1u64 << 33).into();
                }
                Value::Bool(_) => entry["Type"] = "Boolean".into(),
                other => {
                    let allowed = choices(other.as_str().unwrap_or_default());
                    entry["Type"] = if allowed.is_empty() {
                        "String"
                    } else {
                        "Enumeration"
                    }
                    .into();
                    entry["Value"] = allowed
                        .iter()
                        .map(|v| json!({"ValueName": v, "ValueDisplayName": v}))
                        .collect();
                }
            }
            entry
        })
        .collect();
    json!({
        "@odata.type": "#AttributeRegistry.v1_3_8.AttributeRegistry",
        "Id": ATTRIBUTES,
        "Name": "BIOS Attribute Registry",
        "Language": "en",
        "OwningEntity": bmc.personality.vendor,
        "RegistryVersion": "1.0.0",
        "SupportedSystems": [{"ProductName": bmc.personality.model}],
        "RegistryEntries": {"Attributes": attributes},
    })
}
