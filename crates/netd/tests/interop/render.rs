//! What we write for the original programs is accepted by their own checkers.

use netd::{Config, render};

use crate::rack::Rack;

const NODE: &str = "
cluster: mycluster
checks:
  - {name: lb, lb: {listener: api}}
  - {name: api, http: {url: 'https://127.0.0.1:6443/readyz', insecure: true}}
  - {name: router, tcp: '127.0.0.1:1936'}
vips:
  - {name: api, address: 192.0.2.5, priority: 40, peers: [192.0.2.11], source: 192.0.2.10,
     checks: [{check: lb, weight: 20}, {check: api, weight: 5}]}
  - {name: ingress, address: 192.0.2.6, priority: 20, version: 2, auth: mycluster_ingress_vip,
     preempt_delay_ms: 2000, checks: [{check: router}]}
lb:
  - name: api
    listen: ['192.0.2.5:9445', '[::1]:9445']
    backends: [{name: master-0, address: '192.0.2.10:6443'}, {name: master-1, address: '[2001:db8::1]:6443'}]
    check: {https: /readyz}
  - name: mcs
    listen: ['192.0.2.5:22623']
    backends: [{name: master-0, address: '192.0.2.10:22623'}]
    policy: least_connections
    proxy_protocol: true
    backend_max_connections: 100
    check: {tcp: true}
";

#[test]
fn keepalived_accepts_its_file() {
    let config = Config::parse(NODE, "netd.yaml".as_ref()).unwrap();
    let text = render::keepalived(&config, |_| Some("eth0".into())).unwrap();
    accepted("keepalived", &["-t", "-f"], &text);
}

#[test]
fn haproxy_accepts_its_file() {
    let config = Config::parse(NODE, "netd.yaml".as_ref()).unwrap();
    accepted("haproxy", &["-c", "-f"], &render::haproxy(&config).unwrap());
}

fn accepted(program: &str, arguments: &[&str], text: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, text).unwrap();
    // keepalived refuses links that do not exist, and the loopback.
    let rack = Rack::new(1);
    let mut command = rack.hosts[0].command(program);
    let output = command.args(arguments).arg(&file).output();
    let output =
        output.unwrap_or_else(|error| panic!("{program} (Debian package {program}): {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{text}");
}
