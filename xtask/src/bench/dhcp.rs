//! Leases, and a rack powered on at once, beside dnsmasq and Kea; one server at a time on the wire, leases on disk.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::daemon::Daemon;
use super::place::{self, Node};
use super::report::{Better, Report, Row, Target};
use super::{Scratch, plinth, say};

const ROUNDS: usize = 5;
const RACK: usize = 50;
/// Clients that wait for an answer at any time, when leases are counted.
const CROWD: usize = 64;
const TIME: Duration = Duration::from_secs(3);
/// Between two looks at who heard nothing: a look at all of them after every packet would measure us.
const LOOK: Duration = Duration::from_millis(100);

pub fn run() -> Result<()> {
    let scratch = Scratch::new("dhcp")?;
    let server = Node::new("server", "br0", "10.64.0.1/16")?;
    place::ip("addr add 10.64.0.2/16 dev br0")?;
    place::ip("route add default dev br0")?;
    let mut samples: Vec<Vec<Sample>> = Server::ALL.map(|_| Vec::new()).into();
    for round in 1..=ROUNDS {
        for (kind, samples) in Server::ALL.into_iter().zip(&mut samples) {
            samples.push(
                kind.measure(&scratch, &server, round)
                    .with_context(|| format!("measure {}", kind.name()))?,
            );
        }
        say(&format!("round {round} of {ROUNDS}"));
    }
    let mut report = Report::new(
        "dhcp",
        format!("DHCPv4 between two namespaces, leases on disk, {ROUNDS} rounds"),
    );
    let ours = samples.pop().context("ours is the last")?;
    for what in What::ALL {
        for (kind, theirs) in Server::ALL.into_iter().zip(&samples) {
            let row = what.row().beside(kind.name());
            let of = |sample| what.of(sample);
            report.add(row.with(theirs.iter().filter_map(of), ours.iter().filter_map(of)));
        }
    }
    report.finish()
}

struct Sample {
    rack_ms: f64,
    leases: f64,
    /// By perfdhcp, which is not ours.
    exchanges: Option<f64>,
}

#[derive(Clone, Copy)]
enum What {
    Rack,
    Leases,
    Exchanges,
}

impl What {
    const ALL: [Self; 3] = [Self::Rack, Self::Leases, Self::Exchanges];

    fn row(self) -> Row {
        match self {
            // Kea's few milliseconds, doubled, for it asks nobody whether an address is in use.
            Self::Rack => Row::new(
                format!("{RACK} machines at once, until all have a lease"),
                "ms",
                Better::Less,
                Target::Under(50.0),
            ),
            Self::Leases => Row::new("leases", "1/s", Better::More, Target::Over(10_000.0)),
            Self::Exchanges => Row::new(
                "leases, by perfdhcp",
                "1/s",
                Better::More,
                Target::Times(1.0),
            ),
        }
    }

    fn of(self, sample: &Sample) -> Option<f64> {
        match self {
            Self::Rack => Some(sample.rack_ms),
            Self::Leases => Some(sample.leases),
            Self::Exchanges => sample.exchanges,
        }
    }
}

#[derive(Clone, Copy)]
enum Server {
    Dnsmasq,
    Kea,
    Ours,
}

impl Server {
    const ALL: [Self; 3] = [Self::Dnsmasq, Self::Kea, Self::Ours];

