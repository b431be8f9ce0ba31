//! `plinth serve` with kubectl at the other end: hosts and machines from their objects to what they should be, over our
//! own Ironic and over the original.

mod belongings;
mod changes;
mod hosts;
mod original;
mod replace;
mod site;

use serde_json::{Value, json};

use site::{NAMESPACE, Site, Whose};

fn secret(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "stringData": {"username": "admin", "password": "secret"},
    })
}

fn host(name: &str, number: u8) -> Value {
    json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "online": true,
            "bmc": {"address": format!("redfish://192.0.2.{number}/redfish/v1/Systems/1"), "credentialsName": format!("{name}-bmc")},
            "bootMACAddress": format!("52:54:00:00:00:{number:02x}"),
        },
    })
}

const IMAGE: &str = r#"{"spec":{"image":{"url":"http://192.0.2.200/os.raw","checksum":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08","checksumType":"sha256","format":"raw"}}}"#;

#[test]
fn a_host_goes_from_its_object_to_provisioned_and_back_and_away() {
    whole_life(Site::start(Whose::Ours));
}

#[test]
fn a_host_of_the_original_ironic_goes_to_provisioned_and_back_and_away() {
    whole_life(Site::start(Whose::Original));
}

fn whole_life(mut site: Site) {
    // A host without a Secret says what it misses.
    site.apply(&[host("h0", 9)]);
    site.until("the missing Secret to be told", || {
        let status = &site.get("bmh", "h0")["status"];
        let told = status["errorMessage"].as_str().unwrap_or_default();
        status["errorType"] == "registration error" && told.contains("h0-bmc")
    });
    site.must(&["delete", "bmh", "h0", "--timeout=60s"]);
    site.apply(&[secret("h1-bmc"), host("h1", 1)]);
    site.until_state("h1", "available");
    let known = site.get("bmh", "h1");
    assert_eq!(known["status"]["operationalStatus"], "OK");
    assert_eq!(
        known["metadata"]["finalizers"][0],
        "baremetalhost.metal3.io"
    );
    assert!(known["status"]["hardware"].is_object(), "{known}");
    assert!(site.get("hardwaredata", "h1")["spec"]["hardware"].is_object());
    site.until("the power to be on", || {
        site.get("bmh", "h1")["status"]["poweredOn"] == true
    });

    // A new password is taken up at once, long before the next look.
    let other = r#"{"data":{"password":"b3RoZXI="}}"#;
    site.must(&["patch", "secret", "h1-bmc", "--type=merge", "-p", other]);
    let version = site.get("secret", "h1-bmc")["metadata"]["resourceVersion"].clone();
    site.until("the new password to be tried", || {
        site.get("bmh", "h1")["status"]["triedCredentials"]["credentialsVersion"] == version
    });

    site.must(&["patch", "bmh", "h1", "--type=merge", "-p", IMAGE]);
    site.until_state("h1", "provisioned");
    let node = site.node("h1");
    assert_eq!(node["provision_state"], "active", "{node}");
    assert_eq!(
        node["instance_info"]["image_source"],
        "http://192.0.2.200/os.raw"
    );

    // Ironic's memory is disposable: the host is adopted, not deployed again.
    site.crash_without_ironics_memory();
    site.until("the node to be adopted", || {
        site.node("h1")["provision_state"] == "active"
    });
    assert_eq!(site.state("h1"), "provisioned");
    let host = site.get("bmh", "h1");
    assert!(
        host["status"]["operationHistory"]["deprovision"]["start"].is_null(),
        "{host}"
    );

    site.must(&["annotate", "bmh", "h1", "reboot.metal3.io=", "--overwrite"]);
    site.until("the reboot to be done", || {
        let host = site.get("bmh", "h1");
        host["metadata"]["annotations"]["reboot.metal3.io"].is_null()
            && host["status"]["poweredOn"] == true
    });

    site.must(&[
        "patch",
        "bmh",
        "h1",
        "--type=json",
        "-p",
        r#"[{"op":"remove","path":"/spec/image"}]"#,
    ]);
    site.until_state("h1", "available");
    site.must(&["delete", "bmh", "h1", "--timeout=90s"]);
    site.until("the node to be gone", || site.node("h1")["uuid"].is_null());
    let secret = site.get("secret", "h1-bmc");
    assert!(secret["metadata"]["finalizers"].is_null(), "{secret}");
    let events = site.must(&["get", "events", "-o", "json"]);
    for reason in [
        "Registered",
        "ProvisioningStarted",
        "ProvisioningComplete",
        "DeprovisioningComplete",
    ] {
        assert!(events.contains(reason), "no event {reason}: {events}");
    }
}

#[test]
fn a_machine_set_is_scaled_over_hosts_and_survives_a_crash() {
    scaled(Site::start(Whose::Ours));
}

#[test]
fn a_machine_set_is_scaled_over_hosts_of_the_original_ironic() {
    scaled(Site::start(Whose::Original));
}

fn scaled(mut site: Site) {
    let names = ["w1", "w2", "w3"];
    let mut objects = vec![json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "worker-user-data", "namespace": NAMESPACE},
        "stringData": {"userData": "{\"ignition\":{\"version\":\"3.2.0\"}}"},
    })];
    for (name, number) in names.iter().zip(11..) {
        objects.push(secret(&format!("{name}-bmc")));
        objects.push(host(name, number));
    }
    let labels = json!({
        "machine.openshift.io/cluster-api-cluster": "test",
        "machine.openshift.io/cluster-api-machineset": "workers",
    });
    objects.push(json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet",
        "metadata": {"name": "workers", "namespace": NAMESPACE},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {"providerSpec": {"value": {
                "apiVersion": "baremetal.cluster.k8s.io/v1alpha1", "kind": "BareMetalMachineProviderSpec",
                "image": {"url": "http://192.0.2.200/os.raw", "checksum": "http://192.0.2.200/os.raw.sha256sum"},
                "userData": {"name": "worker-user-data"}, "hostSelector": {},
            }}},
        }},
    }));
    site.apply(&objects);
    site.must(&["scale", "machineset", "workers", "--replicas=2"]);
    let provisioned = |site: &Site| {
        names
            .iter()
            .filter(|name| site.state(name) == "provisioned")
            .count()
    };
    site.until("a host to be provisioned", || provisioned(&site) >= 1);
    site.crash();
    site.until("two hosts to be provisioned", || provisioned(&site) == 2);
    site.until("two machines to know their hosts", || {
        let machines = site.list("machines");
        let up = machines.iter().filter(|machine| {
            machine["status"]["phase"] == "Provisioned"
                && machine["spec"]["providerID"]
                    .as_str()
                    .is_some_and(|id| id.starts_with("baremetalhost:///"))
        });
        up.count() == 2
    });
    // Nobody has two consumers, and every consumer has one host.
    let hosts = site.list("bmh");
    let mut consumers: Vec<&str> = hosts
        .iter()
        .filter_map(|host| host["spec"]["consumerRef"]["name"].as_str())
        .collect();
    consumers.sort_unstable();
    consumers.dedup();
    assert_eq!(consumers.len(), 2, "{hosts:?}");

    site.must(&["scale", "machineset", "workers", "--replicas=0"]);
    site.until("every host to be free again", || {
        names.iter().all(|name| {
            let host = site.get("bmh", name);
            host["status"]["provisioning"]["state"] == "available"
                && host["spec"]["consumerRef"].is_null()
        })
    });
    site.until("the machines to be gone", || {
        site.list("machines").is_empty()
    });
    let set = site.get("machineset", "workers");
    assert_eq!(set["status"]["replicas"], 0, "{set}");
}
