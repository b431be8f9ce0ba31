//! Where this machine gets its Debian packages from: apt knows.

use std::process::{Command, Stdio};

use crate::{Error, tool};

/// The given one, or the first Debian archive (not a security archive, not a third party's) of apt's sources.
pub fn resolve(given: Option<&str>, suite: &str) -> Result<String, Error> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    let program = tool::APT_GET.find()?;
    let output = Command::new(&program)
        .args([
            "indextargets",
            "--format",
            "$(ORIGIN)|$(LABEL)|$(REPO_URI)",
            "Created-By: Packages",
        ])
        .stdin(Stdio::null())
        .output()
        .map_err(|source| Error::Run {
            program: program.display().to_string(),
            source,
        })?;
    let found = choose(&String::from_utf8_lossy(&output.stdout));
    found.ok_or_else(|| Error::NoMirror {
        suite: suite.to_owned(),
    })
}

/// Lines of origin, label and address.
fn choose(targets: &str) -> Option<String> {
    let rows = targets.lines().filter_map(|line| {
        let mut fields = line.splitn(3, '|');
        Some((fields.next()?, fields.next()?, fields.next()?))
    });
    let mut archives = rows.filter(|(origin, label, _)| *origin == "Debian" && *label == "Debian");
    archives.next().map(|(_, _, uri)| uri.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn main_archive_is_chosen_among_security_and_third_parties() {
        let targets = "Node|Node|https://one.example/\n\
                       Debian|Debian-Security|http://two.example/debian-security/\n\
                       Debian|Debian|http://three.example/debian/\n";
        assert_eq!(
            choose(targets).as_deref(),
            Some("http://three.example/debian/")
        );
        assert_eq!(choose("nonsense\n"), None);
    }
}
