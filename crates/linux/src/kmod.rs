//! Kernel modules: which ones a device or a name needs, in what order, and loading them.
//!
//! Reads the text files that depmod writes (`modules.dep`, `modules.alias`,
//! `modules.softdep`, `modules.builtin`).

#![expect(
    unsafe_code,
    reason = "finit_module with the flag for compressed files exists only as a system call"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// What went wrong with a module.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not read {}", path.display())]
    ReadIndex { path: PathBuf, source: io::Error },
    #[error("there is no kernel module {name:?}")]
    Unknown { name: String },
    #[error("could not open kernel module {}", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("could not load kernel module {}", path.display())]
    Load { path: PathBuf, source: io::Error },
    #[error("this kernel does not decompress modules itself: {}", path.display())]
    Compressed { path: PathBuf },
}

/// The modules of one kernel.
#[derive(Debug, Clone, Default)]
pub struct Modules {
    root: PathBuf,
    /// Module name to its file and the files it needs, nearest first.
    files: BTreeMap<String, (String, Vec<String>)>,
    /// Pattern and module name, in file order.
    aliases: Vec<(String, String)>,
    /// Module name to what should be loaded before and after it, if it is there.
    soft: BTreeMap<String, Soft>,
    builtin: BTreeSet<String>,
}

#[derive(Debug, Clone, Default)]
struct Soft {
    before: Vec<String>,
    after: Vec<String>,
}

/// The texts of the files depmod writes; any may be empty.
#[derive(Debug, Clone, Copy, Default)]
pub struct Index<'a> {
    pub dep: &'a str,
    pub alias: &'a str,
    pub softdep: &'a str,
    pub builtin: &'a str,
}

impl Modules {
    /// Reads the index of the running kernel.
    pub fn of_running_kernel() -> Result<Self, Error> {
        let release = crate::sysctl::get("kernel.osrelease").unwrap_or_default();
        Self::open(&Path::new("/lib/modules").join(release))
    }

    /// Reads the index in a directory such as `/lib/modules/6.1.0`. Only `modules.dep` must be there.
    pub fn open(root: &Path) -> Result<Self, Error> {
        let read = |name: &str| {
            let path = root.join(name);
            fs::read_to_string(&path).map_err(|source| Error::ReadIndex { path, source })
        };
        let optional = |name: &str| match read(name) {
            Err(Error::ReadIndex { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(String::new())
            }
            other => other,
        };
        let modules = Self::parse(Index {
            dep: &read("modules.dep")?,
            alias: &optional("modules.alias")?,
            softdep: &optional("modules.softdep")?,
            builtin: &optional("modules.builtin")?,
        });
        Ok(Self {
            root: root.to_owned(),
            ..modules
        })
    }

    /// The same from texts. Lines that make no sense are passed over.
    pub fn parse(index: Index<'_>) -> Self {
        let files = index.dep.lines().filter_map(|line| {
            let (file, needs) = line.split_once(':')?;
            let needs = needs.split_ascii_whitespace().map(str::to_owned).collect();
            Some((module_name(file), (file.to_owned(), needs)))
        });
        let aliases = index.alias.lines().filter_map(|line| {
            let (pattern, module) = line.strip_prefix("alias ")?.rsplit_once(' ')?;
            Some((plain(pattern), module_name(module)))
        });
        Self {
            root: PathBuf::new(),
            files: files.collect(),
            aliases: aliases.collect(),
            soft: index.softdep.lines().filter_map(parse_softdep).collect(),
            builtin: index.builtin.lines().map(module_name).collect(),
        }
    }

    /// The modules that say they drive this device, or go by this name.
    pub fn matching<'a>(&'a self, modalias: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        let modalias = plain(modalias);
        let ours = move |(pattern, _): &&(String, String)| glob(pattern, &modalias);
        self.aliases
            .iter()
            .filter(ours)
            .map(|(_, module)| module.as_str())
    }

    /// The files to load for a module, in order; none if it is built in.
    pub fn order(&self, name: &str) -> Result<Vec<PathBuf>, Error> {
        let name = module_name(name);
        if !self.files.contains_key(&name) && !self.builtin.contains(&name) {
            return Err(Error::Unknown { name });
        }
        let (mut seen, mut order) = (BTreeSet::new(), Vec::new());
        self.visit(&name, &mut seen, &mut order);
        Ok(order)
    }

