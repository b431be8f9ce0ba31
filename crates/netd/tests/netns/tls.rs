//! Backends that speak TLS, as API servers do: the balancer looks at them over HTTPS and hands clients
//! through untouched.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use crate::rack::{Node, Rack, wait};

/// Far from what it takes, and far below what a client would wait; the benchmarks measure it.
const SOON: Duration = Duration::from_secs(3);

#[test]
fn backends_are_looked_at_over_https_and_clients_are_handed_through() {
    let rack = Rack::new(4);
    let (one, two) = (Server::new(&rack, 1), Server::new(&rack, 2));
    let folder = tempfile::tempdir().unwrap();
    let bundle = folder.path().join("ca.pem");
    // The node starts before the file is there.
    let node = rack.start(
        0,
        &config(&format!("ca: '{}', timeout_ms: 2000", bundle.display())),
    );
    wait("the backends are listed", || {
        health(&node) == ["unknown", "unknown"]
    });
    std::fs::write(&bundle, format!("{}{}", one.pem, two.pem)).unwrap();
    wait("both are up", || health(&node) == ["up", "up"]);
    wait("it listens", || node.status().lb[0].listening);
    let mut answers = asked(&rack, &bundle, 4);
    answers.sort();
    assert_eq!(answers, ["1", "1", "2", "2"]);

    one.kill();
    let killed = Instant::now();
    wait("the killed one is down", || health(&node) == ["down", "up"]);
    assert!(killed.elapsed() < SOON, "{:?}", killed.elapsed());
    assert_eq!(asked(&rack, &bundle, 4), ["2"; 4]);

    // The same address, with a certificate that nobody vouches for.
    let stranger = Server::new(&rack, 1);
    wait("the stranger was asked", || {
        stranger
            .handshakes
            .load(std::sync::atomic::Ordering::SeqCst)
            > 2
    });
    assert_eq!(health(&node), ["down", "up"]);
}

#[test]
fn an_unplugged_https_backend_is_ejected_soon() {
    let rack = Rack::new(4);
    let _servers = [Server::new(&rack, 1), Server::new(&rack, 2)];
    // Without an authority every certificate will do.
    let node = rack.start(0, &config("timeout_ms: 200, fall: 2"));
    wait("both are up", || health(&node) == ["up", "up"]);
    rack.set_cable(2, false);
    let pulled = Instant::now();
    wait("the unplugged one is down", || {
        health(&node) == ["up", "down"]
    });
    assert!(pulled.elapsed() < SOON, "{:?}", pulled.elapsed());
    rack.set_cable(2, true);
    wait("it comes back", || health(&node) == ["up", "up"]);
}

fn config(check: &str) -> String {
    format!(
        "real_time: false
lb:
  - name: api
    listen: ['192.0.2.10:6443']
    backends: [{{name: one, address: '192.0.2.11:6443'}}, {{name: two, address: '192.0.2.12:6443'}}]
    check: {{https: /readyz, interval_ms: 50, {check}}}
"
    )
}

fn health(node: &Node) -> Vec<String> {
    let status = node.status();
    let backends = status.lb[0].backends.iter();
    backends.map(|backend| backend.health.clone()).collect()
}

/// Each time on a connection of its own, over TLS that ends at the backend.
fn asked(rack: &Rack, bundle: &std::path::Path, times: usize) -> Vec<String> {
    let pem = std::fs::read(bundle).unwrap();
    rack.hosts[3].run(move || async move {
        let client = reqwest::Client::builder()
            .no_proxy()
            .pool_max_idle_per_host(0)
            .timeout(Duration::from_secs(10))
            .tls_certs_only(reqwest::Certificate::from_pem_bundle(&pem).unwrap())
            .build()
            .unwrap();
        let mut answers = Vec::new();
        for _ in 0..times {
            let answer = client.get("https://192.0.2.10:6443/who").send().await;
            answers.push(answer.unwrap().text().await.unwrap());
        }
        answers
    })
}

/// Answers every request with its number, over TLS.
struct Server {
    pem: String,
    handshakes: Arc<std::sync::atomic::AtomicUsize>,
    task: AbortHandle,
    host: Arc<linux::netns::Host>,
}

impl Server {
    fn new(rack: &Rack, at: usize) -> Self {
        // The program does this once; an error only says that another test has.
        _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let names = ["192.0.2.10".to_owned(), format!("192.0.2.1{at}")];
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let tls = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(
                vec![CertificateDer::from(made.cert.der().to_vec())],
                PrivateKeyDer::from(key),
            )
            .unwrap();
        let handshakes = Arc::default();
        let counted = Arc::clone(&handshakes);
        let host = Arc::clone(&rack.hosts[at]);
        let task = host.run(move || async move {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.set_reuseaddr(true).unwrap();
            socket.bind("0.0.0.0:6443".parse().unwrap()).unwrap();
            let listener = socket.listen(64).unwrap();
            let acceptor = TlsAcceptor::from(Arc::new(tls));
            tokio::task::spawn_local(accept(listener, acceptor, at, counted)).abort_handle()
        });
        Self {
            pem: made.cert.pem(),
            handshakes,
            task,
            host,
        }
    }

    /// With all its connections, as a killed process would end.
    fn kill(&self) {
        let task = self.task.clone();
        self.host.run(|| async move {
            task.abort();
            while !task.is_finished() {
                tokio::task::yield_now().await;
            }
        });
    }
}

async fn accept(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    at: usize,
    handshakes: Arc<std::sync::atomic::AtomicUsize>,
) {
    let mut clients = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        handshakes.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        clients.spawn_local(answer(stream, acceptor.clone(), at));
    }
}

/// A client that breaks off is nothing to fail for.
async fn answer(stream: TcpStream, acceptor: TlsAcceptor, at: usize) -> Option<()> {
    let mut stream = BufReader::new(acceptor.accept(stream).await.ok()?);
    let mut line = String::new();
    while stream.read_line(&mut line).await.ok()? > 0 {
        let ended = line == "\r\n";
        line.clear();
        if ended {
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{at}");
            stream.write_all(answer.as_bytes()).await.ok()?;
            stream.flush().await.ok()?;
        }
    }
    Some(())
}
