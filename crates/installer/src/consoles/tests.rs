//! Recorders against our own BMC on loopback.

use std::net::SocketAddr;

use model::Secret;
use plan::install_config::Facts;
use protocols::ipmi::bmc::{Action, Bmc, Config, Event, Start, User};
use tokio::net::UdpSocket;

use super::*;
use crate::Dir;

const DEADLINE: Duration = Duration::from_secs(20);

/// A BMC whose server prints what it is told to; it ends with the test.
struct Server {
    address: SocketAddr,
    prints: mpsc::Sender<Vec<u8>>,
    /// True when somebody takes the console, false when it is given back.
    taken: mpsc::Receiver<bool>,
    _task: JoinSet<()>,
}

impl Server {
    async fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let user = User {
            name: "admin".into(),
            password: Secret::new("s3cret".into()),
            privilege: Privilege::Administrator,
        };
        let start = Start {
            now: std::time::Instant::now(),
            unix_seconds: 0,
            seed: Secret::new([1; 32]),
        };
        let bmc = Bmc::new(Config::new(vec![user], [7; 16]), start);
        let (prints, printed) = mpsc::channel(16);
        let (tell, taken) = mpsc::channel(16);
        let mut task = JoinSet::new();
        task.spawn(serve(socket, bmc, printed, tell));
        Self {
            address,
            prints,
            taken,
            _task: task,
        }
    }

    async fn prints(&self, text: &str) {
        self.prints.send(text.into()).await.unwrap();
    }

    async fn is_taken(&mut self) -> bool {
        let taken = timeout(DEADLINE, self.taken.recv()).await;
        taken.expect("in time").expect("the BMC runs")
    }

    fn host(&self) -> Host {
        let mut host = host();
        host.bmc = format!("ipmi://{}", self.address).parse().unwrap();
        host.username = "admin".into();
        host.password = Secret::new("s3cret".into());
        host
    }
}

/// A master of an example.
fn host() -> Host {
    let dir = tempfile::tempdir().unwrap();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/pxe.yaml");
    std::fs::copy(example, dir.path().join("install-config.yaml")).unwrap();
    let (config, _) = Dir::new(dir.path()).config(&Facts::default()).unwrap();
    let mut hosts = config.baremetal.hosts.into_iter();
    hosts.find(is_control_plane).unwrap()
}

async fn serve(
    socket: UdpSocket,
    mut bmc: Bmc,
    mut printed: mpsc::Receiver<Vec<u8>>,
    tell: mpsc::Sender<bool>,
) {
    let mut buffer = [0; 2048];
    loop {
        let wake_at = bmc.wake_at().map(Instant::from_std);
        let wake_at = wake_at.unwrap_or_else(|| Instant::now() + DEADLINE);
        let event = tokio::select! {
            read = socket.recv_from(&mut buffer) => match read {
                Ok((length, from)) => Event::Datagram { from, bytes: buffer[..length].to_vec() },
                Err(_) => continue,
            },
            Some(text) = printed.recv() => Event::ConsoleOutput(text),
            () = tokio::time::sleep_until(wake_at) => Event::Timer,
        };
        for action in bmc.handle(std::time::Instant::now(), event) {
            if let Action::Send { to, bytes } = action {
                _ = socket.send_to(&bytes, to).await;
            } else if let Action::SolActivated { .. } = action {
                _ = tell.send(true).await;
            } else if let Action::SolDeactivated = action {
                _ = tell.send(false).await;
            }
        }
    }
}

/// Waits until the file has this.
async fn shows(path: &Path, wanted: &str) {
    let seen = || std::fs::read_to_string(path).unwrap_or_default();
    let looks = async {
        while !seen().contains(wanted) {
            sleep(Duration::from_millis(10)).await;
        }
    };
    let looked = timeout(DEADLINE, looks).await;
    assert!(looked.is_ok(), "{wanted:?} is not in {:?}", seen());
}

async fn note(recorders: &mut Recorders) -> String {
    let note = timeout(DEADLINE, recorders.notes.recv()).await;
    note.expect("in time").expect("a note")
}

#[tokio::test]
async fn a_console_is_written_down_and_given_back_at_the_end() {
    let mut server = Server::start().await;
    let host = server.host();
    let dir = tempfile::tempdir().unwrap();
    let mut recorders = Recorders::spawn(dir.path(), std::slice::from_ref(&host));
    assert!(server.is_taken().await);
    let path = dir.path().join(format!("consoles/{}.log", host.name));
    server.prints("Booting os.raw\r\n").await;
    shows(&path, "Booting os.raw\r\n").await;
    assert_eq!(recorders.notes(), Vec::<String>::new());
    recorders.stop().await;
    assert!(!server.is_taken().await, "given back");
}

