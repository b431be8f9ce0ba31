//! `plinth console` on a rack of simulated servers: on a pipe, on a terminal, and when it cannot be had.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{PLINTH, text, wait_for};
use crate::preflight::Site;

const SOON: Duration = Duration::from_secs(30);

/// A console that runs beside the test, its output in a file.
struct Shown<'a> {
    child: Child,
    output: &'a Path,
}

impl<'a> Shown<'a> {
    fn start(site: &Site, command: &[&str], output: &'a Path) -> Self {
        let file = File::create(output).unwrap();
        let mut command = site.lab.command(&[&["exec", "--"], command].concat());
        command
            .stdin(Stdio::piped())
            .stdout(file.try_clone().unwrap());
        let child = command.stderr(file).spawn().unwrap();
        Self { child, output }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.output).unwrap()).into_owned()
    }

    fn wait(&self, wanted: &str) {
        wait_for(wanted, SOON, || self.text().contains(wanted));
    }
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// How often the lab's log has this.
fn logged(site: &Site, what: &str) -> usize {
    let log = std::fs::read_to_string(site.lab.dir().join("lab.log")).unwrap_or_default();
    log.matches(what).count()
}

#[test]
fn on_a_pipe_it_prints_what_the_server_prints_and_gives_the_console_back() {
    let site = Site::new(&[]);
    let dir = site.written();
    let place = tempfile::tempdir().unwrap();
    let output = place.path().join("output");
    let console = [PLINTH, "console", "server-0", "--dir", dir];
    let mut shown = Shown::start(&site, &console, &output);
    wait_for("the console", SOON, || logged(&site, "SOL activated") == 1);
    site.lab.reset(0, "On");
    site.lab.wait_console("server-0", "Trying", SOON);
    let diag = site.lab.ipmi(0, &["chassis", "power", "diag"]);
    assert!(diag.status.success(), "{}", text(&diag));
    shown.wait("NMI\r\n");
    let printed = site.lab.console("server-0");
    let both = printed.len().min(shown.text().len());
    assert_eq!(shown.text()[..both], printed[..both]);

    let second = site.lab.try_exec(&console);
    let words = text(&second);
    assert!(!second.status.success(), "{words}");
    for wanted in ["server-0", "somebody else has the console", "--steal"] {
        assert!(words.contains(wanted), "{wanted:?} is not in {words}");
    }

    kill(Pid::from_raw(shown.child.id() as i32), Signal::SIGTERM).unwrap();
    let status = shown.child.wait().unwrap();
    assert!(status.success(), "{status}: {}", shown.text());
    wait_for("the end", SOON, || logged(&site, "SOL deactivated") == 1);
}

#[test]
fn on_a_terminal_a_tilde_and_a_dot_end_it() {
    let site = Site::new(&[]);
    let dir = site.written();
    let place = tempfile::tempdir().unwrap();
    let output = place.path().join("output");
    let console = format!("{PLINTH} console server-0 --dir {dir}");
    // Of util-linux: runs a command on a terminal of its own.
    let script = ["script", "-qfec", &console, "/dev/null"];
    let mut shown = Shown::start(&site, &script, &output);
    shown.wait("~. ends it");
    let mut keys = shown.child.stdin.take().unwrap();
    keys.write_all(b"~?").unwrap();
    shown.wait("at the start of a line");
    keys.write_all(b"ls\r~.").unwrap();
    let status = shown.child.wait().unwrap();
    assert!(status.success(), "{status}: {}", shown.text());
    assert!(
        !shown.text().contains("ls"),
        "nothing is shown of what is typed"
    );
    wait_for("the end", SOON, || logged(&site, "SOL deactivated") == 1);
}

#[test]
fn a_host_that_is_not_there_and_a_bmc_without_ipmi_are_told() {
    let site = Site::new(&[]);
    let dir = site.written();
    let try_console = |name: &str| site.lab.try_exec(&[PLINTH, "console", name, "--dir", dir]);
    let nobody = text(&try_console("server-9"));
    assert!(
        nobody.contains("no host server-9; there are server-0, "),
        "{nobody}"
    );
    site.lab.ok(&["fault", "add", "server-1", "bmc-down"]);
    let silent = text(&try_console("server-1"));
    assert!(
        silent.contains("server-1: ") && silent.contains("does not answer; the BMC has no IPMI"),
        "{silent}"
    );
}
