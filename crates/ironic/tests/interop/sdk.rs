//! openstacksdk, by the script beside this file.

use std::process::Command;

use crate::python;
use crate::service::Service;

#[test]
fn openstacksdk_leads_a_node_through_its_life_and_reads_pages_of_them() {
    let service = Service::start("");
    let output = Command::new(python::interpreter())
        .args(["-c", include_str!("sdk.py"), &service.url()])
        .env("HOME", "/nonexistent")
        .output()
        .unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        output.status.success() && out.contains("done"),
        "{out}\n{err}"
    );
}
