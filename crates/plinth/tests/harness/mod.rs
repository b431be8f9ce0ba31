//! A lab of one's own for each test, through the program as an operator runs it.
#![allow(dead_code, reason = "each tier uses its own part")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

pub const PLINTH: &str = env!("CARGO_BIN_EXE_plinth");

/// A lab that goes down with the test.
pub struct Lab {
    pub name: String,
    home: TempDir,
}

impl Lab {
    /// Not up yet.
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        assert!(
            is_root(),
            "this test makes network namespaces and must run as root"
        );
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("t{:x}-{number:x}", std::process::id());
        let home = TempDir::new().expect("a temporary directory can be made");
        Self { name, home }
    }

    pub fn up(args: &[&str]) -> Self {
        let lab = Self::new();
        lab.bring_up(args);
        lab
    }

    pub fn bring_up(&self, args: &[&str]) {
        let output = self.try_up(args);
        assert!(
            output.status.success(),
            "lab up {args:?}: {}",
            text(&output)
        );
    }

    pub fn try_up(&self, args: &[&str]) -> Output {
        let fixed = ["up", "--rack-only", "--name", &self.name];
        self.lab(&[&fixed[..], args].concat())
    }

    pub fn dir(&self) -> PathBuf {
        self.home.path().join("lab")
    }

    pub fn namespace(&self) -> String {
        format!("plinth-{}", self.name)
    }

    /// `plinth lab ARGS`.
    pub fn lab(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("plinth runs")
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(PLINTH);
        command
            .arg("lab")
            .args(args)
            .env("PLINTH_LAB_DIR", self.dir());
        command
    }

    /// As `lab`, but it must succeed; returns standard output.
    pub fn ok(&self, args: &[&str]) -> String {
        let output = self.lab(args);
        assert!(output.status.success(), "lab {args:?}: {}", text(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub fn status(&self) -> Value {
        serde_json::from_str(&self.ok(&["status", "-o", "json"])).expect("status is JSON")
    }

    pub fn server(&self, index: usize) -> Value {
        self.status()["servers"][index].clone()
    }

    /// Runs a command inside the namespace; it must succeed.
    pub fn exec(&self, command: &[&str]) -> String {
        let output = self.try_exec(command);
        assert!(output.status.success(), "{command:?}: {}", text(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub fn try_exec(&self, command: &[&str]) -> Output {
        self.lab(&[&["exec", "--"], command].concat())
    }

    /// Starts a command inside the namespace; it ends with the guard.
    pub fn start(&self, command: &[&str]) -> Running {
        let mut started = self.command(&[&["exec", "--"], command].concat());
        let child = started
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Running(child.unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }

    /// Serves a directory by HTTP at the router's address, until the guard is dropped.
    pub fn serve_files(&self, dir: &Path) -> (Running, String) {
        let router = "192.168.111.1";
        let dir = dir.to_str().expect("the path is text");
        let server = self.start(&[
            "python3",
            "-m",
            "http.server",
            "--bind",
            router,
            "--directory",
            dir,
            "8080",
        ]);
        let base = format!("http://{router}:8080");
        wait_for("the HTTP server", Duration::from_secs(20), || {
            self.try_exec(&["curl", "-sfo", "/dev/null", &base])
                .status
                .success()
        });
        (server, base)
    }

    /// A Redfish request to a server's BMC: status code and body.
    pub fn redfish(
        &self,
        index: usize,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> (u16, Value) {
        let server = self.server(index);
        let credentials = format!(
            "{}:{}",
            str_of(&server["user"]),
            str_of(&server["password"])
        );
        let url = match path.strip_prefix("system") {
            Some(rest) => format!("{}{rest}", str_of(&server["redfish"])),
            None => format!("https://{}{path}", str_of(&server["ipmi"])),
        };
        let ca = self.dir().join("ca.pem");
        let mut args = vec![
            "curl",
            "-s",
            "--max-time",
            "20",
            "--cacert",
            ca.to_str().expect("text"),
            "-u",
            &credentials,
        ];
        let body = body.map(Value::to_string);
        args.extend(["-X", method, "-w", "\n%{http_code}"]);
        if let Some(body) = &body {
            args.extend(["-H", "Content-Type: application/json", "-d", body]);
        }
        args.push(&url);
        let output = self.try_exec(&args);
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let (body, code) = printed.rsplit_once('\n').unwrap_or(("", "0"));
        (
            code.trim().parse().unwrap_or(0),
            serde_json::from_str(body).unwrap_or(Value::Null),
        )
    }

    pub fn reset(&self, index: usize, kind: &str) -> (u16, Value) {
        let body = serde_json::json!({"ResetType": kind});
        self.redfish(
            index,
            "POST",
            "system/Actions/ComputerSystem.Reset",
            Some(&body),
        )
    }

    /// Inserts an image into the CD slot, wherever this BMC has it.
    pub fn insert(&self, index: usize, url: &str) -> (u16, Value) {
        let slot = self.cd_slot(index);
        let path = format!("{slot}/Actions/VirtualMedia.InsertMedia");
        self.redfish(
            index,
            "POST",
            &path,
            Some(&serde_json::json!({"Image": url})),
        )
    }

    pub fn cd_slot(&self, index: usize) -> String {
        let (_, system) = self.redfish(index, "GET", "system", None);
        let (_, managers) = self.redfish(index, "GET", "/redfish/v1/Managers", None);
        let (_, manager) = self.redfish(
            index,
            "GET",
            str_of(&managers["Members"][0]["@odata.id"]),
            None,
        );
        for owner in [system, manager] {
            let Some(collection) = owner["VirtualMedia"]["@odata.id"].as_str() else {
                continue;
            };
            let (_, collection) = self.redfish(index, "GET", collection, None);
            for member in collection["Members"].as_array().into_iter().flatten() {
                let path = str_of(&member["@odata.id"]);
                let (_, slot) = self.redfish(index, "GET", path, None);
                if slot["MediaTypes"]
                    .as_array()
                    .is_some_and(|types| types.iter().any(|t| t == "CD"))
                {
                    return path.to_string();
                }
            }
        }
        panic!("the BMC of server {index} has no CD slot")
    }

    pub fn ipmi(&self, index: usize, args: &[&str]) -> Output {
        let server = self.server(index);
        let (host, user, password) = (
            str_of(&server["ipmi"]),
            str_of(&server["user"]),
            str_of(&server["password"]),
        );
        let fixed = [
            "ipmitool", "-I", "lanplus", "-C", "17", "-R", "2", "-H", host, "-U", user, "-P",
            password,
        ];
        self.try_exec(&[&fixed[..], args].concat())
    }

    pub fn console(&self, name: &str) -> String {
        let log = std::fs::read(self.dir().join("servers").join(name).join("console.log"))
            .unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// Waits until a server's console shows this.
    pub fn wait_console(&self, name: &str, shown: &str, within: Duration) {
        let deadline = Instant::now() + within;
        while !self.console(name).contains(shown) {
            let end: String = tail(&self.console(name), 30);
            assert!(
                Instant::now() < deadline,
                "{name}'s console did not show {shown:?} within {within:?}; its end:\n{end}"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn wait_power(&self, index: usize, power: &str, within: Duration) {
        let mut last = Value::Null;
        let reached = poll(within, || {
            last = self.server(index);
            last["power"] == power
        });
        assert!(
            reached,
            "server {index} did not come to {power} within {within:?}; last seen {last}"
        );
    }

    pub fn redfish_power(&self, index: usize) -> String {
        let (code, system) = self.redfish(index, "GET", "system", None);
        assert_eq!(code, 200, "{system}");
        str_of(&system["PowerState"]).to_string()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.dir().join("lab.log")).unwrap_or_default();
            eprintln!("the end of the lab's log:\n{}", tail(&log, 30));
        }
        _ = self.lab(&["down"]);
    }
}

/// A process that ends with the test.
pub struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// Asks until it is so; false when time is up. The longer it takes the less often: asking is work, too, and often for the same
/// processors as what is waited for.
pub fn poll(within: Duration, mut so: impl FnMut() -> bool) -> bool {
    let (soonest, latest) = (Duration::from_millis(50), Duration::from_secs(1));
    let began = Instant::now();
    loop {
        if so() {
            return true;
        }
        let waited = began.elapsed();
        if waited > within {
            return false;
        }
        std::thread::sleep((waited / 20).clamp(soonest, latest));
    }
}

pub fn wait_for(what: &str, within: Duration, so: impl FnMut() -> bool) {
    assert!(poll(within, so), "waited {within:?} for {what}");
}

pub fn str_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub fn text(output: &Output) -> String {
    format!(
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn tail(text: &str, lines: usize) -> String {
    let all: Vec<_> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// The program as nodes get it: debug information would travel to every one of them.
pub fn stripped(lab: &Lab) -> PathBuf {
    let program = lab.dir().parent().unwrap().join("plinth");
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(&program).arg(PLINTH);
    assert!(strip.status().unwrap().success());
    program
}

/// `text` of an answer that must have come.
pub fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(output));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
