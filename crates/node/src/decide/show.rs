//! What of this machine may be seen from elsewhere, by whom, and in which words.

use x509_parser::prelude::{FromDer as _, X509Certificate};

const PREFIX: &str = "plinth-";
const SUFFIX: &str = ".service";
/// Longer names nobody gave.
const LONGEST: usize = 64;
/// Of this organization are those who may do everything with the cluster.
const MASTERS: &str = "system:masters";

/// A daemon's unit by its name without the ending, such as `plinth-netd`.
pub fn is_unit(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    name.len() <= LONGEST
        && name
            .strip_prefix(PREFIX)
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(letter))
}

/// Those of the daemons among files of systemd, in order.
pub fn units<'a>(files: impl Iterator<Item = &'a str>) -> Vec<String> {
    let named = files.filter_map(|file| file.strip_suffix(SUFFIX));
    let mut units: Vec<String> = named
        .filter(|name| is_unit(name))
        .map(str::to_owned)
        .collect();
    units.sort();
    units.dedup();
    units
}

/// What prints a unit's log: its newest entries, in order, and nothing of anybody else's.
pub fn journal(unit: &str, entries: usize) -> Vec<String> {
    [
        format!("--unit={unit}{SUFFIX}"),
        format!("--lines={entries}"),
        "--output=short-iso-precise".to_owned(),
        "--utc".to_owned(),
        "--no-pager".to_owned(),
        "--quiet".to_owned(),
    ]
    .into()
}

/// Whether the owner of a client's certificate, which was verified, may see anything.
pub fn may_look(certificate: &[u8]) -> bool {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else {
        return false;
    };
    let mut organizations = certificate.subject().iter_organization();
    organizations.any(|organization| organization.as_str() == Ok(MASTERS))
}

/// Of the rules of nft, those that count, and where they stand. What else a rule says is nobody's business.
pub fn counters(ruleset: &str) -> String {
    let mut kept = String::new();
    for line in ruleset.lines() {
        let text = line.trim();
        let place = ["table ", "chain ", "counter "]
            .iter()
            .any(|word| text.starts_with(word));
        if place || (text.contains("packets ") && text.contains("bytes ")) {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    #[test]
    fn daemons_are_listed_and_nothing_else() {
        let files = [
            "plinth-netd.service",
            "plinth-etcd.service",
            "plinth-netd.service",
            "plinth-.service",
            "plinth-netd.timer",
            "plinth-A.service",
            "plinth-x y.service",
            "sshd.service",
            "getty@tty1.service",
            "multi-user.target.wants",
        ];
        assert_eq!(units(files.into_iter()), ["plinth-etcd", "plinth-netd"]);
    }

    #[test]
    fn a_unit_cannot_say_anything_else_to_journalctl() {
        for name in [
            "",
            "plinth-",
            "plinth-*",
            "plinth-netd.service",
            "plinth-netd --unit=sshd",
            "plinth-../etc",
            "--unit=sshd",
            "sshd",
        ] {
            assert!(!is_unit(name), "{name:?}");
        }
        assert!(!is_unit(&format!("plinth-{}", "x".repeat(64))));
        assert!(is_unit("plinth-mcs"));
        let arguments = journal("plinth-mcs", 10);
        assert_eq!(arguments[..2], ["--unit=plinth-mcs.service", "--lines=10"]);
    }

    #[test]
    fn only_masters_of_the_cluster_look() {
        for (organizations, expected) in [
            (&[][..], false),
            (&["system:nodes"], false),
            (&["system:mastersx", "masters"], false),
            (&["system:masters"], true),
        ] {
            let mut params = CertificateParams::default();
            for organization in organizations {
                let name = &mut params.distinguished_name;
                name.push(DnType::OrganizationName, *organization);
            }
            // Who is called so is not of them.
            let name = &mut params.distinguished_name;
            name.push(DnType::CommonName, "system:masters");
            let key = KeyPair::generate().expect("a key");
            let certificate = params.self_signed(&key).expect("a certificate");
            assert_eq!(may_look(certificate.der()), expected, "{organizations:?}");
        }
        assert!(!may_look(b"nonsense"));
    }

    #[test]
    fn of_rules_only_their_counters_are_told() {
        let rules = "table inet plinth {\n\tcounter seen {\n\t\tpackets 3 bytes 180\n\t}\n\tchain input {\n\t\ttype filter hook input priority 0;\n\t\tip saddr 192.0.2.9 drop\n\t\ttcp dport 22 counter packets 7 bytes 420 accept\n\t}\n}\n";
        assert_eq!(
            counters(rules),
            "table inet plinth {\n\tcounter seen {\n\t\tpackets 3 bytes 180\n\tchain input {\n\t\ttcp dport 22 counter packets 7 bytes 420 accept\n"
        );
    }

    proptest! {
        #[test]
        fn whatever_is_asked_for_is_a_daemon_or_nothing(name in ".{0,80}") {
            if is_unit(&name) {
                prop_assert!(!name.contains(['/', '.', ' ', '=', '\n']) && name.starts_with("plinth-"));
            }
            _ = counters(&name);
            _ = may_look(name.as_bytes());
        }
    }
}
