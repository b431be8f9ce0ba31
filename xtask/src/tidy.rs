//! Tidiness that a reviewer should not have to look for.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::sh;

/// Crates by ring: arrows point inward only, and programs never depend on one another.
const RINGS: &[(&str, &[&str])] = &[
    ("nouns", &["model", "crd"]),
    (
        "decisions",
        &["protocols", "media", "lifecycle", "plan", "objects"],
    ),
    (
        "the machine",
        &["linux", "vm", "clients", "image", "services"],
    ),
    (
        "programs",
        &[
            "netd",
            "mcs",
            "node",
            "ironic",
            "agent",
            "operator",
            "installer",
            "apiserver",
        ],
    ),
    ("assembly", &["lab", "plinth"]),
];

/// What pure rings may not touch, as crates. Clocks, files and sockets of `std` are in their `clippy.toml`.
const IMPURE: &[&str] = &[
    "tokio",
    "rand",
    "socket2",
    "nix",
    "libc",
    "rtnetlink",
    "reqwest",
    "hyper",
    "axum",
    "redb",
    "getrandom",
];

/// Runs every check and reports all that fails.
pub fn run() -> Result<()> {
    let mut problems = rings()?;
    problems.extend(pure_config());
    problems.extend(formatting()?);
    problems.extend(lints()?);
    report_sizes()?;
    if problems.is_empty() {
        return Ok(());
    }
    bail!("{} untidy:\n{}", problems.len(), problems.join("\n"));
}

fn ring_of(name: &str) -> Option<usize> {
    RINGS.iter().position(|(_, crates)| crates.contains(&name))
}

fn rings() -> Result<Vec<String>> {
    let metadata: Value = serde_json::from_str(&sh::output(&mut sh::cargo([
        "metadata",
        "--no-deps",
        "--format-version",
        "1",
        "--offline",
    ]))?)?;
    let mut problems = vec![];
    for package in metadata["packages"]
        .as_array()
        .context("cargo metadata has packages")?
    {
        let name = package["name"].as_str().unwrap_or_default();
        if ["xtask", "fuzz"].contains(&name) {
            continue;
        }
        let Some(ring) = ring_of(name) else {
            problems.push(format!("crate {name} is in no ring: add it to RINGS in xtask/src/tidy.rs and to ARCHITECTURE.md"));
            continue;
        };
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        for dependency in dependencies.filter(|d| d["kind"] != "dev") {
            let on = dependency["name"].as_str().unwrap_or_default();
            problems.extend(ring_problem(name, ring, on));
        }
    }
    Ok(problems)
}

fn ring_problem(name: &str, ring: usize, on: &str) -> Option<String> {
    if ring <= 1 && IMPURE.contains(&on) {
        return Some(format!(
            "{name} ({}) depends on {on}: pure crates touch no clock, socket, file or dice",
            RINGS[ring].0
        ));
    }
    let other = ring_of(on)?;
    let programs = RINGS[ring].0 == "programs" && ring == other;
    (other > ring || programs).then(|| {
        format!(
            "{name} ({}) depends on {on} ({})",
            RINGS[ring].0, RINGS[other].0
        )
    })
}

/// Every pure crate carries the lint configuration that bans clocks, files, sockets and unordered maps.
fn pure_config() -> Vec<String> {
    let mut problems = vec![];
    for name in RINGS[..2].iter().flat_map(|(_, crates)| crates.iter()) {
        let dir = sh::root().join("crates").join(name);
        if !dir.exists() {
            continue;
        }
        let same = fs::read(dir.join("clippy.toml")).ok()
            == fs::read(sh::root().join("pure.clippy.toml")).ok();
        if !same {
            problems.push(format!(
                "crates/{name}/clippy.toml is not pure.clippy.toml: link it"
            ));
        }
    }
    problems
}

