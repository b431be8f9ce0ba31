use std::time::Duration;

use linux::addr::Want;
use linux::netlink::{Changes, Error, Netlink};
use linux::route::Route;
use linux::tap;
use model::Mac;

use crate::{host, ip};

fn connect() -> Netlink {
    Netlink::connect().unwrap()
}

fn has_flag(link: &serde_json::Value, flag: &str) -> bool {
    link["flags"].as_array().unwrap().contains(&flag.into())
}

#[test]
fn a_bridge_forwards_at_once_and_may_be_ensured_again() {
    let host = host("bridge");
    host.run(|| async {
        let netlink = connect();
        let first = netlink.ensure_bridge("br0").await.unwrap();
        let again = netlink.ensure_bridge("br0").await.unwrap();
        assert_eq!(first.index, again.index);
        assert!(again.up);
        assert_eq!(again.kind.as_deref(), Some("bridge"));
    });
    let bridge = ip(&host, &["link", "show", "br0"]);
    let data = &bridge[0]["linkinfo"]["info_data"];
    assert_eq!(bridge[0]["linkinfo"]["info_kind"], "bridge");
    assert_eq!(
        (
            &data["stp_state"],
            &data["forward_delay"],
            &data["mcast_snooping"]
        ),
        (&0.into(), &0.into(), &0.into())
    );
    assert!(has_flag(&bridge[0], "UP"));
}

#[test]
fn ensuring_a_bridge_puts_right_one_made_by_others() {
    let host = host("foreign");
    let made = host
        .command("ip")
        .args(["link", "add", "br0", "type", "bridge", "stp_state", "1"])
        .status()
        .unwrap();
    assert!(made.success());
    host.run(|| async { connect().ensure_bridge("br0").await.unwrap() });
    let bridge = ip(&host, &["link", "show", "br0"]);
    assert_eq!(bridge[0]["linkinfo"]["info_data"]["stp_state"], 0);
}

#[test]
fn a_link_of_another_kind_is_not_taken_for_a_bridge() {
    let host = host("kind");
    let error = host.run(|| async {
        let netlink = connect();
        netlink.create_veth("br0", "x").await.unwrap();
        netlink.ensure_bridge("br0").await.unwrap_err()
    });
    assert!(matches!(error, Error::OtherKind { .. }), "{error}");
}

#[test]
fn a_veth_pair_is_created_set_up_bridged_and_removed() {
    let host = host("veth");
    let mac: Mac = "52:54:00:12:34:56".parse().unwrap();
    host.run(move || async move {
        let netlink = connect();
        netlink.ensure_bridge("br0").await.unwrap();
        netlink.ensure_veth("a", "b").await.unwrap();
        netlink.ensure_veth("a", "b").await.unwrap();
        netlink.set_mac("a", mac).await.unwrap();
        netlink.set_mtu("a", 1400).await.unwrap();
        netlink.set_master("a", Some("br0")).await.unwrap();
        netlink.set_up("a").await.unwrap();
        let waited = netlink.wait_carrier("a", Duration::from_millis(30)).await;
        assert!(
            matches!(waited, Err(Error::NoCarrier { .. })),
            "the other end is down"
        );
        netlink.set_up("b").await.unwrap();
        let link = netlink
            .wait_carrier("a", Duration::from_secs(5))
            .await
            .unwrap();
        assert_eq!((link.mac, link.mtu, link.up), (Some(mac), 1400, true));
        assert_eq!(link.master, Some(netlink.link("br0").await.unwrap().index));
    });
    let shown = ip(&host, &["link", "show", "a"]);
    assert_eq!(shown[0]["address"], "52:54:00:12:34:56");
    assert_eq!(shown[0]["mtu"], 1400);
    assert_eq!(shown[0]["master"], "br0");
    assert!(has_flag(&shown[0], "LOWER_UP"));

    host.run(|| async {
        let netlink = connect();
        netlink.set_master("a", None).await.unwrap();
        assert_eq!(netlink.link("a").await.unwrap().master, None);
        netlink.set_down("a").await.unwrap();
        assert!(!netlink.link("b").await.unwrap().carrier);
        assert!(netlink.remove_link("a").await.unwrap());
        assert!(!netlink.remove_link("a").await.unwrap());
        assert_eq!(
            netlink.find_link("b").await.unwrap(),
            None,
            "its peer goes with it"
        );
    });
}

#[test]
fn a_link_that_is_not_there_is_named() {
    let host = host("missing");
    let error = host.run(|| async { connect().set_up("nosuch").await.unwrap_err() });
    assert_eq!(error.to_string(), "there is no link \"nosuch\"");
}

