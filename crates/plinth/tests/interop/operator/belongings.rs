//! Objects beside a host: its ramdisk, a disc for its drive, where its BMC sends events.

use serde_json::{Value, json};

use super::site::{NAMESPACE, Site, Whose};
use super::{IMAGE, host, secret};

fn metal3(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    })
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions.into_iter().flatten().find(|c| c["type"] == kind);
    found.unwrap_or(&Value::Null)
}

#[test]
fn a_host_boots_the_ramdisk_that_its_preprovisioning_image_names() {
    let site = Site::start_with(
        Whose::Ours,
        &[
            "--build-preprov-image",
            "--deploy-kernel=http://192.0.2.200/kernel",
            "--deploy-ramdisk=http://192.0.2.200/initrd",
        ],
    );
    let mut described = host("h1", 1);
    described["spec"]["preprovisioningNetworkDataName"] = json!("h1-network");
    let network = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "h1-network", "namespace": NAMESPACE},
        "stringData": {"networkData": "{\"links\": [], \"networks\": [], \"services\": []}"},
    });
    site.apply(&[network, secret("h1-bmc"), described]);
    site.until_state("h1", "available");
    let image = site.get("ppimg", "h1");
    assert_eq!(condition(&image, "Ready")["status"], "True", "{image}");
    assert_eq!(image["status"]["format"], "initrd");
    assert_eq!(image["status"]["networkData"]["name"], "h1-network");
    let told = &site.node("h1")["driver_info"];
    assert_eq!(told["deploy_ramdisk"], "http://192.0.2.200/initrd");
    assert_eq!(told["deploy_kernel"], "http://192.0.2.200/kernel");

    site.must(&["delete", "bmh", "h1", "--timeout=90s"]);
    site.until("its image to be gone", || {
        site.get("ppimg", "h1")["kind"].is_null()
    });
}

#[test]
fn a_disc_and_a_subscription_are_kept_until_they_are_ended() {
    let site = Site::start(Whose::Ours);
    site.apply(&[
        secret("h1-bmc"),
        host("h1", 1),
        metal3(
            "DataImage",
            "h1",
            &json!({"url": "http://192.0.2.200/data.iso"}),
        ),
        metal3(
            "BMCEventSubscription",
            "alerts",
            &json!({"hostName": "h2", "destination": "http://192.0.2.200/events"}),
        ),
        metal3(
            "BMCEventSubscription",
            "more",
            &json!({"hostName": "h1", "destination": "http://192.0.2.200/events",
                "httpHeadersRef": {"name": "headers"}}),
        ),
    ]);
    let error = |name: &str| {
        let object = site.get("bmcevent", name);
        object["status"]["error"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    site.until("the missing host to be told", || {
        error("alerts").contains("\"h2\"")
    });
    site.until_state("h1", "available");
    site.until("the missing headers to be told", || {
        error("more").contains("\"headers\"")
    });
    site.must(&["patch", "bmh", "h1", "--type=merge", "-p", IMAGE]);
    site.until_state("h1", "provisioned");
    let disc = site.get("dataimage", "h1");
    assert_eq!(disc["metadata"]["finalizers"][0], "dataimage.metal3.io");
    assert_eq!(disc["metadata"]["ownerReferences"][0]["name"], "h1");

    // It goes into the drive on the way up.
    site.must(&["annotate", "bmh", "h1", "reboot.metal3.io="]);
    site.until("the drive to be tried", || {
        let status = &site.get("dataimage", "h1")["status"];
        status["attachedImage"]["url"] == "http://192.0.2.200/data.iso"
            || status["error"]["message"].is_string()
    });
    site.must(&[
        "patch",
        "bmh",
        "h1",
        "--type=merge",
        "-p",
        r#"{"spec":{"online":false}}"#,
    ]);
    for object in ["dataimage/h1", "bmcevent/alerts", "bmcevent/more"] {
        site.must(&["delete", object, "--timeout=60s"]);
    }
}