fn formatting() -> Result<Vec<String>> {
    let output = sh::cargo(["fmt", "--all", "--check", "--", "-l"])
        .output()
        .context("start cargo fmt")?;
    let listed = String::from_utf8_lossy(&output.stdout);
    let mut problems: Vec<_> = listed
        .lines()
        .map(|file| format!("{file}: not formatted; run cargo fmt"))
        .collect();
    if !output.status.success() && problems.is_empty() {
        problems.push(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(problems)
}

/// Clippy over everything. A wildcard arm counts only where the enum is ours.
fn lints() -> Result<Vec<String>> {
    let (ours, foreign) = (own_enums()?, foreign_crates()?);
    let mut clippy = sh::cargo([
        "clippy",
        "--quiet",
        "--workspace",
        "--all-targets",
        "--message-format=json",
    ]);
    clippy
        .args(["--", "-W", "clippy::wildcard_enum_match_arm"])
        .stderr(Stdio::inherit());
    let output = clippy.output().context("start cargo clippy")?;
    let mut problems = BTreeSet::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(line) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        let message = &line["message"];
        let code = message["code"]["code"].as_str().unwrap_or_default();
        let rendered = message["rendered"].as_str().unwrap_or_default();
        let file = message["spans"][0]["file_name"]
            .as_str()
            .unwrap_or_default();
        // A test may say "anything else".
        let test = file.contains("/tests/") || file.ends_with("tests.rs");
        let counts = match code {
            "clippy::wildcard_enum_match_arm" if test => false,
            "clippy::wildcard_enum_match_arm" => {
                ours.iter().any(|name| suggests(message, name, &foreign))
            }
            _ => {
                matches!(message["level"].as_str(), Some("warning" | "error"))
                    && message["spans"][0].is_object()
            }
        };
        if counts {
            problems.insert(rendered.to_string());
        }
    }
    if !output.status.success() && problems.is_empty() {
        problems.insert("cargo clippy failed; see above".into());
    }
    Ok(problems.into_iter().collect())
}

/// Whether the lint's suggestion spells out variants of this enum.
fn suggests(message: &Value, name: &str, foreign: &BTreeSet<String>) -> bool {
    let spans = message["children"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|c| c["spans"].as_array().into_iter().flatten());
    spans
        .filter_map(|span| span["suggested_replacement"].as_str())
        .any(|text| {
            text.split('|').any(|variant| {
                // `other @ path::Enum::Variant(..)`: the binding is the arm's own.
                let path = variant.rsplit('@').next().unwrap_or(variant).trim();
                let parts: Vec<&str> = path.split("::").collect();
                parts.len() >= 2 && parts[parts.len() - 2] == name && !foreign.contains(parts[0])
            })
        })
}

/// The crates we depend on, as paths spell them.
fn foreign_crates() -> Result<BTreeSet<String>> {
    let lock = fs::read_to_string(sh::root().join("Cargo.lock")).context("read Cargo.lock")?;
    let names = lock
        .lines()
        .filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
    let foreign = names
        .filter(|name| ring_of(name).is_none())
        .map(|name| name.replace('-', "_"));
    Ok(foreign
        .chain(["std", "core", "alloc"].map(String::from))
        .collect())
}

fn own_enums() -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for file in sources()? {
        for line in fs::read_to_string(&file)?.lines() {
            let mut words = line
                .split_whitespace()
                .skip_while(|word| word.starts_with("pub"))
                .take(2);
            if let (Some("enum"), Some(name)) = (words.next(), words.next()) {
                names.insert(
                    name.trim_end_matches(['{', '<'])
                        .split('<')
                        .next()
                        .unwrap_or(name)
                        .to_string(),
                );
            }
        }
    }
    Ok(names)
}

/// How long files are, for the eye; nothing fails by it.
fn report_sizes() -> Result<()> {
    let mut by_crate: BTreeMap<String, Vec<(usize, PathBuf)>> = BTreeMap::new();
    let root = sh::root();
    for file in sources()? {
        let lines = fs::read_to_string(&file)?.lines().count();
        let short = file.strip_prefix(&root).unwrap_or(&file).to_path_buf();
        let name = short
            .components()
            .nth(1)
            .map(|c| c.as_os_str().to_string_lossy().into_owned())
            .unwrap_or_default();
        by_crate.entry(name).or_default().push((lines, short));
    }
    println!(
        "{:12} {:>5} {:>7} {:>7}  largest",
        "crate", "files", "median", "lines"
    );
    for (name, mut files) in by_crate {
        files.sort();
        let total: usize = files.iter().map(|(lines, _)| lines).sum();
        let (lines, largest) = files.last().expect("a crate has files");
        println!(
            "{name:12} {:>5} {:>7} {total:>7}  {lines} {}",
            files.len(),
            files[files.len() / 2].0,
            largest.display()
        );
    }
    Ok(())
}

fn sources() -> Result<Vec<PathBuf>> {
    let mut found = vec![];
    for top in ["crates", "xtask"] {
        walk(&sh::root().join(top), &mut found)?;
    }
    found.sort();
    Ok(found)
}

fn walk(dir: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| format!("read {}", dir.display()))? {
        let path = entry?.path();
        if path.is_dir() && !path.ends_with("target") {
            walk(&path, found)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_point_inward_only() {
        let ring = |name| ring_of(name).unwrap();
        assert_eq!(ring_problem("lab", ring("lab"), "model"), None);
        assert!(ring_problem("model", ring("model"), "linux").is_some());
        assert!(ring_problem("netd", ring("netd"), "ironic").is_some());
        assert!(ring_problem("protocols", ring("protocols"), "tokio").is_some());
        assert_eq!(ring_problem("vm", ring("vm"), "linux"), None);
    }

    #[test]
    fn a_wildcard_counts_by_the_enum_that_the_suggestion_names() {
        let message =
            |text| serde_json::json!({"children": [{"spans": [{"suggested_replacement": text}]}]});
        let foreign = BTreeSet::from(["rtnetlink".to_string()]);
        let ours = message("Kind::BmcDown | fault::Kind::BmcSlow { .. }");
        assert!(suggests(&ours, "Kind", &foreign));
        assert!(!suggests(&ours, "ErrorKind", &foreign));
        assert!(!suggests(
            &message("other @ rtnetlink::Error::InvalidIp(_)"),
            "Error",
            &foreign
        ));
    }
}
