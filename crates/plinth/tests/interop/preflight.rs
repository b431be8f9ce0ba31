//! `plinth preflight` in a rack of simulated servers: what is there passes, and what is broken is named.

use std::collections::BTreeMap;
use std::process::Output;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Lab, PLINTH, str_of, text};

const API: &str = "192.168.111.5";
/// 10, and the phase.
const IMAGES_FAILED: i32 = 11;
const INGRESS: &str = "192.168.111.6";

/// A rack, and the install-config.yaml of a cluster of it.
pub struct Site {
    pub lab: Lab,
    dir: tempfile::TempDir,
    config: Value,
}

impl Site {
    pub fn new(args: &[&str]) -> Self {
        let lab = Lab::up(&[&["--kind", "sim", "--servers", "3"][..], args].concat());
        let servers = lab.status()["servers"].as_array().unwrap().clone();
        let authority = std::fs::read_to_string(lab.dir().join("ca.pem")).unwrap();
        let config = json!({
            "apiVersion": "v1",
            "baseDomain": "test",
            "metadata": {"name": lab.name},
            "controlPlane": {"name": "master", "replicas": 3},
            "compute": [{"name": "worker", "replicas": 0}],
            "networking": {"machineNetwork": [{"cidr": "192.168.111.0/24"}]},
            "platform": {"baremetal": {
                "apiVIPs": [API], "ingressVIPs": [INGRESS],
                "provisioningNetwork": "Managed", "provisioningBridge": "provisioning", "externalBridge": "baremetal",
                "bmcVerifyCA": authority,
                "hosts": servers.iter().map(host).collect::<Vec<_>>(),
            }},
            "payload": "builtin",
            "sshKey": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f core@example",
        });
        Self {
            lab,
            dir: tempfile::tempdir().unwrap(),
            config,
        }
    }

    fn host(&mut self, index: usize) -> &mut Value {
        &mut self.config["platform"]["baremetal"]["hosts"][index]
    }

    /// The install directory, with the configuration as it is now.
    pub fn written(&self) -> &str {
        // JSON is YAML.
        let path = self.dir.path().join("install-config.yaml");
        std::fs::write(path, self.config.to_string()).unwrap();
        self.dir.path().to_str().unwrap()
    }

    fn preflight(&self, args: &[&str]) -> Output {
        let dir = self.written();
        self.lab
            .try_exec(&[&[PLINTH, "preflight", "--dir", dir][..], args].concat())
    }

    /// `plinth create cluster`, whatever the machine under test lacks for it.
    fn create(&self, args: &[&str]) -> Output {
        let dir = self.written();
        let mut all = vec!["exec", "--", PLINTH, "create", "cluster", "--dir", dir];
        for id in ["host-memory", "host-disk", "host-qemu", "bridge-carrier"] {
            all.extend(["--skip-check", id]);
        }
        all.extend(args);
        let mut create = self.lab.command(&all);
        let cache = self.dir.path().join("cache");
        create.env("XDG_CACHE_HOME", cache);
        create.env("PLINTH_AGENT", PLINTH).output().unwrap()
    }

    /// Where `create` keeps images that it fetches.
    fn cache(&self) -> std::path::PathBuf {
        self.dir.path().join("cache/plinth/images")
    }

    /// Verdicts by check and subject, and the exit code.
    fn verdicts(&self, args: &[&str]) -> (BTreeMap<(String, String), String>, Option<i32>) {
        let output = self.preflight(&[args, &["-o", "json"]].concat());
        let findings: Vec<Value> = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", text(&output)));
        let word = |finding: &Value, name: &str| str_of(&finding[name]).to_owned();
        let verdicts = findings
            .iter()
            .map(|finding| {
                let key = (word(finding, "id"), word(finding, "subject"));
                (key, word(finding, "verdict"))
            })
            .collect();
        (verdicts, output.status.code())
    }

