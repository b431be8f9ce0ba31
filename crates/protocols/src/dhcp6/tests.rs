//! The server seen from its clients.

use std::net::Ipv6Addr;
use std::time::{Duration, SystemTime};

use model::Mac;
use proptest::prelude::*;

use super::packet::{Writer, find, options, put};
use super::server::{Action, Boot, Config, Report, Server};
use super::{Kind, Message, code};

const FROM: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0x5054, 0x00ff, 0xfe00, 0x0001);
const MAC: Mac = Mac([0x52, 0x54, 0, 0, 0, 1]);

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000)
}

fn config() -> Config {
    Config {
        id: vec![0, 3, 0, 1, 2, 0, 0, 0, 0, 9],
        range: "fd00::10".parse().unwrap()..="fd00::11".parse().unwrap(),
        lease: Duration::from_hours(1),
        dns: Vec::new(),
        boot: Some(Boot {
            x64: Some("tftp://[fd00::1]/snponly.efi".into()),
            arm64: None,
            http_x64: Some("http://[fd00::1]:6180/snponly.efi".into()),
            http_arm64: None,
            ipxe: "http://[fd00::1]:6180/boot.ipxe".into(),
        }),
        only: None,
    }
}

/// A client that names itself by SMBIOS, as UEFI does.
fn ask(kind: Kind, client: u8, more: &[(u16, &[u8])]) -> Vec<u8> {
    let mut id = vec![0, 4];
    id.extend([client; 16]);
    let mut writer = Writer::new(kind, [1, 2, 3]).put(code::CLIENT_ID, &id);
    for (code, data) in more {
        writer = writer.put(*code, data);
    }
    writer.done()
}

fn wish(address: Option<Ipv6Addr>) -> Vec<u8> {
    let mut data = vec![0; 12];
    if let Some(address) = address {
        let mut inner = address.octets().to_vec();
        inner.extend([0; 8]);
        put(&mut data, code::IA_ADDRESS, &inner);
    }
    data
}

fn answer(server: &mut Server, bytes: &[u8]) -> Option<Vec<u8>> {
    let actions = server.handle(now(), bytes, FROM);
    actions.into_iter().find_map(|action| match action {
        Action::Send { bytes } => Some(bytes),
        Action::Report(_) => None,
    })
}

fn given(bytes: &[u8]) -> Option<Ipv6Addr> {
    let message = Message::decode(bytes).unwrap();
    let inner = options(&message.get(code::IA_NA)?[12..]).unwrap();
    let data = find(&inner, code::IA_ADDRESS)?;
    Some(Ipv6Addr::from(*data.first_chunk::<16>().unwrap()))
}

#[test]
fn a_client_gets_an_address_and_keeps_it_even_over_a_restart() {
    let mut server = Server::new(config());
    let offer = answer(
        &mut server,
        &ask(Kind::Solicit, 1, &[(code::IA_NA, &wish(None))]),
    )
    .unwrap();
    assert_eq!(Message::decode(&offer).unwrap().kind, Kind::Advertise);
    let address = given(&offer).unwrap();
    let take = [
        (code::IA_NA, &wish(Some(address))[..]),
        (code::SERVER_ID, &config().id),
    ];
    let reply = answer(&mut server, &ask(Kind::Request, 1, &take)).unwrap();
    assert_eq!(given(&reply), Some(address));
    let mut again = Server::new(config());
    let renewed = answer(&mut again, &ask(Kind::Renew, 1, &take)).unwrap();
    assert_eq!(given(&renewed), Some(address));
    let other = answer(&mut again, &ask(Kind::Solicit, 2, &take[..1])).unwrap();
    assert_ne!(given(&other), Some(address), "it is somebody's");
    let third = answer(
        &mut again,
        &ask(Kind::Solicit, 3, &[(code::IA_NA, &wish(None))]),
    )
    .unwrap();
    assert_eq!(given(&third), None, "there are only two");
    answer(&mut again, &ask(Kind::Release, 1, &take)).unwrap();
    let third = answer(
        &mut again,
        &ask(Kind::Solicit, 3, &[(code::IA_NA, &wish(None))]),
    )
    .unwrap();
    assert_eq!(given(&third), Some(address));
}

#[test]
fn what_is_for_another_server_or_from_a_stranger_is_not_answered() {
    let mut server = Server::new(config());
    let theirs = ask(Kind::Request, 1, &[(code::SERVER_ID, &[0, 3, 0, 1, 7])]);
    assert_eq!(answer(&mut server, &theirs), None);
    let mut known = Server::new(Config {
        only: Some(vec![Mac([9; 6])]),
        ..config()
    });
    let boots = ask(Kind::Solicit, 1, &[(code::ARCHITECTURE, &[0, 7])]);
    assert_eq!(
        known.handle(now(), &boots, FROM),
        [Action::Report(Report::Booting {
            mac: Some(MAC),
            arch: Some(7),
            ignored: true
        })]
    );
}

/// What a client says of itself, and the URL it is to be told.
type Row<'a> = (&'a [(u16, &'a [u8])], Option<&'a str>);

#[test]
fn every_firmware_gets_a_url_it_can_use() {
    let mut server = Server::new(config());
    let vendor = |word: &str| [&[0, 0, 1, 87, 0, word.len() as u8][..], word.as_bytes()].concat();
    let (pxe, http) = (
        vendor("PXEClient:Arch:00007"),
        vendor("HTTPClient:Arch:00016"),
    );
    let rows: [Row<'_>; 5] = [
        (
            &[(code::VENDOR_CLASS, &pxe)],
            Some("tftp://[fd00::1]/snponly.efi"),
        ),
        (
            &[(code::ARCHITECTURE, &[0, 7])],
            Some("tftp://[fd00::1]/snponly.efi"),
        ),
        (
            &[(code::VENDOR_CLASS, &http), (code::ARCHITECTURE, &[0, 16])],
            Some("http://[fd00::1]:6180/snponly.efi"),
        ),
        (
            &[(code::USER_CLASS, &[0, 4, b'i', b'P', b'X', b'E'])],
            Some("http://[fd00::1]:6180/boot.ipxe"),
        ),
        (&[], None),
    ];
    for (more, expected) in rows {
        let reply = answer(&mut server, &ask(Kind::Solicit, 1, more)).unwrap();
        let message = Message::decode(&reply).unwrap();
        let url = message
            .get(code::BOOT_URL)
            .map(|url| std::str::from_utf8(url).unwrap());
        assert_eq!(url, expected, "{more:?}");
        let is_http = expected.is_some_and(|url| url.contains(":6180/snponly"));
        assert_eq!(message.get(code::VENDOR_CLASS).is_some(), is_http);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_answered_or_not_and_the_table_is_bounded(packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 1..20)) {
        let mut server = Server::new(config());
        for bytes in packets {
            server.handle(now(), &bytes, FROM);
            let framed = [&ask(Kind::Solicit, 1, &[])[..], &bytes].concat();
            server.handle(now(), &framed, FROM);
            let inside = ask(Kind::Request, 1, &[(code::IA_NA, &bytes)]);
            server.handle(now(), &inside, FROM);
        }
        prop_assert!(server.bound() <= 2);
    }
}
