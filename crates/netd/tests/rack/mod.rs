//! Nodes and a client on one bridge, each in a namespace of its own.
#![allow(dead_code, reason = "each tier uses its own part")]

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use linux::addr::Want;
use linux::netlink::Netlink;
use linux::netns::Host;
use netd::{Config, Netd, Options, Status};

/// Hosts `0..count`, each with `eth0`: 192.0.2.1N/24 and 2001:db8::1N/64.
pub struct Rack {
    pub hosts: Vec<Arc<Host>>,
    pub switch: Host,
}

impl Rack {
    pub fn new(count: usize) -> Self {
        let switch = Host::new("switch").expect("a network namespace (this needs root)");
        switch.run(|| async {
            Netlink::connect()
                .unwrap()
                .ensure_bridge("br0")
                .await
                .unwrap();
        });
        let mut hosts = Vec::new();
        for at in 0..count {
            let host = Host::new(&format!("node{at}")).unwrap();
            let port = format!("port{at}");
            switch.cable(&port, &host, "eth0").unwrap();
            switch.run(move || async move {
                let netlink = Netlink::connect().unwrap();
                netlink.set_master(&port, Some("br0")).await.unwrap();
            });
            host.run(move || async move {
                let netlink = Netlink::connect().unwrap();
                for net in [format!("192.0.2.1{at}/24"), format!("2001:db8::1{at}/64")] {
                    let mut want = Want::new(net.parse().unwrap());
                    want.nodad = true;
                    netlink.ensure_address("eth0", want).await.unwrap();
                }
                netlink
                    .wait_carrier("eth0", Duration::from_secs(5))
                    .await
                    .unwrap();
            });
            hosts.push(Arc::new(host));
        }
        let rack = Self { hosts, switch };
        for at in 0..count {
            wait(&format!("node {at} has a link-local address"), || {
                rack.addresses(at, |address| {
                    address.net.to_string().starts_with("fe80") && !address.tentative
                })
            });
        }
        rack
    }

    /// True if some address of the host is so.
    pub fn addresses(
        &self,
        at: usize,
        so: impl Fn(&linux::addr::Address) -> bool + Send + 'static,
    ) -> bool {
        self.hosts[at].run(move || async move {
            let addresses = Netlink::connect().unwrap().addresses().await.unwrap();
            addresses.iter().any(so)
        })
    }

    pub fn holds(&self, at: usize, vip: &str) -> bool {
        let vip: IpAddr = vip.parse().unwrap();
        self.addresses(at, move |address| address.net.addr() == vip)
    }

    /// Pulls the cable out at the switch, or puts it back.
    pub fn set_cable(&self, at: usize, plugged: bool) {
        let port = format!("port{at}");
        self.switch.run(move || async move {
            let netlink = Netlink::connect().unwrap();
            let done = if plugged {
                netlink.set_up(&port).await
            } else {
                netlink.set_down(&port).await
            };
            done.unwrap();
        });
    }

    pub fn start(&self, at: usize, config: &str) -> Node {
        // The program does this once; an error only says that another test has.
        _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let config = Config::parse(config, std::path::Path::new("netd.yaml")).unwrap();
        let host = Arc::clone(&self.hosts[at]);
        let netd =
            host.run(move || async move { Netd::spawn(config, Options::default()).await.unwrap() });
        Node {
            host,
            netd: Arc::new(Mutex::new(Some(netd))),
        }
    }
}

/// A netd on one host.
pub struct Node {
    host: Arc<Host>,
    netd: Arc<Mutex<Option<Netd>>>,
}

impl Node {
    pub fn status(&self) -> Status {
        self.netd.lock().unwrap().as_ref().unwrap().status()
    }

    pub fn role(&self) -> String {
        self.status().vips[0].role.clone()
    }

    pub fn resign(&self, name: &'static str) {
        let netd = self.netd.lock().unwrap().take().unwrap();
        let netd = self.host.run(move || async move {
            netd.resign(name, None).await.unwrap();
            netd
        });
        *self.netd.lock().unwrap() = Some(netd);
    }

    pub fn reload(&self, config: &str) {
        let config = Config::parse(config, std::path::Path::new("netd.yaml")).unwrap();
        let mut netd = self.netd.lock().unwrap().take().unwrap();
        let netd = self.host.run(move || async move {
            netd.reload(config).await.unwrap();
            netd
        });
        *self.netd.lock().unwrap() = Some(netd);
    }

    pub fn stop(&self) {
        let netd = self.netd.lock().unwrap().take().unwrap();
        self.host
            .run(move || async move { netd.stop().await.unwrap() });
    }
}

pub fn wait(what: &str, so: impl FnMut() -> bool) {
    assert!(poll(so), "waited {} s until {what}", LIMIT.as_secs());
}

/// Only a test that fails waits so long.
const LIMIT: Duration = Duration::from_mins(1);

/// False if it does not become so.
pub fn poll(mut so: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + LIMIT;
    while !so() {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}