    /// Each module is visited once, so circles among soft dependencies end.
    fn visit<'a>(&'a self, name: &'a str, seen: &mut BTreeSet<&'a str>, order: &mut Vec<PathBuf>) {
        let Some((name, (file, needs))) = self.files.get_key_value(name) else {
            return;
        };
        if !seen.insert(name) {
            return;
        }
        let soft = self.soft.get(name);
        for wish in soft.iter().flat_map(|soft| &soft.before) {
            self.visit_wish(wish, seen, order);
        }
        for need in needs.iter().rev() {
            if let Some((need, _)) = self.files.get_key_value(&module_name(need)) {
                self.visit(need, seen, order);
            }
        }
        order.push(self.root.join(file));
        for wish in soft.iter().flat_map(|soft| &soft.after) {
            self.visit_wish(wish, seen, order);
        }
    }

    /// A soft dependency is the name of a module or an alias, and may be neither.
    fn visit_wish<'a>(
        &'a self,
        wish: &'a str,
        seen: &mut BTreeSet<&'a str>,
        order: &mut Vec<PathBuf>,
    ) {
        self.visit(wish, seen, order);
        for module in self.matching(wish) {
            self.visit(module, seen, order);
        }
    }

    /// Loads a module with what it needs. One that is loaded already is fine. True if something was loaded.
    pub fn load(&self, name: &str) -> Result<bool, Error> {
        let mut loaded = false;
        for path in self.order(name)? {
            loaded |= load_file(&path)?;
        }
        Ok(loaded)
    }

    /// Loads every module for a device; an empty list means nothing drives it, or a built-in does.
    pub fn load_for(&self, modalias: &str) -> Vec<(String, Result<bool, Error>)> {
        let names: BTreeSet<&str> = self.matching(modalias).collect();
        names
            .into_iter()
            .map(|name| (name.to_owned(), self.load(name)))
            .collect()
    }
}

/// `softdep NAME pre: A B post: C`
fn parse_softdep(line: &str) -> Option<(String, Soft)> {
    let mut words = line.strip_prefix("softdep ")?.split_ascii_whitespace();
    let name = module_name(words.next()?);
    let mut soft = Soft::default();
    let mut list = None;
    for word in words {
        match (word, list) {
            ("pre:", _) => list = Some(true),
            ("post:", _) => list = Some(false),
            (wish, Some(true)) => soft.before.push(plain(wish)),
            (wish, Some(false)) => soft.after.push(plain(wish)),
            (_, None) => {}
        }
    }
    Some((name, soft))
}

/// Dashes and underscores are the same, except in sets such as `[0-9]`.
fn plain(text: &str) -> String {
    let mut in_set = false;
    let same = |c: char| {
        in_set = (in_set || c == '[') && c != ']';
        if c == '-' && !in_set { '_' } else { c }
    };
    text.chars().map(same).collect()
}

/// `kernel/net/8021q/8021q.ko.xz` is `8021q`; dashes and underscores are the same.
fn module_name(file: &str) -> String {
    let base = file.rsplit('/').next().unwrap_or(file);
    base.split('.').next().unwrap_or(base).replace('-', "_")
}

/// Whether a depmod pattern matches a whole text: `*` any run, `?` any one, `[a-c]` and `[!a]` sets.
pub fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // Where to try again: behind the last star, one byte of text further.
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            retry = Some((p, t));
        } else if let Some(width) = one(&pattern[p..], text[t]) {
            p += width;
            t += 1;
        } else if let Some((star, from)) = retry {
            (p, t) = (star, from + 1);
            retry = Some((star, t));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// How many bytes of the pattern match this one byte of text.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', rest @ ..] => match rest.iter().skip(1).position(|b| *b == b']') {
            Some(end) => set_contains(&rest[..=end], byte).then_some(end + 3),
            None => (byte == b'[').then_some(1), // never closed: an ordinary bracket
        },
        [b'\\', literal, ..] => (byte == *literal).then_some(2),
        [literal, ..] => (byte == *literal).then_some(1),
    }
}

fn set_contains(set: &[u8], byte: u8) -> bool {
    let (negated, mut set) = match set {
        [b'!' | b'^', rest @ ..] if !rest.is_empty() => (true, rest),
        _ => (false, set),
    };
    let mut found = false;
    while let [first, rest @ ..] = set {
        if let [b'-', last, rest @ ..] = rest {
            found |= (*first..=*last).contains(&byte);
            set = rest;
        } else {
            found |= byte == *first;
            set = rest;
        }
    }
    found != negated
}

const MODULE_INIT_COMPRESSED_FILE: libc::c_int = 4;