    fn name(self) -> &'static str {
        match self {
            Self::Dnsmasq => "dnsmasq",
            Self::Kea => "Kea",
            Self::Ours => "ours",
        }
    }

    fn measure(self, scratch: &Scratch, node: &Node, round: usize) -> Result<Sample> {
        let wire = UdpSocket::bind("0.0.0.0:68").context("bind the clients' port")?;
        wire.set_broadcast(true)?;
        let name = format!("{}-{round}", self.name());
        let careful = self.start(scratch, node, &name, &wire, true)?;
        let rack = Crowd::new(&wire, 1).serve(RACK, RACK, Duration::from_mins(2))?;
        drop(careful);
        let name = format!("{name}-quick");
        let quick = self.start(scratch, node, &name, &wire, false)?;
        let many = Crowd::new(&wire, 2).serve(CROWD, usize::MAX, TIME)?;
        drop(wire);
        let exchanges = perfdhcp();
        drop(quick);
        Ok(Sample {
            rack_ms: rack.elapsed.as_secs_f64() * 1000.0,
            leases: many.leases as f64 / many.elapsed.as_secs_f64(),
            exchanges: exchanges?,
        })
    }

    fn start(
        self,
        scratch: &Scratch,
        node: &Node,
        name: &str,
        wire: &UdpSocket,
        careful: bool,
    ) -> Result<Daemon> {
        let mut command = match self {
            Self::Dnsmasq => {
                let mut command = node.command("dnsmasq");
                // As the Ironic image runs it, it pings an address before it offers it.
                if !careful {
                    command.arg("--no-ping");
                }
                command.args([
                    "--no-daemon",
                    "--conf-file=/dev/null",
                    "--port=0",
                    "--user=root",
                    "--interface=eth0",
                    "--bind-interfaces",
                ]);
                command.args([
                    "--dhcp-range=10.64.1.0,10.64.254.254,255.255.0.0,1h",
                    "--dhcp-lease-max=65000",
                    "--dhcp-authoritative",
                ]);
                command.arg(format!(
                    "--dhcp-leasefile={}",
                    scratch.join(&format!("{name}.leases")).display()
                ));
                command
            }
            Self::Kea => {
                let leases = scratch.join(&format!("{name}.csv"));
                let config = scratch.write(
                    &format!("{name}.json"),
                    &KEA_CONF.replace("LEASES", &leases.display().to_string()),
                )?;
                let mut command = node.command("kea-dhcp4");
                command
                    .arg("-c")
                    .arg(config)
                    .env("KEA_PIDFILE_DIR", &scratch.0)
                    .env("KEA_LOCKFILE_DIR", &scratch.0);
                command
            }
            Self::Ours => {
                // Leases lie beside it: every server begins with none, as the others do.
                let state = scratch.join(name);
                std::fs::create_dir(&state).context("make a directory for leases")?;
                let state = state.join("ironic.redb");
                let config = scratch.write(
                    &format!("{name}.yaml"),
                    &OUR_CONF.replace("STATE", &state.display().to_string()),
                )?;
                let mut inner = plinth();
                inner.args(["ironic", "--config"]).arg(config);
                node.wrap(&inner)
            }
        };
        let mut daemon = Daemon::start(name, &scratch.0, &mut command)?;
        daemon.wait("it gives a lease", || {
            Crowd::new(wire, 0)
                .serve(1, 1, Duration::from_secs(1))
                .is_ok_and(|done| done.leases == 1)
        })?;
        Ok(daemon)
    }
}

/// Exchanges per second as ISC's load generator counts them; it is a relay, and waits for nobody.
fn perfdhcp() -> Result<Option<f64>> {
    let output = Command::new("perfdhcp")
        .args([
            "-4",
            "-l",
            "br0",
            "-R",
            "20000",
            "-b",
            "mac=02:77:00:00:00:00",
            "-p",
            "3",
            "-W",
            "200000",
            "-d",
            "0.5",
        ])
        .output()
        .context("start perfdhcp")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let rate = text
        .lines()
        .find_map(|line| line.strip_prefix("Rate: ")?.split(' ').next()?.parse().ok());
    Ok(rate)
}

/// Clients that all want an address, on one socket.
struct Crowd<'a> {
    wire: &'a UdpSocket,
    /// Tells crowds apart, so that none finds a lease that an earlier one has.
    number: u8,
    clients: BTreeMap<u32, Client>,
    /// Nobody has waited too long before.
    look_at: Instant,
}

struct Client {
    /// Offered, and by whom.
    offer: Option<(Ipv4Addr, Ipv4Addr)>,
    again: Instant,
    wait: Duration,
}

struct Done {
    leases: usize,
    elapsed: Duration,
}

impl<'a> Crowd<'a> {
    fn new(wire: &'a UdpSocket, number: u8) -> Self {
        Self {
            wire,
            number,
            clients: BTreeMap::new(),
            look_at: Instant::now() + LOOK,
        }
    }

    /// Keeps so many waiting until so many have leases, or the time is up.
    fn serve(mut self, waiting: usize, wanted: usize, limit: Duration) -> Result<Done> {
        let begin = Instant::now();
        let salt = u32::from(std::process::id() as u8 ^ self.number) << 24;
        let (mut leases, mut started) = (0, 0_u32);
        let mut buffer = [0; 1500];
        self.wire
            .set_read_timeout(Some(Duration::from_millis(20)))?;
        while leases < wanted && begin.elapsed() < limit {
            while self.clients.len() < waiting && leases + self.clients.len() < wanted {
                started += 1;
                let client = Client {
                    offer: None,
                    again: Instant::now(),
                    wait: Duration::from_secs(1),
                };
                self.clients.insert(salt | started, client);
                self.send(salt | started)?;
            }
            if let Ok(length) = self.wire.recv(&mut buffer)
                && let Some(answer) = Answer::parse(&buffer[..length])
            {
                leases += usize::from(self.heard(&answer)?);
            }
            self.repeat()?;
        }
        if wanted != usize::MAX && leases < wanted && wanted > 1 {
            bail!(
                "{leases} of {wanted} had a lease after {} s",
                limit.as_secs()
            );
        }
        Ok(Done {
            leases,
            elapsed: begin.elapsed(),
        })
    }

