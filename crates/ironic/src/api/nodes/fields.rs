//! The fields of a node.

use lifecycle::node::{Fault, State};

use crate::api::cell::Cell;
use crate::api::field::{Field, Resource};
use crate::api::value::{boolean, name, object, optional_boolean, put, required_text, text, uuid};
use crate::conductor::power_word;
use crate::record::{Node, PowerTarget};

impl Resource for Node {
    const PLURAL: &'static str = "nodes";
    const SINGULAR: &'static str = "node";
    const FIELDS: &'static [Field<Self>] = FIELDS;
    const BRIEF: &'static [&'static str] = &[
        "instance_uuid",
        "maintenance",
        "power_state",
        "provision_state",
        "uuid",
        "name",
    ];
    const PARTS: &'static [(&'static str, u16)] = &[
        ("ports", 1),
        ("states", 14),
        ("portgroups", 24),
        ("volume", 32),
    ];

    fn ident(&self) -> String {
        self.uuid.to_string()
    }
}

pub fn fault_word(fault: Fault) -> &'static str {
    match fault {
        Fault::Power => "power failure",
        Fault::Clean => "clean failure",
        Fault::RescueAbort => "rescue abort failure",
        Fault::Service => "service failure",
    }
}

fn state(state: State, version: u16) -> Cell<'static> {
    // Before they had names of their own.
    if state == State::Available && version < 2 {
        return Cell::Null;
    }
    if state == State::InspectWait && version < 39 {
        return Cell::Text(State::Inspecting.as_str());
    }
    Cell::Text(state.as_str())
}

