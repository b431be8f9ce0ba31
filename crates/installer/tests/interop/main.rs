//! What we render, judged by strangers: Ignition's own validator, OpenSSL and etcd.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod replace;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use installer::{Dir, Stage};
use plan::assets::Binary;
use plan::install_config::Facts;
use time::OffsetDateTime;

const EXAMPLES: [&str; 6] = [
    "pxe",
    "virtual-media",
    "dual-stack",
    "compact",
    "single-node",
    "static-bonds-vlans",
];

fn created(example: &str) -> tempfile::TempDir {
    let temp = tempfile::tempdir().unwrap();
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../examples/{example}.yaml"));
    std::fs::copy(source, temp.path().join("install-config.yaml")).unwrap();
    let binary = Binary {
        sha256: "0".repeat(64),
        bootstrap_url: Some("http://192.0.2.1/plinth".into()),
    };
    let dir = Dir::new(temp.path());
    dir.create(
        Stage::IgnitionConfigs,
        &Facts::default(),
        &binary,
        OffsetDateTime::now_utc(),
    )
    .unwrap();
    temp
}

/// Runs a program that must be there and must be content.
fn content(command: &mut Command) -> String {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{name} is needed (cargo xtask deps installs it): {error}"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    said
}

fn files(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[test]
fn ignition_validate_accepts_every_config_and_those_inside() {
    for example in EXAMPLES {
        let temp = created(example);
        let mut configs = files(temp.path(), ".ign");
        // What mcs will serve is inside the bootstrap's config.
        let bootstrap: serde_json::Value =
            serde_json::from_slice(&std::fs::read(temp.path().join("bootstrap.ign")).unwrap())
                .unwrap();
        for (at, file) in bootstrap["storage"]["files"]
            .as_array()
            .unwrap()
            .iter()
            .enumerate()
        {
            if !file["path"].as_str().unwrap().contains("/mcs/") {
                continue;
            }
            let inner = temp.path().join(format!("inner-{at}.ign"));
            let encoded = temp.path().join("encoded");
            let data = file["contents"]["source"]
                .as_str()
                .unwrap()
                .strip_prefix("data:;base64,")
                .unwrap();
            std::fs::write(&encoded, data).unwrap();
            let decoded = Command::new("base64")
                .arg("-d")
                .arg(&encoded)
                .output()
                .unwrap();
            std::fs::write(&inner, decoded.stdout).unwrap();
            configs.push(inner);
        }
        assert!(configs.len() >= 5, "{example}: {configs:?}");
        for config in configs {
            content(Command::new("ignition-validate").arg(&config));
        }
    }
}

/// The content of a file in an Ignition config.
fn file_in(config: &[u8], path: &str) -> Vec<u8> {
    let config: serde_json::Value = serde_json::from_slice(config).unwrap();
    let files = config["storage"]["files"].as_array().unwrap();
    let file = files.iter().find(|file| file["path"] == path);
    let source = file.unwrap_or_else(|| panic!("no {path}"))["contents"]["source"].as_str();
    decoded(source.unwrap().strip_prefix("data:;base64,").unwrap())
}

fn decoded(data: &str) -> Vec<u8> {
    let mut decode = Command::new("base64");
    let mut decode = decode
        .arg("-d")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = decode.stdin.take().unwrap();
    let data = data.to_owned();
    let feed = std::thread::spawn(move || std::io::Write::write_all(&mut stdin, data.as_bytes()));
    let decoded = decode.wait_with_output().unwrap();
    feed.join().unwrap().unwrap();
    decoded.stdout
}

/// Three members in one network namespace, each at an address of loopback; names by a hosts file of its own.
#[test]
fn etcd_forms_a_cluster_of_what_masters_are_given() {
    let temp = created("compact");
    let dir = temp.path();
    let bootstrap = std::fs::read(dir.join("bootstrap.ign")).unwrap();
    let mut hosts = String::from("127.0.0.1 localhost\n");
    let mut script = String::from(
        "set -e\nip link set lo up\nmount --bind $1/names /etc/hosts\npids=\ntrap 'kill $pids; wait' EXIT\n",
    );
    for n in 0..3 {
        let node = file_in(&bootstrap, &format!("/etc/plinth/mcs/hosts/node-{n}.ign"));
        let text = String::from_utf8(file_in(&node, "/etc/plinth/etcd.yaml")).unwrap();
        let own = text
            .replace("/etc/plinth/pki", dir.join("tls").to_str().unwrap())
            .replace(
                "/var/lib/plinth/etcd",
                dir.join(format!("data-{n}")).to_str().unwrap(),
            )
            .replace("[::]", &format!("127.0.0.{}", n + 1));
        std::fs::write(dir.join(format!("etcd-{n}.yaml")), own).unwrap();
        _ = writeln!(hosts, "127.0.0.{} master-{n}.compact.example.com", n + 1);
        _ = writeln!(
            script,
            "etcd --config-file $1/etcd-{n}.yaml >$1/etcd-{n}.log 2>&1 &\npids=\"$pids $!\""
        );
    }
    std::fs::write(dir.join("names"), hosts).unwrap();
    script += "export ETCDCTL_API=3 ETCDCTL_CACERT=$1/tls/etcd-ca.crt ETCDCTL_CERT=$1/tls/etcd-client.crt ETCDCTL_KEY=$1/tls/etcd-client.key\n\
        export ETCDCTL_ENDPOINTS=https://master-0.compact.example.com:2379\n\
        for try in $(seq 60); do etcdctl endpoint health --cluster && break; sleep 1; done\n\
        etcdctl endpoint health --cluster\n\
        etcdctl put /plinth here\n\
        ETCDCTL_ENDPOINTS=https://master-2.compact.example.com:2379 etcdctl get /plinth\n\
        ! ETCDCTL_CERT=$1/tls/admin.crt ETCDCTL_KEY=$1/tls/admin.key etcdctl get /plinth\n";
    let said = content(
        Command::new("unshare")
            .args(["--net", "--mount", "sh", "-c", &script, "sh"])
            .arg(dir),
    );
    assert!(said.contains("/plinth\nhere"), "{said}");
}

#[test]
fn openssl_verifies_every_chain_purpose_and_name() {
    let temp = created("dual-stack");
    let tls = temp.path().join("tls");
    for (leaf, ca, purpose) in [
        ("apiserver", "kube-ca", "sslserver"),
        ("mcs", "root-ca", "sslserver"),
        ("ironic", "root-ca", "sslserver"),
        ("admin", "kube-ca", "sslclient"),
        ("bootstrap", "kube-ca", "sslclient"),
        ("node-bootstrapper", "kube-ca", "sslclient"),
        ("controller-manager", "kube-ca", "sslclient"),
        ("scheduler", "kube-ca", "sslclient"),
        ("metal3", "kube-ca", "sslclient"),
        ("apiserver-kubelet-client", "kube-ca", "sslclient"),
        ("front-proxy-client", "front-proxy-ca", "sslclient"),
        ("etcd-client", "etcd-ca", "sslclient"),
        ("etcd-master-0", "etcd-ca", "sslserver"),
        ("etcd-master-2", "etcd-ca", "sslclient"),
    ] {
        content(
            Command::new("openssl")
                .args(["verify", "-x509_strict", "-purpose", purpose, "-CAfile"])
                .arg(tls.join(format!("{ca}.crt")))
                .arg(tls.join(format!("{leaf}.crt"))),
        );
        let key = |args: &[&str], file: &str| {
            content(
                Command::new("openssl")
                    .args(args)
                    .arg("-in")
                    .arg(tls.join(file)),
            )
        };
        let of_certificate = key(&["x509", "-noout", "-pubkey"], &format!("{leaf}.crt"));
        let of_key = key(&["pkey", "-pubout"], &format!("{leaf}.key"));
        assert_eq!(of_certificate, of_key, "{leaf}");
    }
    for name in [
        "api.dual.example.com",
        "api-int.dual.example.com",
        "kubernetes.default.svc",
        "master-1",
        "master-1.dual.example.com",
    ] {
        check(&tls, "apiserver", &["-checkhost", name]);
    }
    for address in [
        "192.0.2.5",
        "2001:db8:0:1::5",
        "172.30.0.1",
        "fd02::1",
        "127.0.0.1",
    ] {
        check(&tls, "apiserver", &["-checkip", address]);
    }
    check(&tls, "mcs", &["-checkip", "192.0.2.5"]);
    check(&tls, "mcs", &["-checkhost", "api-int.dual.example.com"]);
    // Rotation has time: a leaf lives for most of a year yet, the bootstrap's for less than two days.
    content(
        Command::new("openssl")
            .args(["x509", "-noout", "-checkend", "30000000", "-in"])
            .arg(tls.join("apiserver.crt")),
    );
    let soon = Command::new("openssl")
        .args(["x509", "-noout", "-checkend", "172800", "-in"])
        .arg(tls.join("bootstrap.crt"))
        .output()
        .unwrap();
    assert!(!soon.status.success());
}

fn check(tls: &Path, certificate: &str, what: &[&str]) {
    let said = content(
        Command::new("openssl")
            .args(["x509", "-noout"])
            .args(what)
            .arg("-in")
            .arg(tls.join(format!("{certificate}.crt"))),
    );
    assert!(said.contains("does match certificate"), "{what:?}: {said}");
}
