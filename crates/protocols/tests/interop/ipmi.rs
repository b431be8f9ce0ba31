//! `ipmitool` and FreeIPMI against our BMC: strangers' consoles, our managed system.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::disallowed_types,
    reason = "a shell for the test: it owns socket and clock"
)]

use std::io::{Read as _, Write as _};
use std::net::UdpSocket;
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use model::{Mac, Secret};
use protocols::ipmi::bmc::{
    Action, Asset, Bmc, Config, Event, Lan, Privilege, Readings, Start, User, View,
};
use protocols::ipmi::chassis::{BootDevice, BootFlags, Control, PowerState};
use protocols::ipmi::crypto::Suite;

const DEADLINE: Duration = Duration::from_secs(20);

/// A BMC on a loopback port with a server that obeys at once, in a thread; stopped when dropped.
struct Shell {
    port: u16,
    orders: Sender<Event>,
    seen: Receiver<Action>,
    stop: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

fn user(name: &str, password: &str, privilege: Privilege) -> User {
    User {
        name: name.into(),
        password: Secret::new(password.into()),
        privilege,
    }
}

fn bmc() -> Shell {
    bmc_with_suites(&Suite::ALL)
}

fn bmc_with_suites(suites: &[Suite]) -> Shell {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(5)))
        .unwrap();
    let port = socket.local_addr().unwrap().port();
    let users = vec![
        user("admin", "s3cret", Privilege::Administrator),
        user("viewer", "look", Privilege::User),
    ];
    let mut config = Config::new(users, *b"plinth-lab-guid!");
    config.suites = suites.to_vec();
    config.asset = Asset {
        serial: "SN-0042".into(),
        asset_tag: "rack 7".into(),
        ..Asset::default()
    };
    config.lan = Lan {
        mac: Mac([0x52, 0x54, 0, 0xaa, 0xbb, 0xcc]),
        address: [192, 0, 2, 10].into(),
        netmask: [255, 255, 255, 0].into(),
        gateway: [192, 0, 2, 1].into(),
        dhcp: false,
        port,
    };
    let start = Start {
        now: Instant::now(),
        unix_seconds: 1_700_000_000,
        seed: Secret::new([7; 32]),
    };
    let bmc = Bmc::new(config, start);
    let (orders, inbox) = mpsc::channel();
    let (report, seen) = mpsc::channel();
    let (stop, stopped) = mpsc::channel();
    let thread = std::thread::spawn(move || run(bmc, &socket, &inbox, &report, &stopped));
    Shell {
        port,
        orders,
        seen,
        stop,
        thread: Some(thread),
    }
}

fn run(
    mut bmc: Bmc,
    socket: &UdpSocket,
    inbox: &Receiver<Event>,
    report: &Sender<Action>,
    stopped: &Receiver<()>,
) {
    let mut buffer = [0; 2048];
    while stopped.try_recv() == Err(mpsc::TryRecvError::Empty) {
        let mut events: Vec<Event> = inbox.try_iter().collect();
        if bmc.wake_at().is_some_and(|at| at <= Instant::now()) {
            events.push(Event::Timer);
        }
        if let Ok((length, from)) = socket.recv_from(&mut buffer) {
            events.push(Event::Datagram {
                from,
                bytes: buffer[..length].to_vec(),
            });
        }
        let mut at = 0;
        while at < events.len() {
            for action in bmc.handle(Instant::now(), events[at].clone()) {
                match &action {
                    Action::Send { to, bytes } => drop(socket.send_to(bytes, to)),
                    Action::Chassis(Control::PowerOff | Control::SoftShutdown) => {
                        events.push(view(PowerState::Off));
                    }
                    Action::Chassis(Control::PowerOn | Control::Cycle | Control::Reset) => {
                        events.push(view(PowerState::On));
                    }
                    Action::Chassis(Control::DiagnosticInterrupt)
                    | Action::SetBootFlags(_)
                    | Action::SetRestorePolicy(_)
                    | Action::Identify(_)
                    | Action::ConsoleInput(_)
                    | Action::ConsoleBreak
                    | Action::SolActivated { .. }
                    | Action::SolDeactivated
                    | Action::Restarted { .. } => {}
                }
                if !matches!(action, Action::Send { .. }) && report.send(action).is_err() {
                    return;
                }
            }
            at += 1;
        }
    }
}

