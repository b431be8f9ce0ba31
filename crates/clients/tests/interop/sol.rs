//! Serial over LAN: the lab's BMC, and `ipmi_sim` of OpenIPMI with a TCP connection for a serial port.

use std::time::Duration;

use clients::Power;
use clients::ipmi::{Client, Config, Ended, Error, Limits, Owner, Received, Sol};
use model::Secret;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UdpSocket};
use tokio::time::timeout;

use crate::bmc::{PASSWORD, USER, bmc};
use crate::emulator::simulator_with;

const DEADLINE: Duration = Duration::from_secs(20);

fn config(address: &str, user: &str, password: &str) -> Config {
    let mut config = Config::new(address, user, Secret::new(password.into()));
    config.limits = Limits {
        patience: Duration::from_millis(100),
        ..Limits::default()
    };
    config
}

/// Reads until the console has shown this.
async fn shows(sol: &mut Sol, wanted: &str) {
    let mut shown = String::new();
    let reads = async {
        while !shown.contains(wanted) {
            match sol.next().await {
                Ok(Received::Bytes(bytes)) => shown += &String::from_utf8_lossy(&bytes),
                Ok(Received::Notice(_)) => {}
                Err(error) => panic!("{}", model::chain(&error)),
            }
        }
    };
    let read = timeout(DEADLINE, reads).await;
    assert!(read.is_ok(), "{wanted:?} was not shown: {shown}");
}

#[tokio::test]
async fn the_labs_server_is_watched_and_its_console_has_one_owner() {
    let dir = tempfile::tempdir().unwrap();
    let bmc = bmc("generic", dir.path(), true);
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap().to_string();
    let served = tokio::spawn(lab::bmc::ipmi::serve(socket, bmc));
    let config = || config(&address, USER, PASSWORD);

    let mut first = Sol::open(config(), Owner::Stays).await.unwrap();
    let client = Client::new(config()).await.unwrap();
    client.set_power(Power::On).await.unwrap();
    client.inject_nmi().await.unwrap();
    shows(&mut first, "NMI").await;

    let error = Sol::open(config(), Owner::Stays).await.unwrap_err();
    let words = model::chain(&error);
    assert!(
        error.may_pass() && words.contains(&address) && words.contains("somebody else"),
        "{words}"
    );

    let mut second = Sol::open(config(), Owner::GivesWay).await.unwrap();
    let error = loop {
        match timeout(DEADLINE, first.next()).await.unwrap() {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    let taken = Ended::Deactivated;
    assert!(matches!(&error, Error::Console { source, .. } if *source == taken));
    client.inject_nmi().await.unwrap();
    shows(&mut second, "NMI").await;

    second.close().await;
    let third = Sol::open(config(), Owner::Stays).await.unwrap();
    third.close().await;
    client.close().await;
    served.abort();
}

#[tokio::test]
async fn a_wrong_password_and_a_bmc_without_ipmi_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let bmc = bmc("generic", dir.path(), true);
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap().to_string();
    let served = tokio::spawn(lab::bmc::ipmi::serve(socket, bmc));
    let wrong = Sol::open(config(&address, USER, "guess"), Owner::Stays).await;
    let error = wrong.unwrap_err();
    assert!(
        !error.may_pass() && model::chain(&error).contains("another password"),
        "{}",
        model::chain(&error)
    );
    served.abort();
    _ = served.await;
    let mut config = config(&address, USER, PASSWORD);
    config.limits.attempts = 2;
    config.limits.patience = Duration::from_millis(10);
    let error = Sol::open(config, Owner::Stays).await.unwrap_err();
    assert!(error.is_silence(), "{}", model::chain(&error));
}

#[tokio::test]
async fn ipmi_sim_shows_its_serial_port_and_takes_keys() {
    let serial = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = serial.local_addr().unwrap().port();
    let simulator = simulator_with(&format!("sol \"tcp:127.0.0.1:{port}\" 115200\n"));
    let config = config(&simulator.address, "admin", "s3cret");
    let mut sol = Sol::open(config, Owner::Stays).await.unwrap();
    let (mut line, _) = timeout(DEADLINE, serial.accept()).await.unwrap().unwrap();
    let lines: Vec<String> = (0..200).map(|at| format!("line {at}\r\n")).collect();
    let printed = lines.concat();
    line.write_all(printed.as_bytes()).await.unwrap();
    shows(&mut sol, &printed).await;

    assert!(sol.keys().send(b"root\r".to_vec()));
    let mut typed = [0; 5];
    let read = timeout(DEADLINE, line.read_exact(&mut typed)).await;
    read.unwrap().unwrap();
    assert_eq!(&typed, b"root\r");
    sol.close().await;
}
