//! A master's objects go and come back as `plinth replace-master` has it, with our controllers at the other end.

use std::path::Path;

use ::time::OffsetDateTime;
use installer::replace::Objects;
use installer::{Dir, Stage};
use kube::config::{KubeConfigOptions, Kubeconfig};
use plan::assets::Binary;
use plan::install_config::Facts;
use plan::replace::Api;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::site::{Site, Whose};

const PXE: &str = include_str!("../../../../../examples/pxe.yaml");
const LOST: &str = "master-1";

async fn client(kubeconfig: &Path) -> kube::Client {
    _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let read = Kubeconfig::read_from(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(read, &options).await;
    kube::Client::try_from(config.unwrap()).unwrap()
}

#[test]
fn a_masters_objects_are_taken_away_and_made_anew_and_its_machine_takes_the_new_host() {
    let site = Site::start(Whose::Ours);
    let temp = tempfile::tempdir().unwrap();
    std::fs::write(temp.path().join("install-config.yaml"), PXE).unwrap();
    let (dir, facts, now) = (
        Dir::new(temp.path()),
        Facts::default(),
        OffsetDateTime::now_utc(),
    );
    let binary = Binary {
        sha256: "0".repeat(64),
        bootstrap_url: None,
    };
    dir.create(Stage::IgnitionConfigs, &facts, &binary, now)
        .unwrap();
    let (plan, _) = dir.plan(&facts).unwrap();
    let host = plan::replace::find(&plan, LOST).unwrap();
    let machine = host.machine.as_deref().unwrap();

    // As the install leaves it.
    let kinds = ["host-bmc-secrets-1", "hosts-1", "master-machines-1"];
    for kind in kinds {
        let file = format!("manifests/99_openshift-cluster-api_{kind}.yaml");
        let file = temp.path().join(file);
        site.must(&["apply", "-f", file.to_str().unwrap()]);
    }
    site.apply(&[json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": LOST}})]);
    site.until_state(LOST, "externally provisioned");
    let phase = || site.get("machine", machine)["status"]["phase"].clone();
    site.until("the Machine to run", || phase() == "Running");

    let runtime = Runtime::new().unwrap();
    let objects = Objects::new(runtime.block_on(client(&site.kubeconfig())), host);
    let look = || -> Api { runtime.block_on(objects.look()).expect("the API answers").0 };
    let before = look();
    assert_eq!(before.host.as_ref().unwrap().mark, None);
    assert!(before.node.is_some() && before.machine.is_some() && !before.user_data);
    let bmc = runtime.block_on(objects.old_bmc()).unwrap().unwrap();
    assert_eq!(
        (&*bmc.address, &*bmc.username),
        ("redfish://192.0.2.102/redfish/v1/Systems/1", "admin")
    );

    runtime.block_on(async {
        objects.delete_node().await.unwrap();
        objects.delete_host().await.unwrap();
        objects.delete_machine().await.unwrap();
    });
    site.until("nothing to be left", || {
        let seen = look();
        seen.node.is_none() && seen.host.is_none() && seen.machine.is_none()
    });
    // A second time there is nothing to do.
    runtime.block_on(objects.delete_host()).unwrap();

    let made = dir
        .replacement(LOST, &facts, &binary, now)
        .unwrap()
        .unwrap();
    runtime.block_on(objects.create_host(&made, 0xc2)).unwrap();
    runtime.block_on(objects.create_host(&made, 0xc2)).unwrap();
    site.until("the new host to be written", || {
        look().host.is_some_and(|host| host.provisioned)
    });
    let seen = look();
    assert_eq!(seen.host.unwrap().mark.as_deref(), Some("c2"));
    assert!(seen.machine.is_none() && seen.user_data);

    runtime.block_on(objects.create_machine(&made)).unwrap();
    site.until("the Machine to take it", || phase() == "Provisioned");
    runtime.block_on(objects.forget()).unwrap();
    assert!(!look().user_data);
    let written = site.get("bmh", LOST);
    assert_eq!(written["spec"]["userData"], Value::Null);
    assert_eq!(written["status"]["provisioning"]["state"], "provisioned");
    let id = site.get("machine", machine)["spec"]["providerID"].clone();
    let uid = written["metadata"]["uid"].as_str().unwrap();
    assert!(id.as_str().unwrap().ends_with(uid), "{id}");
    assert_eq!(phase(), "Provisioned");
}