    /// What a check says of a host.
    fn says(&self, id: &str, subject: &str) -> String {
        let (verdicts, _) = self.verdicts(&["--only", id]);
        let found = verdicts.get(&(id.to_owned(), subject.to_owned()));
        found.unwrap_or_else(|| panic!("{verdicts:?}")).clone()
    }
}

fn host(server: &Value) -> Value {
    let address = str_of(&server["redfish"]).replacen("https://", "redfish://", 1);
    let macs = server["macs"].as_array().unwrap();
    let port = macs.iter().find(|port| port["network"] == "provisioning");
    json!({
        "name": server["name"], "role": "master",
        "bmc": {"address": address, "username": server["user"], "password": server["password"]},
        "bootMACAddress": port.unwrap()["mac"],
    })
}

#[test]
fn a_rack_that_is_whole_has_nothing_against_it_but_what_this_machine_lacks() {
    let site = Site::new(&[]);
    let (verdicts, _) = site.verdicts(&[]);
    // What the machine under test has, or has not, is not the rack's fault.
    let machine = ["host-", "image-", "root", "bridge-", "dns-"];
    let against: Vec<_> = verdicts
        .iter()
        .filter(|((id, _), verdict)| {
            !machine.iter().any(|ours| id.starts_with(ours))
                && matches!(verdict.as_str(), "fail" | "warn")
        })
        .collect();
    assert!(against.is_empty(), "{against:#?}");
    for id in [
        "bmc-reachable",
        "bmc-certificate",
        "bmc-credentials",
        "bmc-system",
        "bmc-unique",
        "bmc-clock",
        "power",
        "boot-mac",
        "memory",
        "disk-size",
    ] {
        for server in ["server-0", "server-1", "server-2"] {
            let verdict = verdicts.get(&(id.to_owned(), server.to_owned()));
            assert_eq!(verdict.map(String::as_str), Some("pass"), "{id} {server}");
        }
    }
    for (id, subject) in [
        ("vip-free", format!("api {API}")),
        ("site-dhcp", "baremetal".into()),
        ("provisioning-dhcp", "provisioning".into()),
        ("provisioning-ip-free", "172.22.0.2".into()),
        ("gateway", "192.168.111.1".into()),
        ("dns-upstream", "192.168.111.1".into()),
        ("bridge", "baremetal".into()),
    ] {
        let verdict = verdicts.get(&(id.to_owned(), subject.clone()));
        assert_eq!(
            verdict.map(String::as_str),
            Some("pass"),
            "{id} {subject}: {verdicts:#?}"
        );
    }
}

#[test]
fn what_is_wrong_with_a_bmc_is_told_apart() {
    let mut site = Site::new(&[]);
    site.lab.ok(&["fault", "add", "server-0", "bmc-down"]);
    site.host(1)["bmc"]["password"] = json!("wrong");
    let begin = std::time::Instant::now();
    let (verdicts, code) = site.verdicts(&[
        "--only",
        "bmc-reachable",
        "--only",
        "bmc-credentials",
        "--only",
        "power",
    ]);
    let took = begin.elapsed();
    assert_eq!(code, Some(5));
    let of = |id: &str, host: &str| verdicts[&(id.to_owned(), host.to_owned())].clone();
    assert_eq!(of("bmc-reachable", "server-0"), "fail");
    assert_eq!(of("bmc-credentials", "server-0"), "unknown");
    assert_eq!(of("bmc-reachable", "server-1"), "pass");
    assert_eq!(of("bmc-credentials", "server-1"), "fail");
    assert_eq!(of("power", "server-1"), "unknown");
    assert_eq!(of("bmc-credentials", "server-2"), "pass");
    assert_eq!(of("power", "server-2"), "pass");
    assert!(took < Duration::from_mins(1), "{took:?}");
    let table = text(&site.preflight(&["--only", "bmc-credentials"]));
    assert!(
        table.contains("FAIL     bmc-credentials: server-1"),
        "{table}"
    );

    site.lab.ok(&["fault", "clear"]);
    site.host(0)["bootMACAddress"] = json!("52:54:00:99:99:99");
    assert_eq!(site.says("boot-mac", "server-0"), "fail");
    site.host(0)["rootDeviceHints"] = json!({"serialNumber": "none-such"});
    assert_eq!(site.says("root-device", "server-0"), "fail");
    let path = "/redfish/v1/Systems/none-such";
    let address = str_of(&site.host(0)["bmc"]["address"]).to_owned();
    let (base, _) = address.split_once("/redfish/").unwrap();
    site.host(0)["bmc"]["address"] = json!(format!("{base}{path}"));
    assert_eq!(site.says("bmc-system", "server-0"), "fail");
    site.config["platform"]["baremetal"]["bmcVerifyCA"] = Value::Null;
    assert_eq!(site.says("bmc-certificate", "server-2"), "fail");
}

