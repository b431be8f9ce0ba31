//! Files to boot firmware, beside tftpd-hpa, dnsmasq, and atftpd, which alone of them has windows. One client
//! for all: it asks for a window and takes what it gets.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::daemon::Daemon;
use super::place;
use super::report::{Better, Report, Row, Target};
use super::{Scratch, cache, plinth, say};
use crate::deps;

const ROUNDS: usize = 5;
const MIB: usize = 1 << 20;
/// Name and size of what is fetched.
const SMALL: (&str, usize) = ("ramdisk-8", 8 * MIB);
const LARGE: (&str, usize) = ("ramdisk-64", 64 * MIB);
const CLIENTS: usize = 50;
/// Fills an Ethernet frame, as UEFI asks.
const BLOCK: usize = 1468;

pub fn prepare() -> Result<()> {
    deps::unpack("atftpd", &atftpd()?)
}

/// It cannot be installed beside tftpd-hpa.
fn atftpd() -> Result<PathBuf> {
    Ok(cache()?.join("debian/atftpd"))
}

pub fn run() -> Result<()> {
    let scratch = Scratch::new("tftp")?;
    let root = scratch.join("root");
    std::fs::create_dir_all(&root)?;
    for (name, size) in [SMALL, LARGE] {
        std::fs::write(root.join(name), content(size))?;
    }
    place::ip("link add br0 type bridge")?;
    place::ip("link set br0 up")?;
    for server in Server::ALL {
        place::ip(&format!("addr add {}/24 dev br0", server.address().ip()))?;
    }
    let servers = Server::ALL.map(|server| server.start(&scratch, &root));
    let servers = servers.into_iter().collect::<Result<Vec<_>>>()?;
    let mut report = Report::new(
        "tftp",
        format!("TFTP over loopback, blocks of {BLOCK} bytes, {ROUNDS} rounds"),
    );
    for work in Work::ALL {
        let mut samples = vec![Vec::new(); servers.len()];
        for _ in 0..ROUNDS {
            for (server, samples) in Server::ALL.into_iter().zip(&mut samples) {
                samples.push(work.measure(server.address())?);
            }
        }
        let ours = samples.pop().context("ours is the last")?;
        for (server, theirs) in Server::ALL.into_iter().zip(samples) {
            // A server without windows is no match for one with.
            let target = if server.has_windows() || work.window() == 1 {
                Target::Times(1.0)
            } else {
                Target::None
            };
            let row = Row::new(work.name(), "MB/s", Better::More, target).beside(server.name());
            report.add(row.with(theirs, ours.clone()));
        }
        say(work.name());
    }
    drop(servers);
    report.finish()
}

#[derive(Clone, Copy)]
enum Work {
    Window1,
    Window16,
    Window64,
    Rack,
}

impl Work {
    const ALL: [Self; 4] = [Self::Window1, Self::Window16, Self::Window64, Self::Rack];

    fn name(self) -> &'static str {
        match self {
            Self::Window1 => "window 1",
            Self::Window16 => "window 16",
            Self::Window64 => "window 64",
            Self::Rack => "50 clients, window 16",
        }
    }

    fn window(self) -> usize {
        match self {
            Self::Window1 => 1,
            Self::Window16 | Self::Rack => 16,
            Self::Window64 => 64,
        }
    }

    /// Megabytes per second, of all clients together.
    fn measure(self, server: SocketAddr) -> Result<f64> {
        let (clients, (name, size)) = match self {
            Self::Window1 => (1, SMALL),
            Self::Window16 | Self::Window64 => (1, LARGE),
            Self::Rack => (CLIENTS, SMALL),
        };
        let begin = Instant::now();
        let fetched: Result<Vec<usize>> = thread::scope(|scope| {
            let fetches: Vec<_> = (0..clients)
                .map(|_| scope.spawn(|| fetch(server, name, self.window())))
                .collect();
            fetches
                .into_iter()
                .map(|fetch| fetch.join().expect("a client does not panic"))
                .collect()
        });
        let elapsed = begin.elapsed().as_secs_f64();
        let fetched = fetched?;
        if let Some(short) = fetched.iter().find(|got| **got != size) {
            bail!("{name} has {size} bytes, but {short} came");
        }
        Ok(fetched.iter().sum::<usize>() as f64 / 1e6 / elapsed)
    }
}

#[derive(Clone, Copy)]
enum Server {
    TftpdHpa,
    Dnsmasq,
    Atftpd,
    Ours,
}

impl Server {
    const ALL: [Self; 4] = [Self::TftpdHpa, Self::Dnsmasq, Self::Atftpd, Self::Ours];

