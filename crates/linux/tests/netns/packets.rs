//! Frames of ours against the kernel's UDP sockets, both ways.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use linux::addr::Want;
use linux::frame::{Checksum, Datagram};
use linux::netlink::Netlink;
use linux::netns::Host;
use linux::packet::{ETHERTYPE_IPV4, Listen, Options, Socket};
use model::Mac;

use crate::host;

const LIMIT: Duration = Duration::from_secs(5);

/// Two hosts; only the right one has an address (192.0.2.2/24).
fn pair() -> (Host, Host) {
    let (left, right) = (host("left"), host("right"));
    left.cable("eth0", &right, "eth0").unwrap();
    right.run(|| async {
        let netlink = Netlink::connect().unwrap();
        netlink
            .ensure_address("eth0", Want::new("192.0.2.2/24".parse().unwrap()))
            .await
            .unwrap();
        netlink.wait_carrier("eth0", LIMIT).await.unwrap();
    });
    (left, right)
}

async fn socket(listen: Listen, promiscuous: bool) -> (Socket, Mac) {
    let link = Netlink::connect().unwrap().link("eth0").await.unwrap();
    (
        Socket::open(
            link.index,
            Options {
                listen,
                promiscuous,
            },
        )
        .unwrap(),
        link.mac.unwrap(),
    )
}

#[test]
fn a_frame_we_build_reaches_a_kernel_socket() {
    let (left, right) = pair();
    let mac = right.run(|| async { socket(Listen::No, false).await.1 });
    let (send, heard) = std::sync::mpsc::channel();
    right.run(move || async move {
        let socket = tokio::net::UdpSocket::bind("0.0.0.0:67").await.unwrap();
        tokio::spawn(async move {
            let mut buffer = [0; 2000];
            let (len, from) = socket.recv_from(&mut buffer).await.unwrap();
            send.send((buffer[..len].to_vec(), from)).unwrap();
        });
    });
    left.run(move || async move {
        let (socket, from_mac) = socket(Listen::No, false).await;
        let datagram = Datagram {
            from_mac,
            to_mac: mac,
            from: SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 68),
            to: SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 2), 67),
            payload: b"odd length payload!",
        };
        socket.send(&datagram.encode().unwrap()).await.unwrap();
    });
    let (payload, from) = heard
        .recv_timeout(LIMIT)
        .expect("the kernel accepts both checksums");
    assert_eq!(payload, b"odd length payload!");
    assert_eq!(from.to_string(), "192.0.2.1:68");
}

#[test]
fn a_kernel_datagram_is_read_although_its_checksum_is_left_to_the_card() {
    let (left, right) = pair();
    let (send, heard) = std::sync::mpsc::channel();
    left.run(move || async move {
        let (socket, _) = socket(Listen::EtherType(ETHERTYPE_IPV4), false).await;
        tokio::spawn(async move {
            let mut buffer = [0; 2000];
            loop {
                let received = socket.receive(&mut buffer).await.unwrap();
                let Ok(datagram) = Datagram::parse(&buffer[..received.len], received.checksum)
                else {
                    continue;
                };
                if datagram.to.port() == 68 {
                    send.send((received, datagram.payload.to_vec(), datagram.from))
                        .unwrap();
                    return;
                }
            }
        });
    });
    right.run(|| async {
        let socket = tokio::net::UdpSocket::bind("192.0.2.2:67").await.unwrap();
        socket.set_broadcast(true).unwrap();
        socket
            .send_to(b"offer", "255.255.255.255:68")
            .await
            .expect("a broadcast needs no route to be sent on a bound address");
    });
    let (received, payload, from) = heard.recv_timeout(LIMIT).expect("the frame within 5 s");
    assert_eq!(
        (payload.as_slice(), from.to_string().as_str()),
        (&b"offer"[..], "192.0.2.2:67")
    );
    assert_eq!(
        received.checksum,
        Checksum::NotReady,
        "veth leaves the checksum to the card"
    );
    assert!(!received.outgoing && !received.truncated);
}

#[test]
fn a_promiscuous_socket_sees_frames_for_others_and_our_own_are_marked() {
    let (left, right) = pair();
    let stranger = Mac([2, 0, 0, 0, 0, 99]);
    let frame = move |from_mac| {
        let at = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9);
        Datagram {
            from_mac,
            to_mac: stranger,
            from: at,
            to: at,
            payload: &[7; 100],
        }
        .encode()
        .unwrap()
    };
    let (send, heard) = std::sync::mpsc::channel();
    right.run(move || async move {
        let (socket, _) = socket(Listen::All, true).await;
        tokio::spawn(async move {
            let mut buffer = [0; 60];
            loop {
                let received = socket.receive(&mut buffer).await.unwrap();
                if buffer[..6] == stranger.octets() {
                    send.send(received).unwrap();
                }
            }
        });
    });
    left.run(move || async move {
        let (socket, mac) = socket(Listen::No, false).await;
        socket.send(&frame(mac)).await.unwrap();
    });
    let received = heard.recv_timeout(LIMIT).expect("a frame for a stranger");
    assert!(received.truncated && !received.outgoing);
    assert_eq!(received.len, 60);
    right.run(move || async move {
        let (socket, mac) = socket(Listen::No, false).await;
        socket.send(&frame(mac)).await.unwrap();
    });
    assert!(heard.recv_timeout(LIMIT).expect("our own frame").outgoing);
}