#[test]
fn ipmi_says_what_it_can() {
    let mut site = Site::new(&[]);
    let server = site.lab.server(0);
    site.host(0)["bmc"]["address"] = json!(format!("ipmi://{}", str_of(&server["ipmi"])));
    let (verdicts, _) = site.verdicts(&[
        "--only",
        "bmc-credentials",
        "--only",
        "power",
        "--only",
        "memory",
    ]);
    let of = |id: &str| verdicts[&(id.to_owned(), "server-0".to_owned())].clone();
    assert_eq!(of("bmc-credentials"), "pass");
    assert_eq!(of("power"), "pass");
    assert_eq!(of("memory"), "unknown");
    site.host(0)["bmc"]["password"] = json!("wrong");
    assert_eq!(site.says("bmc-credentials", "server-0"), "fail");
    site.lab.ok(&["power", "server-0", "on"]);
    site.lab.wait_power(0, "On", Duration::from_secs(20));
    site.host(0)["bmc"]["password"] = server["password"].clone();
    assert_eq!(site.says("power", "server-0"), "warn");
}

#[test]
fn a_server_without_a_licence_or_a_drive_cannot_boot_from_one() {
    let mut site = Site::new(&["--vendor", "ilo"]);
    for index in 0..3 {
        let address = str_of(&site.host(index)["bmc"]["address"]).to_owned();
        site.host(index)["bmc"]["address"] =
            json!(address.replacen("redfish://", "redfish-virtualmedia://", 1));
    }
    assert_eq!(site.says("virtual-media", "server-0"), "pass");
    assert_eq!(site.says("boot-device", "server-0"), "pass");
    // This BMC keeps its licences to itself.
    assert_eq!(site.says("virtual-media-licence", "server-0"), "unknown");
}

#[test]
fn strangers_on_the_wire_are_heard() {
    let site = Site::new(&[]);
    let api = format!("api {API}");
    assert_eq!(site.says("vip-free", &api), "pass");
    // Another machine on the network: its own namespace, plugged into the bridge.
    let stranger = Stranger::new(&site.lab, API);
    assert_eq!(site.says("vip-free", &api), "fail");
    assert_eq!(site.says("provisioning-dhcp", "provisioning"), "pass");
    let _dhcp = stranger.serves_dhcp();
    crate::harness::wait_for("the stranger's DHCP", Duration::from_secs(30), || {
        site.says("provisioning-dhcp", "provisioning") == "fail"
    });
    let ids = text(
        &std::process::Command::new(PLINTH)
            .args(["vrid", &site.lab.name])
            .output()
            .unwrap(),
    );
    let id = ids
        .lines()
        .find_map(|line| line.strip_prefix("api "))
        .unwrap()
        .to_owned();
    assert_eq!(site.says("vrid-quiet", &format!("VRID {id}")), "pass");
    let _vrrp = stranger.speaks_vrrp(&id);
    crate::harness::wait_for("the stranger's VRRP", Duration::from_mins(1), || {
        site.says("vrid-quiet", &format!("VRID {id}")) == "fail"
    });
}

