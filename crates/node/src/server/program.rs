//! A program that prints: its last words are kept, it has a deadline, and its memory here has a bound.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;

/// What a program said before its end, or before its time was over.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Said {
    pub text: Vec<u8>,
    /// Bytes before those that are kept.
    pub left_out: u64,
    /// Why this may not be all.
    pub problem: Option<String>,
}

/// Its complaints are cut after so many bytes.
const COMPLAINT: u64 = 4096;
const CHUNK: usize = 64 << 10;

pub async fn run(program: &Path, arguments: &[String], keep: usize, limit: Duration) -> Said {
    let name = program.display();
    let mut command = Command::new(program);
    let spawned = command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => return Said::nothing(format!("could not run {name}: {error}")),
    };
    let (Some(mut out), Some(mut complaints)) = (child.stdout.take(), child.stderr.take()) else {
        return Said::nothing(format!("could not listen to {name}"));
    };
    let mut tail = Tail::new(keep);
    let work = async {
        let (read, complaint) =
            tokio::join!(tail.read(&mut out), beginning(&mut complaints, COMPLAINT));
        let ended = child.wait().await;
        match (read, ended) {
            (Err(error), _) | (Ok(()), Err(error)) => Some(format!("{name}: {error}")),
            (Ok(()), Ok(status)) if status.success() => None,
            (Ok(()), Ok(status)) => {
                let why = complaint.lines().next().unwrap_or("it does not say why");
                Some(format!("{name} ended with {status}: {why}"))
            }
        }
    };
    let problem = match tokio::time::timeout(limit, work).await {
        Ok(problem) => problem,
        Err(_) => Some(format!("{name} took longer than {} s", limit.as_secs())),
    };
    let (text, left_out) = tail.lines();
    Said {
        text,
        left_out,
        problem,
    }
}

impl Said {
    fn nothing(problem: String) -> Self {
        Self {
            problem: Some(problem),
            ..Self::default()
        }
    }
}

/// The first bytes; the rest is read and forgotten, so that nobody waits for a reader.
async fn beginning(from: &mut (impl AsyncRead + Unpin), keep: u64) -> String {
    let mut bytes = Vec::new();
    _ = from.take(keep).read_to_end(&mut bytes).await;
    _ = tokio::io::copy(from, &mut tokio::io::sink()).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The end of a stream, of at most twice as many bytes as are kept.
struct Tail {
    keep: usize,
    bytes: Vec<u8>,
    left_out: u64,
}

impl Tail {
    fn new(keep: usize) -> Self {
        Self {
            keep,
            bytes: Vec::new(),
            left_out: 0,
        }
    }

    async fn read(&mut self, from: &mut (impl AsyncRead + Unpin)) -> std::io::Result<()> {
        let mut chunk = vec![0; CHUNK];
        loop {
            match from.read(&mut chunk).await? {
                0 => return Ok(()),
                length => self.push(&chunk[..length]),
            }
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() >= self.keep.saturating_mul(2) {
            self.cut();
        }
    }

    fn cut(&mut self) {
        let more = self.bytes.len().saturating_sub(self.keep);
        self.bytes.drain(..more);
        self.left_out += more as u64;
    }

    /// Whole lines, and how many bytes were before them.
    fn lines(mut self) -> (Vec<u8>, u64) {
        self.cut();
        if self.left_out > 0
            && let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n')
        {
            self.bytes.drain(..=end);
            self.left_out += end as u64 + 1;
        }
        (self.bytes, self.left_out)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    async fn shell(script: &str, keep: usize, limit: Duration) -> Said {
        let arguments = ["-c".to_owned(), script.to_owned()];
        run(Path::new("sh"), &arguments, keep, limit).await
    }

    const LONG: Duration = Duration::from_mins(1);

    #[tokio::test]
    async fn what_a_program_says_is_kept_and_its_end_is_told() {
        let said = shell("echo one; echo two", 1000, LONG).await;
        assert_eq!(
            (said.text.as_slice(), said.problem),
            (&b"one\ntwo\n"[..], None)
        );
        let said = shell("echo one; echo alas >&2; exit 3", 1000, LONG).await;
        assert_eq!(said.text, b"one\n");
        let problem = said.problem.expect("it failed");
        assert!(
            problem.contains('3') && problem.ends_with("alas"),
            "{problem}"
        );
        let none = run(Path::new("/nowhere/journalctl"), &[], 10, LONG).await;
        let problem = none.problem.expect("it is not there");
        assert!(
            problem.contains("could not run /nowhere/journalctl"),
            "{problem}"
        );
    }

    #[tokio::test]
    async fn whoever_does_not_end_is_ended_and_what_was_said_is_kept() {
        let script = "echo one; while :; do read x || exec cat /dev/zero; done";
        let said = shell(&format!("{script} >&2"), 1000, Duration::from_millis(300)).await;
        assert_eq!(said.text, b"one\n");
        assert!(said.problem.expect("it is late").contains("longer"));
    }

    #[tokio::test]
    async fn of_much_the_end_is_kept_in_whole_lines() {
        let said = shell("seq 1 20000", 100, LONG).await;
        assert!(said.text.len() <= 100 && said.text.ends_with(b"\n19999\n20000\n"));
        assert!(
            said.text
                .iter()
                .all(|byte| byte.is_ascii_digit() || *byte == b'\n')
        );
        assert_eq!(said.text.len() as u64 + said.left_out, 108_894);
    }

    proptest! {
        #[test]
        fn a_tail_is_the_end_of_what_was_pushed(parts in proptest::collection::vec("[a\n]{0,9}", 0..20), keep in 1_usize..20) {
            let mut tail = Tail::new(keep);
            for part in &parts {
                tail.push(part.as_bytes());
                prop_assert!(tail.bytes.len() < 2 * keep + 9);
            }
            let all = parts.concat();
            let (text, left_out) = tail.lines();
            prop_assert!(text.len() <= keep && all.as_bytes().ends_with(&text));
            prop_assert_eq!(text.len() as u64 + left_out, all.len() as u64);
        }
    }
}
