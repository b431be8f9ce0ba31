//! What python-ironicclient keeps with us besides nodes: chassis, volumes, deploy templates, runbooks, inspection rules.

use crate::command_line::Baremetal;
use crate::service::Service;

#[test]
fn the_command_line_keeps_its_chassis_volumes_templates_runbooks_and_rules() {
    let mut service = Service::start("");
    let baremetal = Baremetal::of(&service);
    let node = baremetal.value("node create --driver fake-hardware --name n0", "uuid");
    let steps = |number: &str| {
        format!(
            "[{{\"interface\":\"bios\",\"step\":\"factory_reset\",\"args\":{{}},\"{number}\":10}}]"
        )
    };
    let chassis = baremetal.value("chassis create --description left", "uuid");
    baremetal.run(&format!(
        "chassis set {chassis} --description right --extra row=7"
    ));
    baremetal.run(&format!("node set n0 --chassis-uuid {chassis}"));
    let connector = baremetal.value(
        &format!(
            "volume connector create --node {node} --type iqn --connector-id iqn.2017-07.org.test:1"
        ),
        "uuid",
    );
    let target = baremetal.value(
        &format!("volume target create --node {node} --type iscsi --volume-id v0 --boot-index 0"),
        "uuid",
    );
    baremetal.run(&format!(
        "deploy template create CUSTOM_A --steps {}",
        steps("priority")
    ));
    baremetal.run(&format!(
        "runbook create --name CUSTOM_B --steps {}",
        steps("order")
    ));
    let rule = baremetal.value(
        "inspection rule create --description d --priority 3 --actions \
         [{\"op\":\"set-attribute\",\"args\":{\"path\":\"/extra/seen\",\"value\":\"yes\"}}]",
        "uuid",
    );
    // All of it is on disk.
    service.kill();
    service.restart();
    assert_eq!(
        baremetal.value(&format!("chassis show {chassis}"), "description"),
        "right"
    );
    assert_eq!(
        baremetal.value("node show n0 --fields chassis_uuid", "chassis_uuid"),
        chassis
    );
    assert_eq!(
        baremetal.value(
            &format!("volume connector show {connector}"),
            "connector_id"
        ),
        "iqn.2017-07.org.test:1"
    );
    assert_eq!(
        baremetal.value("volume target list --node n0", "UUID"),
        target
    );
    assert_eq!(baremetal.value("deploy template list", "Name"), "CUSTOM_A");
    assert_eq!(baremetal.value("runbook show CUSTOM_B", "public"), "False");
    assert_eq!(
        baremetal.value(&format!("inspection rule show {rule}"), "priority"),
        "3"
    );
    let refused = baremetal.refused(&format!("chassis delete {chassis}"));
    assert!(refused.contains("contains nodes"), "{refused}");
    baremetal.run("deploy template set CUSTOM_A --name CUSTOM_C");
    for line in [
        "deploy template delete CUSTOM_C".to_owned(),
        "runbook delete CUSTOM_B".to_owned(),
        format!("inspection rule delete {rule}"),
        format!("volume connector delete {connector}"),
        format!("volume target delete {target}"),
        "node delete n0".to_owned(),
        format!("chassis delete {chassis}"),
    ] {
        baremetal.run(&line);
    }
    assert_eq!(baremetal.run("chassis list -f value"), "");
}