#[test]
fn a_link_moves_to_another_host_and_can_be_configured_from_outside() {
    let (near, far) = (host("near"), host("far"));
    let there = far.namespace().clone();
    near.run(move || async move {
        let netlink = connect();
        netlink.create_veth("a", "b").await.unwrap();
        netlink.move_link("b", &there, Some("eth0")).await.unwrap();
        let remote = Netlink::connect_in(&there).unwrap();
        remote.set_up("eth0").await.unwrap();
        assert_eq!(netlink.find_link("eth0").await.unwrap(), None);
    });
    assert!(has_flag(&ip(&far, &["link", "show", "eth0"])[0], "UP"));
}

#[test]
fn a_macvlan_sits_on_its_parent() {
    let host = host("macvlan");
    host.run(|| async {
        let netlink = connect();
        netlink.create_veth("a", "b").await.unwrap();
        netlink.ensure_macvlan("m0", "a").await.unwrap();
        netlink.ensure_macvlan("m0", "a").await.unwrap();
    });
    let shown = ip(&host, &["link", "show", "m0"]);
    assert_eq!(shown[0]["link"], "a");
    assert_eq!(shown[0]["linkinfo"]["info_data"]["mode"], "bridge");
}

#[test]
fn a_tap_lives_as_long_as_its_descriptor_unless_it_is_persistent() {
    let host = host("tap");
    host.run(|| async {
        let netlink = connect();
        let fd = tap::open("tap0", true).unwrap();
        netlink.set_up("tap0").await.unwrap();
        assert!(netlink.link("tap0").await.unwrap().carrier);
        assert!(matches!(
            tap::open("tap0", true),
            Err(tap::Error::Busy { .. })
        ));
        drop(fd);
        // Another test may be between fork and exec, and hold a copy for a moment.
        let gone = async {
            while netlink.find_link("tap0").await.unwrap().is_some() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(5), gone)
            .await
            .expect("gone with its descriptor");

        tap::ensure_persistent("tap1").unwrap();
        tap::ensure_persistent("tap1").unwrap();
        netlink.set_up("tap1").await.unwrap();
        let idle = async {
            while netlink.link("tap1").await.unwrap().carrier {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(5), idle)
            .await
            .expect("nobody at the other end, so no carrier");
        let fd = tap::open("tap1", true).unwrap();
        netlink
            .wait_carrier("tap1", Duration::from_secs(5))
            .await
            .unwrap();
        drop(fd);
        assert!(netlink.find_link("tap1").await.unwrap().is_some());
    });
    let shown = ip(&host, &["link", "show", "tap1"]);
    let data = &shown[0]["linkinfo"]["info_data"];
    assert_eq!(
        (&data["type"], &data["persist"], &data["vnet_hdr"]),
        (&"tap".into(), &true.into(), &true.into())
    );
}

#[test]
fn addresses_are_put_renewed_listed_and_taken_away() {
    let host = host("addr");
    host.run(|| async {
        let netlink = connect();
        netlink.create_veth("a", "b").await.unwrap();
        netlink.set_up("a").await.unwrap();
        netlink.set_up("b").await.unwrap();
        let net = "192.0.2.1/24".parse().unwrap();
        netlink.ensure_address("a", Want::new(net)).await.unwrap();
        netlink
            .ensure_address(
                "a",
                Want {
                    lifetime: Some(Duration::from_secs(90)),
                    ..Want::new(net)
                },
            )
            .await
            .unwrap();
        let vip = Want {
            net: "2001:db8::1/128".parse().unwrap(),
            lifetime: Some(Duration::from_mins(1)),
            nodad: true,
            deprecated: true,
        };
        netlink.ensure_address("a", vip).await.unwrap();
        netlink.ensure_address("a", vip).await.unwrap();
        let all = netlink.addresses_of("a").await.unwrap();
        let vip = all.iter().find(|address| address.net == vip.net).unwrap();
        assert!(!vip.tentative);
        assert!(vip.lifetime.unwrap() <= Duration::from_mins(1));
    });
    let shown = ip(&host, &["addr", "show", "a"]);
    let addresses = shown[0]["addr_info"].as_array().unwrap();
    let v4 = addresses
        .iter()
        .find(|address| address["local"] == "192.0.2.1")
        .unwrap();
    assert_eq!(v4["prefixlen"], 24);
    assert!(
        (1..=90).contains(&v4["valid_life_time"].as_u64().unwrap()),
        "{v4}"
    );
    let v6 = addresses
        .iter()
        .find(|address| address["local"] == "2001:db8::1")
        .unwrap();
    assert!(
        (1..=60).contains(&v6["valid_life_time"].as_u64().unwrap()),
        "{v6}"
    );
    assert_eq!(v6["preferred_life_time"], 0, "never a source by itself");
    assert_eq!(v6["nodad"], true);

    let removed = host.run(|| async {
        let netlink = connect();
        let net = "192.0.2.1/24".parse().unwrap();
        [
            netlink.remove_address("a", net).await.unwrap(),
            netlink.remove_address("a", net).await.unwrap(),
        ]
    });
    assert_eq!(removed, [true, false]);
}

#[test]
fn an_address_disappears_when_its_lifetime_ends() {
    let host = host("expire");
    host.run(|| async {
        let netlink = connect();
        netlink.create_veth("a", "b").await.unwrap();
        let net = "192.0.2.1/32".parse().unwrap();
        let want = Want {
            lifetime: Some(Duration::from_secs(1)),
            ..Want::new(net)
        };
        netlink.ensure_address("a", want).await.unwrap();
        let gone = async {
            while !netlink.addresses_of("a").await.unwrap().is_empty() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), gone)
            .await
            .expect("gone after its lifetime");
    });
}

