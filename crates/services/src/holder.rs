//! Who holds a port, for messages to people: "dnsmasq (process 812)".

use std::fs;

/// The transport whose port it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    Udp,
    Tcp,
}

/// The program that listens on this port in our network namespace, if it can be found. Reads `/proc`.
pub fn of(transport: Transport, port: u16) -> Option<String> {
    let tables = match transport {
        Transport::Udp => ["udp", "udp6"],
        Transport::Tcp => ["tcp", "tcp6"],
    };
    let inodes: Vec<String> = tables
        .iter()
        .filter_map(|table| fs::read_to_string(format!("/proc/thread-self/net/{table}")).ok())
        .flat_map(|text| inodes(&text, transport, port))
        .collect();
    if inodes.is_empty() {
        return None;
    }
    for process in fs::read_dir("/proc").ok()?.flatten() {
        if process
            .file_name()
            .to_string_lossy()
            .parse::<u32>()
            .is_err()
        {
            continue;
        }
        let Ok(sockets) = fs::read_dir(process.path().join("fd")) else {
            continue;
        };
        let holds = sockets.flatten().any(|socket| {
            fs::read_link(socket.path()).is_ok_and(|target| {
                let target = target.to_string_lossy();
                inodes
                    .iter()
                    .any(|inode| target == format!("socket:[{inode}]"))
            })
        });
        if holds {
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            let id = process.file_name();
            return Some(format!("{} (process {})", name.trim(), id.display()));
        }
    }
    None
}

/// Inodes of the sockets that are bound to the port, from the kernel's table.
fn inodes(table: &str, transport: Transport, port: u16) -> Vec<String> {
    const LISTENING: &str = "0A";
    let rows = table.lines().skip(1).filter_map(|line| {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        let (local, state, inode) = (columns.get(1)?, columns.get(3)?, columns.get(9)?);
        let local = u16::from_str_radix(local.rsplit_once(':')?.1, 16).ok()?;
        let counts = match transport {
            Transport::Udp => true,
            Transport::Tcp => *state == LISTENING,
        };
        (local == port && counts).then(|| (*inode).to_owned())
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn our_own_socket_is_found_by_its_port() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let holder = of(Transport::Udp, port).unwrap();
        assert!(
            holder.ends_with(&format!("(process {})", std::process::id())),
            "{holder}"
        );
        assert_eq!(of(Transport::Tcp, port), None);
    }

    proptest! {
        #[test]
        fn any_table_is_read(text: String) {
            _ = inodes(&text, Transport::Tcp, 67);
        }
    }
}
