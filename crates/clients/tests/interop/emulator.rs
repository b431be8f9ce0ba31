//! Foreign BMCs as processes on loopback: sushy-tools for Redfish, `ipmi_sim` for IPMI. Both end with the test.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use super::python;

/// sushy-tools with its fake driver, behind the password `s3cret` of `admin`.
pub struct Emulator {
    _dir: tempfile::TempDir,
    pub url: String,
    _child: Child,
}

pub const UUID: &str = "27946b59-9e44-4fa7-8e91-f3527a1ef094";
const DEADLINE: Duration = Duration::from_mins(1);

pub async fn emulator() -> Emulator {
    let python = tokio::task::spawn_blocking(python::interpreter)
        .await
        .unwrap();
    let dir = tempfile::tempdir().unwrap();
    configure(&python, dir.path()).await;
    // A free port: bound and let go, as the emulator cannot be handed a socket.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let mut child = Command::new(&python)
        .args(["-c", "from sushy_tools.emulator.main import main; main()"])
        .args([
            "--interface",
            "127.0.0.1",
            "--port",
            &port.to_string(),
            "--fake",
            "--config",
        ])
        .arg(dir.path().join("emulator.conf"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(dir.path().join("log")).unwrap())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let started = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        let ended = child.try_wait().unwrap();
        let log = || std::fs::read_to_string(dir.path().join("log")).unwrap_or_default();
        assert!(
            ended.is_none() && started.elapsed() < DEADLINE,
            "sushy-tools does not listen: {}",
            log()
        );
        sleep(Duration::from_millis(50)).await;
    }
    Emulator {
        _dir: dir,
        url: format!("http://127.0.0.1:{port}"),
        _child: child,
    }
}

async fn configure(python: &Path, dir: &Path) {
    let hash = "import bcrypt; print(bcrypt.hashpw(b's3cret', bcrypt.gensalt(4)).decode())";
    let output = Command::new(python)
        .args(["-c", hash])
        .output()
        .await
        .unwrap();
    assert!(
        output.status.success(),
        "bcrypt: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    std::fs::write(
        dir.join("users"),
        format!("admin:{}", String::from_utf8(output.stdout).unwrap()),
    )
    .unwrap();
    let here = dir.display();
    let config = format!(
        "SUSHY_EMULATOR_AUTH_FILE = '{here}/users'\n\
         SUSHY_EMULATOR_STATE_DIR = '{here}'\n\
         SUSHY_EMULATOR_FAKE_DRIVER = True\n\
         SUSHY_EMULATOR_FAKE_SYSTEMS = [{{'uuid': '{UUID}', 'name': 'fake', 'power_state': 'Off',\n\
         'external_notifier': False, 'nics': [{{'mac': '00:5c:52:31:3a:9c', 'ip': '172.22.0.100'}}]}}]\n"
    );
    std::fs::write(dir.join("emulator.conf"), config).unwrap();
}

/// `ipmi_sim` on a loopback port, its chassis two files in a directory; killed when dropped.
pub struct Simulator {
    pub address: String,
    pub directory: tempfile::TempDir,
    _child: Child,
}

pub fn simulator() -> Simulator {
    simulator_with("")
}

/// With more lines of configuration.
pub fn simulator_with(lines: &str) -> Simulator {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    // A free port: bound and let go, as the simulator cannot be handed a socket.
    let port = std::net::UdpSocket::bind("127.0.0.1:0")
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
        "name \"sim\"\nset_working_mc 0x20\nstartlan 1\naddr 127.0.0.1 {port}\npriv_limit admin\n\
         allowed_auths_admin none md2 md5 straight\nguid a123456789abcdefa123456789abcdef\nendlan\n\
         user 2 true \"admin\" \"s3cret\" admin 10\n\
         chassis_control \"{here}/chassis 0x20\"\n{lines}"
    );
    write(&place.join("lan.conf"), &lan, 0o644);
    let emulation =
        "mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02\nmc_enable 0x20\n";
    write(&place.join("emu"), emulation, 0o644);
    let child = Command::new("ipmi_sim")
        .args(["-c", "lan.conf", "-f", "emu", "-s", ".", "-n"])
        .current_dir(place)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("ipmi_sim must be installed (Debian package openipmi)");
    Simulator {
        address: format!("127.0.0.1:{port}"),
        directory,
        _child: child,
    }
}

fn write(path: &Path, text: &str, mode: u32) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}