#[test]
fn routes_are_added_replaced_listed_and_removed() {
    let host = host("route");
    host.run(|| async {
        let netlink = connect();
        netlink.create_veth("a", "b").await.unwrap();
        netlink.set_up("a").await.unwrap();
        netlink.set_up("b").await.unwrap();
        for net in ["192.0.2.1/24", "2001:db8::1/64"] {
            let want = Want {
                nodad: true,
                ..Want::new(net.parse().unwrap())
            };
            netlink.ensure_address("a", want).await.unwrap();
        }
        for gateway in ["192.0.2.253", "192.0.2.254", "2001:db8::fe"] {
            netlink
                .ensure_route(&Route::default_via(gateway.parse().unwrap()))
                .await
                .unwrap();
        }
        netlink
            .ensure_route(&Route::on_link("198.51.100.0/24".parse().unwrap(), "a"))
            .await
            .unwrap();
        let far = Route {
            link: Some("a".into()),
            onlink: true,
            ..Route::via(
                "203.0.113.0/24".parse().unwrap(),
                "10.9.9.9".parse().unwrap(),
            )
        };
        netlink.ensure_route(&far).await.unwrap();
        let listed = netlink.routes().await.unwrap();
        let default = listed
            .iter()
            .find(|route| route.to.to_string() == "0.0.0.0/0")
            .unwrap();
        assert_eq!(
            (default.via, default.link.as_deref()),
            (Some("192.0.2.254".parse().unwrap()), Some("a"))
        );
        assert!(
            listed
                .iter()
                .any(|route| route.to == far.to && route.onlink)
        );
    });
    let shown = ip(&host, &["route", "show"]);
    let find = |to: &str| {
        shown
            .as_array()
            .unwrap()
            .iter()
            .find(|route| route["dst"] == to)
            .cloned()
    };
    assert_eq!(find("default").unwrap()["gateway"], "192.0.2.254");
    assert_eq!(find("198.51.100.0/24").unwrap()["scope"], "link");
    assert_eq!(
        find("203.0.113.0/24").unwrap()["flags"],
        serde_json::json!(["onlink"])
    );
    let v6 = ip(&host, &["-6", "route", "show", "default"]);
    assert_eq!(v6[0]["gateway"], "2001:db8::fe");

    let removed = host.run(|| async {
        let netlink = connect();
        let default = Route::default_via("192.0.2.254".parse().unwrap());
        [
            netlink.remove_route(&default).await.unwrap(),
            netlink.remove_route(&default).await.unwrap(),
        ]
    });
    assert_eq!(removed, [true, false]);
}

#[test]
fn changed_links_and_lost_addresses_are_told_and_nothing_else_is() {
    let host = host("changes");
    host.run(|| async {
        let netlink = connect();
        let mut changes = Changes::subscribe().unwrap();
        let soon = Duration::from_secs(10);
        netlink.ensure_bridge("br0").await.unwrap();
        tokio::time::timeout(soon, changes.changed())
            .await
            .expect("a new link")
            .unwrap();
        // What belongs to the new link may come a little later; then it is quiet.
        let quiet = Duration::from_millis(500);
        while tokio::time::timeout(quiet, changes.changed()).await.is_ok() {}
        netlink.links().await.unwrap();
        let heard = tokio::time::timeout(quiet, changes.changed()).await;
        assert!(heard.is_err(), "a look is no change");
        let want = Want::new("192.0.2.1/24".parse().unwrap());
        netlink.ensure_address("br0", want).await.unwrap();
        let heard = tokio::time::timeout(quiet, changes.changed()).await;
        assert!(heard.is_err(), "a new address takes nothing away");
        netlink.remove_address("br0", want.net).await.unwrap();
        tokio::time::timeout(soon, changes.changed())
            .await
            .expect("a lost address")
            .unwrap();
    });
}