fn view(power: PowerState) -> Event {
    Event::View(View {
        power,
        readings: Readings::default(),
    })
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.stop.send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shell {
    fn ipmitool(&self, suite: u8, login: &[&str], arguments: &[&str]) -> Command {
        let mut command = Command::new("ipmitool");
        command.env("LC_ALL", "C").env("TZ", "UTC");
        command.args([
            "-I",
            "lanplus",
            "-H",
            "127.0.0.1",
            "-p",
            &self.port.to_string(),
        ]);
        command.args(["-C", &suite.to_string(), "-N", "1", "-R", "2"]);
        command.args(login).args(arguments);
        command
    }

    fn output(&self, suite: u8, login: &[&str], arguments: &[&str]) -> Output {
        self.ipmitool(suite, login, arguments)
            .output()
            .expect("ipmitool must be installed (Debian package ipmitool)")
    }

    /// Runs as administrator with suite 17; must succeed.
    fn ask(&self, arguments: &[&str]) -> String {
        self.ask_with(17, arguments)
    }

    fn ask_with(&self, suite: u8, arguments: &[&str]) -> String {
        let output = self.output(suite, &ADMIN, arguments);
        let text = text(&output);
        assert!(output.status.success(), "ipmitool {arguments:?}: {text}");
        text
    }

    /// Must fail; gives what was printed.
    fn refused(&self, suite: u8, login: &[&str], arguments: &[&str]) -> String {
        let output = self.output(suite, login, arguments);
        assert!(
            !output.status.success(),
            "ipmitool {arguments:?} should fail: {}",
            text(&output)
        );
        text(&output)
    }

    /// Waits for an action that fits.
    fn wait_for<T>(&self, what: &str, fits: impl Fn(&Action) -> Option<T>) -> T {
        let deadline = Instant::now() + DEADLINE;
        let mut passed = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(action) = self.seen.recv_timeout(left) else {
                panic!("{what} never came; saw {passed:?}")
            };
            if let Some(found) = fits(&action) {
                return found;
            }
            passed.push(action);
        }
    }

    fn control(&self) -> Control {
        self.wait_for("a chassis control", |action| {
            if let Action::Chassis(control) = action {
                Some(*control)
            } else {
                None
            }
        })
    }

    fn boot_flags(&self) -> BootFlags {
        self.wait_for("boot flags", |action| {
            if let Action::SetBootFlags(flags) = action {
                Some(*flags)
            } else {
                None
            }
        })
    }
}

const ADMIN: [&str; 4] = ["-U", "admin", "-P", "s3cret"];
const VIEWER: [&str; 6] = ["-U", "viewer", "-P", "look", "-L", "USER"];

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn assert_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in:\n{text}");
    }
}

#[test]
fn power_goes_on_off_and_round_with_both_cipher_suites() {
    for suite in [3, 17] {
        let bmc = bmc();
        assert_contains(
            &bmc.ask_with(suite, &["chassis", "power", "status"]),
            &["Chassis Power is off"],
        );
        let table = [
            ("on", Control::PowerOn, "on"),
            ("cycle", Control::Cycle, "on"),
            ("reset", Control::Reset, "on"),
            ("diag", Control::DiagnosticInterrupt, "on"),
            ("soft", Control::SoftShutdown, "off"),
            ("on", Control::PowerOn, "on"),
            ("off", Control::PowerOff, "off"),
        ];
        for (word, control, then) in table {
            bmc.ask_with(suite, &["chassis", "power", word]);
            assert_eq!(bmc.control(), control, "suite {suite}, power {word}");
            let status = bmc.ask_with(suite, &["chassis", "power", "status"]);
            assert_contains(&status, &[&format!("Chassis Power is {then}")]);
        }
    }
}

#[test]
fn a_console_that_names_no_suite_finds_one() {
    let bmc = bmc();
    let output = Command::new("ipmitool")
        .args([
            "-I",
            "lanplus",
            "-H",
            "127.0.0.1",
            "-p",
            &bmc.port.to_string(),
        ])
        .args(ADMIN)
        .args(["-vv", "chassis", "power", "status"])
        .output()
        .expect("ipmitool must be installed (Debian package ipmitool)");
    let text = text(&output);
    assert_contains(
        &text,
        &[
            "Chassis Power is off",
            "Using best available cipher suite 17",
        ],
    );
}

#[test]
fn a_server_that_is_off_cannot_be_cycled() {
    let text = bmc().refused(17, &ADMIN, &["chassis", "power", "cycle"]);
    assert_contains(&text, &["not supported in present state"]);
}

