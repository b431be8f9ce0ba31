//! The site's DNS in front of dnsmasq, asked by dig.

use std::time::Duration;

use crate::harness::{Lab, wait_for};

#[test]
fn names_the_site_does_not_know_are_asked_upstream() {
    let lab = Lab::up(&[
        "--kind",
        "sim",
        "--servers",
        "1",
        "--dns-upstream",
        "127.0.0.1:5300",
    ]);
    let _upstream = lab.start(&[
        "dnsmasq",
        "--keep-in-foreground",
        "--conf-file=/dev/null",
        "--pid-file",
        "--user=root",
        "--no-resolv",
        "--no-hosts",
        "--bind-interfaces",
        "--listen-address=127.0.0.1",
        "--port=5300",
        "--address=/printer.example.org/198.51.100.7",
    ]);
    let ask = |name: &str| {
        lab.exec(&[
            "dig",
            "+short",
            "+time=1",
            "+tries=1",
            "@192.168.111.1",
            name,
        ])
    };
    wait_for("the upstream's answer", Duration::from_secs(20), || {
        lab.try_exec(&[
            "dig",
            "+short",
            "+time=1",
            "+tries=1",
            "@192.168.111.1",
            "printer.example.org",
        ])
        .stdout
            == b"198.51.100.7\n"
    });
    // The site's own names stay its own.
    assert_eq!(ask(&format!("nobody.{}.test", lab.name)), "");
}
