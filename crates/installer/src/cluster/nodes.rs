//! Hosts of the plan as nodes of the Ironic on a bootstrap VM.

use clients::ironic::{self, Ironic, NewNode, NewPort, Patch};
use clients::redfish::Verify;
use plan::cluster::{HostPlan, Plan};
use plan::install::{Far, IronicNode};
use plan::install_config::{BootMode, InstallConfig};
use serde_json::{Map, Value, json};

use super::Failed;
use super::look::{ANSWER, url};
use crate::dir::Dir;

/// Behind the API's address, as the installer.
pub(crate) async fn connect(dir: &Dir, plan: &Plan) -> Result<Ironic, ironic::Error> {
    let mut config = ironic::Config::new(&url(plan, "ironic"));
    config.login = Some(ironic::Login {
        username: "bootstrap-user".into(),
        password: dir.ironic_password(),
    });
    config.verify = Verify::Pem(dir.certificate("root-ca").into());
    config.limits.answer = ANSWER;
    Ironic::connect(config).await
}

/// With its port. What is there already is left as it is.
pub(crate) async fn enrol(
    ironic: &Ironic,
    config: &InstallConfig,
    host: &HostPlan,
) -> Result<(), Failed> {
    let node = match ironic.find_node(&host.name).await? {
        Some(node) => node,
        None => ironic.create_node(&new_node(config, host)?).await?,
    };
    if ironic.port_of(host.boot_mac).await?.is_none() {
        let port = NewPort {
            node_uuid: node.uuid,
            address: host.boot_mac,
            pxe_enabled: true,
        };
        ironic.create_port(&port).await?;
    }
    Ok(())
}

/// Before it is managed once more: a person may have mended how its BMC is logged in to, or looked at what made a
/// cleaning fail, which ends in maintenance.
pub(crate) async fn mend(
    ironic: &Ironic,
    config: &InstallConfig,
    host: &HostPlan,
) -> Result<(), Failed> {
    ironic.end_maintenance(&host.name).await?;
    let info = driver_info(config, host)?;
    let patch = Patch::add("/driver_info", Value::Object(info));
    ironic.patch_node(&host.name, &[patch]).await?;
    Ok(())
}

fn new_node(config: &InstallConfig, host: &HostPlan) -> Result<NewNode, Failed> {
    let mut properties = Map::new();
    let capabilities = match host.boot_mode {
        BootMode::Uefi => "boot_mode:uefi",
        BootMode::UefiSecureBoot => "boot_mode:uefi,secure_boot:true",
        BootMode::Legacy => "boot_mode:bios",
    };
    properties.insert("capabilities".into(), json!(capabilities));
    properties.insert("root_device".into(), host.disk.root_device.clone());
    Ok(NewNode {
        name: host.name.clone(),
        driver: host.bmc.driver.to_owned(),
        driver_info: driver_info(config, host)?,
        properties,
        interfaces: [
            ("boot_interface", host.bmc.boot_interface),
            ("inspect_interface", "agent"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into(),
        ..NewNode::default()
    })
}

/// The plan holds no secret, so the login comes from the config.
fn driver_info(config: &InstallConfig, host: &HostPlan) -> Result<Map<String, Value>, Failed> {
    let given = config.baremetal.hosts.iter();
    let secret = given
        .clone()
        .find(|given| given.name == host.name)
        .ok_or_else(|| Failed(format!("install-config.yaml has no host {}", host.name)))?;
    let prefix = match host.bmc.driver {
        "ipmi" => "ipmi",
        _ => "redfish",
    };
    let known = host.bmc.driver_info.iter();
    let mut info: Map<String, Value> = known
        .map(|(key, value)| ((*key).to_owned(), value.clone()))
        .collect();
    info.insert(format!("{prefix}_username"), json!(host.bmc.username));
    let password = json!(secret.password.expose());
    info.insert(format!("{prefix}_password"), password);
    Ok(info)
}

pub(crate) fn seen(node: &ironic::Node) -> IronicNode {
    let inside = &node.driver_internal_info;
    // Ours tells these; the original does not, and its state says what there is to say.
    let part = |key: &str, of: &str| inside.get(key).and_then(|found| found.get(of));
    let waiting = part("waiting", "for").and_then(Value::as_str);
    let number = |of: &str| part("progress", of).and_then(Value::as_f64);
    IronicNode {
        state: node.provision_state.clone(),
        last_error: node.last_error.clone(),
        maintenance: node.maintenance.then(|| {
            node.maintenance_reason
                .clone()
                .unwrap_or_else(|| "no reason was given".into())
        }),
        // Inspection finds them; nobody else says them.
        inspected: node.properties.contains_key("cpus"),
        waiting: waiting.map(str::to_owned),
        far: number("percent").map(|percent| Far {
            percent: percent.clamp(0.0, 100.0) as u8,
            mb_per_s: number("mb_per_s").map(|rate| rate.round() as u32),
        }),
    }
}