#[test]
fn chassis_status_policy_identify_and_hours_are_told() {
    let bmc = bmc();
    bmc.ask(&["chassis", "power", "on"]);
    bmc.ask(&["chassis", "policy", "always-on"]);
    bmc.ask(&["chassis", "identify", "force"]);
    let status = bmc.ask(&["chassis", "status"]);
    assert_contains(
        &status,
        &[
            "System Power         : on",
            "Power Restore Policy : always-on",
            "Last Power Event     : command",
        ],
    );
    assert_contains(
        &bmc.ask(&["chassis", "policy", "list"]),
        &["always-off", "always-on", "previous"],
    );
    assert_contains(&bmc.ask(&["chassis", "poh"]), &["POH Counter"]);
    assert_contains(
        &bmc.ask(&["chassis", "restart_cause"]),
        &["chassis power control command"],
    );
    assert_contains(
        &bmc.ask(&["chassis", "selftest"]),
        &["Self Test Results    : passed"],
    );
}

#[test]
fn boot_devices_are_set_and_read_back() {
    let bmc = bmc();
    let table = [
        (
            vec!["pxe"],
            BootFlags {
                uefi: false,
                ..BootFlags::once(BootDevice::Pxe)
            },
            "Force PXE",
        ),
        (
            vec!["disk", "options=efiboot"],
            BootFlags::once(BootDevice::Disk),
            "Force Boot from default Hard-Drive",
        ),
        (
            vec!["cdrom", "options=efiboot,persistent"],
            BootFlags::persistent(BootDevice::Cdrom),
            "Force Boot from CD/DVD",
        ),
        (
            vec!["bios"],
            BootFlags {
                uefi: false,
                ..BootFlags::once(BootDevice::BiosSetup)
            },
            "Force Boot into BIOS Setup",
        ),
    ];
    for (words, flags, told) in table {
        bmc.ask(&[&["chassis", "bootdev"], &words[..]].concat());
        assert_eq!(bmc.boot_flags(), flags, "{words:?}");
        let text = bmc.ask(&["chassis", "bootparam", "get", "5"]);
        assert_contains(&text, &["Boot Flag Valid", told]);
        let (persistent, uefi) = (flags.persistent, flags.uefi);
        assert_eq!(
            text.contains("Options apply to all future boots"),
            persistent,
            "{text}"
        );
        assert_eq!(text.contains("BIOS EFI boot"), uefi, "{text}");
    }
}

#[test]
fn ironics_raw_commands_work() {
    let bmc = bmc();
    bmc.ask(&["raw", "0x00", "0x08", "0x03", "0x08"]);
    assert_contains(
        &bmc.ask(&["raw", "0x00", "0x09", "0x03", "0x00", "0x00"]),
        &["01 03 08"],
    );
    bmc.ask(&[
        "raw", "0x00", "0x08", "0x05", "0xe0", "0x04", "0x00", "0x00", "0x00",
    ]);
    assert_eq!(bmc.boot_flags(), BootFlags::persistent(BootDevice::Pxe));
    bmc.ask(&[
        "raw", "0x00", "0x08", "0x05", "0xa0", "0x14", "0x00", "0x00", "0x00",
    ]);
    assert_eq!(bmc.boot_flags(), BootFlags::once(BootDevice::Cdrom));
}

#[test]
fn the_controller_describes_itself() {
    let bmc = bmc();
    let info = bmc.ask(&["mc", "info"]);
    assert_contains(
        &info,
        &[
            "IPMI Version              : 2.0",
            "Firmware Revision         : 1.00",
            "Chassis Device",
        ],
    );
    bmc.ask(&["mc", "guid"]);
    let lan = bmc.ask(&["lan", "print"]);
    assert_contains(
        &lan,
        &[
            "192.0.2.10",
            "255.255.255.0",
            "52:54:00:aa:bb:cc",
            "192.0.2.1",
            "17,3",
        ],
    );
    assert_contains(
        &bmc.ask(&["user", "list", "1"]),
        &["admin", "ADMINISTRATOR", "viewer", "USER"],
    );
    assert_contains(
        &bmc.ask(&["channel", "info", "1"]),
        &["802.3 LAN", "multi-session"],
    );
    assert_contains(
        &bmc.ask(&["channel", "getciphers", "ipmi", "1"]),
        &["hmac_sha256", "sha256_128", "aes_cbc_128"],
    );
    assert_contains(
        &bmc.ask(&["session", "info", "active"]),
        &["127.0.0.1", "ADMINISTRATOR"],
    );
    assert_contains(
        &bmc.ask(&["sol", "info", "1"]),
        &["Enabled                         : true", "115.2"],
    );
}

