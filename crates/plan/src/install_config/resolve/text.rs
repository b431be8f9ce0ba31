//! Texts with rules of their own: DNS names, keys, certificates, checksums.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::problem::Problems;

/// Shortened and quoted; never for secrets.
pub fn shown(text: &str) -> String {
    format!("{:?}", text.chars().take(80).collect::<String>())
}

/// One label of a DNS name (RFC 1123).
pub fn is_label(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

pub fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}

pub fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

const KEY_TYPES: [&str; 9] = [
    "ssh-rsa",
    "ssh-ed25519",
    "ssh-dss",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
    "ssh-ed448",
];

/// Authorized keys, one per line.
pub fn ssh_keys(text: &str, fips: bool, problems: &mut Problems) -> Vec<String> {
    let mut keys = Vec::new();
    let lines = text.lines().map(str::trim).enumerate();
    for (at, line) in lines.filter(|(_, line)| !line.is_empty()) {
        let line_number = at + 1;
        match key_type(line) {
            None => problems.add(
                "sshKey",
                format!("line {line_number} is not a public key"),
                "write one such as ssh-ed25519 AAAA... user@host, on one line",
            ),
            Some(kind) if fips && !(kind == "ssh-rsa" || kind.starts_with("ecdsa-")) => problems
                .add(
                    "sshKey",
                    format!("line {line_number} is of type {kind}, which fips forbids"),
                    "use an rsa or ecdsa key",
                ),
            Some(_) => keys.push(line.to_owned()),
        }
    }
    keys
}

/// The type of a key whose blob says the same (RFC 4253, 6.6).
fn key_type(line: &str) -> Option<&'static str> {
    let mut words = line.split_whitespace();
    // Options may stand before the type.
    let kind = words.find_map(|word| KEY_TYPES.into_iter().find(|kind| *kind == word))?;
    let blob = STANDARD.decode(words.next()?).ok()?;
    let length = u32::from_be_bytes(blob.get(..4)?.try_into().ok()?) as usize;
    let named = blob.get(4..4_usize.checked_add(length)?)?;
    (named == kind.as_bytes() && blob.len() > 4 + length).then_some(kind)
}

/// Every PEM block must be a certificate, and there must be one.
pub fn check_certificates(path: &str, pem: &str, problems: &mut Problems) {
    let remedy = "write certificates in PEM, each from -----BEGIN CERTIFICATE----- to its end";
    let mut blocks = 0;
    for block in x509_parser::pem::Pem::iter_from_buffer(pem.as_bytes()) {
        blocks += 1;
        let Ok(block) = block else {
            problems.add(path, format!("block {blocks} is not PEM"), remedy);
            return;
        };
        if block.label != "CERTIFICATE" {
            problems.add(path, format!("block {blocks} is not a certificate"), remedy);
        } else if block.parse_x509().is_err() {
            problems.add(
                path,
                format!("block {blocks} cannot be read as a certificate"),
                remedy,
            );
        }
    }
    if blocks == 0 {
        problems.add(path, "holds no certificate", remedy);
    }
}

/// Names, addresses and networks between commas; or a lone star.
pub fn no_proxy(text: &str, problems: &mut Problems) {
    if text.is_empty() || text == "*" {
        return;
    }
    for entry in text.split(',') {
        let why = if entry.contains(char::is_whitespace) {
            Some("has a space")
        } else if entry.starts_with("*.") {
            Some("has a wildcard")
        } else if entry == "*" {
            Some("stands among others")
        } else if entry.parse::<std::net::IpAddr>().is_err()
            && entry.parse::<ipnet::IpNet>().is_err()
            && !is_subdomain(&entry.trim_start_matches('.').to_lowercase())
        {
            Some("is no name, address or network")
        } else {
            None
        };
        if let Some(why) = why {
            problems.add(
                "proxy.noProxy",
                format!("{} {why}", shown(entry)),
                "write names, addresses and networks with commas between, such as .example.com,192.0.2.0/24; or only *",
            );
        }
    }
}
