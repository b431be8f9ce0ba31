//! iPXE scripts, as far as boot servers use them: enough to follow a script to the kernel it loads.
//!
//! Pure: [`Script::step`] says what it wants from the network, and is told how that went.

use std::collections::BTreeMap;
use std::time::Duration;

use model::Mac;

/// A script under way.
#[derive(Debug, Clone)]
pub struct Script {
    lines: Vec<String>,
    at: usize,
    variables: BTreeMap<String, String>,
    kernel: Option<Image>,
    initrds: Vec<String>,
    /// Commands left of the line that waits for a fetch.
    rest: Option<Vec<Command>>,
    steps: usize,
    /// Where relative names are looked up.
    base: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Image {
    uri: String,
    arguments: String,
}

/// One command of a line, and what must have happened to the one before.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Command {
    runs_after: After,
    words: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    Anything,
    Success,
    Failure,
}

/// What a script wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Want {
    /// Load an image; tell me whether it came.
    Fetch {
        uri: String,
    },
    /// Go on with another script, and come back when it leaves; with `replace` it takes this one's place.
    Chain {
        uri: String,
        replace: bool,
    },
    /// Do nothing for so long.
    Pause(Duration),
    Boot {
        kernel: String,
        initrds: Vec<String>,
        arguments: String,
    },
    /// Boot from the first disk.
    Disk,
    /// Boot an image over the network as a disk or CD.
    San {
        uri: String,
    },
    /// Leave: the firmware goes on with its next device.
    Exit {
        success: bool,
    },
    Reboot,
    PowerOff,
    /// The script cannot go on.
    Stuck {
        why: String,
    },
}

/// How the last want went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Begin,
    Fetched,
    Failed,
}

/// A script that has not come to an end after so many commands is going in circles.
const MAX_STEPS: usize = 10_000;
/// Nobody writes longer pauses into a script.
const LONGEST_PAUSE: u64 = 3600;

impl Script {
    /// `None` if the text is not an iPXE script. `platform` is what iPXE runs on: `efi` or `pcbios`.
    pub fn parse(
        text: &str,
        base: &str,
        platform: &str,
        nics: &[Mac],
        booted: usize,
    ) -> Option<Self> {
        let mut lines = text.lines();
        lines.next().filter(|line| line.trim_end() == "#!ipxe")?;
        let mut variables = BTreeMap::from([
            ("buildarch".to_string(), "x86_64".to_string()),
            ("platform".to_string(), platform.to_string()),
        ]);
        for (index, mac) in nics.iter().enumerate() {
            variables.insert(format!("net{index}/mac"), mac.to_string());
        }
        if let Some(mac) = nics.get(booted) {
            variables.insert("mac".into(), mac.to_string());
            variables.insert("netX/mac".into(), mac.to_string());
        }
        Some(Self {
            lines: lines.map(str::to_string).collect(),
            at: 0,
            variables,
            kernel: None,
            initrds: vec![],
            rest: None,
            steps: 0,
            base: base.to_string(),
        })
    }

    /// Goes on until something is wanted.
    pub fn step(&mut self, outcome: Outcome) -> Want {
        let mut succeeded = match outcome {
            Outcome::Begin | Outcome::Fetched => true,
            Outcome::Failed => false,
        };
        let mut commands = self.rest.take().unwrap_or_default();
        loop {
            while !commands.is_empty() {
                let command = commands.remove(0);
                let runs = match command.runs_after {
                    After::Anything => true,
                    After::Success => succeeded,
                    After::Failure => !succeeded,
                };
                if !runs {
                    continue;
                }
                self.steps += 1;
                if self.steps > MAX_STEPS {
                    return Want::Stuck {
                        why: format!("the script has run {MAX_STEPS} commands and come to no end"),
                    };
                }
                match self.run(&command.words) {
                    Ran::Done(success) => succeeded = success,
                    Ran::Jumped => {
                        commands.clear();
                        succeeded = true;
                    }
                    Ran::Wants(want) => {
                        self.rest = Some(commands);
                        return want;
                    }
                }
            }
            if !succeeded {
                return Want::Stuck {
                    why: format!("line {} of the script failed", self.at + 1),
                };
            }
            let Some(line) = self.lines.get(self.at) else {
                return Want::Exit { success: true };
            };
            self.at += 1;
            commands = split(line);
        }
    }

