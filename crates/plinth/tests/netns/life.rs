//! Up, down, crash, bad input.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::harness::{Lab, PLINTH, poll, str_of, text, wait_for};

const SOON: Duration = Duration::from_secs(20);

fn namespaces() -> String {
    String::from_utf8_lossy(
        &Command::new("ip")
            .args(["netns", "list"])
            .output()
            .unwrap()
            .stdout,
    )
    .into_owned()
}

/// A process that is dead but not yet reaped has no program any more.
fn runs(pid: u64) -> bool {
    std::fs::read_link(format!("/proc/{pid}/exe")).is_ok()
}

#[test]
fn down_leaves_no_process_namespace_or_file() {
    let lab = Lab::up(&["--kind", "sim", "--servers", "3"]);
    let pid = lab.status()["pid"].as_u64().unwrap();
    assert!(namespaces().contains(&lab.namespace()));
    let _stranger = lab.start(&["sleep", "600"]);
    let said = lab.ok(&["down"]);
    assert!(said.contains("is down"), "{said}");
    assert!(!namespaces().contains(&lab.namespace()));
    assert!(!lab.dir().exists());
    assert!(!runs(pid));
    let again = lab.lab(&["down"]);
    assert_eq!(again.status.code(), Some(4), "{}", text(&again));
}

#[test]
fn nothing_of_the_lab_is_on_the_machines_own_interfaces() {
    let links = || {
        String::from_utf8_lossy(
            &Command::new("ip")
                .args(["-o", "addr"])
                .output()
                .unwrap()
                .stdout,
        )
        .into_owned()
    };
    let before = links();
    let _lab = Lab::up(&["--kind", "sim", "--servers", "2"]);
    for foreign in ["10.120.", "192.168.111."] {
        assert_eq!(
            before.contains(foreign),
            links().contains(foreign),
            "{}",
            links()
        );
    }
}

#[test]
fn a_second_up_says_that_the_lab_is_up() {
    let lab = Lab::up(&["--kind", "sim", "--servers", "1"]);
    let again = lab.try_up(&["--kind", "sim"]);
    assert_eq!(again.status.code(), Some(4));
    assert!(text(&again).contains("is up already"), "{}", text(&again));
    assert_eq!(
        lab.status()["servers"].as_array().unwrap().len(),
        1,
        "the first lab lives on"
    );
}

#[test]
fn a_lab_left_by_a_crash_is_found_and_cleaned() {
    let lab = Lab::up(&["--kind", "sim", "--servers", "2"]);
    let pid = lab.status()["pid"].as_u64().unwrap();
    let killed = Command::new("kill")
        .args(["-9", &pid.to_string()])
        .status()
        .unwrap();
    assert!(killed.success());
    wait_for("the lab's process to end", SOON, || !runs(pid));
    let dead = lab.lab(&["status"]);
    assert_eq!(dead.status.code(), Some(4), "{}", text(&dead));
    assert!(text(&dead).contains("died"), "{}", text(&dead));
    let output = lab.try_up(&["--kind", "sim", "--servers", "1"]);
    assert!(
        text(&output).contains("cleaning up after lab"),
        "{}",
        text(&output)
    );
    assert_eq!(lab.status()["servers"].as_array().unwrap().len(), 1);
}

