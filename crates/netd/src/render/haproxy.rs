//! haproxy.cfg: one frontend and backend per listener, and a monitor that says whether it serves.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use protocols::balance::Policy;

use super::Error;
use crate::config::{Config, Listener, LookAt, LookKind};

/// OpenShift's port for the first listener's monitor; the next ones follow.
pub fn monitor_port(at: usize) -> u16 {
    9454_u16.saturating_add(at as u16)
}

pub fn haproxy(config: &Config) -> Result<String, Error> {
    if config.lb.is_empty() {
        return Err(Error::Nothing("lb"));
    }
    let mut text = String::from("# Written by plinth render haproxy.\n");
    let most = config
        .lb
        .iter()
        .map(|listener| listener.max_connections)
        .sum::<u32>();
    let _ = writeln!(
        text,
        "global\n  maxconn {most}\n  log /dev/log local0\n\ndefaults\n  mode tcp\n  retries 3\n  option redispatch 1\n  timeout queue 1m"
    );
    for (at, listener) in config.lb.iter().enumerate() {
        text += &section(config, at, listener)?;
    }
    Ok(text)
}

fn section(config: &Config, at: usize, listener: &Listener) -> Result<String, Error> {
    let name = &listener.name;
    let mut backends = listener.backends.clone();
    if let Some(from) = &listener.members {
        let fixed = config.members.fixed.iter();
        let fixed = fixed.filter(|member| member.control_plane || !from.control_plane);
        for member in fixed {
            if let Some(address) = member.addresses.first() {
                backends.push((member.name.clone(), SocketAddr::new(*address, from.port)));
            }
        }
    }
    if backends.is_empty() {
        return Err(Error::NoBackends(name.clone()));
    }
    let mut text = format!(
        "\nfrontend {name}\n  maxconn {}\n",
        listener.max_connections
    );
    let idle = millis(listener.idle_timeout);
    let _ = writeln!(
        text,
        "  timeout client {idle}\n  timeout client-fin {}",
        millis(listener.half_closed_timeout)
    );
    for address in &listener.listen {
        let only = if address.is_ipv6() { " v6only" } else { "" };
        let _ = writeln!(text, "  bind {address}{only} transparent");
    }
    let _ = writeln!(text, "  default_backend {name}");
    let _ = writeln!(text, "\nbackend {name}");
    let balance = match listener.policy {
        Policy::RoundRobin => "roundrobin",
        Policy::LeastConnections => "leastconn",
    };
    let _ = writeln!(
        text,
        "  balance {balance}\n  timeout connect {}",
        millis(listener.connect_timeout)
    );
    let _ = writeln!(
        text,
        "  timeout server {idle}\n  timeout server-fin {}",
        millis(listener.half_closed_timeout)
    );
    let _ = writeln!(text, "  timeout tunnel {idle}");
    let check = listener
        .look
        .as_ref()
        .map_or(String::new(), |look| check(look, &mut text));
    let proxy = if listener.proxy_protocol {
        " send-proxy-v2"
    } else {
        ""
    };
    let limit = listener
        .backend_limit
        .map_or(String::new(), |limit| format!(" maxconn {limit}"));
    for (server, address) in backends {
        let _ = writeln!(
            text,
            "  server {server} {address} weight 1{check}{proxy}{limit}"
        );
    }
    let port = monitor_port(at);
    let _ = write!(
        text,
        "\nlisten {name}-monitor\n  mode http\n  bind 127.0.0.1:{port}\n  timeout client 5s\n  timeout server 5s\n  \
         timeout connect 5s\n  monitor-uri /haproxy_monitor\n  monitor fail if {{ nbsrv({name}) lt 1 }}\n"
    );
    Ok(text)
}

/// Lines for the backend, and words for each server.
fn check(look: &LookAt, text: &mut String) -> String {
    let _ = writeln!(text, "  timeout check {}", millis(look.timeout));
    let mut http = |path: &str, status: u16| {
        let _ = writeln!(
            text,
            "  option httpchk GET {path}\n  http-check expect status {status}"
        );
    };
    let tls = match &look.kind {
        LookKind::Tcp => String::new(),
        LookKind::Http { path, status } => {
            http(path, *status);
            String::new()
        }
        LookKind::Https { path, status, ca } => {
            http(path, *status);
            match ca {
                None => " check-ssl verify none".into(),
                Some(ca) => format!(" check-ssl verify required ca-file {}", ca.display()),
            }
        }
    };
    let (interval, fall, rise) = (millis(look.interval), look.fall, look.rise);
    format!(" check inter {interval} fall {fall} rise {rise}{tls}")
}

fn millis(time: Duration) -> String {
    format!("{}ms", time.as_millis())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::path::Path;

    pub const NODE: &str = "
cluster: mycluster
checks:
  - {name: lb, lb: {listener: api}}
  - {name: api, http: {url: 'https://127.0.0.1:6443/readyz', insecure: true}, interval_ms: 200}
  - {name: router, tcp: '127.0.0.1:1936'}
  - {name: marker, file: /run/plinth/up}
vips:
  - {name: api, address: 192.0.2.5, priority: 40, peers: [192.0.2.10, 192.0.2.11], source: 192.0.2.10,
     checks: [{check: lb, weight: 20}, {check: api, weight: 5}]}
  - {name: ingress, address: 192.0.2.6, priority: 20, version: 2, auth: mycluster_ingress_vip, preempt_delay_ms: 2000,
     checks: [{check: router}, {check: marker, weight: 10}]}
  - {name: api6, id: 9, address: '2001:db8::5', priority: 40, preempt: false}
lb:
  - name: api
    listen: ['0.0.0.0:9445', '[::]:9445']
    redirect: {addresses: [192.0.2.5], port: 6443}
    backends: [{name: master-0, address: '192.0.2.10:6443'}, {name: master-1, address: '192.0.2.11:6443'}]
    check: {https: /readyz}
  - name: mcs
    listen: ['192.0.2.5:22623']
    members: {port: 22623}
    policy: least_connections
    proxy_protocol: true
    backend_max_connections: 100
    check: {tcp: true}
members:
  static: [{name: master-0, addresses: [192.0.2.10]}, {name: worker-0, addresses: [192.0.2.20], control_plane: false}]
";

    #[test]
    fn a_control_plane_node_as_haproxy_would_have_it() {
        let config = Config::parse(NODE, Path::new("x")).unwrap();
        insta::assert_snapshot!(haproxy(&config).unwrap());
    }
}