    fn name(self) -> &'static str {
        match self {
            Self::TftpdHpa => "tftpd-hpa",
            Self::Dnsmasq => "dnsmasq",
            Self::Atftpd => "atftpd",
            Self::Ours => "ours",
        }
    }

    fn has_windows(self) -> bool {
        match self {
            Self::TftpdHpa | Self::Dnsmasq => false,
            Self::Atftpd | Self::Ours => true,
        }
    }

    /// All serve on the usual port, each on an address of its own.
    fn address(self) -> SocketAddr {
        let last = match self {
            Self::TftpdHpa => 1,
            Self::Dnsmasq => 2,
            Self::Atftpd => 3,
            Self::Ours => 4,
        };
        SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)), 69)
    }

    fn start(self, scratch: &Scratch, root: &Path) -> Result<Daemon> {
        let ip = self.address().ip().to_string();
        let mut command = match self {
            Self::TftpdHpa => {
                let mut command = Command::new("in.tftpd");
                command
                    .args(["-L", "--secure", "--user", "root", "--address"])
                    .arg(format!("{ip}:69"))
                    .arg(root);
                command
            }
            Self::Dnsmasq => {
                let mut command = Command::new("dnsmasq");
                command.args([
                    "--no-daemon",
                    "--conf-file=/dev/null",
                    "--port=0",
                    "--user=root",
                    "--enable-tftp",
                    "--tftp-max=1000",
                    "--bind-interfaces",
                ]);
                command
                    .arg(format!("--listen-address={ip}"))
                    .arg(format!("--tftp-root={}", root.display()));
                command
            }
            Self::Atftpd => {
                let mut command = Command::new(atftpd()?.join("usr/sbin/atftpd"));
                command.args(["--daemon", "--no-fork", "--user", "root", "--group", "root"]);
                command
                    .args(["--maxthread", "1000", "--bind-address", &ip])
                    .arg(root);
                command
            }
            Self::Ours => {
                let (state, root) = (scratch.join("ours.redb"), root.display());
                let text = format!(
                    "listen: '127.0.0.1:6385'\nstate: '{}'\nboot: {{interface: br0, address: {ip}/24, dhcp: {{mode: 'off'}}, loaders: '{root}'}}\n",
                    state.display()
                );
                let config = scratch.write("ironic.yaml", &text)?;
                let mut command = plinth();
                command.args(["ironic", "--config"]).arg(config);
                command
            }
        };
        let mut daemon = Daemon::start(self.name(), &scratch.0, &mut command)?;
        daemon.wait("it sends a file", || {
            fetch(self.address(), SMALL.0, 16).is_ok()
        })?;
        Ok(daemon)
    }
}

fn content(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 31 % 253) as u8).collect()
}

/// Bytes of the file, which is received and dropped.
fn fetch(server: SocketAddr, name: &str, window: usize) -> Result<usize> {
    let socket = UdpSocket::bind((server.ip(), 0))?;
    socket.set_read_timeout(Some(Duration::from_secs(1)))?;
    let mut ask = vec![0, 1];
    let (block, wanted) = (BLOCK.to_string(), window.to_string());
    let mut words = vec![name, "octet", "tsize", "0", "blksize", &block];
    if window > 1 {
        words.extend(["windowsize", &wanted]);
    }
    for word in words {
        ask.extend(word.as_bytes());
        ask.push(0);
    }
    socket.send_to(&ask, server)?;
    let mut buffer = [0; 4 + BLOCK];
    let (length, peer) = socket
        .recv_from(&mut buffer)
        .context("no answer to the request")?;
    socket.connect(peer)?;
    let options = String::from_utf8_lossy(&buffer[2..length]).into_owned();
    if buffer[1] != 6 {
        bail!("no options were granted: {options}");
    }
    let words: Vec<&str> = options.split('\0').collect();
    let granted = words
        .iter()
        .position(|word| word.eq_ignore_ascii_case("windowsize"))
        .and_then(|at| words.get(at + 1)?.parse().ok());
    receive(&socket, granted.unwrap_or(1), &mut buffer)
}

fn receive(socket: &UdpSocket, window: usize, buffer: &mut [u8]) -> Result<usize> {
    let (mut received, mut bytes, mut acked, mut silences) = (0_u64, 0, 0, 0);
    let ack = |block: u64| socket.send(&[0, 4, (block >> 8) as u8, block as u8]);
    ack(0)?;
    loop {
        let length = match socket.recv(buffer) {
            Ok(length) => length,
            Err(_) if silences < 5 => {
                silences += 1;
                ack(received)?;
                acked = received;
                continue;
            }
            Err(error) => return Err(error).context("the server fell silent"),
        };
        match buffer[1] {
            3 => {}
            5 => bail!(
                "the server stopped: {}",
                String::from_utf8_lossy(&buffer[4..length])
            ),
            _ => continue,
        }
        let block = u64::from(u16::from_be_bytes([buffer[2], buffer[3]]));
        if block != (received + 1) & 0xffff {
            // A gap: say once what came last.
            if acked != received {
                ack(received)?;
                acked = received;
            }
            continue;
        }
        silences = 0;
        received += 1;
        bytes += length - 4;
        let last = length < 4 + BLOCK;
        if last || received - acked >= window as u64 {
            ack(received)?;
            acked = received;
        }
        if last {
            return Ok(bytes);
        }
    }
}
