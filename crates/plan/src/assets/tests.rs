use super::*;
use crate::install_config::{Facts, parse};
use std::fmt::Write as _;

/// Certificates and tokens that are none, but always the same.
pub fn keys(plan: &Plan) -> Keys {
    let pair = |name: &str| KeyPair {
        public: format!("-----BEGIN CERTIFICATE-----\n{name}\n-----END CERTIFICATE-----\n"),
        private: Secret::new(format!(
            "-----BEGIN PRIVATE KEY-----\n{name}\n-----END PRIVATE KEY-----\n"
        )),
    };
    let names = plan
        .certificates
        .iter()
        .map(|certificate| &certificate.name);
    let hosts = plan.hosts.iter().filter(|host| host.machine.is_some());
    Keys {
        certificates: names.map(|name| (name.clone(), pair(name))).collect(),
        service_account: pair("service-account"),
        pools: ["master", "worker"]
            .map(|pool| (pool.to_owned(), Secret::new(format!("secret-of-{pool}"))))
            .into(),
        hosts: hosts
            .map(|host| {
                (
                    host.name.clone(),
                    Secret::new(format!("token-of-{}", host.name)),
                )
            })
            .collect(),
        ironic_password: Secret::new("password".into()),
        ironic_hash: Secret::new("$2y$05$hash".into()),
    }
}

fn render(text: &str) -> Files {
    with_inputs(text, |inputs| {
        let mut files = manifests(inputs);
        files.extend(ignition_configs(inputs));
        files.extend(access(inputs));
        files
    })
}

fn with_inputs<T>(text: &str, make: impl FnOnce(&Inputs) -> T) -> T {
    let config = parse(text, &Facts::default()).unwrap().config;
    let identity = Identity::new(
        &config.name,
        "abcde",
        "00000000-0000-4000-8000-000000000000".into(),
    );
    let plan = Plan::new(&config, Some(identity.clone()));
    let keys = keys(&plan);
    let binary = Binary {
        sha256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855".into(),
        bootstrap_url: None,
    };
    make(&Inputs {
        plan: &plan,
        config: &config,
        identity: &identity,
        keys: &keys,
        binary: &binary,
    })
}

/// Data URLs opened, one level after the other, so that a person can read them.
fn opened(value: &serde_json::Value) -> serde_json::Value {
    use base64::Engine as _;
    use serde_json::Value;
    match value {
        Value::String(text) => {
            let data = text
                .strip_prefix("data:;base64,")
                .and_then(|data| base64::engine::general_purpose::STANDARD.decode(data).ok());
            match data.and_then(|data| String::from_utf8(data).ok()) {
                Some(text) => match serde_json::from_str::<Value>(&text) {
                    Ok(inner @ Value::Object(_)) => opened(&inner),
                    _ => Value::String(text),
                },
                None => value.clone(),
            }
        }
        Value::Array(items) => items.iter().map(opened).collect(),
        Value::Object(fields) => Value::Object(
            fields
                .iter()
                .map(|(key, value)| (key.clone(), opened(value)))
                .collect(),
        ),
        other => other.clone(),
    }
}

fn readable(files: &Files, only: &str) -> String {
    let mut text = String::new();
    for (path, file) in files.iter().filter(|(path, _)| path.starts_with(only)) {
        let content = String::from_utf8(file.bytes.clone()).unwrap();
        let content = match serde_json::from_str::<serde_json::Value>(&content) {
            Ok(json) => yaml(&opened(&json)),
            Err(_) => content,
        };
        _ = writeln!(text, "=== {path} {:04o}\n{content}", file.mode);
    }
    text
}

const PXE: &str = include_str!("../../../../examples/pxe.yaml");
const EXAMPLES: [(&str, &str); 6] = [
    ("pxe", PXE),
    (
        "virtual-media",
        include_str!("../../../../examples/virtual-media.yaml"),
    ),
    (
        "dual-stack",
        include_str!("../../../../examples/dual-stack.yaml"),
    ),
    ("compact", include_str!("../../../../examples/compact.yaml")),
    (
        "single-node",
        include_str!("../../../../examples/single-node.yaml"),
    ),
    (
        "static-bonds-vlans",
        include_str!("../../../../examples/static-bonds-vlans.yaml"),
    ),
];

