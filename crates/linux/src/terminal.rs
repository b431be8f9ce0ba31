//! A person at a terminal who types something that is not to be seen.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};

use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};

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