#[test]
fn sensors_log_and_inventory_can_be_listed() {
    let bmc = bmc();
    assert_contains(
        &bmc.ask(&["sdr", "list"]),
        &["Inlet Temp", "22 degrees C", "CPU Temp", "no reading"],
    );
    bmc.ask(&["chassis", "power", "on"]);
    assert_eq!(bmc.control(), Control::PowerOn);
    assert_contains(
        &bmc.ask(&["sdr", "list"]),
        &["40 degrees C", "6000 RPM", "120 Watts"],
    );
    assert_contains(
        &bmc.ask(&["sensor"]),
        &[
            "Inlet Temp",
            "22.000",
            "42.000",
            "47.000",
            "Fan 1",
            "6000.000",
        ],
    );
    assert_contains(
        &bmc.ask(&["sel", "list"]),
        &["System ACPI Power State", "S0/G0: working"],
    );
    assert_contains(&bmc.ask(&["sel", "info"]), &["Entries          : 1"]);
    assert_contains(&bmc.ask(&["sel", "time", "get"]), &["11/14/23"]);
    bmc.ask(&["sel", "clear"]);
    assert_contains(&bmc.ask(&["sel", "list"]), &["SEL has no entries"]);
    let fru = bmc.ask(&["fru"]);
    assert_contains(
        &fru,
        &[
            "Product Serial        : SN-0042",
            "Product Asset Tag     : rack 7",
            "Board Mfg             : Plinth",
        ],
    );
    assert!(!fru.to_lowercase().contains("checksum"), "{fru}");
}

#[test]
fn a_wrong_password_name_or_cipher_suite_fails_and_says_so() {
    let bmc = bmc();
    let status: &[&str] = &["chassis", "power", "status"];
    for suite in ["3", "17"] {
        let suite = suite.parse().unwrap();
        let text = bmc.refused(suite, &["-U", "admin", "-P", "wrong", "-v"], status);
        assert_contains(&text, &["HMAC is invalid"]);
        let text = bmc.refused(suite, &["-U", "nobody", "-P", "s3cret", "-v"], status);
        assert_contains(&text, &["unauthorized name"]);
    }
    let text = bmc.refused(0, &["-U", "admin", "-P", "s3cret", "-v"], status);
    assert_contains(&text, &["invalid authentication algorithm"]);
    let old = bmc_with_suites(&[Suite::Three]);
    assert_contains(
        &old.refused(17, &[&ADMIN[..], &["-v"]].concat(), status),
        &["invalid authentication algorithm"],
    );
    old.ask_with(3, status);
}

#[test]
fn a_user_may_look_but_not_switch() {
    let bmc = bmc();
    let status = bmc.output(17, &VIEWER, &["chassis", "power", "status"]);
    assert_contains(&text(&status), &["Chassis Power is off"]);
    let refused = bmc.refused(17, &VIEWER, &["chassis", "power", "on"]);
    assert_contains(&refused, &["Insufficient privilege level"]);
    let too_high = bmc.refused(
        17,
        &["-U", "viewer", "-P", "look", "-v"],
        &["chassis", "power", "status"],
    );
    assert_contains(&too_high, &["unauthorized role requested"]);
}

#[test]
fn freeipmi_switches_and_reads_as_well() {
    let directory = tempfile::tempdir().unwrap();
    let cache = format!("--sdr-cache-directory={}", directory.path().display());
    for suite in ["3", "17"] {
        let bmc = bmc();
        let host = format!("127.0.0.1:{}", bmc.port);
        let ask = |program: &str, arguments: &[&str]| {
            let output = Command::new(program)
                .args(["-h", &host, "-u", "admin", "-p", "s3cret", "-l", "ADMIN"])
                .args(["-D", "LAN_2_0", "-I", suite])
                .args(arguments)
                .output()
                .expect("FreeIPMI must be installed (Debian package freeipmi-tools)");
            let text = text(&output);
            assert!(output.status.success(), "{program} {arguments:?}: {text}");
            text
        };
        assert_contains(&ask("ipmipower", &["--stat"]), &["127.0.0.1: off"]);
        assert_contains(&ask("ipmipower", &["--on"]), &["127.0.0.1: ok"]);
        assert_eq!(bmc.control(), Control::PowerOn);
        assert_contains(&ask("ipmipower", &["--stat"]), &["127.0.0.1: on"]);
        assert_contains(&ask("bmc-info", &[]), &["IPMI Version          : 2.0"]);
        assert_contains(
            &ask("ipmi-sensors", &[&cache]),
            &["Inlet Temp", "22.00", "6000.00"],
        );
        assert_contains(&ask("ipmi-sel", &[&cache]), &["System ACPI Power State"]);
        assert_contains(
            &ask("ipmi-fru", &[&cache]),
            &["FRU Product Serial Number: SN-0042"],
        );
    }
}

