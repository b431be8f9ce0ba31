//! `plinth netd`: virtual addresses, load balancing and names on this node.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use netd::{Config, Options};
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Netd {
    #[command(flatten)]
    serve: Serve,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Args)]
struct Serve {
    /// The configuration, a YAML file
    #[arg(
        long,
        default_value = "/etc/plinth/netd.yaml",
        env = "PLINTH_NETD_CONFIG"
    )]
    config: PathBuf,
    /// Read the configuration, say what is wrong with it, and do nothing else
    #[arg(long)]
    check: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Show what the running netd does: addresses, balancer, members
    Status {
        #[command(flatten)]
        at: At,
        /// A table for people, or JSON for programs
        #[arg(short, long, value_enum, default_value_t = Output::Table)]
        output: Output,
    },
    /// Give a virtual address to another node
    ///
    /// Example: plinth netd resign api --for 30s
    Resign {
        /// The name of the virtual address in the configuration
        vip: String,
        /// Do not want it back for this long (500ms, 30s, 5m); without it, as long as another holds it
        #[arg(long = "for", value_parser = duration)]
        hold_off: Option<Duration>,
        #[command(flatten)]
        at: At,
    },
    /// Print the JSON schema of the configuration
    Schema,
    /// Take addresses off when the process that started this one is gone
    #[command(hide = true)]
    Guard,
}

#[derive(Args)]
struct At {
    /// Where the running netd answers
    #[arg(long, default_value_t = netd::config::ADMIN)]
    admin: SocketAddr,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    Table,
    Json,
}

impl Netd {
    /// True if it goes on until it is told to stop.
    pub fn is_daemon(&self) -> bool {
        matches!(self.command, None | Some(Command::Guard))
    }
}

pub fn run(command: &Netd) -> Result<()> {
    match &command.command {
        None => {
            let config = Config::load(&command.serve.config)?;
            if command.serve.check {
                return Ok(());
            }
            serve(config, &command.serve.config)
        }
        Some(Command::Status { at, output }) => status(at.admin, *output),
        Some(Command::Resign { vip, hold_off, at }) => {
            let query = hold_off.map_or(String::new(), |hold| {
                format!("?for_ms={}", hold.as_millis())
            });
            ask(at.admin, "POST", &format!("/resign/{vip}{query}")).map(drop)
        }
        Some(Command::Schema) => {
            println!("{:#}", netd::config::schema());
            Ok(())
        }
        Some(Command::Guard) => {
            netd::vip::guard::run(std::io::stdin().lock()).context("guard the virtual addresses")
        }
    }
}

/// Until SIGTERM or SIGINT; then the addresses are given up in order.
fn serve(config: Config, path: &Path) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("start the runtime")?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("listen for SIGINT")?;
        tracing::info!(config = %path.display(), "netd starts");
        let stop = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        let myself = std::env::current_exe().context("find this program")?;
        let guard = Some(vec![myself.into(), "netd".into(), "guard".into()]);
        Ok(netd::run(config, path.to_owned(), Options { guard }, stop).await?)
    })
}

fn status(at: SocketAddr, output: Output) -> Result<()> {
    let text = ask(at, "GET", "/status")?;
    let status: Value = serde_json::from_str(&text).context("understand netd's answer")?;
    match output {
        Output::Json => println!("{status:#}"),
        Output::Table => print!("{}", table(&status)),
    }
    Ok(())
}

/// One small request to the loopback.
fn ask(at: SocketAddr, method: &str, path: &str) -> Result<String> {
    use std::io::{Read, Write};
    let patience = Some(Duration::from_secs(5));
    let mut stream = std::net::TcpStream::connect_timeout(&at, Duration::from_secs(5))
        .with_context(|| {
            format!("reach netd on {at}; does it run, and with this admin address?")
        })?;
    stream.set_read_timeout(patience)?;
    stream.set_write_timeout(patience)?;
    let purpose = netd::admin::ON_PURPOSE;
    write!(
        stream,
        "{method} {path} HTTP/1.0\r\nHost: {at}\r\n{purpose}: yes\r\nContent-Length: 0\r\n\r\n"
    )?;
    let mut answer = Vec::new();
    stream
        .take(64 << 20)
        .read_to_end(&mut answer)
        .context("hear netd's answer")?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .context("understand netd's answer")?;
    let code = head.split_whitespace().nth(1).unwrap_or_default();
    if code != "200" {
        bail!("netd answers {code}: {}", body.trim());
    }
    Ok(body.to_owned())
}

