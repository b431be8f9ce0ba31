//! keepalived.conf: one script per check, one instance per virtual address.

use std::fmt::Write as _;
use std::net::IpAddr;

use protocols::vrrp::router::Preempt;
use protocols::vrrp::{Authentication, Version};

use super::{Error, command};
use crate::config::{Config, Vip};

/// keepalived's own limit.
const PASSWORD: usize = 8;

/// `link` says where an address goes if the configuration does not.
pub fn keepalived(config: &Config, link: impl Fn(&Vip) -> Option<String>) -> Result<String, Error> {
    if config.vips.is_empty() {
        return Err(Error::Nothing("vips"));
    }
    let mut text = String::from("# Written by plinth render keepalived.\n");
    // Adverts under a second need microseconds for the gratuitous ARP as well; the rest is netd's own way.
    text += "global_defs {\n  enable_script_security\n  script_user root\n  vrrp_garp_master_refresh 60\n}\n";
    for check in &config.checks {
        let _ = write!(
            text,
            "\nvrrp_script {} {{\n  script \"{}\"\n  interval {}\n  timeout {}\n  rise {}\n  fall {}\n}}\n",
            word(&check.name),
            command(&check.probe, check.timeout.as_millis(), config).replace('"', "\\\""),
            // keepalived counts in whole seconds here.
            check.interval.as_secs().max(1),
            check.timeout.as_secs().max(1),
            check.rise,
            check.fall,
        );
    }
    for vip in &config.vips {
        let interface = vip.interface.clone().or_else(|| link(vip));
        let interface = interface.ok_or_else(|| Error::NoLink(vip.name.clone()))?;
        text += &instance(config, vip, &interface);
    }
    Ok(text)
}

fn instance(config: &Config, vip: &Vip, interface: &str) -> String {
    let cluster = config.cluster.as_deref().unwrap_or("plinth");
    let mut text = format!(
        "\nvrrp_instance {}_{} {{\n  state BACKUP\n  interface {interface}\n  virtual_router_id {}\n  priority {}\n",
        word(cluster),
        word(&vip.name),
        vip.id,
        vip.base
    );
    let mut line = |line: String| {
        let _ = writeln!(text, "  {line}");
    };
    match vip.version {
        Version::V2 => {
            line("version 2".into());
            line(format!("advert_int {}", vip.interval.as_secs().max(1)));
        }
        Version::V3 => {
            line("version 3".into());
            line(format!("advert_int {:.2}", vip.interval.as_secs_f64()));
        }
    }
    match vip.preempt {
        Preempt::AtOnce => {}
        Preempt::After(delay) => line(format!("preempt_delay {}", delay.as_secs().max(1))),
        Preempt::Never => line("nopreempt".into()),
    }
    if let Some(source) = vip.source {
        let word = if vip.peers.is_empty() {
            "mcast_src_ip"
        } else {
            "unicast_src_ip"
        };
        line(format!("{word} {source}"));
    }
    if !vip.peers.is_empty() {
        line("unicast_peer {".into());
        for peer in vip.peers.iter().filter(|peer| Some(**peer) != vip.source) {
            line(format!("  {peer}"));
        }
        line("}".into());
    }
    if let Authentication::Password(password) = vip.authentication {
        let password: String = String::from_utf8_lossy(&password)
            .trim_end_matches('\0')
            .chars()
            .take(PASSWORD)
            .collect();
        line("authentication {".into());
        line("  auth_type PASS".into());
        line(format!("  auth_pass {password}"));
        line("}".into());
    }
    line("virtual_ipaddress {".into());
    let prefix = match vip.address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    };
    line(format!("  {}/{prefix}", vip.address));
    line("}".into());
    if !vip.checks.is_empty() {
        line("track_script {".into());
        for check in &vip.checks {
            let weight = check
                .weight
                .map_or(String::new(), |weight| format!(" weight {weight}"));
            line(format!("  {}{weight}", word(&check.check)));
        }
        line("}".into());
    }
    text += "}\n";
    text
}

/// Names become words.
fn word(name: &str) -> String {
    let fine = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    name.chars()
        .map(|letter| if fine(letter) { letter } else { '_' })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_control_plane_node_as_keepalived_would_have_it() {
        let config = Config::parse(super::super::haproxy::tests::NODE, Path::new("x")).unwrap();
        insta::assert_snapshot!(keepalived(&config, |_| Some("eth0".into())).unwrap());
    }

    #[test]
    fn without_a_link_it_says_what_to_do() {
        let config = Config::parse(super::super::haproxy::tests::NODE, Path::new("x")).unwrap();
        let error = keepalived(&config, |_| None).unwrap_err();
        assert_eq!(error, Error::NoLink("api".into()));
    }
}
