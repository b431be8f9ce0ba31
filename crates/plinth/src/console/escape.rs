//! Keys that are for us and not for the server: a tilde at the start of a line, as in ssh.

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Typed {
    /// For the server.
    Keys(Vec<u8>),
    Help,
    End,
}

/// Where in a line the next key is.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Escapes {
    #[default]
    LineStart,
    /// A tilde was typed there, and is held back.
    Tilde,
    Line,
}

pub const HELP: &str = "\
~.  end
~?  this help
~~  a tilde
(only at the start of a line)";

impl Escapes {
    pub fn read(&mut self, typed: &[u8]) -> Vec<Typed> {
        let mut seen = Vec::new();
        let mut keys = Vec::new();
        for key in typed {
            let at = std::mem::replace(self, Self::after(*key));
            match (at, key) {
                (Self::LineStart, b'~') => *self = Self::Tilde,
                (Self::Tilde, b'.' | b'?') => {
                    *self = Self::LineStart;
                    flush(&mut keys, &mut seen);
                    seen.push(if *key == b'.' {
                        Typed::End
                    } else {
                        Typed::Help
                    });
                }
                (Self::Tilde, b'~') => keys.push(b'~'),
                (Self::Tilde, key) => keys.extend([b'~', *key]),
                (Self::LineStart | Self::Line, key) => keys.push(*key),
            }
        }
        flush(&mut keys, &mut seen);
        seen
    }

    fn after(key: u8) -> Self {
        match key {
            b'\r' | b'\n' => Self::LineStart,
            _ => Self::Line,
        }
    }
}

fn flush(keys: &mut Vec<u8>, seen: &mut Vec<Typed>) {
    if !keys.is_empty() {
        seen.push(Typed::Keys(std::mem::take(keys)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tilde_means_something_at_the_start_of_a_line_only() {
        let keys = |text: &str| Typed::Keys(text.into());
        let table = [
            ("the end at once", "~.", vec![Typed::End]),
            (
                "the end after a line",
                "ls\r~.",
                vec![keys("ls\r"), Typed::End],
            ),
            ("help, and on", "~?~.", vec![Typed::Help, Typed::End]),
            ("a tilde", "~~/x\r", vec![keys("~/x\r")]),
            ("no word of ours", "~x\r", vec![keys("~x\r")]),
            ("in a line", "cd ~.\r", vec![keys("cd ~.\r")]),
            (
                "a new line after it",
                "~\r~.",
                vec![keys("~\r"), Typed::End],
            ),
            ("a tilde and its dot", "~~.", vec![keys("~.")]),
        ];
        for (name, typed, wanted) in table {
            assert_eq!(Escapes::default().read(typed.as_bytes()), wanted, "{name}");
            // Key by key it means the same.
            let mut escapes = Escapes::default();
            let single = typed.bytes().flat_map(|key| escapes.read(&[key]));
            let mut joined: Vec<Typed> = Vec::new();
            for typed in single {
                match (joined.last_mut(), typed) {
                    (Some(Typed::Keys(before)), Typed::Keys(more)) => before.extend(more),
                    (_, typed) => joined.push(typed),
                }
            }
            assert_eq!(joined, wanted, "{name}, key by key");
        }
    }
}
