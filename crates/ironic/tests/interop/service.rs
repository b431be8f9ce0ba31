//! The service as a process of its own, so that it can be killed.

use std::io::Read as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

pub const CONFIG: &str = "PLINTH_TEST_IRONIC_CONFIG";

/// Not a test: what the process started by [`Service::start`] runs. Called as a test it has nothing to do.
#[test]
fn process() {
    let Some(config) = std::env::var_os(CONFIG) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime
        .block_on(ironic::server::run(&PathBuf::from(config)))
        .unwrap();
}

pub struct Service {
    pub address: SocketAddr,
    /// With the state file, which outlives the process.
    dir: tempfile::TempDir,
    child: Child,
}

impl Service {
    /// Starts with settings added to address and state.
    pub fn start(settings: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        // Freed for the service to take; nobody else on the loopback asks for it meanwhile.
        let address = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let state = dir.path().join("ironic.redb");
        let config = format!("listen: {address}\nstate: {}\n{settings}", state.display());
        std::fs::write(dir.path().join("ironic.yaml"), config).unwrap();
        let child = spawn(dir.path().join("ironic.yaml"));
        let mut service = Self {
            address,
            dir,
            child,
        };
        service.wait_until_it_answers();
        service
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// As a power cut would: no chance to put anything in order.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn restart(&mut self) {
        self.child = spawn(self.dir.path().join("ironic.yaml"));
        self.wait_until_it_answers();
    }

    /// SIGTERM; true if it ended well and soon.
    pub fn ends_gracefully(&mut self) -> bool {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM).unwrap();
        let deadline = Instant::now() + Duration::from_secs(15);
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.success();
            }
            if Instant::now() > deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn wait_until_it_answers(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(self.address).is_err() {
            if let Some(status) = self.child.try_wait().unwrap() {
                let mut log = String::new();
                self.child
                    .stdout
                    .take()
                    .unwrap()
                    .read_to_string(&mut log)
                    .unwrap();
                panic!("the service ended with {status}: {log}");
            }
            assert!(
                Instant::now() < deadline,
                "the service does not answer at {}",
                self.address
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn spawn(config: PathBuf) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "service::process", "--nocapture"])
        .env(CONFIG, config)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

impl Drop for Service {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
