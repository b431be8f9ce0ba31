//! What is in a resolv.conf, and what ours says.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The resolver of the C library reads no more (resolv.conf(5)).
const MAX_SERVERS: usize = 3;
/// Older C libraries read six search domains and 256 characters.
const MAX_SEARCH: usize = 6;
const MAX_SEARCH_LEN: usize = 256;
/// Where systemd-resolved listens (systemd-resolved.service(8)).
const STUBS: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(127, 0, 0, 53)),
    IpAddr::V4(Ipv4Addr::new(127, 0, 0, 54)),
];
/// The first line of a file of ours.
const MARK: &str = "# Kept by plinth netd: this node's own resolver comes first.";
const PORT: u16 = 53;

/// The parts that matter; every other line is kept as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Content {
    pub servers: Vec<IpAddr>,
    pub search: Vec<String>,
    /// `options`, `sortlist`.
    pub others: Vec<String>,
}

pub fn is_ours(text: &str) -> bool {
    text.starts_with(MARK)
}

impl Content {
    /// Never fails: the C library skips what it cannot read, and so do we.
    pub fn parse(text: &str) -> Self {
        let mut content = Self::default();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => {
                    // A zone (`fe80::1%eth0`) cannot be asked without knowing the link; it is left out.
                    let server: Option<IpAddr> = words.next().and_then(|word| word.parse().ok());
                    content.servers.extend(server);
                }
                // The last of these wins.
                Some("search" | "domain") => {
                    content.search = words.map(str::to_owned).collect();
                }
                Some(word) if word.starts_with(['#', ';']) => {}
                Some(_) => content.others.push(line.trim().to_owned()),
                None => {}
            }
        }
        content
    }

    /// Nobody is named but systemd-resolved on this machine.
    pub fn is_stub(&self) -> bool {
        !self.servers.is_empty() && self.servers.iter().all(|server| STUBS.contains(server))
    }

    /// Whom to ask: every server but ourselves.
    pub fn upstreams(&self, own: &[IpAddr]) -> Vec<SocketAddr> {
        let mut found: Vec<SocketAddr> = Vec::new();
        for server in &self.servers {
            let server = SocketAddr::new(*server, PORT);
            if !own.contains(&server.ip())
                && !server.ip().is_unspecified()
                && !found.contains(&server)
            {
                found.push(server);
            }
        }
        found
    }

    /// Ourselves first, then the original's servers, three at most; the cluster's domain first in the search.
    pub fn render(&self, own: &[IpAddr], domain: &str) -> String {
        let mut text = format!("{MARK}\n");
        let mut search = vec![domain];
        let more = self.search.iter().map(String::as_str);
        search
            .extend(more.filter(|other| !other.trim_end_matches('.').eq_ignore_ascii_case(domain)));
        search.truncate(MAX_SEARCH);
        while search.len() > 1
            && search.iter().map(|word| word.len() + 1).sum::<usize>() > MAX_SEARCH_LEN
        {
            search.pop();
        }
        let _ = writeln!(text, "search {}", search.join(" "));
        let mut servers: Vec<IpAddr> = Vec::new();
        for server in own.iter().take(1).chain(&self.servers) {
            let again = server != &own[0] && own.contains(server);
            if !again && !servers.contains(server) && !server.is_unspecified() {
                servers.push(*server);
            }
        }
        for server in servers.iter().take(MAX_SERVERS) {
            let _ = writeln!(text, "nameserver {server}");
        }
        for line in &self.others {
            let _ = writeln!(text, "{line}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn own() -> Vec<IpAddr> {
        vec![
            "192.0.2.10".parse().unwrap(),
            "2001:db8::10".parse().unwrap(),
        ]
    }

    #[test]
    fn own_address_first_three_servers_and_the_cluster_first_in_the_search() {
        let original = "# by dhclient\ndomain old.test\nsearch lan.test C1.test.\nnameserver 192.0.2.1\nnameserver fe80::1%eth0\n\
            nameserver 2001:db8::10\nnameserver 192.0.2.2\nnameserver 192.0.2.3\noptions edns0 trust-ad\nnameserver nonsense\n";
        let content = Content::parse(original);
        assert_eq!(
            content.render(&own(), "c1.test"),
            "# Kept by plinth netd: this node's own resolver comes first.\nsearch c1.test lan.test\n\
            nameserver 192.0.2.10\nnameserver 192.0.2.1\nnameserver 192.0.2.2\noptions edns0 trust-ad\n"
        );
        let upstreams: Vec<String> = content
            .upstreams(&own())
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(upstreams, ["192.0.2.1:53", "192.0.2.2:53", "192.0.2.3:53"]);
    }

    #[test]
    fn an_empty_original_still_gives_a_file() {
        let text = Content::parse("").render(&own(), "c1.test");
        assert!(is_ours(&text) && text.ends_with("search c1.test\nnameserver 192.0.2.10\n"));
    }

    proptest! {
        #[test]
        fn ours_is_stable_and_short(text in "((nameserver|search|domain|options|#)? ?[a-z0-9.: ]{0,40}\n){0,12}") {
            let once = Content::parse(&text).render(&own(), "c1.test");
            let again = Content::parse(&once).render(&own(), "c1.test");
            prop_assert_eq!(&once, &again);
            prop_assert!(Content::parse(&once).servers.len() <= MAX_SERVERS);
            prop_assert_eq!(Content::parse(&once).servers[0], own()[0]);
        }
    }
}