    /// True when a client has its lease now.
    fn heard(&mut self, answer: &Answer) -> Result<bool> {
        let Some(client) = self.clients.get_mut(&answer.xid) else {
            return Ok(false);
        };
        match (answer.kind, client.offer) {
            (2, None) => {
                client.offer = Some((answer.address, answer.server));
                self.send(answer.xid)?;
                Ok(false)
            }
            (5, Some(_)) => Ok(self.clients.remove(&answer.xid).is_some()),
            (6, _) => {
                client.offer = None;
                self.send(answer.xid)?;
                Ok(false)
            }
            _ => Ok(false),
        }
    }

    /// Asks again for those who heard nothing, as firmware does.
    fn repeat(&mut self) -> Result<()> {
        let now = Instant::now();
        if now < self.look_at {
            return Ok(());
        }
        self.look_at = now + LOOK;
        let late: Vec<u32> = self
            .clients
            .iter()
            .filter(|(_, client)| client.again <= now)
            .map(|(xid, _)| *xid)
            .collect();
        for xid in late {
            self.send(xid)?;
        }
        Ok(())
    }

    fn send(&mut self, xid: u32) -> Result<()> {
        let client = self
            .clients
            .get_mut(&xid)
            .context("only waiting clients send")?;
        client.again = Instant::now() + client.wait;
        client.wait = (client.wait * 2).min(Duration::from_secs(16));
        let mac = [[0x02, self.number].as_slice(), &xid.to_be_bytes()].concat();
        let everyone: SocketAddr = (Ipv4Addr::BROADCAST, 67).into();
        // A full send buffer is a lost packet.
        _ = self
            .wire
            .send_to(&message(xid, &mac, client.offer), everyone);
        Ok(())
    }
}

/// DISCOVER, or REQUEST of what was offered (RFC 2131, 4.3.1 and 4.3.2), with answers by broadcast.
fn message(xid: u32, mac: &[u8], offer: Option<(Ipv4Addr, Ipv4Addr)>) -> Vec<u8> {
    let mut bytes = vec![1, 1, 6, 0];
    bytes.extend(xid.to_be_bytes());
    bytes.extend([0, 0, 0x80, 0]);
    bytes.extend([0; 16]);
    bytes.extend(mac);
    bytes.resize(236, 0);
    bytes.extend([99, 130, 83, 99]);
    bytes.extend([53, 1, if offer.is_some() { 3 } else { 1 }]);
    if let Some((address, server)) = offer {
        bytes.extend([50, 4]);
        bytes.extend(address.octets());
        bytes.extend([54, 4]);
        bytes.extend(server.octets());
    }
    bytes.extend([55, 4, 1, 3, 51, 54, 255]);
    bytes.resize(300, 0);
    bytes
}

struct Answer {
    xid: u32,
    kind: u8,
    address: Ipv4Addr,
    server: Ipv4Addr,
}

impl Answer {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let xid = u32::from_be_bytes(bytes.get(4..8)?.try_into().ok()?);
        let quad = |part: &[u8]| Some(Ipv4Addr::from(<[u8; 4]>::try_from(part).ok()?));
        let address = quad(bytes.get(16..20)?)?;
        let (mut kind, mut server) = (0, Ipv4Addr::UNSPECIFIED);
        let mut rest = bytes.get(240..)?;
        while let [code, length, tail @ ..] = rest {
            if *code == 0 {
                rest = &rest[1..];
                continue;
            }
            let value = tail.get(..usize::from(*length));
            match (code, value) {
                (53, Some([what])) => kind = *what,
                (54, Some(value)) => server = quad(value)?,
                (255, _) | (_, None) => break,
                _ => {}
            }
            rest = &tail[usize::from(*length)..];
        }
        Some(Self {
            xid,
            kind,
            address,
            server,
        })
    }
}

const KEA_CONF: &str = r#"{"Dhcp4": {
  "interfaces-config": {"interfaces": ["eth0"], "dhcp-socket-type": "raw"},
  "lease-database": {"type": "memfile", "persist": true, "name": "LEASES"},
  "valid-lifetime": 3600,
  "subnet4": [{"subnet": "10.64.0.0/16", "pools": [{"pool": "10.64.1.0 - 10.64.254.254"}]}]
}}
"#;

const OUR_CONF: &str = "\
listen: '127.0.0.1:6385'
state: 'STATE'
boot:
  interface: eth0
  address: 10.64.0.1/16
  dhcp: {ranges: [10.64.1.0-10.64.254.254]}
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_by_its_options() {
        let mut bytes = message(7, &[2; 6], None);
        bytes[16..20].copy_from_slice(&[10, 0, 0, 9]);
        bytes[242] = 2;
        bytes.splice(243..243, [54, 4, 10, 0, 0, 1]);
        let answer = Answer::parse(&bytes).unwrap();
        assert_eq!((answer.xid, answer.kind), (7, 2));
        assert_eq!(
            (answer.address, answer.server),
            ([10, 0, 0, 9].into(), [10, 0, 0, 1].into())
        );
        assert!(Answer::parse(&[]).is_none());
    }
}
