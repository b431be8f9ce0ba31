//! What the boot loader of an installed system would start: the entries of the Boot Loader Specification, as Fedora,
//! CoreOS, RHEL and systemd-boot write them.

use std::cmp::Ordering;

/// One file of `loader/entries`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Entry {
    /// Its name without `.conf`.
    pub name: String,
    pub version: String,
    pub linux: String,
    pub initrds: Vec<String>,
    pub options: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("boot entry {entry} has no line {field:?}")]
    Missing { entry: String, field: &'static str },
    #[error("boot entry {entry} needs ${variable}, which only the boot loader knows")]
    Variable { entry: String, variable: String },
}

/// What the first start of a system with Ignition has on its kernel line.
const FIRST_BOOT: &str = "ignition.firstboot=1";

impl Entry {
    pub fn parse(name: &str, text: &str) -> Result<Self, Error> {
        let mut entry = Self {
            name: name.to_owned(),
            ..Self::default()
        };
        let mut options = Vec::new();
        for line in text.lines() {
            let line = line.trim();
            let (key, value) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            let value = value.trim();
            match key {
                "version" => value.clone_into(&mut entry.version),
                "linux" => value.clone_into(&mut entry.linux),
                // Fedora writes several into one line.
                "initrd" => {
                    let words = value.split_whitespace().map(str::to_owned);
                    entry.initrds.extend(words);
                }
                "options" => options.push(value),
                _ => {}
            }
        }
        entry.options = options.join(" ");
        if entry.linux.is_empty() {
            return Err(Error::Missing {
                entry: entry.name,
                field: "linux",
            });
        }
        Ok(entry)
    }

    /// The kernel line, with what a loader would have put into it.
    pub fn line(&self, first_boot: bool) -> Result<String, Error> {
        let mut words = Vec::new();
        for word in self.options.split_whitespace() {
            match word
                .strip_prefix('$')
                .map(|name| name.trim_matches(['{', '}']))
            {
                None => words.push(word),
                Some("ignition_firstboot") => words.extend(first_boot.then_some(FIRST_BOOT)),
                // A fresh image has not been tuned.
                Some("tuned_params") => {}
                Some(variable) => return Err(self.unknown(variable)),
            }
        }
        Ok(words.join(" "))
    }

    /// The initrds to load, in order.
    pub fn initrds(&self) -> Result<Vec<&str>, Error> {
        let mut paths = Vec::new();
        for path in &self.initrds {
            match path.strip_prefix('$') {
                None => paths.push(path.as_str()),
                Some("tuned_initrd") => {}
                Some(variable) => return Err(self.unknown(variable)),
            }
        }
        Ok(paths)
    }

    fn unknown(&self, variable: &str) -> Error {
        Error::Variable {
            entry: self.name.clone(),
            variable: variable.to_owned(),
        }
    }

    /// A loader counted its tries down to nothing: `name+0` or `name+0-3`.
    fn is_bad(&self) -> bool {
        let count = self.name.rsplit_once('+').map(|(_, count)| count);
        count.is_some_and(|count| count == "0" || count.starts_with("0-"))
    }
}

/// The one a loader starts by itself: the newest that has not failed.
pub fn default(entries: &[Entry]) -> Option<&Entry> {
    entries.iter().max_by(|one, other| {
        let good = other.is_bad().cmp(&one.is_bad());
        good.then_with(|| compare_versions(&one.version, &other.version))
            .then_with(|| compare_versions(&one.name, &other.name))
    })
}

