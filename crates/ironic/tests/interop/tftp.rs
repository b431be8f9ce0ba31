//! Files over TFTP by the clients of others: tftp-hpa, atftp, curl.

use std::path::Path;
use std::process::{Command, Output};

use ironic::boot::shelf::Shelf;
use ironic::boot::tftp;
use protocols::tftp::server::Limits;
use tokio::net::UdpSocket;

/// A server on a port of its own, with a runtime that ends with it.
struct Server {
    _runtime: tokio::runtime::Runtime,
    port: String,
}

fn serve(root: &Path) -> Server {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let socket = runtime.block_on(UdpSocket::bind("127.0.0.1:0")).unwrap();
    let port = socket.local_addr().unwrap().port().to_string();
    runtime.spawn(tftp::serve(
        socket,
        Shelf::new(root.to_path_buf()),
        Limits::default(),
    ));
    Server {
        _runtime: runtime,
        port,
    }
}

fn run(package: &str, command: &mut Command) -> Output {
    let shown = format!("{command:?}");
    command
        .output()
        .unwrap_or_else(|error| panic!("{shown}: {error}; install the Debian package {package}"))
}

fn content(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 31 % 253) as u8).collect()
}

#[test]
fn tftp_clients_of_others_get_the_file_whole() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let server = serve(dir.path());
    let port = server.port.as_str();
    // Nothing, less than a block, an exact number of blocks, and more than 65535 blocks of 512 bytes.
    let wraps = 34 << 20;
    for length in [0, 100, 512 * 4, 1468 * 7, wraps] {
        std::fs::write(dir.path().join("file"), content(length)).unwrap();
        let url = format!("tftp://127.0.0.1:{port}/file");
        let local = out.to_str().unwrap();
        let commands = [
            (
                "tftp-hpa",
                vec![
                    "tftp",
                    "-m",
                    "binary",
                    "127.0.0.1",
                    port,
                    "-c",
                    "get",
                    "file",
                    local,
                ],
            ),
            (
                "atftp",
                vec![
                    "atftp",
                    "--get",
                    "-r",
                    "file",
                    "-l",
                    local,
                    "127.0.0.1",
                    port,
                ],
            ),
            (
                "atftp",
                vec![
                    "atftp",
                    "--option",
                    "blksize 1428",
                    "--option",
                    "windowsize 16",
                    "--get",
                    "-r",
                    "file",
                    "-l",
                    local,
                    "127.0.0.1",
                    port,
                ],
            ),
            (
                "curl",
                vec!["curl", "-s", "--tftp-blksize", "1468", "-o", local, &url],
            ),
            (
                "curl",
                vec!["curl", "-s", "--tftp-no-options", "-o", local, &url],
            ),
        ];
        for (package, words) in commands {
            // Only blocks of 512 bytes wrap.
            if length == wraps && words.iter().any(|word| word.contains("blksize")) {
                continue;
            }
            _ = std::fs::remove_file(&out);
            let output = run(package, Command::new(words[0]).args(&words[1..]));
            let got = std::fs::read(&out).unwrap_or_default();
            assert!(
                got == content(length),
                "{words:?}: {} bytes of {length}; {output:?}",
                got.len()
            );
        }
    }
}

#[test]
fn a_missing_file_a_way_out_and_a_write_are_refused_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "x").unwrap();
    let server = serve(dir.path());
    let url = |name: &str| format!("tftp://127.0.0.1:{}/{name}", server.port);
    // curl's exit codes: 68 not found, 69 access violation.
    for (name, code) in [("nothing", 68), ("%2e%2e/%2e%2e/etc/passwd", 69)] {
        let output = run(
            "curl",
            Command::new("curl").args(["-s", "--path-as-is", &url(name)]),
        );
        assert_eq!(output.status.code(), Some(code), "{name}: {output:?}");
    }
    let file = dir.path().join("file");
    let output = run(
        "curl",
        Command::new("curl")
            .arg("-s")
            .arg("-T")
            .arg(&file)
            .arg(url("new")),
    );
    assert_eq!(output.status.code(), Some(69), "{output:?}");
    assert!(!dir.path().join("new").exists());
}
