//! The balancer between clients and backends on real sockets: whatever a backend does, clients are served.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use linux::netns::Host;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use crate::rack::{Node, Rack, wait};

const LB: &str = "192.0.2.10:8080";
const VIP: &str = "192.0.2.100";
const LONG: Duration = Duration::from_secs(10);

/// The balancer is node 0; nodes 1 and 2 are backends; the client is node 3. Checks have time: a busy machine must
/// not look like a dead backend.
fn config(more: &str) -> String {
    format!(
        "real_time: false
lb:
  - name: api
    listen: ['{LB}']
    backends: [{{name: one, address: '192.0.2.11:80'}}, {{name: two, address: '192.0.2.12:80'}}]
    check: {{http: /readyz, interval_ms: 50, timeout_ms: 2000}}
    {more}
"
    )
}

#[test]
fn connections_go_round_and_a_killed_backend_costs_no_client_anything() {
    let rack = Rack::new(4);
    let one = Backend::new(&rack, 1);
    let _two = Backend::new(&rack, 2);
    let node = rack.start(0, &config(""));
    up(&node, 2);
    assert_eq!(sorted(asked(&rack, LB, 6)), ["1", "1", "1", "2", "2", "2"]);
    one.kill();
    assert_eq!(asked(&rack, LB, 20), ["2"; 20]);
    wait("the dead one is known", || health(&node, "one") == "down");
    let _one = Backend::new(&rack, 1);
    up(&node, 2);
    assert_eq!(sorted(asked(&rack, LB, 2)), ["1", "2"]);
}

#[test]
fn an_unplugged_backend_is_passed_over_and_its_connections_are_cut() {
    let rack = Rack::new(4);
    let _backends = [Backend::new(&rack, 1), Backend::new(&rack, 2)];
    let node = rack.start(0, &config("connect_timeout_ms: 100"));
    up(&node, 2);
    let mut open = Vec::new();
    for _ in 0..2 {
        open.push(on(&rack, 3, || async { Open::new(LB).await.unwrap() }));
    }
    rack.set_cable(1, false);
    let pulled = Instant::now();
    assert_eq!(asked(&rack, LB, 10), ["2"; 10]);
    wait("it is known", || health(&node, "one") == "down");
    eprintln!(
        "unplugged: ejected after {} ms",
        pulled.elapsed().as_millis()
    );
    let ended = on(&rack, 3, || async move {
        let mut ended = 0;
        for mut connection in open {
            ended += usize::from(connection.say("who\n").await.is_err());
        }
        ended
    });
    assert_eq!(ended, 1, "only the one whose backend is gone");
}

#[test]
fn a_backend_that_accepts_and_never_answers_is_ejected() {
    let rack = Rack::new(4);
    let one = Backend::new(&rack, 1);
    let _two = Backend::new(&rack, 2);
    let node = rack.start(0, &config(""));
    up(&node, 2);
    one.kill();
    let _mute = Backend::mute(&rack, 1);
    wait("the mute one is known", || health(&node, "one") == "down");
    assert_eq!(asked(&rack, LB, 10), ["2"; 10]);
}

#[test]
fn a_backend_that_says_it_is_not_ready_keeps_what_it_has_and_gets_no_more() {
    let rack = Rack::new(4);
    let one = Backend::new(&rack, 1);
    let node = rack.start(0, &config(""));
    up(&node, 1);
    let mut open = on(&rack, 3, || async { Open::new(LB).await.unwrap() });
    one.set_ready(false);
    wait("it is known", || health(&node, "one") == "unready");
    wait("nobody is let in any more", || {
        !node.status().lb[0].listening
    });
    let (refused, served) = on(&rack, 3, || async move {
        (
            Open::new(LB).await.is_err(),
            open.say("who\n").await.unwrap(),
        )
    });
    assert!(refused);
    assert_eq!(served, "1");
    one.set_ready(true);
    up(&node, 1);
}

#[test]
fn an_end_of_one_side_lets_the_other_finish() {
    let rack = Rack::new(4);
    let _one = Backend::new(&rack, 1);
    let node = rack.start(0, &config(""));
    up(&node, 1);
    let answer = on(&rack, 3, || async {
        let mut stream = TcpStream::connect(LB).await.unwrap();
        stream.write_all(b"count\n").await.unwrap();
        stream.write_all(&vec![7; 3_000_000]).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    });
    assert_eq!(answer, "3000000\n");
    wait("nothing is left open", || {
        node.status().lb[0].connections == 0
    });
}

