//! A person at a terminal: how wide it is, what is typed there and not to be seen, and every key as it is.
#![expect(unsafe_code, reason = "the width of a terminal is asked by ioctl")]

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsFd, AsRawFd as _};

use nix::sys::termios::{LocalFlags, SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};

mod ioctl {
    nix::ioctl_read_bad!(window_size, libc::TIOCGWINSZ, libc::winsize);
}

/// How many characters fit in a line; `None` if this is no terminal, or one that does not know.
pub fn columns(terminal: &impl AsFd) -> Option<u16> {
    let mut size = libc::winsize {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: the kernel writes one winsize, which outlives the call.
    unsafe { ioctl::window_size(terminal.as_fd().as_raw_fd(), &raw mut size) }.ok()?;
    (size.ws_col > 0).then_some(size.ws_col)
}

/// One line from the terminal of this process, which shows nothing of it. The question is shown.
pub fn read_hidden(question: &str) -> io::Result<String> {
    let terminal = File::options().read(true).write(true).open("/dev/tty")?;
    // Before it is asked: whoever answers at once is not seen either.
    let silent = Silent::new(&terminal)?;
    (&terminal).write_all(question.as_bytes())?;
    let mut line = String::new();
    BufReader::new(&terminal).read_line(&mut line)?;
    drop(silent);
    // The line's end was not shown either.
    (&terminal).write_all(b"\n")?;
    Ok(line.trim_end_matches(['\n', '\r']).to_owned())
}

/// While it lives, nothing typed is shown.
struct Silent<'a> {
    terminal: &'a File,
    before: Termios,
}

impl<'a> Silent<'a> {
    fn new(terminal: &'a File) -> io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut silent = before.clone();
        silent.local_flags.remove(LocalFlags::ECHO);
        // What was typed before the question is no answer to it.
        tcsetattr(terminal, SetArg::TCSAFLUSH, &silent)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Silent<'_> {
    fn drop(&mut self) {
        _ = tcsetattr(self.terminal, SetArg::TCSANOW, &self.before);
    }
}

/// While it lives, every key is passed on as it is typed, and nothing of it is shown.
#[derive(Debug)]
pub struct Raw<T: AsFd> {
    terminal: T,
    before: Termios,
}

impl<T: AsFd> Raw<T> {
    pub fn new(terminal: T) -> io::Result<Self> {
        let before = tcgetattr(&terminal)?;
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        tcsetattr(&terminal, SetArg::TCSANOW, &raw)?;
        Ok(Self { terminal, before })
    }
}

impl<T: AsFd> Drop for Raw<T> {
    fn drop(&mut self) {
        _ = tcsetattr(&self.terminal, SetArg::TCSANOW, &self.before);
    }
}
