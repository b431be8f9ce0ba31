//! A stranger's Redfish: OpenStack's sushy-tools with its fake driver, behind a password. It has no sessions, no
//! ETags, and takes its time.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use clients::redfish::{BootDevice, Client, Config, Error, Limits};
use clients::{BootMode, Lasting, Power};
use model::Secret;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::lab_redfish::image_server;
use crate::python;

struct Emulator {
    _dir: tempfile::TempDir,
    url: String,
    child: Child,
}

const UUID: &str = "27946b59-9e44-4fa7-8e91-f3527a1ef094";
const DEADLINE: Duration = Duration::from_mins(1);

async fn emulator() -> Emulator {
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
        child,
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

impl Emulator {
    fn client(&self, password: &str) -> Client {
        let mut config = Config::new(&self.url, "admin", Secret::new(password.into())).unwrap();
        config.limits = Limits {
            tries: 3,
            pause: Duration::from_millis(50),
            poll: Duration::from_millis(100),
            ..Limits::default()
        };
        Client::new(config).unwrap()
    }
}

#[tokio::test]
async fn sushy_tools_is_driven_as_any_other_bmc() {
    let mut emulator = emulator().await;
    let client = emulator.client("s3cret");
    let system = client.system().await.unwrap();
    assert_eq!(system.uuid.as_deref(), Some(UUID));

    client.set_power(Power::On).await.unwrap();
    assert_eq!(client.power().await.unwrap(), Some(Power::On));
    client.set_power(Power::Off).await.unwrap();

    // It knows no `Once`, and says Continuous whatever it was told.
    for device in [BootDevice::Pxe, BootDevice::Cdrom, BootDevice::Disk] {
        client
            .set_boot_device(&device, Lasting::Continuous)
            .await
            .unwrap();
        assert_eq!(client.boot_device().await.unwrap().device(), Some(device));
    }
    client.set_boot_mode(BootMode::Bios).await.unwrap();
    assert_eq!(client.boot_mode().await.unwrap(), Some(BootMode::Bios));
    client.set_boot_mode(BootMode::Uefi).await.unwrap();

    let image = image_server().await;
    let slot = client.insert_cd(&image).await.unwrap();
    assert!(slot.inserted, "{slot:?}");
    client.eject_cds().await.unwrap();
    assert!(
        client
            .virtual_media()
            .await
            .unwrap()
            .iter()
            .all(|slot| !slot.inserted)
    );

    client.set_secure_boot(true).await.unwrap();
    assert!(client.secure_boot().await.unwrap().unwrap().enabled);

    let inventory = client.inventory().await.unwrap();
    assert_eq!(
        inventory.interfaces[0].mac_address.to_string(),
        "00:5c:52:31:3a:9c"
    );
    client.firmware().await.unwrap();
    client.close().await;
    emulator.child.kill().await.unwrap();
}

#[tokio::test]
async fn sushy_tools_refuses_a_wrong_password_and_we_say_so() {
    let emulator = emulator().await;
    let error = emulator.client("guess").power().await.unwrap_err();
    assert!(matches!(error, Error::Login { .. }), "{error}");
}
