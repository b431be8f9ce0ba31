//! A console for tests: does what it is told, right or wrong.

use super::*;
use crate::ipmi::crypto::{Exchange, Keys};
use crate::ipmi::wire::setup::{
    OpenRequest, OpenResponse, Opened, Rakp1, Rakp2, Rakp3, Rakp4, Status,
};
use std::net::SocketAddr;
use std::sync::OnceLock;

/// The beginning of virtual time.
#[expect(
    clippy::disallowed_methods,
    reason = "there is no other way to get an Instant to count from"
)]
pub fn start() -> Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    *START.get_or_init(Instant::now)
}

pub fn peer(number: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, number], 40_000))
}

pub fn config() -> Config {
    let user = |name: &str, privilege| User {
        name: name.into(),
        password: Secret::new(format!("{name}-pw")),
        privilege,
    };
    let users = vec![
        user("admin", Privilege::Administrator),
        user("operator", Privilege::Operator),
        user("viewer", Privilege::User),
    ];
    Config::new(users, [9; 16])
}

pub fn bmc() -> Bmc {
    bmc_of(config())
}

pub fn bmc_of(config: Config) -> Bmc {
    let mut bmc = Bmc::new(
        config,
        Start {
            now: start(),
            unix_seconds: 0,
            seed: Secret::new([1; 32]),
        },
    );
    bmc.handle(
        start(),
        Event::View(View {
            power: PowerState::On,
            readings: Readings::default(),
        }),
    );
    bmc
}

/// A logged-in console and the BMC it talks to.
pub struct Client {
    pub bmc: Bmc,
    pub now: Instant,
    pub keys: Keys,
    pub bmc_session: u32,
    pub sequence: u32,
    pub message: u8,
    /// What the BMC did, but for the packets it sent.
    pub actions: Vec<Action>,
    /// Payloads the BMC sent, opened.
    pub received: Vec<(PayloadKind, Vec<u8>)>,
}

impl Client {
    pub fn admin() -> Self {
        Self::login(bmc(), "admin", Privilege::Administrator)
    }

    pub fn login(mut bmc: Bmc, name: &str, privilege: Privilege) -> Self {
        let (keys, bmc_session) = login(&mut bmc, name, privilege).expect("the login is right");
        let (actions, received) = (vec![], vec![]);
        let mut client = Self {
            bmc,
            now: start(),
            keys,
            bmc_session,
            sequence: 0,
            message: 0,
            actions,
            received,
        };
        assert_eq!(
            client.ask(0x06, 0x3b, &[privilege.code()]),
            (0, vec![privilege.code()])
        );
        client
    }

    pub fn activate_sol(&mut self) {
        assert_eq!(self.ask(0x06, 0x48, &[1, 1, 0xc0, 0, 0, 0]).0, 0);
        self.received.clear();
    }

    /// Completion code and data.
    pub fn ask(&mut self, net_fn: u8, command: u8, data: &[u8]) -> (u8, Vec<u8>) {
        self.try_ask(net_fn, command, data)
            .expect("the BMC answers")
    }

    pub fn try_ask(&mut self, net_fn: u8, command: u8, data: &[u8]) -> Option<(u8, Vec<u8>)> {
        self.message = (self.message + 1) & 0x3f;
        self.ask_again(net_fn, command, data)
    }

    /// The same message number as last time, in a new packet: what consoles do when no answer came.
    pub fn ask_again(&mut self, net_fn: u8, command: u8, data: &[u8]) -> Option<(u8, Vec<u8>)> {
        let request = Message::request(net_fn, command, self.message, data.to_vec());
        let before = self.received.len();
        self.send(PayloadKind::Ipmi, &request.encode());
        let answers: Vec<_> = self
            .received
            .drain(before..)
            .filter(|(kind, _)| *kind == PayloadKind::Ipmi)
            .collect();
        assert!(answers.len() <= 1, "one request, one response");
        let response = Message::decode(&answers.first()?.1).unwrap();
        assert_eq!(
            (response.net_fn, response.command, response.sequence),
            (net_fn | 1, command, self.message)
        );
        let (completion, data) = response.data.split_first().unwrap();
        Some((*completion, data.to_vec()))
    }

