//! Clients of a balancer: as fast as it lets them, or at a pace of their own.

use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::sh;

const TIME: Duration = Duration::from_secs(2);
const CLIENTS: u32 = 16;
const BULK: usize = 1 << 32;
/// Of recv(2); for TCP it means: do not copy (tcp(7)).
const MSG_TRUNC: i32 = 0x20;

/// Connections, requests or gigabytes.
pub struct Done {
    pub count: f64,
    pub seconds: f64,
}

/// What one request goes over.
#[derive(Clone, Copy)]
pub enum Ask {
    NewConnection,
    KeptConnection,
}

/// One request on each connection.
pub fn connections(address: SocketAddr) -> Result<Done> {
    let begin = Instant::now();
    let counts = clients(|_| {
        let mut count = 0;
        while begin.elapsed() < TIME {
            once(address)?;
            count += 1;
        }
        Ok(count)
    })?;
    Ok(Done {
        count: f64::from(counts.into_iter().sum::<u32>()),
        seconds: begin.elapsed().as_secs_f64(),
    })
}

/// Requests on kept connections.
pub fn wrk(address: SocketAddr) -> Result<Done> {
    let text = sh::output(Command::new("wrk").args([
        "--threads",
        "1",
        "--connections",
        &CLIENTS.to_string(),
        "--duration",
        &format!("{}s", TIME.as_secs()),
        &format!("http://{address}/"),
    ]))?;
    let rate = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("Requests/sec:"))
        .with_context(|| format!("wrk does not say how many requests:\n{text}"))?;
    let rate: f64 = rate.trim().parse().context("requests per second")?;
    Ok(Done {
        count: rate * TIME.as_secs_f64(),
        seconds: TIME.as_secs_f64(),
    })
}

/// One stream.
pub fn bulk(address: SocketAddr) -> Result<Done> {
    let begin = Instant::now();
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(format!("GET /bytes/{BULK} HTTP/1.0\r\n\r\n").as_bytes())?;
    // Bytes are counted and thrown away in the kernel: a copy here would be slower than a balancer without one.
    let stream = socket2::Socket::from(stream);
    let mut buffer = vec![MaybeUninit::uninit(); 1 << 20];
    let mut got = 0;
    loop {
        match stream.recv_with_flags(&mut buffer, MSG_TRUNC)? {
            0 => break,
            length => got += length,
        }
    }
    if got < BULK {
        bail!("{got} of {BULK} bytes came");
    }
    Ok(Done {
        count: got as f64 / 1e9,
        seconds: begin.elapsed().as_secs_f64(),
    })
}

/// So many requests a second of each, evenly, in turns. Milliseconds from the moment at which a request was due to its
/// answer, so that one which is late because of the one before it counts as late.
pub fn paced<const N: usize>(
    addresses: [SocketAddr; N],
    ask: Ask,
    rate: f64,
) -> Result<[Vec<f64>; N]> {
    let parties = N as u32;
    // Client 0 asks the first, client 1 the second, and so on.
    let gap = Duration::from_secs_f64(f64::from(CLIENTS / parties) / rate);
    let begin = Instant::now();
    let latencies = clients(|at| {
        let address = addresses[(at % parties) as usize];
        let mut kept = match ask {
            Ask::NewConnection => None,
            Ask::KeptConnection => Some(TcpStream::connect(address)?),
        };
        let mut latencies = Vec::new();
        let mut due = begin + gap * at / CLIENTS;
        while due < begin + TIME {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            match &mut kept {
                None => once(address)?,
                Some(stream) => again(stream)?,
            }
            latencies.push(due.elapsed().as_secs_f64() * 1000.0);
            due += gap;
        }
        Ok(latencies)
    })?;
    let mut of_each = [const { Vec::new() }; N];
    for (at, latencies) in latencies.into_iter().enumerate() {
        of_each[at % N].extend(latencies);
    }
    Ok(of_each)
}

fn clients<T: Send>(work: impl Fn(u32) -> Result<T> + Sync) -> Result<Vec<T>> {
    thread::scope(|scope| {
        let work = &work;
        let clients: Vec<_> = (0..CLIENTS)
            .map(|at| scope.spawn(move || work(at)))
            .collect();
        clients
            .into_iter()
            .map(|client| client.join().expect("a client does not panic"))
            .collect()
    })
}

fn once(address: SocketAddr) -> Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    let mut answer = Vec::with_capacity(512);
    stream.read_to_end(&mut answer)?;
    if answer.is_empty() {
        bail!("the balancer closed a connection without an answer");
    }
    Ok(())
}

/// The answer ends with the one byte of the backend's name, right after the empty line.
fn again(stream: &mut TcpStream) -> Result<()> {
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n")?;
    let (mut answer, mut length) = ([0; 512], 0);
    loop {
        match stream.read(&mut answer[length..])? {
            0 => bail!("the balancer closed a kept connection"),
            more => length += more,
        }
        let ends = answer[..length.saturating_sub(1)].ends_with(b"\r\n\r\n");
        if ends {
            return Ok(());
        }
    }
}
