//! A QEMU that emulates well: the lab's servers run on it where there is no KVM.
//!
//! Booting the lab's OS image takes Debian 12's own (7.2) 51 s of processor time and that of its backports (10.0) 35 s.

use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::{deps, sh};

/// The first major version that is quick enough.
const WANTED: u32 = 9;
const SOURCES: &str = "/etc/apt/sources.list.d/plinth-backports.sources";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// On a Debian whose QEMU is old, takes that of its backports. Everything works with the old one, too.
pub fn renew() {
    let outcome = old().and_then(|old| {
        let Some(old) = old else { return Ok(()) };
        println!("QEMU {old} emulates slowly: installing that of Debian's backports");
        from_backports()
    });
    if let Err(error) = outcome {
        println!("the lab's servers stay with the QEMU there is and are slower by half: {error:#}");
    }
}

/// The version that is installed, if it is an old one and this is Debian.
fn old() -> Result<Option<String>> {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    if field(&release, "ID") != Some("debian") {
        return Ok(None);
    }
    let version =
        sh::output(Command::new("dpkg-query").args(["-W", "-f=${Version}", "qemu-system-x86"]))?;
    Ok(major(&version)
        .is_some_and(|major| major < WANTED)
        .then_some(version))
}

fn from_backports() -> Result<()> {
    let release = std::fs::read_to_string("/etc/os-release").context("read /etc/os-release")?;
    let Some(codename) = field(&release, "VERSION_CODENAME") else {
        bail!("/etc/os-release has no VERSION_CODENAME");
    };
    let suite = format!("{codename}-backports");
    let targets = sh::output(Command::new("apt-get").args([
        "indextargets",
        "--format",
        "$(ORIGIN)|$(LABEL)|$(RELEASE)|$(REPO_URI)",
        "Created-By: Packages",
    ]))?;
    if !targets.contains(&format!("|{suite}|")) {
        let Some(archive) = archive(&targets) else {
            bail!("apt knows no Debian archive");
        };
        write_as_root(&source(archive, &suite))?;
        sh::run(deps::as_root("apt-get").args(["update", "-qq"]))?;
    }
    deps::apt_install(&["-t", &suite, "qemu-system-x86", "qemu-utils"])
}

/// The archive this machine has its Debian from.
fn archive(targets: &str) -> Option<&str> {
    let mut lines = targets.lines();
    lines
        .find(|line| line.starts_with("Debian|Debian|"))?
        .rsplit('|')
        .next()
}

fn source(archive: &str, suite: &str) -> String {
    format!(
        "# By `cargo xtask deps`, for QEMU. apt takes nothing else from here by itself.\n\
         Types: deb\nURIs: {archive}\nSuites: {suite}\nComponents: main\nSigned-By: {KEYRING}\n"
    )
}

fn write_as_root(text: &str) -> Result<()> {
    let mut tee = deps::as_root("tee");
    let mut tee = tee
        .arg(SOURCES)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .context("start tee")?;
    if let Some(mut stdin) = tee.stdin.take() {
        stdin.write_all(text.as_bytes())?;
    }
    if !tee.wait()?.success() {
        bail!("{SOURCES} cannot be written");
    }
    Ok(())
}

fn field<'a>(release: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = release.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
    Some(value.trim_matches('"'))
}

/// `1:7.2+dfsg-7+deb12u18` is of major version 7.
fn major(version: &str) -> Option<u32> {
    let upstream = version.split_once(':').map_or(version, |(_, rest)| rest);
    upstream.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_releases_are_read() {
        assert_eq!(major("1:7.2+dfsg-7+deb12u18+b3"), Some(7));
        assert_eq!(major("1:10.0.2+ds-2+deb13u1~bpo12+1"), Some(10));
        assert_eq!(major("nonsense"), None);
        let release = "PRETTY_NAME=\"Debian\"\nVERSION_CODENAME=bookworm\nID=debian\n";
        assert_eq!(field(release, "ID"), Some("debian"));
        assert_eq!(field(release, "VERSION_CODENAME"), Some("bookworm"));
        assert_eq!(field(release, "CODENAME"), None);
    }

    #[test]
    fn backports_come_from_where_debian_comes_from() {
        let targets = "Node|Node|x|https://one.example/\n\
                       Debian|Debian-Security|bookworm-security|http://two.example/debian-security/\n\
                       Debian|Debian|bookworm|http://three.example/debian/\n";
        assert_eq!(archive(targets), Some("http://three.example/debian/"));
        assert_eq!(archive("nonsense\n"), None);
    }
}