    pub fn send(&mut self, kind: PayloadKind, payload: &[u8]) {
        self.sequence += 1;
        let packet = self
            .keys
            .seal(kind, self.bmc_session, self.sequence, payload, [5; 16]);
        self.send_packet(packet);
    }

    pub fn send_packet(&mut self, packet: V20) {
        self.event(Event::Datagram {
            from: peer(1),
            bytes: Packet::V20(packet).encode(),
        });
    }

    pub fn event(&mut self, event: Event) {
        for action in self.bmc.handle(self.now, event) {
            let Action::Send { bytes, .. } = &action else {
                self.actions.push(action);
                continue;
            };
            let Ok(Packet::V20(packet)) = Packet::decode(bytes) else {
                panic!("not RMCP+: {bytes:02x?}")
            };
            self.received.push((
                packet.kind,
                self.keys
                    .open(&packet)
                    .expect("the BMC signs with our keys"),
            ));
        }
    }
}

pub fn login(bmc: &mut Bmc, name: &str, privilege: Privilege) -> Result<(Keys, u32), Status> {
    let exchange = challenge(bmc, name, privilege)?;
    let password = Secret::new(format!("{name}-pw"));
    let keys = exchange.keys(&password);
    let check = prove(bmc, exchange.bmc_session, exchange.console_proof(&password))?;
    assert!(exchange.check_value_holds(&keys, &check));
    Ok((keys, exchange.bmc_session))
}

/// Up to and including RAKP 2.
pub fn challenge(bmc: &mut Bmc, name: &str, privilege: Privilege) -> Result<Exchange, Status> {
    let opened = open(bmc, 77)?;
    greet(
        bmc,
        opened.bmc_session,
        0x10 | privilege.code(),
        name.as_bytes(),
    )
}

pub fn open(bmc: &mut Bmc, console_session: u32) -> Result<Opened, Status> {
    let algorithms = Suite::Seventeen.algorithms();
    let open = OpenRequest {
        tag: 1,
        privilege: 0,
        console_session,
        algorithms,
    };
    let reply = set_up(bmc, PayloadKind::OpenRequest, open.encode()).expect("an answer");
    OpenResponse::decode(&reply).unwrap().result
}

pub fn greet(
    bmc: &mut Bmc,
    bmc_session: u32,
    role: u8,
    username: &[u8],
) -> Result<Exchange, Status> {
    let username = username.to_vec();
    let rakp1 = Rakp1 {
        tag: 2,
        bmc_session,
        console_random: [4; 16],
        role,
        username: username.clone(),
    };
    let reply = set_up(bmc, PayloadKind::Rakp1, rakp1.encode()).expect("an answer");
    let rakp2 = Rakp2::decode(&reply).unwrap();
    let challenge = rakp2.result?;
    let exchange = Exchange {
        suite: Suite::Seventeen,
        console_session: rakp2.console_session,
        bmc_session,
        console_random: [4; 16],
        bmc_random: challenge.bmc_random,
        guid: challenge.guid,
        role,
        username,
    };
    let password = Secret::new(format!(
        "{}-pw",
        String::from_utf8_lossy(&exchange.username)
    ));
    assert!(exchange.bmc_proof_holds(&password, &challenge.auth_code));
    Ok(exchange)
}

pub fn prove(bmc: &mut Bmc, bmc_session: u32, proof: Vec<u8>) -> Result<Vec<u8>, Status> {
    let rakp3 = Rakp3 {
        tag: 3,
        bmc_session,
        result: Ok(proof),
    };
    let reply = set_up(bmc, PayloadKind::Rakp3, rakp3.encode()).expect("an answer");
    Rakp4::decode(&reply).unwrap().result
}

pub fn set_up(bmc: &mut Bmc, kind: PayloadKind, payload: Vec<u8>) -> Option<Vec<u8>> {
    let bytes = Packet::V20(V20::outside_session(kind, payload)).encode();
    let actions = bmc.handle(
        start(),
        Event::Datagram {
            from: peer(1),
            bytes,
        },
    );
    let Action::Send { bytes, .. } = actions.first()? else {
        panic!("{actions:?}")
    };
    let Ok(Packet::V20(packet)) = Packet::decode(bytes) else {
        panic!("{bytes:02x?}")
    };
    Some(packet.payload)
}
