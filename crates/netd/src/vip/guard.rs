//! A second process that outlives this one by a moment, and takes the addresses off that it left.
//!
//! The kernel counts an address's lifetime in whole seconds, and another node takes over in a tenth of one:
//! a killed holder would be a second holder for most of a second. The guard is a child that reads from us;
//! when we are gone, however that came about, it reads the end and removes what we held.

use std::collections::BTreeSet;
use std::io::{self, BufRead, Write};
use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use linux::netlink::Netlink;
use tokio::signal::unix::{SignalKind, signal};

/// Taking an address off takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);

/// The link to the guard. Dropping the last one lets it end.
#[derive(Debug, Clone)]
pub struct Guard(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    command: Vec<std::ffi::OsString>,
    child: Option<(Child, ChildStdin)>,
    held: BTreeSet<(String, IpAddr)>,
    /// Rules may have been made that should not outlive us.
    redirects: bool,
}

impl Guard {
    /// `command` is a program that calls [`run`]; it is not started yet.
    pub fn new(command: Vec<std::ffi::OsString>) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            command,
            child: None,
            held: BTreeSet::new(),
            redirects: false,
        })))
    }

    /// Starts it, if it does not run. Not left to the first address: that one is in a hurry.
    pub fn start(&self, redirects: bool) -> io::Result<()> {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.child.is_none() {
            inner.child = Some(start(&inner.command)?);
        }
        if redirects && !inner.redirects {
            inner.redirects = true;
            inner.write(REDIRECTS);
        }
        Ok(())
    }

    /// Tell it before the address comes, and after it is gone.
    pub fn tell(&self, link: &str, address: IpAddr, here: bool) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = (link.to_owned(), address);
        let changed = if here {
            inner.held.insert(entry)
        } else {
            inner.held.remove(&entry)
        };
        if changed {
            inner.write(&line(link, address, here));
        }
    }
}

const REDIRECTS: &str = "redirects\n";

fn line(link: &str, address: IpAddr, here: bool) -> String {
    let sign = if here { '+' } else { '-' };
    format!("{sign} {link} {address}\n")
}

fn start(command: &[std::ffi::OsString]) -> io::Result<(Child, ChildStdin)> {
    let (program, arguments) = command
        .split_first()
        .ok_or_else(|| io::Error::other("no command for the guard"))?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        // A key press that ends us must not end it first.
        .process_group(0)
        .spawn()?;
    let stdin = child.stdin.take();
    let stdin = stdin.ok_or_else(|| io::Error::other("the guard has no input"))?;
    Ok((child, stdin))
}

impl Inner {
    /// A guard that has died is replaced, and told everything.
    fn write(&mut self, line: &str) {
        if let Some((_, stdin)) = &mut self.child
            && stdin.write_all(line.as_bytes()).is_ok()
        {
            return;
        }
        if let Some((mut child, stdin)) = self.child.take() {
            drop(stdin);
            let _ = child.try_wait();
        }
        match start(&self.command) {
            Ok((child, mut stdin)) => {
                let mut all = if self.redirects {
                    REDIRECTS.to_owned()
                } else {
                    String::new()
                };
                for (link, address) in &self.held {
                    all += &self::line(link, *address, true);
                }
                let _ = stdin.write_all(all.as_bytes());
                self.child = Some((child, stdin));
            }
            Err(error) => {
                tracing::warn!(%error, "no guard: if this process is killed, its addresses stay for a second");
            }
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some((mut child, stdin)) = self.child.take() {
            drop(stdin);
            let _ = child.wait();
        }
    }
}

/// The guard itself: reads until the end, then removes what is still held.
pub fn run(input: impl BufRead) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    // Whoever ends a service asks all its processes to end; this one ends when the other has.
    let deaf = runtime.block_on(async {
        [
            SignalKind::terminate(),
            SignalKind::interrupt(),
            SignalKind::hangup(),
        ]
        .map(signal)
    });
    let left = listen(input);
    runtime.block_on(async {
        let work = async {
            for (link, address) in &left.held {
                let removed = match Netlink::connect() {
                    Ok(netlink) => super::wire::remove(&netlink, link, *address).await,
                    Err(error) => Err(error),
                };
                if let Err(error) = removed {
                    tracing::warn!(%address, link, %error, "address left behind");
                }
            }
            if left.redirects {
                crate::lb::clean_up().await;
            }
        };
        let _ = tokio::time::timeout(PATIENCE, work).await;
    });
    drop(deaf);
    Ok(())
}

#[derive(Debug, Default)]
struct Left {
    held: BTreeSet<(String, IpAddr)>,
    redirects: bool,
}

fn listen(input: impl BufRead) -> Left {
    let mut left = Left::default();
    for line in input.lines().map_while(Result::ok) {
        if line == REDIRECTS.trim_end() {
            left.redirects = true;
        }
        let mut words = line.split(' ');
        let (Some(sign), Some(link), Some(Ok(address))) =
            (words.next(), words.next(), words.next().map(str::parse))
        else {
            continue;
        };
        let entry = (link.to_owned(), address);
        match sign {
            "+" => _ = left.held.insert(entry),
            "-" => _ = left.held.remove(&entry),
            _ => {}
        }
    }
    // A redirect that was taken away in order needs no second look, but a second look does no harm.
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_up_and_not_taken_down_is_left() {
        let text = "+ eth0 192.0.2.5\n+ eth0 2001:db8::5\nnonsense\n- eth0 192.0.2.5\nredirects\n";
        let left = listen(text.as_bytes());
        let expected = ("eth0".to_owned(), "2001:db8::5".parse().unwrap());
        assert_eq!(left.held.into_iter().collect::<Vec<_>>(), [expected]);
        assert!(left.redirects);
    }
}
