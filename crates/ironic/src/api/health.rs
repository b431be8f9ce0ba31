//! Answers for whoever watches over the service; outside of versions and authentication.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};

use super::Service;

pub fn answer(service: &Service, path: &str) -> Option<Response<Body>> {
    let text = |status: StatusCode, text: String| {
        let mut answer = Response::new(Body::from(text));
        *answer.status_mut() = status;
        answer.headers_mut().insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/plain; charset=utf-8"),
        );
        answer
    };
    match path {
        "/healthz" | "/healthcheck" => Some(text(StatusCode::OK, "ok\n".into())),
        "/readyz" if service.store.healthy() => Some(text(StatusCode::OK, "ok\n".into())),
        "/readyz" => Some(text(
            StatusCode::SERVICE_UNAVAILABLE,
            "the store cannot be written\n".into(),
        )),
        "/metrics" => Some(text(StatusCode::OK, metrics(service))),
        _ => None,
    }
}

fn metrics(service: &Service) -> String {
    let mut states = BTreeMap::<&str, usize>::new();
    let ports = {
        let tables = service.store.read();
        for node in tables.nodes.all() {
            *states.entry(node.life.state.as_str()).or_default() += 1;
        }
        tables.ports.len()
    };
    let mut text = String::new();
    let mut gauge = |name: &str, help: &str, values: &[(String, usize)]| {
        // Writing to a String cannot fail.
        _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
        for (labels, value) in values {
            _ = writeln!(text, "{name}{labels} {value}");
        }
    };
    let states: Vec<_> = states
        .into_iter()
        .map(|(state, count)| (format!("{{state=\"{state}\"}}"), count))
        .collect();
    gauge("ironic_nodes", "Nodes by provision state.", &states);
    gauge(
        "ironic_ports",
        "Ports of all nodes.",
        &[(String::new(), ports)],
    );
    let notebook = &service.options.notebook;
    gauge(
        "ironic_dhcp_leases",
        "Addresses that machines have from us.",
        &[(String::new(), notebook.leases())],
    );
    gauge(
        "ironic_discovered_machines",
        "Machines that boot from us and are nobody's.",
        &[(String::new(), notebook.machines().len())],
    );
    let servers: Vec<_> = notebook
        .other_servers()
        .into_iter()
        .map(|(address, at)| {
            let seconds = usize::try_from(at.as_second()).unwrap_or_default();
            (format!("{{address=\"{address}\"}}"), seconds)
        })
        .collect();
    gauge(
        "ironic_other_dhcp_server_heard_seconds",
        "When another DHCP server was last heard on the boot network, in seconds since 1970.",
        &servers,
    );
    let writable = usize::from(service.store.healthy());
    gauge(
        "ironic_store_writable",
        "Whether the disk takes what is written.",
        &[(String::new(), writable)],
    );
    text
}
