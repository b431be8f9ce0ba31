//! `plinth host add` and `plinth status hosts` against `plinth serve`.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use serde_json::Value;

use super::site::{Site, Whose};
use crate::harness::PLINTH;

const PATIENCE: Duration = Duration::from_secs(30);

/// `plinth ARGS` with the site's kubeconfig.
fn plinth(site: &Site, args: &[&str], input: &str) -> Output {
    let mut child = Command::new(PLINTH)
        .args(args)
        .env("KUBECONFIG", site.kubeconfig())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // One that was refused reads no further.
    _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

const HOSTS: &str = "\
name,bmc,username,password,mac,labels
a1,redfish://192.0.2.1/redfish/v1/Systems/1,admin,\"hunter,2\",52:54:00:00:00:01,rack=r1
a2,redfish-virtualmedia://192.0.2.2/redfish/v1/Systems/1,admin,,,
";

#[test]
fn hosts_of_a_file_are_added_all_or_none_and_seen_to_become_available() {
    let site = Site::start(Whose::Ours);
    let add = |args: &[&str], text: &str| {
        plinth(
            &site,
            &[&["host", "add", "--from", "-"], args].concat(),
            text,
        )
    };

    // One bad line of three: none is added, and every problem is told.
    let bad = HOSTS.replace("a2,", "A_2,") + "a3,ipmi://192.0.2.3,admin,x,,\n";
    let refused = add(&[], &bad);
    assert_eq!(refused.status.code(), Some(3), "{}", said(&refused));
    for problem in ["line 3: name", "line 3: password", "line 4: mac: is needed"] {
        assert!(said(&refused).contains(problem), "{}", said(&refused));
    }
    assert!(!said(&refused).contains("hunter"));
    assert!(site.list("bmh").is_empty());

    let secret = site.file("password", "hunter3\n");
    let password = ["--password-file", secret.to_str().unwrap()];
    let shown = add(&[&password[..], &["--dry-run"]].concat(), HOSTS);
    assert!(shown.status.success(), "{}", said(&shown));
    assert!(said(&shown).contains("credentialsName: a1-bmc") && !said(&shown).contains("hunter"));
    assert!(site.list("bmh").is_empty(), "dry means dry");

    let added = add(&password, HOSTS);
    assert!(added.status.success(), "{}", said(&added));
    for name in ["a1", "a2"] {
        site.until_state(name, "available");
    }
    assert_eq!(site.get("bmh", "a1")["metadata"]["labels"]["rack"], "r1");
    let login = |name: &str, key: &str| {
        let path = format!("jsonpath={{.data.{key}}}");
        let encoded = site.must(&["get", "secret", &format!("{name}-bmc"), "-o", &path]);
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(encoded)
            .unwrap();
        String::from_utf8(bytes).unwrap()
    };
    assert_eq!(login("a1", "password"), "hunter,2");
    assert_eq!(login("a2", "password"), "hunter3");

    // Again, and another host with a server that is taken.
    let more = HOSTS.to_owned()
        + "a3,redfish://192.0.2.1:443/redfish/v1/Systems/1,admin,x,52:54:00:00:00:01,\n";
    let refused = add(&password, &more);
    assert_eq!(refused.status.code(), Some(3), "{}", said(&refused));
    let refused = said(&refused);
    assert!(refused.contains("twice"), "{refused}");
    let again = add(&password, HOSTS);
    assert!(
        said(&again).contains("a1 exists already"),
        "{}",
        said(&again)
    );
    let taken = "name,bmc,username,password,mac\na3,redfish://192.0.2.1/redfish/v1/Systems/1,admin,x,52:54:00:00:00:01\n";
    let taken = add(&[], taken);
    assert!(
        said(&taken).contains("line 2: bmc: this server is the host a1"),
        "{}",
        said(&taken)
    );
    assert!(said(&taken).contains("line 2: mac"), "{}", said(&taken));
    let more =
        HOSTS.to_owned() + "a3,redfish-virtualmedia://192.0.2.3/redfish/v1/Systems/1,admin,x,,\n";
    let skipped = add(&[&password[..], &["--skip-existing"]].concat(), &more);
    assert!(skipped.status.success(), "{}", said(&skipped));
    assert_eq!(site.list("bmh").len(), 3);
    site.until_state("a3", "available");

    let json = plinth(&site, &["status", "hosts", "-o", "json"], "");
    let lines: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(lines[2]["host"], "a3");
    assert_eq!(lines[2]["state"], "available");
    assert!(
        lines[2]["since"].is_string() && lines[2]["error"].is_null(),
        "{lines:#}"
    );
    let table = said(&plinth(&site, &["status", "hosts", "a2"], ""));
    assert!(table.contains("a2") && !table.contains("a1"), "{table}");
    let nobody = plinth(&site, &["status", "hosts", "a9"], "");
    assert_eq!(nobody.status.code(), Some(1), "{}", said(&nobody));
}

#[test]
fn changes_of_hosts_are_followed_and_an_error_tells_when_it_is_tried_again() {
    let site = Site::start(Whose::Ours);
    let seen = site.file("seen", "");
    let mut watching = Command::new(PLINTH)
        .args(["status", "hosts", "--watch"])
        .env("KUBECONFIG", site.kubeconfig())
        .stdout(std::fs::File::create(&seen).unwrap())
        .spawn()
        .unwrap();
    // Its Secret is missing.
    site.apply(&[super::host("b1", 7)]);
    let told = |what: &str| std::fs::read_to_string(&seen).unwrap().contains(what);
    site.until("the error to be told", || told("registration error"));
    let json = plinth(&site, &["status", "hosts", "-o", "json"], "");
    let lines: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(lines[0]["condition"], "error");
    let error = &lines[0]["error"];
    assert!(
        error["message"].as_str().unwrap().contains("b1-bmc"),
        "{error}"
    );
    assert!(error["next_retry"].is_string(), "{error}");
    site.must(&["delete", "bmh", "b1", "--timeout=60s"]);
    site.until("its end to be told", || told("b1 gone"));
    watching.kill().unwrap();
    watching.wait().unwrap();
}

#[test]
fn a_person_at_a_terminal_is_asked_and_the_password_is_not_shown() {
    let site = Site::start(Whose::Ours);
    let screen = site.file("screen", "");
    let mut session = Command::new("script")
        .args(["-qefc", &format!("{PLINTH} host add")])
        .arg(&screen)
        .env("KUBECONFIG", site.kubeconfig())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("script is installed");
    let mut keys = session.stdin.take().unwrap();
    for (question, answer) in [
        ("Name of the host:", "C 1"),
        ("is not a name", "c1"),
        (
            "Systems/1:",
            "redfish-virtualmedia://192.0.2.9/redfish/v1/Systems/1",
        ),
        ("User at the BMC:", "admin"),
        ("Password:", "hunter2"),
        ("The same again:", "hunter2"),
        ("virtual media):", ""),
    ] {
        let deadline = Instant::now() + PATIENCE;
        while !String::from_utf8_lossy(&std::fs::read(&screen).unwrap()).contains(question) {
            assert!(Instant::now() < deadline, "waited for {question:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        writeln!(keys, "{answer}").unwrap();
    }
    assert!(session.wait().unwrap().success());
    let screen = std::fs::read_to_string(screen).unwrap();
    assert!(
        screen.contains("host c1 added") && !screen.contains("hunter2"),
        "{screen}"
    );
    site.until_state("c1", "available");
}
