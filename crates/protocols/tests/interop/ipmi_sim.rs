//! Our console against `ipmi_sim`: a stranger's BMC, which knows cipher suite 3 but not 17.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    reason = "a shell for the test: it owns socket, clock and files"
)]

use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use model::Secret;
use protocols::ipmi::chassis::{BootDevice, BootFlags, Control, PowerState};
use protocols::ipmi::console::{Action, Answer, Config, Console, Error, Event, Request};
use tempfile::TempDir;

const DEADLINE: Duration = Duration::from_secs(20);

/// `ipmi_sim` on a loopback port, its chassis two files in a directory; stopped when dropped.
struct Simulator {
    port: u16,
    child: Child,
    directory: TempDir,
}

fn simulator() -> Simulator {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    // A free port: bound and let go, as the simulator cannot be handed a socket.
    let port = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let here = place.display();
    let chassis = format!(
        "#!/bin/sh\n\
         [ \"$2\" = set ] && echo \"$4\" > \"{here}/$3\"\n\
         [ \"$2\" = get ] && echo \"$3:$(cat \"{here}/$3\" 2>/dev/null || echo 0)\"\n\
         exit 0\n"
    );
    write(&place.join("chassis"), &chassis, 0o755);
    let lan = format!(
        "name \"sim\"\n\
         set_working_mc 0x20\n\
         startlan 1\n\
         addr 127.0.0.1 {port}\n\
         priv_limit admin\n\
         allowed_auths_admin none md2 md5 straight\n\
         guid a123456789abcdefa123456789abcdef\n\
         endlan\n\
         user 2 true \"admin\" \"s3cret\" admin 10\n\
         user 3 true \"viewer\" \"look\" user 10\n\
         chassis_control \"{here}/chassis 0x20\"\n"
    );
    write(&place.join("lan.conf"), &lan, 0o644);
    let emulation = "mc_setbmc 0x20\n\
         mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02\n\
         mc_enable 0x20\n";
    write(&place.join("emu"), emulation, 0o644);
    let child = Command::new("ipmi_sim")
        .args(["-c", "lan.conf", "-f", "emu", "-s", ".", "-n"])
        .current_dir(place)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("ipmi_sim must be installed (Debian package openipmi)");
    Simulator {
        port,
        child,
        directory,
    }
}

fn write(path: &Path, text: &str, mode: u32) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

impl Drop for Simulator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A console with a socket.
struct Caller {
    console: Console,
    socket: UdpSocket,
}

impl Simulator {
    fn console(&self, username: &str, password: &str) -> Caller {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(("127.0.0.1", self.port)).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(20)))
            .unwrap();
        let mut config = Config::new(username.into(), Secret::new(password.into()));
        config.attempts = 7;
        config.patience = Duration::from_millis(100);
        Caller {
            console: Console::new(config, Secret::new([3; 32])),
            socket,
        }
    }
}

impl Caller {
    fn ask(&mut self, request: Request) -> Result<Answer, Error> {
        let deadline = Instant::now() + DEADLINE;
        let mut buffer = [0; 2048];
        let mut event = Some(Event::Run { id: 1, request });
        while Instant::now() < deadline {
            if let Some(event) = event.take() {
                for action in self.console.handle(Instant::now(), event) {
                    match action {
                        // Refused while the simulator is not up yet: the console asks again.
                        Action::Send(bytes) => drop(self.socket.send(&bytes)),
                        Action::Answered { answer, .. } => return Ok(answer),
                        Action::Failed { error, .. } => return Err(error),
                    }
                }
            }
            event = match self.socket.recv(&mut buffer) {
                Ok(length) => Some(Event::Datagram(buffer[..length].to_vec())),
                Err(_) => self
                    .console
                    .wake_at()
                    .filter(|at| *at <= Instant::now())
                    .map(|_| Event::Timer),
            };
        }
        panic!("no answer within {DEADLINE:?}: {:?}", self.console);
    }
}

#[test]
fn our_console_drives_a_strangers_bmc_with_the_suite_it_knows() {
    let simulator = simulator();
    let mut console = simulator.console("admin", "s3cret");
    let mut power = || {
        console
            .ask(Request::get_chassis_status())
            .unwrap()
            .power()
            .unwrap()
    };
    assert_eq!(power(), PowerState::Off);
    console
        .ask(Request::chassis_control(Control::PowerOn))
        .unwrap()
        .ok()
        .unwrap();
    let mut power = || {
        console
            .ask(Request::get_chassis_status())
            .unwrap()
            .power()
            .unwrap()
    };
    assert_eq!(power(), PowerState::On);
    let flags = BootFlags::persistent(BootDevice::Pxe);
    console
        .ask(Request::set_boot_flags(flags))
        .unwrap()
        .ok()
        .unwrap();
    let read = console
        .ask(Request::get_boot_flags())
        .unwrap()
        .boot_flags()
        .unwrap();
    assert_eq!(read.device, BootDevice::Pxe);
    let written = std::fs::read_to_string(simulator.directory.path().join("boot")).unwrap();
    assert_eq!(written.trim(), "pxe");
    console.console.handle(Instant::now(), Event::Close);
}

#[test]
fn a_stranger_refuses_wrong_logins_and_we_say_why() {
    let simulator = simulator();
    let mut wrong = simulator.console("admin", "guess");
    assert_eq!(wrong.ask(Request::get_device_id()), Err(Error::Password));
    let mut nobody = simulator.console("nobody", "s3cret");
    let error = nobody.ask(Request::get_device_id()).unwrap_err();
    assert!(
        error.to_string().starts_with("log in: the BMC refuses: "),
        "{error}"
    );
}
