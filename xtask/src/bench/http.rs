//! A small load generator: keep-alive connections, one request at a time on each.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_mins(2);

pub struct Request {
    pub method: &'static str,
    pub path: String,
    pub body: Option<String>,
}

impl Request {
    pub fn get(path: impl Into<String>) -> Self {
        Self {
            method: "GET",
            path: path.into(),
            body: None,
        }
    }

    pub fn new(method: &'static str, path: impl Into<String>, body: &Value) -> Self {
        Self {
            method,
            path: path.into(),
            body: Some(body.to_string()),
        }
    }

    fn encode(&self, headers: &str) -> Vec<u8> {
        let mut text = format!(
            "{} {} HTTP/1.1\r\nHost: bench\r\n{headers}",
            self.method, self.path
        );
        if let Some(body) = &self.body {
            text += "Content-Type: application/json\r\nContent-Length: ";
            text += &body.len().to_string();
            text += "\r\n";
        }
        text += "\r\n";
        text += self.body.as_deref().unwrap_or_default();
        text.into_bytes()
    }
}

pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

/// One kept connection, opened again when the server closes it.
pub struct Connection {
    address: SocketAddr,
    /// Sent with every request; each line ends in CRLF.
    headers: &'static str,
    stream: Option<BufReader<TcpStream>>,
}

impl Connection {
    pub fn new(address: SocketAddr, headers: &'static str) -> Self {
        Self {
            address,
            headers,
            stream: None,
        }
    }

    /// The body, from an answer that says all is well.
    pub fn ask(&mut self, request: &Request) -> Result<Vec<u8>> {
        let answer = self.send(request)?;
        if !(200..300).contains(&answer.status) {
            bail!(
                "{} {}: {}: {}",
                request.method,
                request.path,
                answer.status,
                String::from_utf8_lossy(&answer.body)
            );
        }
        Ok(answer.body)
    }

    pub fn send(&mut self, request: &Request) -> Result<Answer> {
        let kept = self.stream.is_some();
        match self.exchange(request) {
            // A server may close a connection it kept just when we use it.
            Err(_) if kept => self.exchange(request),
            other => other,
        }
        .with_context(|| format!("{} {}", request.method, request.path))
    }

    fn exchange(&mut self, request: &Request) -> Result<Answer> {
        let mut stream = if let Some(stream) = self.stream.take() {
            stream
        } else {
            let stream = TcpStream::connect_timeout(&self.address, PATIENCE)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            BufReader::with_capacity(64 << 10, stream)
        };
        stream.get_mut().write_all(&request.encode(self.headers))?;
        let (answer, keep) = read_answer(&mut stream)?;
        if keep {
            self.stream = Some(stream);
        }
        Ok(answer)
    }
}

fn read_answer(stream: &mut impl BufRead) -> Result<(Answer, bool)> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let status: u16 = line
        .split(' ')
        .nth(1)
        .and_then(|word| word.parse().ok())
        .context("no HTTP answer")?;
    let (mut length, mut chunked, mut keep) = (None, false, true);
    loop {
        line.clear();
        stream.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = Some(value.parse::<usize>().context("Content-Length")?),
            "transfer-encoding" => chunked = value.eq_ignore_ascii_case("chunked"),
            "connection" => keep = !value.eq_ignore_ascii_case("close"),
            _ => {}
        }
    }
    let mut body = Vec::new();
    if chunked {
        loop {
            line.clear();
            stream.read_line(&mut line)?;
            let size = usize::from_str_radix(line.trim(), 16).context("chunk size")?;
            let start = body.len();
            body.resize(start + size, 0);
            stream.read_exact(&mut body[start..])?;
            line.clear();
            stream.read_line(&mut line)?;
            if size == 0 {
                break;
            }
        }
    } else if let Some(length) = length {
        body.resize(length, 0);
        stream.read_exact(&mut body)?;
    } else if status != 204 && status != 304 {
        stream.read_to_end(&mut body)?;
        keep = false;
    }
    Ok((Answer { status, body }, keep))
}

/// When to stop.
#[derive(Clone, Copy)]
pub enum Until {
    Requests(usize),
    Time(Duration),
}

pub struct Outcome {
    pub requests: usize,
    pub elapsed: Duration,
}

impl Outcome {
    pub fn per_second(&self) -> f64 {
        self.requests as f64 / self.elapsed.as_secs_f64()
    }
}

/// Sends requests, numbered from 0, on so many connections at once. Any that fails ends it.
pub fn load(
    address: SocketAddr,
    headers: &'static str,
    connections: usize,
    until: Until,
    request: impl Fn(usize) -> Request + Sync,
) -> Result<Outcome> {
    let next = AtomicUsize::new(0);
    let begin = Instant::now();
    let work = || -> Result<usize> {
        let mut connection = Connection::new(address, headers);
        let mut answered = 0;
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let over = match until {
                Until::Requests(count) => number >= count,
                Until::Time(time) => begin.elapsed() >= time,
            };
            if over {
                return Ok(answered);
            }
            connection.ask(&request(number))?;
            answered += 1;
        }
    };
    let results: Result<Vec<usize>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..connections).map(|_| scope.spawn(work)).collect();
        let join = |worker: thread::ScopedJoinHandle<'_, _>| {
            worker.join().expect("a worker does not panic")
        };
        workers.into_iter().map(join).collect()
    });
    let elapsed = begin.elapsed();
    Ok(Outcome {
        requests: results?.iter().sum(),
        elapsed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_whatever_way_their_length_is_told() {
        let read = |text: &str| read_answer(&mut text.as_bytes()).unwrap();
        let (answer, keep) = read("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi more");
        assert_eq!(
            (answer.status, answer.body, keep),
            (200, b"hi".to_vec(), true)
        );
        let (answer, keep) = read(
            "HTTP/1.1 202 Accepted\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n1\r\n!\r\n0\r\n\r\n",
        );
        assert_eq!((answer.body, keep), (b"hi!".to_vec(), true));
        let (answer, keep) = read("HTTP/1.0 200 OK\r\nConnection: close\r\n\r\nall");
        assert_eq!((answer.body, keep), (b"all".to_vec(), false));
        assert!(read_answer(&mut "".as_bytes()).is_err());
    }
}
