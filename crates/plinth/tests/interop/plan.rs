//! `plinth plan` and `plinth create` as a person calls them, and what curl gets from what they made.

use std::path::Path;
use std::process::{Command, Output};

fn plinth(args: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_plinth");
    Command::new(program)
        .args(args)
        .output()
        .expect("plinth runs")
}

fn site(example: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../examples/{example}.yaml"));
    std::fs::copy(source, dir.path().join("install-config.yaml")).unwrap();
    dir
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn a_plan_is_shown_as_a_table_and_as_json_and_compared() {
    let (dir, other) = (site("pxe"), site("compact"));
    let path = dir.path().to_str().unwrap();
    let table = plinth(&["plan", "--dir", path]);
    assert!(
        table.status.success() && said(&table).contains("ERASED"),
        "{}",
        said(&table)
    );
    let json = plinth(&["plan", "--dir", path, "-o", "json"]);
    let saved = dir.path().join("plan.json");
    std::fs::write(&saved, &json.stdout).unwrap();
    let same = plinth(&["plan", "--dir", path, "--diff", saved.to_str().unwrap()]);
    assert_eq!(said(&same), "no difference\n");
    let differs = plinth(&[
        "plan",
        "--dir",
        path,
        "--diff",
        other.path().to_str().unwrap(),
    ]);
    assert!(
        said(&differs).contains("~ cluster.workers: 0 -> 2"),
        "{}",
        said(&differs)
    );
}

#[test]
fn a_bad_config_ends_with_three_lists_all_problems_and_touches_nothing() {
    let dir = site("pxe");
    let path = dir.path().join("install-config.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(
        &path,
        text.replace("- 192.0.2.5", "- nowhere")
            .replace("replicas: 2", "replicas: 7")
            .replace("change-me", "hunter2"),
    )
    .unwrap();
    for command in [
        &["plan"][..],
        &["create", "manifests"],
        &["create", "ignition-configs"],
    ] {
        let output = plinth(&[command, &["--dir", dir.path().to_str().unwrap()]].concat());
        let said = said(&output);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(
            said.contains("has 2 problems")
                && said.contains("apiVIPs[0]")
                && !said.contains("hunter2"),
            "{said}"
        );
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}

#[test]
fn stages_are_written_once_and_the_ignition_validator_is_content() {
    let dir = site("virtual-media");
    let path = dir.path().to_str().unwrap();
    let first = plinth(&["create", "ignition-configs", "--dir", path]);
    assert!(first.status.success(), "{}", said(&first));
    let again = plinth(&["create", "ignition-configs", "--dir", path]);
    assert!(
        said(&again).starts_with("0 files written"),
        "{}",
        said(&again)
    );
    for name in ["bootstrap.ign", "master.ign", "worker.ign"] {
        let judged = Command::new("ignition-validate")
            .arg(dir.path().join(name))
            .output();
        let judged = judged.expect("ignition-validate is needed (cargo xtask deps installs it)");
        assert!(judged.status.success(), "{name}: {}", said(&judged));
    }
}

#[test]
fn a_field_is_explained_and_a_typo_is_named() {
    let known = plinth(&["explain", "platform.baremetal.hosts.bmc"]);
    assert!(
        said(&known).contains("redfish-virtualmedia://"),
        "{}",
        said(&known)
    );
    let typo = plinth(&["explain", "platform.baremetal.host"]);
    assert!(
        !typo.status.success() && said(&typo).contains("did you mean \"hosts\"?"),
        "{}",
        said(&typo)
    );
}

/// The API as a master runs it, but alone and on loopback.
struct Api {
    child: std::process::Child,
    server: String,
    log: std::path::PathBuf,
}

impl Api {
    fn start(dir: &Path) -> Self {
        // Free a moment ago; nobody else takes ports at random in a test.
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let tls = dir.join("tls");
        let config = serde_json::json!({
            "listen": format!("127.0.0.1:{port}"),
            "tls": {
                "certificate": tls.join("apiserver.crt"), "key": tls.join("apiserver.key"),
                "client_ca": tls.join("kube-ca.crt"),
            },
            "store": {"file": dir.join("registry")},
            "service_accounts": {"key": tls.join("service-account.key")},
            "namespaces": ["openshift-machine-api"],
        });
        let path = dir.join("apiserver.yaml");
        std::fs::write(&path, config.to_string()).unwrap();
        let log = dir.join("apiserver.log");
        let child = Command::new(env!("CARGO_BIN_EXE_plinth"))
            .args(["apiserver", "--config"])
            .arg(&path)
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let api = Self {
            child,
            server: format!("https://127.0.0.1:{port}"),
            log,
        };
        let ready = || {
            api.kubectl(dir, &["get", "--raw", "/readyz"])
                .status
                .success()
        };
        assert!(
            crate::harness::poll(std::time::Duration::from_mins(1), ready),
            "the API is not ready: {}",
            std::fs::read_to_string(&api.log).unwrap_or_default()
        );
        api
    }

    fn kubectl(&self, dir: &Path, args: &[&str]) -> Output {
        Command::new("kubectl")
            .args(["--server", &self.server, "--kubeconfig"])
            .arg(dir.join("auth/kubeconfig"))
            .args(args)
            .env("HOME", dir)
            .output()
            .expect("kubectl is needed (cargo xtask deps installs it)")
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

#[test]
fn kubectl_accepts_every_manifest() {
    for example in ["pxe", "dual-stack", "static-bonds-vlans"] {
        let dir = site(example);
        let path = dir.path().to_str().unwrap();
        let made = plinth(&["create", "ignition-configs", "--dir", path]);
        assert!(made.status.success(), "{}", said(&made));
        let api = Api::start(dir.path());
        let manifests = dir.path().join("manifests");
        let mut definitions: Vec<_> = std::fs::read_dir(&manifests)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.to_str().unwrap().contains("_crd-"))
            .collect();
        definitions.sort();
        assert!(!definitions.is_empty());
        for definition in &definitions {
            let file = definition.to_str().unwrap();
            let output = api.kubectl(dir.path(), &["apply", "--server-side", "-f", file]);
            assert!(output.status.success(), "{file}: {}", said(&output));
        }
        let all = manifests.to_str().unwrap();
        let wait = [
            "wait",
            "--for=condition=Established",
            "crd",
            "--all",
            "--timeout=60s",
        ];
        let output = api.kubectl(dir.path(), &wait);
        assert!(output.status.success(), "{}", said(&output));
        // As a client sees it, as the API would take it, and for good.
        for how in [
            &["create", "--dry-run=client", "-o", "name"][..],
            &["apply", "--server-side", "--dry-run=server"],
            &["apply", "--server-side"],
            &["apply", "--server-side"],
        ] {
            let args = [how, &["-f", all]].concat();
            let output = api.kubectl(dir.path(), &args);
            assert!(
                output.status.success(),
                "{example} {how:?}: {}",
                said(&output)
            );
        }
        let hosts = ["get", "bmh", "-n", "openshift-machine-api", "-o", "name"];
        let hosts = api.kubectl(dir.path(), &hosts);
        assert!(
            said(&hosts).contains("baremetalhost.metal3.io/master-0"),
            "{}",
            said(&hosts)
        );
    }
}
