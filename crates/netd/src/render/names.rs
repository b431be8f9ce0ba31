//! A Corefile for CoreDNS, and the line that makes dhclient put us first.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

use super::Error;
use crate::config::Config;

/// The port is CoreDNS's own way of saying it.
fn server(address: &SocketAddr) -> String {
    match address.port() {
        53 => address.ip().to_string(),
        _ => address.to_string(),
    }
}

/// As OpenShift's, with the dots meant as dots.
pub fn corefile(config: &Config) -> Result<String, Error> {
    let dns = config.dns.as_ref().ok_or(Error::Nothing("dns"))?;
    let mut text = String::from("# Written by plinth render corefile.\n");
    let port = dns.listen.first().map_or(53, SocketAddr::port);
    let _ = writeln!(text, ".:{port} {{");
    let mut line = |line: &str| {
        let _ = writeln!(text, "    {line}");
    };
    line("errors");
    line("bufsize 512");
    line("health :18080");
    let listen: Vec<_> = dns
        .listen
        .iter()
        .map(|address| address.ip().to_string())
        .collect();
    line(&format!("bind {}", listen.join(" ")));
    let upstreams: Vec<_> = dns.upstreams.iter().map(server).collect();
    let upstreams = match (upstreams.is_empty(), &dns.resolv) {
        (false, _) => upstreams.join(" "),
        (true, Some(resolv)) => {
            let from = resolv.upstreams_from.as_ref().unwrap_or(&resolv.saved);
            from.display().to_string()
        }
        (true, None) => String::new(),
    };
    if !upstreams.is_empty() {
        line(&format!("forward . {upstreams} {{"));
        line("    policy sequential");
        line("}");
    }
    line(&format!("cache {}", dns.cache.longest.as_secs().max(1)));
    line("reload");
    let domain = dns.domain.replace('.', "\\.");
    for (pattern, addresses) in [
        (format!("^api\\.{domain}\\.$"), &dns.api),
        (format!("^api-int\\.{domain}\\.$"), &dns.api),
        (format!("^.*\\.apps\\.{domain}\\.$"), &dns.ingress),
    ] {
        for (kind, is_v4) in [("A", true), ("AAAA", false)] {
            line(&format!("template IN {kind} {} {{", dns.domain));
            line(&format!("    match {pattern}"));
            // Without an address of this family the answer is empty, not someone else's.
            let family = |address: &&IpAddr| address.is_ipv4() == is_v4;
            for address in addresses.iter().filter(family) {
                line(&format!(
                    "    answer \"{{{{ .Name }}}} 60 IN {kind} {address}\""
                ));
            }
            line("    fallthrough");
            line("}");
        }
    }
    let members = &config.members.fixed;
    if !members.is_empty() {
        line("hosts {");
        for member in members {
            for address in &member.addresses {
                let name = &member.name;
                line(&format!("    {address} {name} {name}.{}", dns.domain));
            }
        }
        line("    fallthrough");
        line("}");
    }
    text += "}\n";
    Ok(text)
}

/// Asks here first, whatever the lease says.
pub fn dhclient(config: &Config) -> Result<String, Error> {
    let dns = config.dns.as_ref().ok_or(Error::Nothing("dns"))?;
    let v4: Vec<_> = dns
        .listen
        .iter()
        .filter(|address| address.is_ipv4())
        .map(|address| address.ip().to_string())
        .collect();
    let v6: Vec<_> = dns
        .listen
        .iter()
        .filter(|address| address.is_ipv6())
        .map(|address| address.ip().to_string())
        .collect();
    let mut text = String::from("# Written by plinth render dhclient.\n");
    if !v4.is_empty() {
        let _ = writeln!(text, "prepend domain-name-servers {};", v4.join(", "));
    }
    if !v6.is_empty() {
        let _ = writeln!(text, "prepend dhcp6.name-servers {};", v6.join(", "));
    }
    let _ = writeln!(text, "prepend domain-search \"{}\";", dns.domain);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const NODE: &str = "
cluster: mycluster
vips: [{name: api, address: 192.0.2.5}, {name: ingress, address: 192.0.2.6}]
dns: {listen: [192.0.2.10, '2001:db8::10'], domain: mycluster.example.com, upstreams: [192.0.2.1, '192.0.2.2:5353']}
members: {static: [{name: master-0, addresses: [192.0.2.10]}]}
";

    #[test]
    fn a_node_as_coredns_and_dhclient_would_have_it() {
        let config = Config::parse(NODE, Path::new("x")).unwrap();
        insta::assert_snapshot!(corefile(&config).unwrap() + &dhclient(&config).unwrap());
    }

    #[test]
    fn without_dns_there_is_nothing_to_write() {
        let config = Config::parse("lb: []", Path::new("x")).unwrap();
        assert_eq!(corefile(&config), Err(Error::Nothing("dns")));
    }
}