#[test]
fn the_files_of_every_example_are_as_agreed() {
    for (name, text) in EXAMPLES {
        let files = render(text);
        // The definitions have snapshots where they are made.
        let own: Files = files
            .clone()
            .into_iter()
            .filter(|(path, _)| !path.contains("_crd-"))
            .collect();
        insta::assert_snapshot!(format!("manifests-{name}"), readable(&own, "manifests/"));
        insta::assert_snapshot!(
            format!("bootstrap-{name}"),
            readable(&files, "bootstrap.ign")
        );
    }
    let files = render(PXE);
    let rest = [
        "auth/",
        "hosts/",
        "master.ign",
        "metadata.json",
        "worker.ign",
    ]
    .map(|only| readable(&files, only));
    insta::assert_snapshot!("access-pxe", rest.concat());
}

#[test]
fn rendering_twice_gives_the_same_bytes() {
    for (name, text) in EXAMPLES {
        assert!(render(text) == render(text), "{name}");
    }
}

#[test]
fn whatever_holds_a_secret_is_for_its_owner_only() {
    let text = PXE.replace("change-me", "hunter2");
    let secrets = [
        "hunter2",
        "aHVudGVyMg==",
        "PRIVATE KEY",
        "secret-of-",
        "token-of-",
    ];
    for (path, file) in render(&text) {
        let content = String::from_utf8_lossy(&file.bytes).into_owned();
        let holds = secrets.iter().any(|secret| content.contains(secret));
        assert!(!holds || file.mode == 0o600, "{path}");
    }
}

fn manifest_objects(text: &str) -> Vec<serde_json::Value> {
    let files = render(text);
    let manifests = files
        .iter()
        .filter(|(path, _)| path.starts_with("manifests/"));
    let object = |bytes: &[u8]| serde_saphyr::from_str(std::str::from_utf8(bytes).unwrap());
    manifests
        .map(|(_, file)| object(&file.bytes).unwrap())
        .collect()
}

#[test]
fn every_kind_that_is_not_kubernetes_own_is_defined_and_before_it_is_used() {
    for (name, text) in EXAMPLES {
        let objects = manifest_objects(text);
        let mut defined = std::collections::BTreeSet::new();
        for object in objects {
            let kind = object["kind"].as_str().unwrap().to_owned();
            let group = object["apiVersion"].as_str().unwrap();
            let group = group.split_once('/').map_or("", |(group, _)| group);
            if kind == "CustomResourceDefinition" {
                let spec = &object["spec"];
                let made = spec["names"]["kind"].as_str().unwrap().to_owned();
                defined.insert((spec["group"].as_str().unwrap().to_owned(), made));
            } else if group.contains('.') && !group.ends_with("k8s.io") {
                assert!(
                    defined.contains(&(group.to_owned(), kind.clone())),
                    "{name}: {group} {kind} is used before it is defined"
                );
            }
        }
    }
}

#[test]
fn a_daemon_has_its_configuration_and_a_master_has_them_all() {
    let bootstrap = |text: &str| {
        let files = render(text);
        let config = serde_json::from_slice(&files["bootstrap.ign"].bytes).unwrap();
        opened(&config)
    };
    for (name, text) in EXAMPLES {
        let bootstrap = bootstrap(text);
        let files = bootstrap["storage"]["files"].as_array().unwrap();
        let inner = files.iter().filter(|file| {
            let path = file["path"].as_str().unwrap();
            path.starts_with("/etc/plinth/mcs/")
        });
        let mut masters = 0;
        for config in inner
            .map(|file| &file["contents"]["source"])
            .chain([&bootstrap])
        {
            let files = config["storage"]["files"].as_array().unwrap();
            let paths: Vec<&str> = files
                .iter()
                .map(|file| file["path"].as_str().unwrap())
                .collect();
            let units = config["systemd"]["units"].as_array().unwrap();
            for unit in units {
                let text = unit["contents"].as_str().unwrap();
                let runs = text
                    .split_whitespace()
                    .find(|word| word.starts_with("/etc/plinth/"));
                assert!(
                    runs.is_none_or(|file| paths.contains(&file)),
                    "{name}: {text}"
                );
            }
            let has = |daemon: &str| {
                let unit = format!("plinth-{daemon}.service");
                units.iter().any(|known| known["name"] == unit)
            };
            if has("etcd") {
                masters += 1;
                for daemon in ["netd", "mcs", "apiserver", "metal3"] {
                    assert!(has(daemon), "{name}: {daemon}");
                }
            }
        }
        assert!(masters > 0, "{name}");
    }
}

