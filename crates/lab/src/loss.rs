//! Lossy cables: nft drops a share of the frames at a server's bridge port, both ways.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("run nft (Debian package nftables)")]
    Run(#[source] io::Error),
    #[error("nft did not answer within {} s", WITHIN.as_secs())]
    Silent,
    #[error("nft refused the rules for port {port}: {said}")]
    Refused { port: String, said: String },
}

const WITHIN: Duration = Duration::from_secs(10);

/// Makes a port lose this percentage of frames from now on; 0 mends it.
pub async fn set(port: &str, percent: u8) -> Result<(), Error> {
    let rules = rules(port, percent);
    let mut nft = Command::new("nft")
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(Error::Run)?;
    let mut stdin = nft.stdin.take().expect("stdin is piped");
    let run = async {
        stdin.write_all(rules.as_bytes()).await?;
        drop(stdin);
        nft.wait_with_output().await
    };
    let output = tokio::time::timeout(WITHIN, run)
        .await
        .map_err(|_| Error::Silent)?
        .map_err(Error::Run)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_string();
        return Err(Error::Refused {
            port: port.into(),
            said,
        });
    }
    Ok(())
}

/// One table, two chains a port. A chain that is to go must exist and be empty first.
fn rules(port: &str, percent: u8) -> String {
    let directions = [
        ("in", "prerouting", "iifname"),
        ("out", "postrouting", "oifname"),
    ];
    let of_direction = |(direction, hook, matches)| {
        let chain = format!("bridge plinth {port}-{direction}");
        let rule = match percent {
            0 => format!("delete chain {chain}"),
            // nft refuses a comparison that is always true.
            100.. => format!("add rule {chain} {matches} \"{port}\" counter drop"),
            1..100 => format!(
                "add rule {chain} {matches} \"{port}\" numgen random mod 100 < {percent} counter drop"
            ),
        };
        let hooked = format!("{{ type filter hook {hook} priority -300; }}");
        format!("add chain {chain} {hooked}\nflush chain {chain}\n{rule}\n")
    };
    let table = "add table bridge plinth\n".to_string();
    std::iter::once(table)
        .chain(directions.map(of_direction))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lossy_port_drops_both_ways_and_a_mended_one_leaves_no_chain() {
        insta::assert_snapshot!(rules("pr0", 20));
        insta::assert_snapshot!(rules("pr0", 100));
        insta::assert_snapshot!(rules("pr0", 0));
    }
}
