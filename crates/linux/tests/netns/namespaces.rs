use std::process::Command;

use linux::netns::{Error, Host, Namespace};

use crate::{host, ip};

/// A name of our own, removed when the test ends however it ends.
struct Named(String);

impl Named {
    fn new(what: &str) -> Self {
        Self(format!("plinth-{what}-{}", std::process::id()))
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        let _ = Namespace::remove(&self.0);
    }
}

fn ip_netns(args: &[&str]) -> String {
    let output = Command::new("ip")
        .arg("netns")
        .args(args)
        .output()
        .expect("ip (Debian package iproute2)");
    assert!(
        output.status.success(),
        "ip netns {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_namespace_we_create_is_one_that_ip_netns_can_use() {
    let name = Named::new("ours");
    let namespace = Namespace::create(&name.0).unwrap();
    assert!(Namespace::list().unwrap().contains(&name.0));
    assert!(matches!(
        Namespace::create(&name.0),
        Err(Error::Exists { .. })
    ));
    assert_eq!(
        Namespace::ensure(&name.0).unwrap().id().unwrap(),
        namespace.id().unwrap()
    );
    let inside = ip_netns(&["exec", &name.0, "readlink", "/proc/self/ns/net"]);
    assert_eq!(
        inside.trim(),
        format!("net:[{}]", namespace.id().unwrap().1)
    );

    Namespace::remove(&name.0).unwrap();
    Namespace::remove(&name.0).unwrap();
    assert!(!Namespace::exists(&name.0));
    assert!(!ip_netns(&["list"]).contains(&name.0));
}

#[test]
fn a_namespace_made_by_ip_netns_is_one_that_we_can_use() {
    let name = Named::new("theirs");
    ip_netns(&["add", &name.0]);
    let namespace = Namespace::open(&name.0).unwrap();
    let outside = Namespace::current().unwrap().id().unwrap();
    let inside = namespace
        .run_in(|| Namespace::current().unwrap().id().unwrap())
        .unwrap();
    assert_eq!(inside, namespace.id().unwrap());
    assert_ne!(inside, outside);
    assert_eq!(
        Namespace::current().unwrap().id().unwrap(),
        outside,
        "the caller stays where it was"
    );
}

#[test]
fn a_leftover_file_without_a_namespace_is_used_again() {
    let name = Named::new("stale");
    Namespace::create(&name.0).unwrap();
    Namespace::remove(&name.0).unwrap();
    std::fs::write(format!("/run/netns/{}", name.0), "").unwrap();
    assert!(matches!(
        Namespace::open(&name.0),
        Err(Error::Missing { .. })
    ));
    Namespace::create(&name.0).unwrap();
}

#[test]
fn a_child_can_be_placed_in_a_namespace() {
    let host = host("place");
    let mut command = Command::new("readlink");
    command.arg("/proc/self/ns/net");
    host.namespace().place(&mut command);
    let output = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert_eq!(
        output.trim(),
        format!("net:[{}]", host.namespace().id().unwrap().1)
    );
}

#[test]
fn a_child_spawned_on_a_host_starts_there() {
    let host = host("spawn");
    let output = host.run(|| async {
        let mut command = tokio::process::Command::new("readlink");
        command
            .arg("/proc/self/ns/net")
            .stdout(std::process::Stdio::piped());
        linux::process::spawn(command)
            .unwrap()
            .wait_with_output()
            .await
            .unwrap()
    });
    let output = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        output.trim(),
        format!("net:[{}]", host.namespace().id().unwrap().1)
    );
}

#[test]
fn a_new_host_has_loopback_up_and_nothing_else() {
    let links = ip(&host("lo"), &["link"]);
    assert_eq!(links.as_array().unwrap().len(), 1);
    assert_eq!(links[0]["ifname"], "lo");
    assert!(links[0]["flags"].as_array().unwrap().contains(&"UP".into()));
}

#[test]
fn tasks_spawned_on_a_host_go_on_between_runs() {
    let host = host("tasks");
    let at = host.run(|| async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        tokio::spawn(async move { while listener.accept().await.is_ok() {} });
        at
    });
    host.run(move || async move { tokio::net::TcpStream::connect(at).await.unwrap() });
    assert!(
        std::net::TcpStream::connect(at).is_err(),
        "only on the host itself"
    );
}

#[test]
fn cabled_hosts_reach_each_other() {
    let (left, right) = (host("left"), host("right"));
    left.cable("eth0", &right, "eth0").unwrap();
    for (host, address) in [(&left, "192.0.2.1/24"), (&right, "192.0.2.2/24")] {
        set_address(host, address);
    }
    let server = right.run(|| async {
        let socket = tokio::net::UdpSocket::bind("192.0.2.2:7000").await.unwrap();
        tokio::spawn(async move {
            let mut buffer = [0; 64];
            while let Ok((len, from)) = socket.recv_from(&mut buffer).await {
                let _ = socket.send_to(&buffer[..len], from).await;
            }
        });
        "192.0.2.2:7000"
    });
    let answer = left.run(move || async move {
        let socket = tokio::net::UdpSocket::bind("192.0.2.1:0").await.unwrap();
        socket.send_to(b"ping", server).await.unwrap();
        let mut buffer = [0; 64];
        let limit = std::time::Duration::from_secs(5);
        let len = tokio::time::timeout(limit, socket.recv(&mut buffer))
            .await
            .expect("an answer in 5 s")
            .unwrap();
        buffer[..len].to_vec()
    });
    assert_eq!(answer, b"ping");
}

fn set_address(host: &Host, address: &str) {
    let want = linux::addr::Want::new(address.parse().unwrap());
    host.run(move || async move {
        let netlink = linux::netlink::Netlink::connect().unwrap();
        netlink.ensure_address("eth0", want).await.unwrap();
    });
}