#[test]
fn an_install_ends_before_it_begins_with_all_that_is_against_it() {
    let mut site = Site::new(&[]);
    let right = site.host(1)["bmc"]["password"].take();
    site.host(1)["bmc"]["password"] = json!("swordfish");
    let stranger = Stranger::new(&site.lab, API);
    // Nobody gives out addresses.
    let deaf = "add table inet deaf; add chain inet deaf in { type filter hook input priority 0; }; \
                add rule inet deaf in udp dport 67 drop";
    site.lab.exec(&["nft", deaf]);

    let created = site.create(&[]);
    let told = text(&created);
    assert_eq!(created.status.code(), Some(5), "{told}");
    let errors = String::from_utf8_lossy(&created.stderr);
    for (subject, check) in [
        ("server-1: ", "(bmc-credentials)"),
        (API, "(vip-free)"),
        ("baremetal: ", "(site-dhcp)"),
    ] {
        let named = |line: &str| line.contains(subject) && line.contains(check);
        assert!(errors.lines().any(named), "{subject} {check}: {told}");
    }
    assert!(
        !told.contains("swordfish"),
        "the password is nobody's business"
    );
    let made = |name: &str| std::path::Path::new(site.written()).join(name).exists();
    assert!(!made("auth") && !made("bootstrap"), "nothing is made");
    for server in site.lab.status()["servers"].as_array().unwrap() {
        assert_eq!(server["power"], "Off");
    }

    drop(stranger);
    site.lab.exec(&["nft", "delete table inet deaf"]);
    site.host(1)["bmc"]["password"] = right;
    let created = site.create(&["--to", "preflight"]);
    assert!(created.status.success(), "{}", text(&created));
}

#[test]
fn an_image_that_does_not_verify_ends_an_install_and_is_not_kept() {
    let mut site = Site::new(&[]);
    let files = tempfile::tempdir().unwrap();
    std::fs::write(files.path().join("os.qcow2"), vec![7; 20 << 20]).unwrap();
    let (_serving, base) = site.lab.serve_files(files.path());
    let (url, sum) = (format!("{base}/os.qcow2"), "0".repeat(64));
    site.config["platform"]["baremetal"]["clusterOSImage"] = json!(format!("{url}?sha256={sum}"));
    let created = site.create(&["--to", "images"]);
    let told = text(&created);
    assert_eq!(created.status.code(), Some(IMAGES_FAILED), "{told}");
    let errors = String::from_utf8_lossy(&created.stderr);
    let named = |line: &str| line.contains(&url) && line.contains(&sum);
    assert!(errors.lines().any(named), "{told}");
    assert!(!site.cache().join(format!("{sum}.qcow2")).exists());
    assert!(
        !std::path::Path::new(site.written())
            .join("bootstrap")
            .exists()
    );
}

/// A machine that should not be there.
struct Stranger {
    namespace: String,
    files: tempfile::TempDir,
}

impl Stranger {
    fn new(lab: &Lab, address: &str) -> Self {
        let namespace = format!("{}-x", lab.namespace());
        let stranger = Self {
            namespace,
            files: tempfile::tempdir().unwrap(),
        };
        ip(&["netns", "add", &stranger.namespace]);
        for (bridge, port, inner, net) in [
            ("baremetal", "strange0", "out0", format!("{address}/24")),
            ("provisioning", "strange1", "pro0", "172.22.0.200/24".into()),
        ] {
            lab.exec(&[
                "ip",
                "link",
                "add",
                port,
                "type",
                "veth",
                "peer",
                "name",
                inner,
                "netns",
                &stranger.namespace,
            ]);
            lab.exec(&["ip", "link", "set", port, "master", bridge, "up"]);
            ip(&[
                "-n",
                &stranger.namespace,
                "address",
                "add",
                &net,
                "dev",
                inner,
            ]);
            ip(&["-n", &stranger.namespace, "link", "set", inner, "up"]);
        }
        stranger
    }

    fn run(&self, program: &str, args: &[&str]) -> Background {
        let child = std::process::Command::new("ip")
            .args(["netns", "exec", &self.namespace, program])
            .args(args)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn();
        Background(child.unwrap_or_else(|error| {
            panic!("{program} is needed (cargo xtask deps installs it): {error}")
        }))
    }