#[test]
fn commands_that_do_not_exist_are_invalid() {
    assert_contains(
        &bmc().refused(17, &ADMIN, &["raw", "0x06", "0xee"]),
        &["rsp=0xc1"],
    );
}

#[test]
fn the_serial_console_shows_output_takes_input_and_is_left_by_its_user() {
    for suite in [3, 17] {
        let bmc = bmc();
        let mut terminal = Terminal::open(&bmc, suite);
        // More than fits into one packet, so that acknowledgements must flow.
        let long = format!("{}login: ", "=".repeat(1500));
        bmc.orders
            .send(Event::ConsoleOutput(long.clone().into_bytes()))
            .unwrap();
        terminal.shows(&long);
        terminal.types("root\r");
        let mut typed = Vec::new();
        while typed != b"root\r" {
            typed.extend(bmc.wait_for("typed characters", |action| {
                if let Action::ConsoleInput(bytes) = action {
                    Some(bytes.clone())
                } else {
                    None
                }
            }));
            assert!(b"root\r".starts_with(&typed), "{typed:?}");
        }
        terminal.types("~B");
        bmc.wait_for("a break", |action| {
            matches!(action, Action::ConsoleBreak).then_some(())
        });
        terminal.types("\r~.");
        terminal.shows("terminated ipmitool");
        bmc.wait_for("the end of SOL", |action| {
            matches!(action, Action::SolDeactivated).then_some(())
        });
    }
}

#[test]
fn one_console_has_the_serial_port_until_another_takes_it_away() {
    let bmc = bmc();
    let mut terminal = Terminal::open(&bmc, 17);
    assert_contains(
        &bmc.refused(17, &ADMIN, &["sol", "activate"]),
        &["already active"],
    );
    bmc.ask(&["sol", "deactivate"]);
    bmc.wait_for("the end of SOL", |action| {
        matches!(action, Action::SolDeactivated).then_some(())
    });
    // ipmitool pays no heed to the BMC's farewell; it notices when nobody takes its characters.
    terminal.types("x");
    terminal.shows("SOL session closed by BMC");
}

/// `ipmitool sol activate` in a terminal, which it insists on.
struct Terminal {
    child: Child,
    keys: ChildStdin,
    screen: Receiver<Vec<u8>>,
    shown: String,
    reader: Option<JoinHandle<()>>,
}

impl Terminal {
    fn open(bmc: &Shell, suite: u8) -> Self {
        let console = bmc.ipmitool(suite, &ADMIN, &["sol", "activate"]);
        let words = std::iter::once(console.get_program()).chain(console.get_args());
        let line: Vec<String> = words
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let mut child = Command::new("script")
            .args(["-qefc", &line.join(" "), "/dev/null"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script must be installed (Debian package bsdutils)");
        let mut output = child.stdout.take().unwrap();
        let keys = child.stdin.take().unwrap();
        let (pieces, screen) = mpsc::channel();
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = output.read(&mut buffer) {
                if pieces.send(buffer[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        let mut terminal = Self {
            child,
            keys,
            screen,
            shown: String::new(),
            reader: Some(reader),
        };
        bmc.wait_for("SOL", |action| {
            matches!(action, Action::SolActivated { .. }).then_some(())
        });
        terminal.shows("SOL Session operational");
        terminal
    }

    fn types(&mut self, text: &str) {
        self.keys.write_all(text.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    fn shows(&mut self, what: &str) {
        let deadline = Instant::now() + DEADLINE;
        while !self.shown.contains(what) {
            match self
                .screen
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            {
                Ok(piece) => self.shown.push_str(&String::from_utf8_lossy(&piece)),
                Err(error) => panic!("{what:?} never shown ({error}); the screen: {}", self.shown),
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A test that passed has seen ipmitool leave by itself.
        if std::thread::panicking() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}