    fn run(&mut self, words: &[String]) -> Ran {
        let words: Vec<String> = words.iter().map(|word| self.expand(word)).collect();
        let Some((name, arguments)) = words.split_first() else {
            return Ran::Done(true);
        };
        let plain = operands(arguments);
        match (name.as_str(), &plain[..]) {
            ("set", [name, value @ ..]) => {
                // A type, as in `set i:int32 0`, only matters for how iPXE stores it.
                let name = name.split(':').next().unwrap_or(name);
                self.variables.insert(name.to_string(), value.join(" "));
                Ran::Done(true)
            }
            ("clear", [name]) => Ran::Done(self.variables.remove(*name).is_some()),
            ("inc", [name, by @ ..]) => {
                let by: i64 = by.first().and_then(|text| text.parse().ok()).unwrap_or(1);
                let now: i64 = self
                    .variables
                    .get(*name)
                    .and_then(|text| text.parse().ok())
                    .unwrap_or(0);
                self.variables
                    .insert((*name).to_string(), now.saturating_add(by).to_string());
                Ran::Done(true)
            }
            ("isset", values) => Ran::Done(values.iter().any(|value| !value.is_empty())),
            ("iseq", [one, other]) => Ran::Done(one == other),
            ("iseq", _) => Ran::Done(false),
            ("goto", [label]) => self.jump(label),
            ("kernel" | "imgselect", [uri, rest @ ..]) => {
                let uri = self.resolve(uri);
                self.kernel = Some(Image {
                    uri: uri.clone(),
                    arguments: rest.join(" "),
                });
                Ran::Wants(Want::Fetch { uri })
            }
            ("initrd", [uri, ..]) => {
                let uri = self.resolve(uri);
                self.initrds.push(uri.clone());
                Ran::Wants(Want::Fetch { uri })
            }
            ("imgargs", [_, rest @ ..]) => {
                if let Some(kernel) = &mut self.kernel {
                    kernel.arguments = rest.join(" ");
                }
                Ran::Done(self.kernel.is_some())
            }
            ("imgfree", _) => {
                self.kernel = None;
                self.initrds.clear();
                Ran::Done(true)
            }
            ("boot", []) => match self.kernel.take() {
                Some(kernel) => Ran::Wants(Want::Boot {
                    kernel: kernel.uri,
                    initrds: std::mem::take(&mut self.initrds),
                    arguments: kernel.arguments,
                }),
                None => Ran::Done(false),
            },
            ("boot" | "chain" | "imgexec", [uri, ..]) => Ran::Wants(Want::Chain {
                uri: self.resolve(uri),
                replace: arguments.iter().any(|word| word == "--replace"),
            }),
            ("sleep", [seconds, ..]) => {
                let seconds = seconds.parse().unwrap_or(0).min(LONGEST_PAUSE);
                Ran::Wants(Want::Pause(Duration::from_secs(seconds)))
            }
            ("sanboot", [uri]) => Ran::Wants(Want::San {
                uri: self.resolve(uri),
            }),
            ("sanboot", _) => Ran::Wants(Want::Disk),
            ("exit", code) => Ran::Wants(Want::Exit {
                success: code.first().is_none_or(|code| *code == "0"),
            }),
            ("reboot", _) => Ran::Wants(Want::Reboot),
            ("poweroff", _) => Ran::Wants(Want::PowerOff),
            // A menu nobody answers, a prompt nobody sees, a network that is up already.
            (
                "echo" | "sleep" | "dhcp" | "ifopen" | "ifclose" | "prompt" | "console" | "cpuid"
                | "imgstat" | "params" | "param",
                _,
            ) => Ran::Done(true),
            ("shell" | "login", _) => Ran::Wants(Want::Stuck {
                why: "the script asks for a person".into(),
            }),
            _ => Ran::Wants(Want::Stuck {
                why: format!("iPXE command {name:?} is not known here"),
            }),
        }
    }