/// Loads one file; false if the module is there already.
fn load_file(path: &Path) -> Result<bool, Error> {
    let file = File::open(path).map_err(|source| Error::Open {
        path: path.to_owned(),
        source,
    })?;
    let compressed = path.extension().is_some_and(|extension| extension != "ko");
    let flags = if compressed {
        MODULE_INIT_COMPRESSED_FILE
    } else {
        0
    };
    // SAFETY: the parameters are an empty C string, which the kernel only reads.
    let done = unsafe {
        libc::syscall(
            libc::SYS_finit_module,
            file.as_raw_fd(),
            c"".as_ptr(),
            flags,
        )
    };
    if done == 0 {
        return Ok(true);
    }
    let source = io::Error::last_os_error();
    match source.raw_os_error() {
        Some(libc::EEXIST) => Ok(false),
        Some(libc::EINVAL | libc::EOPNOTSUPP) if compressed => Err(Error::Compressed {
            path: path.to_owned(),
        }),
        _ => Err(Error::Load {
            path: path.to_owned(),
            source,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DEP: &str = "kernel/drivers/net/virtio_net.ko.xz: kernel/net/core/failover.ko.xz kernel/lib/virtio.ko\n\
                       kernel/lib/virtio.ko:\nkernel/net/core/failover.ko.xz:\nnonsense\n\
                       kernel/fs/btrfs.ko: kernel/lib/libcrc.ko\nkernel/lib/libcrc.ko:\n\
                       kernel/crypto/crc32c-intel.ko:\n";
    const ALIAS: &str = "# made by depmod\nalias virtio:d00000001v* virtio_net\nalias fs-ext4 ext4\nalias broken\n\
                         alias crypto-crc32c crc32c-intel\n";
    const SOFTDEP: &str = "softdep libcrc pre: crypto-crc32c nosuch\nsoftdep crc32c_intel pre: libcrc post: virtio\n\
                           softdep\nsoftdep x y pre:\n";
    const BUILTIN: &str = "kernel/fs/ext4/ext4.ko\n";

    fn modules() -> Modules {
        Modules::parse(Index {
            dep: DEP,
            alias: ALIAS,
            softdep: SOFTDEP,
            builtin: BUILTIN,
        })
    }

    fn order(name: &str) -> Vec<String> {
        let order = modules().order(name).unwrap();
        order
            .iter()
            .map(|path| path.to_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn what_a_module_needs_comes_before_it() {
        let expected = [
            "kernel/lib/virtio.ko",
            "kernel/net/core/failover.ko.xz",
            "kernel/drivers/net/virtio_net.ko.xz",
        ];
        assert_eq!(order("virtio-net"), expected);
    }

    #[test]
    fn what_a_module_would_like_comes_around_it_even_in_circles() {
        let expected = [
            "kernel/crypto/crc32c-intel.ko",
            "kernel/lib/virtio.ko",
            "kernel/lib/libcrc.ko",
            "kernel/fs/btrfs.ko",
        ];
        assert_eq!(order("btrfs"), expected);
    }

    #[test]
    fn a_built_in_module_needs_no_file_and_an_unknown_one_is_an_error() {
        assert!(order("ext4").is_empty());
        assert!(
            matches!(modules().order("nosuch"), Err(Error::Unknown { name }) if name == "nosuch")
        );
    }

    #[test]
    fn a_device_finds_its_driver() {
        let modules = modules();
        let found: Vec<_> = modules.matching("virtio:d00000001v00001AF4").collect();
        assert_eq!(found, ["virtio_net"]);
        assert_eq!(modules.matching("virtio:d00000002v00001AF4").count(), 0);
        assert_eq!(modules.matching("fs_ext4").collect::<Vec<_>>(), ["ext4"]);
    }

    #[test]
    fn dashes_become_underscores_outside_sets() {
        assert_eq!(plain("a-b[0-9]-c"), "a_b[0-9]_c");
    }

    #[test]
    fn an_index_that_is_not_there_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let error = Modules::open(dir.path()).unwrap_err();
        assert!(error.to_string().ends_with("modules.dep"), "{error}");
    }

    #[test]
    fn patterns_match_as_depmod_means_them() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("*", "", true),
            ("a*c", "abbbc", true),
            ("a*c", "abbbcd", false),
            ("*bc*bcd", "abcbcbcd", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("pci:v00008086d0000[12]*", "pci:v00008086d00001533sv1", true),
            ("x[a-c]y", "xby", true),
            ("x[a-c]y", "xdy", false),
            ("x[!a-c]y", "xdy", true),
            ("x[!a-c]y", "xay", false),
            ("x[]]y", "x]y", true),
            ("x[a", "x[a", true),
            ("a\\*b", "a*b", true),
            ("a\\*b", "axb", false),
        ] {
            assert_eq!(glob(pattern, text), expected, "{pattern:?} on {text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_text_without_special_signs_matches_itself_and_with_stars(text in "[a-z0-9:]{0,30}", cut in 0_usize..30) {
            prop_assert!(glob(&text, &text));
            let cut = cut.min(text.len());
            let starred = format!("{}*{}", &text[..cut], &text[cut..]);
            prop_assert!(glob(&starred, &text));
        }

        #[test]
        fn any_pattern_and_index_come_to_an_end(pattern in r"[ab*?\[\]!\\-]{0,24}", text in "[ab]{0,40}", dep: String) {
            let _ = glob(&pattern, &text);
            let modules = Modules::parse(Index { dep: &dep, alias: &dep, softdep: &dep, builtin: &dep });
            let _ = modules.order(&dep);
        }
    }
}