#[test]
fn a_lot_of_bytes_arrives_whole_both_ways_at_once() {
    const LENGTH: usize = 40_000_000;
    let rack = Rack::new(4);
    let _one = Backend::new(&rack, 1);
    let node = rack.start(0, &config(""));
    up(&node, 1);
    let whole = on(&rack, 3, || async {
        let stream = TcpStream::connect(LB).await.unwrap();
        let (mut read, mut write) = stream.into_split();
        let sent = tokio::task::spawn_local(async move {
            write.write_all(b"echo\n").await.unwrap();
            for block in 0..LENGTH / 8000 {
                write.write_all(&pattern(block)).await.unwrap();
            }
            write.shutdown().await.unwrap();
        });
        let mut block = vec![0; 8000];
        for at in 0..LENGTH / 8000 {
            read.read_exact(&mut block).await.unwrap();
            assert_eq!(block, pattern(at), "block {at}");
            // A slow reader makes everything before it wait.
            if at % 1000 == 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        sent.await.unwrap();
        read.read(&mut block).await.unwrap() == 0
    });
    assert!(whole);
    wait("nothing is left open", || {
        node.status().lb[0].connections == 0
    });
    let counted = &node.status().lb[0];
    assert_eq!(counted.bytes_up, LENGTH as u64 + 5);
    assert_eq!(counted.bytes_down, LENGTH as u64);
}

fn pattern(block: usize) -> Vec<u8> {
    (0..8000).map(|at| (block * 31 + at * 7) as u8).collect()
}

#[test]
fn a_reload_keeps_connections_and_a_removed_backend_finishes_them() {
    let rack = Rack::new(4);
    let _backends = [Backend::new(&rack, 1), Backend::new(&rack, 2)];
    let node = rack.start(0, &config(""));
    up(&node, 2);
    let mut open = Vec::new();
    for _ in 0..2 {
        open.push(on(&rack, 3, || async { Open::new(LB).await.unwrap() }));
    }
    let other =
        config("idle_timeout_ms: 200000").replace("{name: one, address: '192.0.2.11:80'}, ", "");
    node.reload(&other);
    wait("one drains", || health(&node, "one") == "draining");
    let mut said: Vec<_> = on(&rack, 3, || async move {
        let mut said = Vec::new();
        for connection in &mut open {
            said.push(connection.say("who\n").await.unwrap());
        }
        said
    });
    said.sort();
    assert_eq!(said, ["1", "2"]);
    wait("the drained one is forgotten", || {
        health(&node, "one") == "gone"
    });
    assert_eq!(asked(&rack, LB, 4), ["2"; 4]);
    node.reload("lb: []");
    wait("the listener is gone", || node.status().lb.is_empty());
    let refused = on(&rack, 3, || async { Open::new(LB).await.is_err() });
    assert!(refused);
}

#[test]
fn backends_are_told_who_the_client_is() {
    let rack = Rack::new(4);
    let one = Backend::new(&rack, 1);
    let text = config("proxy_protocol: true").replace("http: /readyz", "tcp: true");
    let node = rack.start(0, &text);
    up(&node, 1);
    let (port, seen) = on(&rack, 3, || async {
        let mut open = TcpStream::connect(LB).await.unwrap();
        let port = open.local_addr().unwrap().port();
        open.write_all(b"head\n").await.unwrap();
        let mut seen = Vec::new();
        tokio::time::timeout(LONG, open.read_to_end(&mut seen))
            .await
            .unwrap()
            .unwrap();
        (port, seen)
    });
    let client = SocketAddr::new("192.0.2.13".parse().unwrap(), port);
    let expected = protocols::balance::proxy::header(client, LB.parse().unwrap());
    assert_eq!(seen[..expected.len()], expected[..]);
    drop(one);
}

#[test]
fn silent_clients_are_sent_away_and_busy_ones_are_not() {
    let rack = Rack::new(4);
    let _one = Backend::new(&rack, 1);
    let node = rack.start(
        0,
        &config("first_byte_timeout_ms: 2000, idle_timeout_ms: 60000")
            .replace(", idle", "\n    idle"),
    );
    up(&node, 1);
    let alive = on(&rack, 3, || async {
        let mut silent = TcpStream::connect(LB).await.unwrap();
        let mut busy = Open::new(LB).await.unwrap();
        let ended = tokio::time::timeout(LONG, silent.read(&mut [0]))
            .await
            .unwrap();
        assert!(ended.is_err(), "reset: {ended:?}");
        busy.say("who\n").await
    });
    assert_eq!(alive.unwrap(), "1");
    assert_eq!(node.status().lb[0].timed_out, 1);
}

#[test]
fn clients_beyond_the_limit_are_refused_and_the_others_are_served() {
    let rack = Rack::new(4);
    let _one = Backend::new(&rack, 1);
    let node = rack.start(0, &config("max_connections: 2"));
    up(&node, 1);
    let served = on(&rack, 3, || async {
        let mut first = Open::new(LB).await.unwrap();
        let mut second = Open::new(LB).await.unwrap();
        assert!(Open::new(LB).await.is_err(), "a third is too much");
        (
            first.say("who\n").await.unwrap(),
            second.say("who\n").await.unwrap(),
        )
    });
    assert_eq!(served, ("1".into(), "1".into()));
    assert_eq!(node.status().lb[0].refused, 1);
}

/// Clients, balancer and backend are one process here, so its limit of descriptors may allow fewer.
#[test]
fn ten_thousand_idle_connections_stay_open_and_new_ones_are_served() {
    let descriptors = linux::stream::raise_descriptor_limit().unwrap() as usize;
    let count = (descriptors.saturating_sub(2000) / 4).min(10_000);
    assert!(count >= 1000, "needs 6000 file descriptors (ulimit -Hn)");
    eprintln!("{count} idle connections, as {descriptors} file descriptors allow");
    let rack = Rack::new(4);
    let _one = Backend::new(&rack, 1);
    let node = rack.start(0, &config("first_byte_timeout_ms: 600000"));
    up(&node, 1);
    let mut idle = on(&rack, 3, move || async move {
        let mut idle = Vec::new();
        for _ in 0..count {
            let connected = tokio::time::timeout(LONG, TcpStream::connect(LB)).await;
            idle.push(connected.unwrap().unwrap());
        }
        idle
    });
    wait("all are through", || {
        node.status().lb[0].connections == count
    });
    assert_eq!(asked(&rack, LB, 3), ["1"; 3]);
    let first = on(&rack, 3, move || async move {
        let mut first = Open(BufReader::new(idle.swap_remove(count / 2)));
        let said = first.say("who\n").await.unwrap();
        drop(idle);
        said
    });
    assert_eq!(first, "1");
    wait("the rest is gone", || node.status().lb[0].connections == 0);
}

#[test]
fn members_become_backends() {
    let rack = Rack::new(4);
    let _backends = [Backend::new(&rack, 1), Backend::new(&rack, 2)];
    let text = format!(
        "real_time: false
lb: [{{name: api, listen: ['{LB}'], members: {{port: 80}}, check: {{tcp: true, interval_ms: 50}}}}]
members:
  static:
    - {{name: master-0, addresses: [192.0.2.11]}}
    - {{name: worker-0, addresses: [192.0.2.12], control_plane: false}}
"
    );
    let node = rack.start(0, &text);
    up(&node, 1);
    assert_eq!(asked(&rack, LB, 3), ["1"; 3]);
    node.reload(&text.replace(", control_plane: false", ""));
    up(&node, 2);
    assert_eq!(sorted(asked(&rack, LB, 2)), ["1", "2"]);
    let members = node.status().members;
    assert_eq!(members[0].name, "master-0");
    assert_eq!(members[0].source, "static");
}

#[test]
fn nodes_of_an_api_become_backends() {
    let rack = Rack::new(4);
    let _backends = [Backend::new(&rack, 1), Backend::new(&rack, 2)];
    let text = format!(
        "real_time: false
lb: [{{name: api, listen: ['{LB}'], members: {{port: 80}}, check: {{tcp: true, interval_ms: 50}}}}]
members: {{kubernetes: {{url: 'http://192.0.2.12:80', interval_ms: 100}}}}
"
    );
    let node = rack.start(0, &text);
    up(&node, 1);
    assert_eq!(asked(&rack, LB, 3), ["1"; 3]);
    assert_eq!(node.status().members[0].source, "api");
}

/// Two nodes balance over the API of both, on the virtual address; each prefers to hold it while its own
/// API is well.
#[test]
fn the_address_moves_from_a_node_whose_api_is_killed_and_clients_are_served_there() {
    let rack = Rack::new(4);
    let apis = [Backend::new(&rack, 1), Backend::new(&rack, 2)];
    let nodes: Vec<_> = [1, 2]
        .map(|at| {
            let text = format!(
                "real_time: false
checks:
  - {{name: serves, lb: {{listener: api}}}}
  - {{name: local, lb: {{listener: api, backend: local}}}}
vips:
  - {{name: api, id: 7, address: {VIP}, priority: {}, listen_ms: 100, advertise_ms: 200,
      checks: [{{check: serves}}, {{check: local, weight: 50}}]}}
lb:
  - name: api
    listen: ['{VIP}:8080']
    vip: api
    backends: [{{name: one, address: '192.0.2.11:80'}}, {{name: two, address: '192.0.2.12:80'}}]
    check: {{http: /readyz, interval_ms: 50, timeout_ms: 2000}}
",
                100 + at
            );
            rack.start(at, &text)
        })
        .into();
    let at: &'static str = "192.0.2.100:8080";
    wait("node 2 holds it", || {
        rack.holds(2, VIP) && !rack.holds(1, VIP)
    });
    wait("node 2 listens on it", || nodes[1].status().lb[0].listening);
    assert!(
        !nodes[0].status().lb[0].listening,
        "only where the address is"
    );
    assert_eq!(sorted(asked(&rack, at, 2)), ["1", "2"]);
    apis[1].kill();
    wait("node 1 holds it", || {
        rack.holds(1, VIP) && !rack.holds(2, VIP)
    });
    wait("node 1 listens on it", || nodes[0].status().lb[0].listening);
    assert_eq!(asked(&rack, at, 4), ["1"; 4]);
}

/// The API server has the public port on every address: the rules lead clients to the balancer.
#[test]
fn a_redirect_leads_clients_of_the_address_to_the_balancer() {
    let rack = Rack::new(4);
    let _backends = [Backend::new(&rack, 1), Backend::new(&rack, 2)];
    let text = format!(
        "real_time: false
vips: [{{name: api, id: 7, address: {VIP}, listen_ms: 100}}]
lb:
  - name: api
    listen: ['0.0.0.0:9445']
    redirect: {{addresses: [{VIP}], port: 80}}
    backends: [{{name: two, address: '192.0.2.12:80'}}]
    check: {{http: /readyz, interval_ms: 50, timeout_ms: 2000}}
"
    );
    let node = rack.start(1, &text);
    wait("the address is there", || rack.holds(1, VIP));
    let table = || {
        let listed = rack.hosts[1]
            .command("nft")
            .args(["list", "tables"])
            .output();
        String::from_utf8(listed.expect("nft (Debian package nftables)").stdout).unwrap()
    };
    wait("the rules are there", || table().contains("inet plinth"));
    let public: &'static str = "192.0.2.100:80";
    assert_eq!(asked(&rack, public, 3), ["2"; 3], "from outside");
    let own = on(&rack, 1, move || async move { who(public).await.unwrap() });
    assert_eq!(own, "2", "from the node itself");
    assert_eq!(
        asked(&rack, "192.0.2.11:80", 1),
        ["1"],
        "the node's own address is not touched"
    );
    node.stop();
    assert!(!table().contains("plinth"));
}

fn up(node: &Node, count: usize) {
    wait(&format!("{count} backends are up"), || {
        let status = node.status();
        let listener = &status.lb[0];
        let up = listener
            .backends
            .iter()
            .filter(|backend| backend.health == "up");
        listener.listening && up.count() == count
    });
}

fn health(node: &Node, name: &str) -> String {
    let status = node.status();
    let backend = status.lb[0]
        .backends
        .iter()
        .find(|backend| backend.name == name);
    backend.map_or("gone".into(), |backend| backend.health.clone())
}

fn on<T: Send + 'static, F: Future<Output = T> + 'static>(
    rack: &Rack,
    at: usize,
    work: impl FnOnce() -> F + Send + 'static,
) -> T {
    rack.hosts[at].run(work)
}

/// The client asks anew so many times, and must be answered each time.
fn asked(rack: &Rack, at: &'static str, times: usize) -> Vec<String> {
    on(rack, 3, move || async move {
        let mut answers = Vec::new();
        for _ in 0..times {
            answers.push(who(at).await.unwrap());
        }
        answers
    })
}

fn sorted(mut list: Vec<String>) -> Vec<String> {
    list.sort();
    list
}

async fn who(at: &str) -> io::Result<String> {
    Open::new(at).await?.say("who\n").await
}

/// A client that has been answered once.
struct Open(BufReader<TcpStream>);

impl Open {
    async fn new(at: &str) -> io::Result<Self> {
        let stream = tokio::time::timeout(LONG, TcpStream::connect(at)).await??;
        let mut open = Self(BufReader::new(stream));
        open.say("who\n").await?;
        Ok(open)
    }

    async fn say(&mut self, line: &str) -> io::Result<String> {
        let said = async {
            self.0.write_all(line.as_bytes()).await?;
            let mut answer = String::new();
            match self.0.read_line(&mut answer).await? {
                0 => Err(io::ErrorKind::UnexpectedEof.into()),
                _ => Ok(answer.trim_end().to_owned()),
            }
        };
        tokio::time::timeout(LONG, said).await?
    }
}

/// A server that answers `who` with its number, and a little HTTP.
struct Backend {
    task: AbortHandle,
    ready: Arc<std::sync::atomic::AtomicBool>,
    host: Arc<Host>,
}

impl Backend {
    fn new(rack: &Rack, at: usize) -> Self {
        Self::start(rack, at, false)
    }

    fn mute(rack: &Rack, at: usize) -> Self {
        Self::start(rack, at, true)
    }

    fn start(rack: &Rack, at: usize, mute: bool) -> Self {
        let ready = Arc::new(std::sync::atomic::AtomicBool::new(true));
        let told = Arc::clone(&ready);
        let host = Arc::clone(&rack.hosts[at]);
        let task = host.run(move || async move {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.set_reuseaddr(true).unwrap();
            socket.bind("0.0.0.0:80".parse().unwrap()).unwrap();
            let listener = socket.listen(4096).unwrap();
            tokio::task::spawn_local(accept(listener, at, mute, told)).abort_handle()
        });
        Self { task, ready, host }
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

    fn set_ready(&self, ready: bool) {
        self.ready.store(ready, std::sync::atomic::Ordering::SeqCst);
    }
}

async fn accept(
    listener: TcpListener,
    at: usize,
    mute: bool,
    ready: Arc<std::sync::atomic::AtomicBool>,
) {
    let mut clients = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let ready = Arc::clone(&ready);
        clients.spawn_local(async move {
            if mute {
                std::future::pending::<()>().await;
            }
            let _ = answer(stream, at, &ready).await;
        });
    }
}

async fn answer(
    stream: TcpStream,
    at: usize,
    ready: &std::sync::atomic::AtomicBool,
) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        if stream.read_until(b'\n', &mut line).await? == 0 {
            return Ok(());
        }
        match line.as_slice() {
            b"who\n" => stream.write_all(format!("{at}\n").as_bytes()).await?,
            b"echo\n" => {
                let mut block = vec![0; 65536];
                loop {
                    match stream.read(&mut block).await? {
                        0 => return stream.shutdown().await,
                        len => stream.write_all(&block[..len]).await?,
                    }
                }
            }
            b"count\n" => {
                let count = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
                stream.write_all(format!("{count}\n").as_bytes()).await?;
                return stream.shutdown().await;
            }
            line if line.starts_with(b"GET ") => {
                let nodes = line.starts_with(b"GET /api/v1/nodes");
                let mut header = String::new();
                while stream.read_line(&mut header).await? > 2 {
                    header.clear();
                }
                let ready = ready.load(std::sync::atomic::Ordering::SeqCst);
                let status = if ready { "200 OK" } else { "500 Not Now" };
                let body = if nodes { NODES } else { "" };
                let answer = format!(
                    "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                );
                stream.write_all(answer.as_bytes()).await?;
            }
            // Whatever came first, as it came: a PROXY header has line ends of its own.
            line => {
                let mut all = line.to_vec();
                while !all.ends_with(b"head\n") {
                    stream.read_until(b'\n', &mut all).await?;
                }
                stream.write_all(&all).await?;
                return stream.shutdown().await;
            }
        }
    }
}

const NODES: &str = r#"{"items": [{"metadata": {"name": "master-0",
  "labels": {"node-role.kubernetes.io/control-plane": ""}},
  "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.11"}]}}]}"#;