    fn jump(&mut self, label: &str) -> Ran {
        let found = self
            .lines
            .iter()
            .position(|line| line.trim().strip_prefix(':') == Some(label));
        match found {
            Some(at) => {
                self.at = at + 1;
                Ran::Jumped
            }
            None => Ran::Wants(Want::Stuck {
                why: format!("the script jumps to {label:?}, which is not in it"),
            }),
        }
    }

    /// `${name}`, `${name:hexhyp}`, `${net${i}/mac}`; an unknown name is empty, as in iPXE.
    fn expand(&self, word: &str) -> String {
        let mut text = word.to_string();
        // Innermost first, and never what an expansion itself brought in beyond this many.
        for _ in 0..MAX_EXPANSIONS {
            let Some((begin, end)) = innermost(&text) else {
                break;
            };
            let name = &text[begin + 2..end];
            let (name, format) = name.split_once(':').unwrap_or((name, ""));
            let value = self
                .variables
                .get(name)
                .map(String::as_str)
                .unwrap_or_default();
            let value = match format {
                "hexhyp" => value.replace(':', "-"),
                "hexraw" => value.replace(':', ""),
                _ => value.to_string(),
            };
            text.replace_range(begin..=end, &value);
        }
        text
    }

    fn resolve(&self, uri: &str) -> String {
        if uri.contains("://") {
            return uri.to_string();
        }
        let Some((scheme, rest)) = self.base.split_once("://") else {
            return uri.to_string();
        };
        let host = rest.split('/').next().unwrap_or_default();
        if let Some(path) = uri.strip_prefix('/') {
            return format!("{scheme}://{host}/{path}");
        }
        match self.base.rsplit_once('/') {
            Some((directory, _)) if directory.len() > scheme.len() + 2 => {
                format!("{directory}/{uri}")
            }
            _ => format!("{}/{uri}", self.base),
        }
    }
}

/// What follows the options, which come first; some of them have a value.
fn operands(words: &[String]) -> Vec<&str> {
    const VALUED: [&str; 6] = ["--name", "-n", "--timeout", "-t", "--drive", "-d"];
    let mut words = words.iter().map(String::as_str).peekable();
    while let Some(option) = words.next_if(|word| word.starts_with('-') && word.len() > 1) {
        if VALUED.contains(&option) {
            words.next();
        }
    }
    words.collect()
}

const MAX_EXPANSIONS: usize = 64;

fn innermost(text: &str) -> Option<(usize, usize)> {
    let open = text.find("${")?;
    let end = open + text[open..].find('}')?;
    Some((text[..end].rfind("${")?, end))
}

enum Ran {
    Done(bool),
    Jumped,
    Wants(Want),
}

