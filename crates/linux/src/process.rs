//! Children that die with us, and processes known by more than a number.
//!
//! For tokio's command, pass `as_std_mut()`.

#![expect(
    unsafe_code,
    reason = "pre_exec hooks, and pidfds, which exist only as system calls"
)]

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;

pub use nix::sys::signal::Signal;

use crate::netns::Namespace;

/// Makes the kernel kill the child when the *thread* that spawned it ends; see [`spawn`].
pub fn die_with_parent(command: &mut Command) {
    let parent = std::process::id();
    // SAFETY: prctl and getppid are bare system calls, allowed between fork and exec.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) < 0 {
                return Err(io::Error::last_os_error());
            }
            // If the parent died before the line above, nobody will send the signal.
            if libc::getppid() as u32 != parent {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            Ok(())
        });
    }
}

/// Lets the child keep these descriptors, under the same numbers.
pub fn inherit(command: &mut Command, fds: Vec<Arc<OwnedFd>>) {
    // SAFETY: fcntl is a bare system call, allowed between fork and exec; the closure keeps the descriptors open.
    unsafe {
        command.pre_exec(move || {
            for fd in &fds {
                if libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, 0) < 0 {
                    return Err(io::Error::last_os_error());
                }
            }
            Ok(())
        });
    }
}

/// Spawns a child that dies with this *process*: from a thread that lives as long as it does.
///
/// The parent-death signal follows the parent thread, and a runtime's threads come and go. The child
/// starts in the caller's network namespace, and is reaped by the caller's runtime.
pub fn spawn(mut command: tokio::process::Command) -> io::Result<tokio::process::Child> {
    let runtime = tokio::runtime::Handle::current();
    let here = Namespace::current().map_err(io::Error::other)?;
    die_with_parent(command.as_std_mut());
    let (answer, result) = mpsc::channel();
    let job: Job = Box::new(move || {
        let _context = runtime.enter();
        let spawned = here
            .enter()
            .map_err(io::Error::other)
            .and_then(|()| command.spawn());
        let _ = answer.send(spawned);
    });
    nursery()?
        .send(job)
        .map_err(|_| io::Error::other("the thread that spawns children has ended"))?;
    result
        .recv()
        .map_err(|_| io::Error::other("the thread that spawns children failed"))?
}

type Job = Box<dyn FnOnce() + Send>;

fn nursery() -> io::Result<mpsc::Sender<Job>> {
    static NURSERY: OnceLock<mpsc::Sender<Job>> = OnceLock::new();
    if let Some(nursery) = NURSERY.get() {
        return Ok(nursery.clone());
    }
    let (sender, jobs) = mpsc::channel::<Job>();
    thread::Builder::new()
        .name("nursery".into())
        .spawn(move || {
            let home = Namespace::current();
            for job in jobs {
                job();
                // Do not keep the last child's namespace alive.
                if let Ok(home) = &home {
                    let _ = home.enter();
                }
            }
        })?;
    // Two callers at once may start two threads; both live on, and one is used from now on.
    Ok(NURSERY.get_or_init(|| sender).clone())
}

/// Lets a command that prints end quietly when nobody reads any more, as other commands do. Only for those that have no
/// connections: a peer that hangs up would end them, too.
pub fn end_on_broken_pipe() {
    // SAFETY: sets a disposition; no handler of ours is involved.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// One process, told apart from a later one with the same pid by its start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Id {
    pub pid: u32,
    /// Clock ticks after boot (field 22 of `/proc/PID/stat`).
    pub start_time: u64,
}

impl Id {
    /// The process that has this pid now, if any; one that is dead but not reaped counts as gone.
    pub fn of(pid: u32) -> io::Result<Option<Self>> {
        let text = match fs::read(format!("/proc/{pid}/stat")) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some((state, start_time)) = parse_stat(&text) else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("/proc/{pid}/stat is not as expected"),
            ));
        };
        Ok((state != b'Z' && state != b'X').then_some(Self { pid, start_time }))
    }

    pub fn is_alive(self) -> bool {
        Self::of(self.pid).is_ok_and(|now| now == Some(self))
    }

    /// Signals this very process. False if it is gone, whoever has its pid now.
    pub fn signal(self, signal: Signal) -> io::Result<bool> {
        let pid = self.pid as libc::pid_t;
        // SAFETY: pidfd_open takes two numbers and returns a descriptor that is ours.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        if fd < 0 {
            return gone_or_error();
        }
        // SAFETY: just opened, and owned by nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        // The descriptor holds the process; only now does comparing the start time settle who it is.
        if !self.is_alive() {
            return Ok(false);
        }
        let no_info = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: a null siginfo is allowed and means the usual one.
        let sent = unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                fd.as_raw_fd(),
                signal as libc::c_int,
                no_info,
                0,
            )
        };
        if sent < 0 { gone_or_error() } else { Ok(true) }
    }
}

fn gone_or_error() -> io::Result<bool> {
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::ESRCH) {
        Ok(false)
    } else {
        Err(error)
    }
}

/// State and start time. The name in parentheses may hold anything, so fields count from its last `)`.
fn parse_stat(text: &[u8]) -> Option<(u8, u64)> {
    let after = text.iter().rposition(|byte| *byte == b')')? + 1;
    let fields = std::str::from_utf8(text.get(after..)?).ok()?;
    let mut fields = fields.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    // The state is field 3; the start time is field 22.
    Some((state, fields.nth(18)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_shift_the_fields() {
        let stat = b"7 (a) S 9 (b) R 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4242 99 100";
        assert_eq!(parse_stat(stat), Some((b'R', 4242)));
    }

    #[test]
    fn this_process_is_alive_and_an_older_one_with_its_pid_is_not() {
        let me = Id::of(std::process::id()).unwrap().unwrap();
        assert!(me.is_alive());
        let before = Id {
            start_time: me.start_time.wrapping_sub(1),
            ..me
        };
        assert!(!before.is_alive());
        assert!(
            !before.signal(Signal::SIGKILL).unwrap(),
            "and must not be killed"
        );
    }

    #[test]
    fn a_killed_child_is_gone_even_before_it_is_reaped() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let id = Id::of(child.id()).unwrap().unwrap();
        assert!(id.signal(Signal::SIGKILL).unwrap());
        child.wait().unwrap();
        assert!(!id.is_alive());
        assert!(!id.signal(Signal::SIGKILL).unwrap());
    }

    #[test]
    fn a_child_dies_with_the_thread_that_spawned_it() {
        let child = thread::spawn(|| {
            let mut command = Command::new("sleep");
            command.arg("600");
            die_with_parent(&mut command);
            command.spawn().unwrap()
        });
        let mut child = child.join().unwrap();
        let status = child.wait().unwrap();
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&status),
            Some(libc::SIGKILL)
        );
    }

    #[test]
    fn a_child_from_the_nursery_outlives_the_thread_that_asked() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let handle = runtime.handle().clone();
        let asked = thread::spawn(move || {
            let _context = handle.enter();
            let mut command = tokio::process::Command::new("sh");
            command
                .args(["-c", "read line; exit 7"])
                .stdin(std::process::Stdio::piped());
            spawn(command).unwrap()
        });
        let mut child = asked.join().unwrap();
        let status = runtime.block_on(async {
            drop(child.stdin.take());
            child.wait().await.unwrap()
        });
        assert_eq!(status.code(), Some(7));
    }

    proptest! {
        #[test]
        fn any_stat_text_is_read_or_refused(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_stat(&text);
        }
    }
}