#[test]
fn a_namespace_of_somebody_else_is_left_alone() {
    let lab = Lab::new();
    let namespace = linux::netns::Namespace::create(&lab.namespace()).unwrap();
    let output = lab.try_up(&["--kind", "sim"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(
        text(&output).contains("choose another --name"),
        "{}",
        text(&output)
    );
    assert!(namespaces().contains(&lab.namespace()));
    assert!(!lab.dir().exists(), "nothing half-made");
    linux::netns::Namespace::remove(namespace.name()).unwrap();
}

#[test]
fn every_problem_of_a_rack_is_told_at_once_and_nothing_is_touched() {
    let lab = Lab::new();
    let output = lab.lab(&[
        "up",
        "--rack-only",
        "--name",
        "Bad Name",
        "--servers",
        "0",
        "--vendor",
        "acme",
        "--memory",
        "1",
    ]);
    assert_eq!(output.status.code(), Some(3));
    for part in ["--name", "--servers", "--vendor", "idrac", "--memory"] {
        assert!(text(&output).contains(part), "{part}: {}", text(&output));
    }
    assert!(!lab.dir().exists());
}

#[test]
fn a_directory_that_is_too_long_or_full_is_refused_before_anything_is_made() {
    let lab = Lab::new();
    let long = format!("/tmp/{}", "x".repeat(120));
    let output = Command::new(PLINTH)
        .args(["lab", "up", "--rack-only", "--kind", "sim", "--dir", &long])
        .output()
        .unwrap();
    assert!(text(&output).contains("too long"), "{}", text(&output));
    let output = lab.try_up(&["--memory", "9999999"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(
        text(&output).contains("MiB of memory free"),
        "{}",
        text(&output)
    );
    assert!(!lab.dir().exists());
}

#[test]
fn without_root_without_qemu_or_without_room_the_remedy_is_named() {
    let lab = Lab::new();
    let here = tempfile::tempdir().unwrap();
    let plinth = here.path().join("plinth");
    std::fs::copy(PLINTH, &plinth).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(here.path(), open).unwrap();
    let up = |command: &mut Command| {
        let output = command
            .args(["lab", "up", "--rack-only", "--name", &lab.name])
            .arg("--dir")
            .arg(lab.dir())
            .output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(3), "{}", text(&output));
        assert!(!lab.dir().join("lab.json").exists(), "nothing half-made");
        text(&output)
    };
    let nobody = up(Command::new("setpriv")
        .args(["--reuid=65534", "--clear-groups", "--"])
        .arg(&plinth));
    assert!(nobody.contains("not root"), "{nobody}");
    let bare = up(Command::new(PLINTH).env("PATH", "/nonexistent"));
    assert!(
        bare.contains("install the Debian package qemu-system-x86"),
        "{bare}"
    );

    let _small = SmallDisk::mount(&lab.dir());
    let full = up(&mut Command::new(PLINTH));
    assert!(full.contains("MiB free, and this rack needs"), "{full}");
}

/// A file system of one MiB, for as long as it lives.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn mount(at: &std::path::Path) -> Self {
        std::fs::create_dir_all(at).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
            .arg(at)
            .status()
            .unwrap();
        assert!(mounted.success());
        Self(at.to_path_buf())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn what_is_not_there_is_said_to_be_not_there() {
    let lab = Lab::up(&["--kind", "sim", "--servers", "2"]);
    for (args, said) in [
        (&["power", "server-9", "on"][..], "server-0 to server-1"),
        (&["console", "nobody"], "no server"),
        (&["fault", "add", "server-0", "meteor"], "bmc-down"),
        (
            &["fault", "add", "server-0", "bmc-down", "--count", "2"],
            "takes no --count",
        ),
        (
            &["fault", "add", "server-0", "disk-errors", "--percent", "5"],
            "takes no --percent",
        ),
        (&["fault", "clear", "server-0", "77"], "no fault 77"),
    ] {
        let output = lab.lab(args);
        assert!(!output.status.success(), "{args:?}");
        assert!(text(&output).contains(said), "{args:?}: {}", text(&output));
    }
}

#[test]
fn power_is_the_same_from_the_front_panel_and_from_the_bmc() {
    let lab = Lab::up(&["--kind", "sim", "--servers", "1"]);
    assert_eq!(lab.redfish_power(0), "Off");
    lab.ok(&["power", "server-0", "on"]);
    lab.wait_power(0, "On", SOON);
    assert_eq!(lab.redfish_power(0), "On");
    lab.wait_console("server-0", "Trying Hdd", SOON);
    assert!(lab.ok(&["console", "server-0"]).contains("Trying Hdd"));
    assert_eq!(lab.reset(0, "ForceOff").0, 204);
    lab.wait_power(0, "Off", SOON);
}

#[test]
fn a_simulated_server_boots_by_http_with_an_address_from_the_site() {
    let lab = Lab::up(&["--kind", "sim", "--servers", "1"]);
    let files = tempfile::tempdir().unwrap();
    std::fs::write(files.path().join("boot.iso"), vec![7; 300_000]).unwrap();
    let (_server, base) = lab.serve_files(files.path());
    let boot = serde_json::json!({"Boot": {"BootSourceOverrideTarget": "UefiHttp", "BootSourceOverrideEnabled": "Once",
        "HttpBootUri": format!("{base}/boot.iso")}});
    let (code, answer) = lab.redfish(0, "PATCH", "system", Some(&boot));
    assert!(matches!(code, 200 | 204), "{code} {answer}");
    assert_eq!(lab.reset(0, "On").0, 204);
    lab.wait_console("server-0", "PLINTH-INVENTORY-END", SOON);
    let console = lab.console("server-0");
    assert!(
        console.contains("Booting http://192.168.111.1:8080/boot.iso"),
        "{console}"
    );
    let leases = lab.status()["site"]["leases"].clone();
    let mac = lab.server(0)["macs"][0]["mac"].clone();
    assert_eq!(leases[0]["mac"], mac, "{leases}");
    assert_eq!(leases[0]["hostname"], "server-0");
    let name = format!("server-0.{}.test", lab.name);
    let asked = lab.exec(&["dig", "+short", "+time=2", "@192.168.111.1", &name]);
    assert_eq!(asked.trim(), str_of(&leases[0]["address"]));
    assert!(
        poll(SOON, || lab.server(0)["boot"].is_null()),
        "once is used up"
    );
}

#[test]
fn a_reader_that_goes_away_ends_a_command_quietly() {
    let pipe = format!("{PLINTH} completion bash | head -n 1");
    let output = Command::new("sh").args(["-c", &pipe]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(output.stdout.starts_with(b"_plinth"));
}

#[test]
fn a_lab_that_hangs_is_waited_for_aloud() {
    let lab = Lab::up(&["--kind", "sim", "--servers", "1"]);
    let pid = lab.status()["pid"].as_u64().unwrap();
    let signal = |name: &str| {
        let sent = Command::new("kill").args([name, &pid.to_string()]).status();
        assert!(sent.unwrap().success());
    };
    signal("-STOP");
    let mut down = lab.command(&["down"]);
    let mut down = down.stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(down.stdout.as_mut().unwrap())
        .read_line(&mut said)
        .unwrap();
    signal("-CONT");
    assert!(
        said.starts_with("waiting for the lab to take the order to stop; giving up in"),
        "{said}"
    );
    assert!(down.wait().unwrap().success());
    assert!(!runs(pid));
}