#[test]
fn slower_hardware_is_asked_less_often_and_waited_for() {
    let found = |text: &str| {
        with_inputs(text, |inputs| {
            let master = inputs.plan.with_role(Role::Master).next().unwrap();
            let read =
                |text: String| -> serde_json::Value { serde_saphyr::from_str(&text).unwrap() };
            let netd = read(daemons::netd(inputs, "master-0"));
            let etcd = read(control_plane::etcd(inputs, master, nodes::Etcd::New));
            let mut numbers = vec![netd["vips"][0]["advertise_ms"].clone()];
            for listener in [&netd["lb"][0], &netd["lb"][1], &netd["checks"][0]] {
                let at = listener.get("check").unwrap_or(listener);
                numbers.extend(["interval_ms", "timeout_ms"].map(|name| at[name].clone()));
            }
            numbers
                .extend(["heartbeat-interval", "election-timeout"].map(|name| etcd[name].clone()));
            serde_json::Value::from(numbers).to_string()
        })
    };
    let field = "    controlPlaneHardwareSpeed: Slower\n    apiVIPs:";
    let slower = PXE.replacen("    apiVIPs:", field, 1);
    assert_eq!(found(PXE), "[40,null,null,2000,1500,1000,900,100,1000]");
    assert_eq!(
        found(&slower),
        "[120,500,1500,5000,4000,3000,2500,500,2500]"
    );
}

#[test]
fn every_manifest_is_an_object_that_can_be_read_back() {
    for (path, file) in render(PXE)
        .iter()
        .filter(|(path, _)| path.starts_with("manifests/"))
    {
        let text = String::from_utf8(file.bytes.clone()).unwrap();
        let value: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
        for field in ["apiVersion", "kind"] {
            assert!(value[field].is_string(), "{path}");
        }
        assert!(value["metadata"]["name"].is_string(), "{path}");
    }
}

/// A replacement of the second master, and its config.
fn replaced(text: &str) -> (Replacement, serde_json::Value) {
    use base64::Engine as _;
    let made = with_inputs(text, |inputs| {
        let host = inputs.plan.with_role(Role::Master).nth(1).unwrap();
        replacement(inputs, host).unwrap()
    });
    let data = made.user_data["data"]["userData"].as_str().unwrap();
    let data = base64::engine::general_purpose::STANDARD.decode(data);
    let config = serde_json::from_slice(&data.unwrap()).unwrap();
    (made, opened(&config))
}