/// A line as commands joined by `&&` and `||`; comments and labels have none.
fn split(line: &str) -> Vec<Command> {
    let line = line.trim();
    if line.starts_with(['#', ':']) {
        return vec![];
    }
    let mut commands = vec![];
    let mut current = Command {
        runs_after: After::Anything,
        words: vec![],
    };
    for word in line.split_whitespace() {
        let runs_after = match word {
            "&&" => After::Success,
            "||" => After::Failure,
            _ => {
                current.words.push(word.to_string());
                continue;
            }
        };
        commands.push(std::mem::replace(
            &mut current,
            Command {
                runs_after,
                words: vec![],
            },
        ));
    }
    commands.push(current);
    commands
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAC: Mac = Mac([0x52, 0x54, 0, 0, 0, 1]);

    fn script(text: &str) -> Script {
        Script::parse(
            text,
            "http://172.22.0.2:6180/boot.ipxe",
            "efi",
            &[Mac([2; 6]), MAC],
            1,
        )
        .unwrap()
    }

    #[test]
    fn a_kernel_line_ends_in_a_boot_with_its_arguments() {
        let mut s = script(
            "#!ipxe\nkernel /images/k a=1 BOOTIF=${mac} initrd=i\ninitrd --name i images/i\nboot\n",
        );
        assert_eq!(
            s.step(Outcome::Begin),
            Want::Fetch {
                uri: "http://172.22.0.2:6180/images/k".into()
            }
        );
        assert_eq!(
            s.step(Outcome::Fetched),
            Want::Fetch {
                uri: "http://172.22.0.2:6180/images/i".into()
            }
        );
        assert_eq!(
            s.step(Outcome::Fetched),
            Want::Boot {
                kernel: "http://172.22.0.2:6180/images/k".into(),
                initrds: vec!["http://172.22.0.2:6180/images/i".into()],
                arguments: "a=1 BOOTIF=52:54:00:00:00:01 initrd=i".into(),
            }
        );
    }

    #[test]
    fn a_loop_over_the_nics_chains_by_mac_until_one_answers() {
        let text = "#!ipxe\nset id:int8 -1\n:loop\ninc id\nisset ${net${id}/mac} || goto none\n\
                    chain pxelinux.cfg/${net${id}/mac:hexhyp} || goto loop\n:none\nexit 1\n";
        let mut s = script(text);
        assert_eq!(
            s.step(Outcome::Begin),
            Want::Chain {
                uri: "http://172.22.0.2:6180/pxelinux.cfg/02-02-02-02-02-02".into(),
                replace: false,
            }
        );
        assert_eq!(
            s.step(Outcome::Failed),
            Want::Chain {
                uri: "http://172.22.0.2:6180/pxelinux.cfg/52-54-00-00-00-01".into(),
                replace: false,
            }
        );
        assert_eq!(s.step(Outcome::Failed), Want::Exit { success: false });
    }

    #[test]
    fn a_failure_nobody_catches_ends_the_script_with_its_line() {
        let mut s = script("#!ipxe\nkernel k\nboot\n");
        s.step(Outcome::Begin);
        assert!(matches!(s.step(Outcome::Failed), Want::Stuck { why } if why.contains("line")));
    }

    #[test]
    fn a_pause_is_a_pause_and_a_script_may_take_the_place_of_another() {
        let mut s = script("#!ipxe\nsleep 20\nchain --autofree --replace again || reboot\n");
        assert_eq!(s.step(Outcome::Begin), Want::Pause(Duration::from_secs(20)));
        assert_eq!(
            s.step(Outcome::Fetched),
            Want::Chain {
                uri: "http://172.22.0.2:6180/again".into(),
                replace: true,
            }
        );
        assert_eq!(s.step(Outcome::Failed), Want::Reboot);
    }

    #[test]
    fn disk_boot_and_circles_are_seen_for_what_they_are() {
        assert_eq!(
            script("#!ipxe\nsanboot --no-describe\n").step(Outcome::Begin),
            Want::Disk
        );
        assert!(matches!(
            script("#!ipxe\n:a\ngoto a\n").step(Outcome::Begin),
            Want::Stuck { .. }
        ));
        assert!(Script::parse("MZ\0", "", "efi", &[], 0).is_none());
    }

    proptest! {
        #[test]
        fn any_text_comes_to_an_end(text in "(#!ipxe\n)([ a-z${}:|&/#0-9\n]{0,200})", failures: bool) {
            let Some(mut s) = Script::parse(&text, "http://h/x", "efi", &[MAC], 0) else { return Ok(()) };
            let outcome = if failures { Outcome::Failed } else { Outcome::Fetched };
            for _ in 0..300 {
                match s.step(outcome) {
                    Want::Fetch { .. } | Want::Chain { .. } | Want::Pause(_) => {}
                    Want::Boot { .. } | Want::Disk | Want::San { .. } | Want::Exit { .. } | Want::Reboot | Want::PowerOff | Want::Stuck { .. } => return Ok(()),
                }
            }
        }
    }
}
