//! A small HTTP server that says its name, for addresses and balancers to point at. It runs as a process of its own,
//! so that it can be killed.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

/// Of the file that is sent.
const BLOCK: u64 = 1 << 20;

/// A command that serves here; it is unwell while the file `sick` is there.
pub fn command(name: &str, address: &str, sick: &Path) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("find this program")?);
    command.args(["backend", name, address]).arg(sick);
    Ok(command)
}

#[derive(clap::Args)]
pub struct Backend {
    name: String,
    address: SocketAddr,
    sick: PathBuf,
}

/// Serves until it is killed. `/bytes/N` gives so many bytes; every other path gives the name.
pub fn run(backend: &Backend) -> Result<()> {
    let listener = TcpListener::bind(backend.address)
        .with_context(|| format!("listen on {}", backend.address))?;
    let sick = Arc::new(AtomicBool::new(false));
    let (flag, file) = (Arc::clone(&sick), backend.sick.clone());
    thread::spawn(move || {
        loop {
            flag.store(file.exists(), Ordering::Relaxed);
            thread::sleep(Duration::from_millis(2));
        }
    });
    let block = backend
        .sick
        .with_file_name(format!("{}.block", backend.name));
    fs::write(&block, vec![b'x'; BLOCK as usize])
        .with_context(|| format!("write {}", block.display()))?;
    let block: Arc<Path> = block.into();
    // Threads are kept: making one for every connection would be measured too.
    let (sender, receiver) = mpsc::channel::<TcpStream>();
    let receiver = Arc::new(std::sync::Mutex::new(receiver));
    let name: Arc<str> = backend.name.as_str().into();
    for _ in 0..64 {
        let (receiver, sick, name) = (Arc::clone(&receiver), Arc::clone(&sick), Arc::clone(&name));
        let block = Arc::clone(&block);
        thread::spawn(move || {
            loop {
                let next = receiver.lock().map(|queue| queue.recv());
                let Ok(Ok(stream)) = next else { return };
                // A client that goes away is no concern of ours.
                _ = talk(stream, &name, &block, &sick);
            }
        });
    }
    for stream in listener.incoming() {
        if sender.send(stream.context("accept")?).is_err() {
            break;
        }
    }
    Ok(())
}

fn talk(stream: TcpStream, name: &str, block: &Path, sick: &AtomicBool) -> Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_mins(1)))?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let bytes: Option<usize> = line
            .split(' ')
            .nth(1)
            .and_then(|path| path.strip_prefix("/bytes/")?.parse().ok());
        let close = line.trim_end().ends_with("HTTP/1.0");
        while line != "\r\n" && !line.is_empty() {
            line.clear();
            reader.read_line(&mut line)?;
        }
        let status = if sick.load(Ordering::Relaxed) {
            "500 Sick"
        } else {
            "200 OK"
        };
        let length = bytes.unwrap_or(name.len());
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n");
        let stream = reader.get_mut();
        if let Some(bytes) = bytes {
            stream.write_all(head.as_bytes())?;
            send(bytes as u64, block, stream)?;
        } else {
            stream.write_all(format!("{head}{name}").as_bytes())?;
        }
        if close {
            return Ok(());
        }
    }
}

/// From the page cache, without a copy: what is measured is the balancer, not this. The standard library's copy would
/// go through a buffer, since the file could change meanwhile.
fn send(bytes: u64, block: &Path, stream: &TcpStream) -> Result<()> {
    let file = fs::File::open(block)?;
    let socket = socket2::SockRef::from(stream);
    let mut left = bytes;
    while left > 0 {
        let length = NonZeroUsize::new(left.min(BLOCK) as usize);
        left -= socket.sendfile(&file, 0, length)? as u64;
    }
    Ok(())
}

/// Makes it unwell, or well again.
pub fn set_sick(file: &Path, sick: bool) -> Result<()> {
    if sick {
        fs::write(file, "").with_context(|| format!("write {}", file.display()))
    } else {
        fs::remove_file(file).ok();
        Ok(())
    }
}