/// Numbers count as numbers: 6.12 is newer than 6.9.
fn compare_versions(one: &str, other: &str) -> Ordering {
    let (mut one, mut other) = (one, other);
    loop {
        let (a, b) = (part(&mut one), part(&mut other));
        let order = match (a, b) {
            (None, None) => return Ordering::Equal,
            (a, b) => match (a.and_then(number), b.and_then(number)) {
                (Some(a), Some(b)) => a.len().cmp(&b.len()).then_with(|| a.cmp(b)),
                _ => a.cmp(&b),
            },
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// Takes the next run of digits, or of anything else.
fn part<'a>(text: &mut &'a str) -> Option<&'a str> {
    let digits = text.chars().next()?.is_ascii_digit();
    let end = text.find(|c: char| c.is_ascii_digit() != digits);
    let (part, rest) = text.split_at(end.unwrap_or(text.len()));
    *text = rest;
    Some(part)
}

/// Without leading zeros.
fn number(part: &str) -> Option<&str> {
    let digits = part.starts_with(|c: char| c.is_ascii_digit());
    digits.then(|| part.trim_start_matches('0'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As Fedora CoreOS writes it.
    const COREOS: &str = "title Fedora CoreOS (ostree:0)\nversion 1\n\
        options $ignition_firstboot mitigations=auto ignition.platform.id=openstack ostree=/ostree/boot.1/fcos/ab/0 \
        root=UUID=9f rw boot=UUID=7c\n\
        linux /ostree/fcos-ab/vmlinuz-6.9.7-200.fc40.x86_64\n\
        initrd /ostree/fcos-ab/initramfs-6.9.7-200.fc40.x86_64.img $tuned_initrd\n# a comment\nnonsense\n";

    #[test]
    fn a_coreos_entry_is_what_its_loader_starts() {
        let entry = Entry::parse("ostree-1-fcos", COREOS).unwrap();
        assert_eq!(entry.linux, "/ostree/fcos-ab/vmlinuz-6.9.7-200.fc40.x86_64");
        assert_eq!(
            entry.initrds().unwrap(),
            ["/ostree/fcos-ab/initramfs-6.9.7-200.fc40.x86_64.img"]
        );
        let line = entry.line(true).unwrap();
        assert!(
            line.starts_with("ignition.firstboot=1 mitigations=auto "),
            "{line}"
        );
        assert!(entry.line(false).unwrap().starts_with("mitigations=auto "));
    }

    #[test]
    fn what_only_a_loader_knows_is_not_guessed() {
        let entry =
            Entry::parse("a", "linux /vmlinuz\noptions root=/dev/sda1 $kernelopts").unwrap();
        let error = entry.line(true).unwrap_err();
        assert_eq!(
            error.to_string(),
            "boot entry a needs $kernelopts, which only the boot loader knows"
        );
        assert_eq!(
            Entry::parse("b", "title x\n").unwrap_err().to_string(),
            "boot entry b has no line \"linux\""
        );
    }

    #[test]
    fn the_newest_that_has_not_failed_is_started() {
        let entry = |name: &str, version: &str| Entry {
            name: name.into(),
            version: version.into(),
            ..Entry::default()
        };
        let entries = [
            entry("old", "6.9.12"),
            entry("new", "6.12.3"),
            entry("broken+0-3", "6.13.0"),
        ];
        assert_eq!(default(&entries).unwrap().name, "new");
        assert_eq!(default(&[]), None);
        assert_eq!(compare_versions("1.010", "1.10"), Ordering::Equal);
        assert_eq!(compare_versions("1.a", "1.2"), Ordering::Greater);
        assert_eq!(compare_versions("1", "1.1"), Ordering::Less);
    }

    proptest! {
        #[test]
        fn any_text_is_read(name in ".{0,20}", text in "(.{0,30}\n){0,8}") {
            if let Ok(entry) = Entry::parse(&name, &text) {
                let _ = (entry.line(true), entry.initrds(), default(std::slice::from_ref(&entry)));
            }
        }

        #[test]
        fn versions_have_one_order(a in "[0-9a-c.]{0,6}", b in "[0-9a-c.]{0,6}") {
            prop_assert_eq!(compare_versions(&a, &b), compare_versions(&b, &a).reverse());
        }
    }
}
