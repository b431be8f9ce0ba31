//! python-ironicclient's `baremetal` command.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::python;
use crate::service::Service;

/// The command with what its environment tells it.
pub struct Baremetal(Vec<(&'static str, String)>);

impl Baremetal {
    pub fn of(service: &Service) -> Self {
        Self(vec![
            ("OS_AUTH_TYPE", "none".into()),
            ("OS_ENDPOINT", service.url()),
        ])
    }

    fn output(&self, line: &str) -> Output {
        // The script that is installed for it names the place where the environment was made.
        Command::new(python::interpreter())
            .args([
                "-c",
                "import sys; from ironicclient.shell import main; sys.exit(main())",
            ])
            .env_clear()
            .env("HOME", "/nonexistent")
            .envs(self.0.iter().map(|(name, value)| (name, value)))
            .args(line.split_ascii_whitespace())
            .output()
            .unwrap()
    }

    /// What it prints, where it is content.
    pub fn run(&self, line: &str) -> String {
        let output = self.output(line);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "baremetal {line}: {text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        text
    }

    /// What it complains about, where it is not.
    pub fn refused(&self, line: &str) -> String {
        let output = self.output(line);
        assert!(
            !output.status.success(),
            "baremetal {line} was expected to fail"
        );
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    pub fn value(&self, line: &str, column: &str) -> String {
        self.run(&format!("{line} -f value -c {column}"))
            .trim()
            .to_owned()
    }

    fn state(&self, node: &str) -> String {
        self.value(
            &format!("node show {node} --fields provision_state"),
            "provision_state",
        )
    }

    fn reaches(&self, node: &str, state: &str) {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let seen = self.state(node);
            if seen == state {
                return;
            }
            let error = self.value(
                &format!("node show {node} --fields last_error"),
                "last_error",
            );
            assert!(
                Instant::now() < deadline,
                "{node} is {seen}, not {state}; last error: {error}"
            );
        }
    }
}

#[test]
fn a_node_is_prepared_deployed_and_torn_down() {
    let mut service = Service::start("");
    let baremetal = Baremetal::of(&service);
    let drivers = baremetal.value("driver list", "name");
    for driver in ["fake-hardware", "redfish", "idrac", "ipmi"] {
        assert!(drivers.lines().any(|line| line == driver), "{drivers}");
    }
    assert_eq!(baremetal.value("conductor list", "hostname"), "plinth");
    let create = "node create --driver fake-hardware --name n0 --resource-class gold --driver-info ipmi_password=hunter2";
    let uuid = baremetal.value(create, "uuid");
    let shown = baremetal.run("node show n0 -f json");
    assert!(
        shown.contains("******") && !shown.contains("hunter2"),
        "{shown}"
    );
    baremetal.run(&format!(
        "port create 52:54:00:00:00:01 --node {uuid} --pxe-enabled true"
    ));
    assert_eq!(
        baremetal.value("port list --node n0", "address"),
        "52:54:00:00:00:01"
    );
    baremetal.run("node set n0 --property cpu_arch=x86_64 --extra rack=7 --description first");
    baremetal.run("node unset n0 --extra rack");
    baremetal.run("node add trait n0 CUSTOM_FAST HW_CPU_X86_VMX");
    assert_eq!(
        baremetal.run("node trait list n0 -f value").lines().count(),
        2
    );

    baremetal.run("node manage n0 --wait 20");
    baremetal.run("node inspect n0 --wait 20");
    assert!(
        baremetal
            .run("node inventory save n0")
            .contains("system_vendor")
    );
    baremetal.run("node provide n0");
    baremetal.reaches("n0", "available");
    baremetal
        .run("allocation create --resource-class gold --trait CUSTOM_FAST --name a0 --wait 20");
    assert_eq!(baremetal.value("allocation show a0", "node_uuid"), uuid);
    assert!(baremetal.run("node validate n0").contains("deploy"));
    baremetal.run(
        "node set n0 --instance-info image_source=http://images/os.raw --instance-info root_gb=10",
    );
    baremetal.run("node deploy n0 --config-drive {\"meta_data\":{\"name\":\"n0\"}} --wait 20");
    assert_eq!(
        baremetal.value("node show n0 --fields power_state", "power_state"),
        "power on"
    );
    baremetal.run("node reboot n0");
    baremetal.run("node power off n0 --power-timeout 20");
    baremetal.run("node boot device set n0 disk --persistent");
    assert_eq!(
        baremetal.value("node boot device show n0", "boot_device"),
        "disk"
    );
    baremetal.run("node maintenance set n0 --reason moving");
    assert_eq!(baremetal.value("node list --maintenance", "Name"), "n0");
    baremetal.run("node maintenance unset n0");
    baremetal.run("node undeploy n0");
    baremetal.reaches("n0", "available");
    assert_eq!(
        baremetal.value("node show n0 --fields instance_uuid", "instance_uuid"),
        "None"
    );
    assert!(service.ends_gracefully());
    service.restart();
    assert_eq!(baremetal.state("n0"), "available");
    baremetal.run("node delete n0");
    assert_eq!(baremetal.run("node list -f value"), "");
}

#[test]
fn refusals_reach_the_user_of_the_command_line_in_words() {
    let service = Service::start("");
    let baremetal = Baremetal::of(&service);
    baremetal.run("node create --driver fake-hardware --name n0");
    for (line, words) in [
        (
            "node create --driver nonesuch",
            "No conductor service registered which supports driver nonesuch",
        ),
        (
            "node create --driver fake-hardware --name n0",
            "A node with name n0 already exists",
        ),
        ("node show nobody", "could not be found"),
        ("node deploy n0", "not possible in state \"enroll\""),
        (
            "node set n0 --boot-interface ilo",
            "boot_interface: \"ilo\" is not enabled for fake-hardware",
        ),
        ("node add trait n0 lower", "is not a trait"),
        ("node power on nobody", "could not be found"),
        ("node boot device set n0 toaster", "toaster"),
        ("port create nonsense --node n0", "MAC"),
    ] {
        let complaint = baremetal.refused(line);
        assert!(complaint.contains(words), "baremetal {line}: {complaint}");
    }
}

#[test]
fn killed_in_the_midst_of_a_deployment_the_service_goes_on_with_it() {
    let mut service = Service::start("fake: {deploy: 3}\n");
    let baremetal = Baremetal::of(&service);
    baremetal.run("node create --driver fake-hardware --name n0");
    baremetal.run("node manage n0 --wait 20");
    baremetal.run("node provide n0");
    baremetal.reaches("n0", "available");
    baremetal.run("node deploy n0");
    assert_eq!(baremetal.state("n0"), "deploying");
    service.kill();
    service.restart();
    assert_eq!(baremetal.state("n0"), "deploying");
    baremetal.reaches("n0", "active");
}

#[test]
fn a_password_and_a_certificate_of_our_own_let_the_command_line_in() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(path("crt.pem"), made.cert.pem()).unwrap();
    std::fs::write(path("key.pem"), made.signing_key.serialize_pem()).unwrap();
    std::fs::write(
        path("htpasswd"),
        format!("admin:{}\n", bcrypt::hash("hunter2", 5).unwrap()),
    )
    .unwrap();
    let service = Service::start(&format!(
        "tls: {{certificate: {}, key: {}}}\nauth: {{htpasswd: {}}}\n",
        path("crt.pem"),
        path("key.pem"),
        path("htpasswd")
    ));
    let with = |password: &str| {
        Baremetal(vec![
            ("OS_AUTH_TYPE", "http_basic".into()),
            (
                "OS_ENDPOINT",
                format!("https://localhost:{}", service.address.port()),
            ),
            ("OS_USERNAME", "admin".into()),
            ("OS_PASSWORD", password.into()),
            ("OS_CACERT", path("crt.pem")),
        ])
    };
    with("hunter2").run("node create --driver fake-hardware --name n0");
    assert_eq!(with("hunter2").state("n0"), "enroll");
    let complaint = with("wrong").refused("node list");
    assert!(
        complaint.contains("401")
            || complaint.contains("Unauthorized")
            || complaint.contains("Incorrect"),
        "{complaint}"
    );
}