    fn serves_dhcp(&self) -> Background {
        let leases = format!(
            "--dhcp-leasefile={}",
            self.files.path().join("leases").display()
        );
        self.run(
            "dnsmasq",
            &[
                "--keep-in-foreground",
                "--port=0",
                "--conf-file=/dev/null",
                "--interface=pro0",
                "--bind-interfaces",
                "--dhcp-range=172.22.0.210,172.22.0.220,60",
                "--no-ping",
                "--pid-file=",
                &leases,
            ],
        )
    }

    fn speaks_vrrp(&self, id: &str) -> Background {
        let config = self.files.path().join("keepalived.conf");
        std::fs::write(
            &config,
            format!("vrrp_instance stranger {{\n interface out0\n virtual_router_id {id}\n priority 100\n advert_int 1\n virtual_ipaddress {{\n 192.168.111.99\n }}\n}}\n"),
        )
        .unwrap();
        let pid = |name: &str| self.files.path().join(name).to_str().unwrap().to_owned();
        self.run(
            "keepalived",
            &[
                "--dont-fork",
                "--vrrp",
                "--use-file",
                config.to_str().unwrap(),
                "--pid",
                &pid("pid"),
                "--vrrp_pid",
                &pid("vrrp"),
            ],
        )
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        _ = std::process::Command::new("ip")
            .args(["netns", "del", &self.namespace])
            .status();
    }
}

/// Ends gently, so that children end as well.
struct Background(std::process::Child);

impl Drop for Background {
    fn drop(&mut self) {
        let pid = nix::unistd::Pid::from_raw(self.0.id() as i32);
        _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        _ = self.0.wait();
    }
}

fn ip(args: &[&str]) {
    let output = std::process::Command::new("ip")
        .args(args)
        .output()
        .unwrap();
    assert!(output.status.success(), "ip {args:?}: {}", text(&output));
}

#[test]
fn an_image_is_looked_at_and_read_whole_where_asked() {
    let mut site = Site::new(&[]);
    let files = tempfile::tempdir().unwrap();
    std::fs::write(files.path().join("os.qcow2.gz"), vec![7; 20 << 20]).unwrap();
    let (_serving, base) = site.lab.serve_files(files.path());
    let output = std::process::Command::new("sha256sum")
        .arg(files.path().join("os.qcow2.gz"))
        .output()
        .unwrap();
    let right = String::from_utf8_lossy(&output.stdout)[..64].to_owned();
    let wrong = "0".repeat(64);
    let url = format!("{base}/os.qcow2.gz");
    let mut verdict = |source: &str, sum: &str, args: &[&str], id: &str| {
        site.config["platform"]["baremetal"]["clusterOSImage"] =
            json!(format!("{source}?sha256={sum}"));
        let (verdicts, _) = site.verdicts(&[&["--only", id][..], args].concat());
        verdicts[&(id.to_owned(), source.to_owned())].clone()
    };
    assert_eq!(verdict(&url, &right, &[], "image-reachable"), "pass");
    assert_eq!(verdict(&url, &right, &[], "image-size"), "pass");
    let whole = ["--verify-image"];
    assert_eq!(verdict(&url, &right, &whole, "image-checksum"), "pass");
    assert_eq!(verdict(&url, &wrong, &whole, "image-checksum"), "fail");
    let gone = format!("{base}/gone.qcow2.gz");
    assert_eq!(verdict(&gone, &right, &[], "image-reachable"), "fail");
}

#[test]
fn a_check_that_does_not_exist_is_named_and_the_list_is_there() {
    let output = std::process::Command::new(PLINTH)
        .args(["preflight", "--only", "vip-fre"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output).contains("did you mean \"vip-free\"?"),
        "{}",
        text(&output)
    );
    let list = std::process::Command::new(PLINTH)
        .args(["preflight", "--list"])
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&list.stdout).lines().count() >= 40);
}
