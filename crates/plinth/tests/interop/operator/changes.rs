//! A host in use, changed: its power, its image, who cares for it, and its end.

use super::site::{Site, Whose};
use super::{IMAGE, host, secret};

const OTHER: &str = "http://192.0.2.200/other.raw";

#[test]
fn a_host_in_use_follows_its_object() {
    changed(&Site::start(Whose::Ours));
}

#[test]
fn a_host_in_use_of_the_original_ironic_follows_its_object() {
    changed(&Site::start(Whose::Original));
}

fn changed(site: &Site) {
    site.apply(&[secret("h1-bmc"), host("h1", 1)]);
    site.until_state("h1", "available");

    // Inspected anew, because somebody asked. Times have whole seconds, and both may fall into one.
    let inspections = || -> i64 {
        let events = site.list("events");
        let ended = events
            .iter()
            .filter(|event| event["reason"] == "InspectionComplete");
        ended
            .map(|event| event["series"]["count"].as_i64().unwrap_or(1))
            .sum()
    };
    site.until("the inspection's event", || inspections() == 1);
    site.must(&["annotate", "bmh", "h1", "inspect.metal3.io="]);
    site.until("another inspection", || {
        inspections() == 2 && site.state("h1") == "available"
    });

    site.must(&["patch", "bmh", "h1", "--type=merge", "-p", IMAGE]);
    site.until_state("h1", "provisioned");
    for (online, power) in [("false", "power off"), ("true", "power on")] {
        let patch = format!(r#"{{"spec":{{"online":{online}}}}}"#);
        site.must(&["patch", "bmh", "h1", "--type=merge", "-p", &patch]);
        site.until(power, || {
            let said = site.get("bmh", "h1")["status"]["poweredOn"].to_string();
            said == online && site.node("h1")["power_state"] == power
        });
    }

    // Left alone: nothing of it is in Ironic. Cared for again: it is as it was.
    let detached = "baremetalhost.metal3.io/detached";
    site.must(&["annotate", "bmh", "h1", &format!("{detached}=")]);
    site.until("the host to be detached", || {
        let status = &site.get("bmh", "h1")["status"];
        status["operationalStatus"] == "detached" && site.node("h1")["uuid"].is_null()
    });
    site.must(&["annotate", "bmh", "h1", &format!("{detached}-")]);
    site.until("the host to be attached again", || {
        site.node("h1")["provision_state"] == "active"
    });
    assert_eq!(site.state("h1"), "provisioned");

    let patch = format!(r#"{{"spec":{{"image":{{"url":"{OTHER}"}}}}}}"#);
    site.must(&["patch", "bmh", "h1", "--type=merge", "-p", &patch]);
    site.until("the other image", || {
        let node = site.node("h1");
        node["provision_state"] == "active" && node["instance_info"]["image_source"] == OTHER
    });
    site.until_state("h1", "provisioned");
    site.must(&["delete", "bmh", "h1", "--timeout=120s"]);
    assert!(site.node("h1")["uuid"].is_null());
}