const FIELDS: &[Field<Node>] = &[
    Field::shown("uuid", 1, |n, _| Cell::Uuid(n.uuid)),
    Field::settable(
        "name",
        5,
        |n, _| Cell::text(n.name.as_ref()),
        |n, v| put(&mut n.name, name(v)),
    ),
    Field::settable(
        "instance_uuid",
        1,
        |n, _| Cell::text(n.instance_uuid.as_ref()),
        |n, v| {
            n.instance_uuid = uuid(&v)?.map(|uuid| uuid.to_string());
            Ok(())
        },
    ),
    Field::settable(
        "instance_name",
        104,
        |n, _| Cell::text(n.instance_name.as_ref()),
        |n, v| put(&mut n.instance_name, text(v, 255)),
    ),
    Field::settable(
        "chassis_uuid",
        1,
        |n, _| Cell::uuid(n.chassis_uuid),
        |n, v| put(&mut n.chassis_uuid, uuid(&v)),
    ),
    Field::settable(
        "driver",
        1,
        |n, _| Cell::Text(&n.driver),
        |n, v| put(&mut n.driver, required_text(v, 255)),
    ),
    Field::settable(
        "driver_info",
        1,
        |n, _| Cell::Masked(&n.driver_info),
        |n, v| put(&mut n.driver_info, object(v)),
    ),
    Field::shown("driver_internal_info", 3, |n, _| {
        Cell::Masked(&n.driver_internal_info)
    }),
    Field::settable(
        "properties",
        1,
        |n, _| Cell::Object(&n.properties),
        |n, v| put(&mut n.properties, object(v)),
    ),
    Field::settable(
        "instance_info",
        1,
        |n, _| Cell::Masked(&n.instance_info),
        |n, v| put(&mut n.instance_info, object(v)),
    ),
    Field::settable(
        "extra",
        1,
        |n, _| Cell::Object(&n.extra),
        |n, v| put(&mut n.extra, object(v)),
    ),
    Field::shown("power_state", 1, |n, _| {
        n.life
            .power
            .map_or(Cell::Null, |power| Cell::Text(power_word(power)))
    }),
    Field::shown("target_power_state", 1, |n, _| {
        n.power_target().map_or(Cell::Null, |target: PowerTarget| {
            Cell::Text(crate::conductor::power_word(target.result()))
        })
    }),
    Field::shown("provision_state", 1, |n, scope| {
        state(n.life.state, scope.version.0)
    }),
    Field::shown("target_provision_state", 1, |n, scope| {
        n.life
            .target
            .map_or(Cell::Null, |to| state(to, scope.version.0))
    }),
    Field::shown("provision_updated_at", 1, |n, _| Cell::Time(n.life.since)),
    Field::shown("last_error", 1, |n, _| {
        Cell::text(n.life.last_error.as_ref())
    }),
    Field::settable(
        "maintenance",
        1,
        |n, _| Cell::Bool(n.life.maintenance),
        |n, v| {
            n.life.maintenance = boolean(&v, false)?;
            if !n.life.maintenance {
                n.end_maintenance();
            }
            Ok(())
        },
    ),
    Field::shown("maintenance_reason", 1, |n, _| {
        Cell::text(n.maintenance_reason.as_ref())
    }),
    Field::shown("fault", 42, |n, _| {
        n.life
            .fault
            .map_or(Cell::Null, |fault| Cell::Text(fault_word(fault)))
    }),
    Field::shown("reservation", 1, |n, _| Cell::text(n.reservation.as_ref())),
    Field::shown("console_enabled", 1, |n, _| Cell::Bool(n.console_enabled)),
    Field::shown("inspection_started_at", 6, |n, _| {
        Cell::time(n.inspection_started_at)
    }),
    Field::shown("inspection_finished_at", 6, |n, _| {
        Cell::time(n.inspection_finished_at)
    }),
    Field::shown("clean_step", 7, |n, _| Cell::Masked(&n.clean_step)),
    Field::shown("deploy_step", 44, |n, _| Cell::Masked(&n.deploy_step)),
    Field::shown("service_step", 87, |n, _| Cell::Masked(&n.service_step)),
    Field::shown("raid_config", 12, |n, _| Cell::Object(&n.raid_config)),
    Field::shown("target_raid_config", 12, |n, _| {
        Cell::Object(&n.target_raid_config)
    }),
    Field::settable(
        "network_interface",
        20,
        |n, _| Cell::Text(&n.interfaces.network),
        |n, v| put(&mut n.interfaces.network, chosen(v)),
    ),
    Field::settable(
        "resource_class",
        21,
        |n, _| Cell::text(n.resource_class.as_ref()),
        |n, v| put(&mut n.resource_class, text(v, 80)),
    ),
    Field::settable(
        "boot_interface",
        31,
        |n, _| Cell::Text(&n.interfaces.boot),
        |n, v| put(&mut n.interfaces.boot, chosen(v)),
    ),
    Field::settable(
        "console_interface",
        31,
        |n, _| Cell::Text(&n.interfaces.console),
        |n, v| put(&mut n.interfaces.console, chosen(v)),
    ),
    Field::settable(
        "deploy_interface",
        31,
        |n, _| Cell::Text(&n.interfaces.deploy),
        |n, v| put(&mut n.interfaces.deploy, chosen(v)),
    ),
    Field::settable(
        "inspect_interface",
        31,
        |n, _| Cell::Text(&n.interfaces.inspect),
        |n, v| put(&mut n.interfaces.inspect, chosen(v)),
    ),
    Field::settable(
        "management_interface",
        31,
        |n, _| Cell::Text(&n.interfaces.management),
        |n, v| put(&mut n.interfaces.management, chosen(v)),
    ),
    Field::settable(
        "power_interface",
        31,
        |n, _| Cell::Text(&n.interfaces.power),
        |n, v| put(&mut n.interfaces.power, chosen(v)),
    ),
    Field::settable(
        "raid_interface",
        31,
        |n, _| Cell::Text(&n.interfaces.raid),
        |n, v| put(&mut n.interfaces.raid, chosen(v)),
    ),
    Field::settable(
        "vendor_interface",
        31,
        |n, _| Cell::Text(&n.interfaces.vendor),
        |n, v| put(&mut n.interfaces.vendor, chosen(v)),
    ),
    Field::settable(
        "storage_interface",
        33,
        |n, _| Cell::Text(&n.interfaces.storage),
        |n, v| put(&mut n.interfaces.storage, chosen(v)),
    ),
    Field::shown("traits", 37, |n, _| Cell::List(&n.traits)),
    Field::settable(
        "rescue_interface",
        38,
        |n, _| Cell::Text(&n.interfaces.rescue),
        |n, v| put(&mut n.interfaces.rescue, chosen(v)),
    ),
    Field::settable(
        "bios_interface",
        40,
        |n, _| Cell::Text(&n.interfaces.bios),
        |n, v| put(&mut n.interfaces.bios, chosen(v)),
    ),
    Field::settable(
        "conductor_group",
        46,
        |n, _| Cell::Text(&n.conductor_group),
        |n, v| {
            let group = text(v, 255)?.unwrap_or_default().to_lowercase();
            if !group
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
            {
                return Err("has characters other than letters, digits, and -._".into());
            }
            n.conductor_group = group;
            Ok(())
        },
    ),
    Field::settable(
        "automated_clean",
        47,
        |n, _| Cell::bool(n.automated_clean),
        |n, v| put(&mut n.automated_clean, optional_boolean(&v)),
    ),
    Field::settable(
        "protected",
        48,
        |n, _| Cell::Bool(n.protected),
        |n, v| {
            n.protected = boolean(&v, false)?;
            if !n.protected {
                n.protected_reason = None;
            }
            Ok(())
        },
    ),
    Field::settable(
        "protected_reason",
        48,
        |n, _| Cell::text(n.protected_reason.as_ref()),
        |n, v| put(&mut n.protected_reason, text(v, 4096)),
    ),
    Field::shown("conductor", 49, |_, scope| Cell::Text(scope.host)),
    Field::settable(
        "owner",
        50,
        |n, _| Cell::text(n.owner.as_ref()),
        |n, v| put(&mut n.owner, text(v, 255)),
    ),
    Field::settable(
        "description",
        51,
        |n, _| Cell::text(n.description.as_ref()),
        |n, v| put(&mut n.description, text(v, 4096)),
    ),
    Field::shown("allocation_uuid", 52, |n, _| Cell::uuid(n.allocation_uuid)),
    Field::settable(
        "retired",
        61,
        |n, _| Cell::Bool(n.retired),
        |n, v| {
            n.retired = boolean(&v, false)?;
            if !n.retired {
                n.retired_reason = None;
            }
            Ok(())
        },
    ),
    Field::settable(
        "retired_reason",
        61,
        |n, _| Cell::text(n.retired_reason.as_ref()),
        |n, v| put(&mut n.retired_reason, text(v, 4096)),
    ),
    Field::settable(
        "lessee",
        65,
        |n, _| Cell::text(n.lessee.as_ref()),
        |n, v| put(&mut n.lessee, text(v, 255)),
    ),
    Field::settable(
        "network_data",
        66,
        |n, _| Cell::Object(&n.network_data),
        |n, v| put(&mut n.network_data, object(v)),
    ),
    Field::shown("boot_mode", 75, |n, _| {
        n.boot_mode
            .map_or(Cell::Null, |mode| Cell::Text(mode.as_str()))
    }),
    Field::shown("secure_boot", 75, |n, _| Cell::bool(n.secure_boot)),
    Field::settable(
        "shard",
        82,
        |n, _| Cell::text(n.shard.as_ref()),
        |n, v| put(&mut n.shard, text(v, 255)),
    ),
    Field::settable(
        "parent_node",
        83,
        |n, _| Cell::uuid(n.parent_node),
        |n, v| put(&mut n.parent_node, uuid(&v)),
    ),
    Field::settable(
        "firmware_interface",
        86,
        |n, _| Cell::Text(&n.interfaces.firmware),
        |n, v| put(&mut n.interfaces.firmware, chosen(v)),
    ),
    Field::settable(
        "disable_power_off",
        95,
        |n, _| Cell::Bool(n.disable_power_off),
        |n, v| put(&mut n.disable_power_off, boolean(&v, false)),
    ),
    Field::shown("health", 109, |n, _| Cell::text(n.hardware.health.as_ref())),
    Field::shown("created_at", 1, |n, _| Cell::Time(n.created_at)),
    Field::shown("updated_at", 1, |n, _| Cell::time(n.updated_at)),
];

/// The name of an interface's implementation; empty for the driver's own choice, which is filled in afterwards.
fn chosen(value: serde_json::Value) -> Result<String, String> {
    text(value, 255).map(Option::unwrap_or_default)
}