#[test]
fn a_replacement_joins_the_etcd_of_the_others_and_needs_no_bootstrap() {
    let (made, config) = replaced(PXE);
    // A Secret may have a mebibyte.
    assert!(made.user_data.to_string().len() < 512 << 10);
    let files = config["storage"]["files"].as_array().unwrap();
    let file = |path: &str| {
        let file = files.iter().find(|file| file["path"] == path);
        &file.unwrap_or_else(|| panic!("{path}"))["contents"]
    };
    let etcd = file("/etc/plinth/etcd.yaml")["source"].as_str().unwrap();
    let etcd: serde_json::Value = serde_saphyr::from_str(etcd).unwrap();
    assert_eq!(etcd["name"], "master-1");
    assert_eq!(etcd["initial-cluster-state"], "existing");
    let members = etcd["initial-cluster"].as_str().unwrap();
    assert_eq!(members.split(',').count(), 3, "{members}");
    // All that is fetched is behind the API's address, without a token of the bootstrap's.
    for file in files {
        let source = file["contents"]["source"].as_str().unwrap_or_default();
        if source.starts_with("http") {
            assert!(
                source.starts_with("http://192.0.2.5:22624/files/"),
                "{source}"
            );
        }
    }
    assert!(!config.to_string().contains("token-of-"));
    // Else it is what the bootstrap served.
    let before = render(PXE);
    let bootstrap = opened(&serde_json::from_slice(&before["bootstrap.ign"].bytes).unwrap());
    let served = bootstrap["storage"]["files"].as_array().unwrap();
    let served = served
        .iter()
        .find(|file| file["path"] == "/etc/plinth/mcs/hosts/master-1.ign");
    let served = served.unwrap()["contents"]["source"].clone();
    let same = served.to_string().replace(
        "initial-cluster-state: new",
        "initial-cluster-state: existing",
    );
    assert_eq!(config.to_string(), same);
}

#[test]
fn masters_give_files_to_a_replacement_where_the_site_balances_by_itself() {
    let text = PXE.replace(
        "    provisioningNetwork: Managed",
        "    loadBalancer: {type: UserManaged}\n    provisioningNetwork: Managed",
    );
    let (_, config) = replaced(&text);
    let files = config["storage"]["files"].as_array().unwrap();
    let program = files
        .iter()
        .find(|file| file["path"] == units::BINARY)
        .unwrap();
    let shown = &program["contents"]["httpHeaders"][0]["value"];
    assert_eq!(shown, "Bearer secret-of-master");
}

#[test]
fn a_replacements_objects_are_the_installs_but_for_who_writes_the_disk() {
    for (name, text) in EXAMPLES
        .into_iter()
        .filter(|(name, _)| *name != "single-node")
    {
        let (made, _) = replaced(text);
        let objects = manifest_objects(text);
        for secret in &made.secrets {
            assert!(objects.contains(secret), "{name}");
        }
        assert!(objects.contains(&made.machine), "{name}");
        let mut host = made.host("c2");
        assert_eq!(host["metadata"]["annotations"][MEMBER_ANNOTATION], "c2");
        let set = objects
            .iter()
            .find(|object| object["kind"] == "MachineSet")
            .unwrap();
        let provider = &set["spec"]["template"]["spec"]["providerSpec"]["value"];
        assert_eq!(host["spec"]["image"], provider["image"], "{name}");
        assert_eq!(
            host["spec"]["userData"]["name"],
            made.user_data["metadata"]["name"]
        );
        // Without these it is the one that the install began with.
        host["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("annotations");
        let spec = host["spec"].as_object_mut().unwrap();
        spec.retain(|key, _| key != "image" && key != "userData");
        spec["externallyProvisioned"] = true.into();
        assert!(objects.contains(&host), "{name}: {host:#}");
    }
}

#[test]
fn a_replacement_shows_no_key() {
    let (made, _) = replaced(PXE);
    let data = made.user_data["data"]["userData"].as_str().unwrap();
    assert!(!format!("{made:?}").contains(&data[..40]));
}

/// JSON of any shape, with awkward texts.
fn any_json() -> impl proptest::strategy::Strategy<Value = serde_json::Value> {
    use proptest::prelude::*;
    use serde_json::Value;
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "(\\PC|\n| |: |# |'|\"){0,120}".prop_map(Value::from),
        "(yes|no|null|~|0[0-9]{3}|1e5|1\\.5|0x1f|=|<<|-|%)".prop_map(Value::from),
        "[a-z ]{100,300}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-zA-Z0-9./_-]{1,12}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest::proptest! {
    #[test]
    fn what_is_written_as_yaml_is_read_back_the_same(value in any_json()) {
        let text = yaml(&value);
        let options = serde_saphyr::options! { legacy_octal_numbers: true };
        let back: serde_json::Value = serde_saphyr::from_str_with_options(&text, options).unwrap();
        proptest::prop_assert_eq!(back, value, "{}", text);
    }
}