fn table(status: &Value) -> String {
    let mut text = String::new();
    let rows = |name: &str| status[name].as_array().cloned().unwrap_or_default();
    let word = |value: &Value| match value {
        Value::String(word) => word.clone(),
        Value::Null => "-".into(),
        other => other.to_string(),
    };
    let _ = writeln!(
        text,
        "{:12} {:28} {:4} {:10} {:10} {:9} LEADER",
        "VIP", "ADDRESS", "ID", "LINK", "ROLE", "PRIORITY"
    );
    for vip in rows("vips") {
        let [name, address, id, link, role, priority, leader] = [
            "name",
            "address",
            "id",
            "interface",
            "role",
            "priority",
            "leader",
        ]
        .map(|field| word(&vip[field]));
        let _ = writeln!(
            text,
            "{name:12} {address:28} {id:4} {link:10} {role:10} {priority:9} {leader}"
        );
        for step in vip["transitions"]
            .as_array()
            .into_iter()
            .flatten()
            .rev()
            .take(3)
        {
            let [from, to, why] = ["from", "to", "why"].map(|field| word(&step[field]));
            let _ = writeln!(text, "  {from} -> {to}: {why}");
        }
        for report in vip["reports"].as_array().into_iter().flatten() {
            let _ = writeln!(text, "  seen: {}", word(report));
        }
    }
    for listener in rows("lb") {
        let _ = writeln!(
            text,
            "\nLISTENER {} {} {}",
            word(&listener["name"]),
            word(&listener["listen"]),
            if listener["listening"] == true {
                "listening"
            } else {
                "closed"
            }
        );
        let _ = writeln!(
            text,
            "  {:20} {:28} {:9} {:>6} {:>8} WHY",
            "BACKEND", "ADDRESS", "HEALTH", "OPEN", "TOTAL"
        );
        for backend in listener["backends"].as_array().into_iter().flatten() {
            let [name, address, health, open, total, why] =
                ["name", "address", "health", "connections", "total", "why"]
                    .map(|field| word(&backend[field]));
            let _ = writeln!(
                text,
                "  {name:20} {address:28} {health:9} {open:>6} {total:>8} {why}"
            );
        }
    }
    if let Some(checks) = status["checks"]
        .as_object()
        .filter(|checks| !checks.is_empty())
    {
        let _ = writeln!(text, "\nCHECKS");
        for (name, passes) in checks {
            let _ = writeln!(
                text,
                "  {name:20} {}",
                if *passes == true { "passes" } else { "fails" }
            );
        }
    }
    let members = rows("members");
    if !members.is_empty() {
        let _ = writeln!(
            text,
            "\n{:20} {:7} {:>8} ADDRESSES",
            "MEMBER", "SOURCE", "AGE s"
        );
        for member in members {
            let age = member["age_ms"].as_u64().unwrap_or_default() / 1000;
            let [name, source, addresses] =
                ["name", "source", "addresses"].map(|field| word(&member[field]));
            let _ = writeln!(text, "{name:20} {source:7} {age:>8} {addresses}");
        }
    }
    for (name, rows) in [("vip", rows("vips")), ("listener", rows("lb"))] {
        for row in rows.iter().filter(|row| !row["problem"].is_null()) {
            let _ = writeln!(
                text,
                "\nPROBLEM {name} {}: {}",
                word(&row["name"]),
                word(&row["problem"])
            );
        }
    }
    if let Some(problem) = status["reload_problem"].as_str() {
        let _ = writeln!(text, "\nPROBLEM the file is not in use: {problem}");
    }
    text
}

/// A number and a unit.
fn duration(text: &str) -> Result<Duration, String> {
    let split = text
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err("write a number and ms, s, m or h, such as 30s".into()),
    };
    let number: u64 = number
        .parse()
        .map_err(|_| "write a number first, such as 30s")?;
    let millis = number.checked_mul(unit).ok_or("that is too long")?;
    Ok(Duration::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_number_and_a_unit() {
        assert_eq!(duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        for bad in ["", "30", "s", "-1s", "1d", "99999999999999999999s"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