#[tokio::test]
async fn workers_are_not_recorded() {
    let server = Server::start().await;
    let host = Host {
        role: Some(Role::Worker),
        ..server.host()
    };
    let dir = tempfile::tempdir().unwrap();
    let recorders = Recorders::spawn(dir.path(), &[host]);
    assert!(recorders.tasks.is_empty());
}

#[tokio::test]
async fn a_console_that_was_taken_away_is_had_again_later() {
    let mut server = Server::start().await;
    let host = server.host();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.log");
    let (notes, mut told) = mpsc::channel(NOTES);
    let recorder = Recorder {
        host: host.clone(),
        path: path.clone(),
        notes,
        patience: Patience::new(Duration::from_millis(10)),
    };
    let (stop, stopped) = watch::channel(());
    let task = tokio::spawn(recorder.run(stopped));
    assert!(server.is_taken().await);
    let thief = Sol::open(config(&host), Owner::GivesWay).await.unwrap();
    let note = timeout(DEADLINE, told.recv()).await.unwrap().unwrap();
    assert!(note.contains("somebody else took the console"), "{note}");
    shows(&path, "recording ends").await;
    thief.close().await;
    for (taken, why) in [
        (false, "from the recorder"),
        (true, "by the thief"),
        (false, "given back by the thief"),
        (true, "by the recorder"),
    ] {
        assert_eq!(server.is_taken().await, taken, "{why}");
    }
    server.prints("later").await;
    shows(&path, "later").await;
    drop(stop);
    timeout(DEADLINE, task).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_console_that_cannot_be_had_is_told_once_with_what_to_do() {
    let server = Server::start().await;
    let owner = Sol::open(config(&server.host()), Owner::Stays)
        .await
        .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut in_use = Recorders::spawn(dir.path(), &[server.host()]);
    let told = note(&mut in_use).await;
    let name = server.host().name;
    let begins = format!("{name}: its serial console is not recorded: ");
    assert!(told.starts_with(&begins), "{told}");
    let ends = "somebody else has the console; it is tried again";
    assert!(told.ends_with(ends), "{told}");
    owner.close().await;

    let wrong = Host {
        password: Secret::new("guess".into()),
        ..server.host()
    };
    let mut wrong = Recorders::spawn(dir.path(), &[wrong]);
    let told = note(&mut wrong).await;
    assert!(told.contains("another password"), "{told}");
    let ended = timeout(DEADLINE, wrong.tasks.join_next()).await;
    assert!(ended.is_ok(), "a wrong password is not tried again");
    assert!(!dir.path().join("consoles").exists());
}

#[test]
fn a_bmc_that_speaks_redfish_is_asked_by_ipmi_at_the_same_address() {
    let table = [
        ("ipmi://192.0.2.7", "192.0.2.7:623"),
        ("ipmi://192.0.2.7:6230", "192.0.2.7:6230"),
        ("redfish://192.0.2.7:8443/redfish/v1/Systems/1", "192.0.2.7"),
        (
            "redfish-virtualmedia://[2001:db8::7]/redfish/v1/Systems/1",
            "2001:db8::7",
        ),
    ];
    let mut host = host();
    for (written, asked) in table {
        host.bmc = written.parse().unwrap();
        assert_eq!(config(&host).address, asked, "{written}");
    }
}

#[test]
fn whatever_is_wrong_comes_with_what_to_do() {
    use clients::ipmi::Ended;
    use protocols::ipmi::console::Error as Talk;
    let silent = Talk::Silent { step: "log in" };
    let table = [
        (
            "redfish://192.0.2.7/redfish/v1/Systems/1",
            Ended::Talk(silent.clone()),
            "no IPMI",
        ),
        ("ipmi://192.0.2.7", Ended::Talk(silent), "address"),
        ("ipmi://192.0.2.7", Ended::Talk(Talk::Password), "password"),
        ("ipmi://192.0.2.7", Ended::InUse, "--steal"),
        (
            "ipmi://192.0.2.7",
            Ended::Disabled,
            "switch on Serial over LAN",
        ),
    ];
    let mut host = host();
    for (address, source, wanted) in table {
        host.bmc = address.parse().unwrap();
        let bmc = "192.0.2.7".into();
        let error = ipmi::Error::Console { bmc, source };
        let advice = advice(&host, &error);
        assert!(advice.contains(wanted), "{error:?}: {advice}");
    }
}
