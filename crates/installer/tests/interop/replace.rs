//! Three members of etcd, of which one is lost with its disk, and the steps that put a fresh one in its place.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clients::etcd::wire::{PutRequest, RangeRequest, Request, RequestOp, TxnRequest};
use clients::etcd::{Client, Config, Tls};
use installer::Dir;
use installer::replace::{Etcd, Seat};
use jiff::Timestamp;
use plan::assets::Binary;
use plan::cluster::Plan;
use plan::install::{Joined, Metal3, Reach};
use plan::install_config::Facts;
use plan::replace::{self, Action, Api, Asked, Host, Machine, Node, Power, Seen};
use time::OffsetDateTime;

use crate::{created, file_in};

const PATIENCE: Duration = Duration::from_mins(2);
const LOST: &str = "master-1";

/// The masters' etcd, on ports of its own.
struct Members {
    dir: PathBuf,
    /// For clients and for peers.
    ports: Vec<(u16, u16)>,
    running: BTreeMap<usize, Child>,
}

impl Members {
    fn start(dir: &Path) -> Self {
        let mut members = Self {
            dir: dir.to_owned(),
            ports: (0..3).map(|_| (free_port(), free_port())).collect(),
            running: BTreeMap::new(),
        };
        let bootstrap = std::fs::read(dir.join("bootstrap.ign")).unwrap();
        for at in 0..3 {
            let path = format!("/etc/plinth/mcs/hosts/master-{at}.ign");
            members.spawn(at, &file_in(&bootstrap, &path));
        }
        members
    }

    fn data(&self, at: usize) -> PathBuf {
        self.dir.join(format!("data-{at}"))
    }

    /// As the config of its host says, with names, ports and paths that can be had here.
    fn spawn(&mut self, at: usize, ignition: &[u8]) {
        let text = file_in(ignition, "/etc/plinth/etcd.yaml");
        let mut text = String::from_utf8(text).unwrap();
        for (other, (client, peer)) in self.ports.iter().enumerate() {
            for (theirs, ours) in [(2379, client), (2380, peer)] {
                let name = format!("master-{other}.pxe.example.com:{theirs}");
                text = text.replace(&name, &format!("127.0.0.1:{ours}"));
            }
        }
        let (client, peer) = self.ports[at];
        let text = text
            .replace("[::]:2379", &format!("127.0.0.1:{client}"))
            .replace("[::]:2380", &format!("127.0.0.1:{peer}"))
            .replace("/etc/plinth/pki", self.dir.join("tls").to_str().unwrap())
            .replace("/var/lib/plinth/etcd", self.data(at).to_str().unwrap());
        let config = self.dir.join(format!("etcd-{at}.yaml"));
        std::fs::write(&config, text).unwrap();
        let log = self.dir.join(format!("etcd-{at}.log"));
        let log = std::fs::File::options().create(true).append(true).open(log);
        let child = Command::new("etcd")
            .arg("--config-file")
            .arg(config)
            .stdout(Stdio::null())
            .stderr(log.unwrap())
            .spawn()
            .expect("etcd is needed (cargo xtask deps installs it)");
        self.running.insert(at, child);
    }

    /// With its disk.
    fn lose(&mut self, at: usize) {
        let mut child = self.running.remove(&at).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        std::fs::remove_dir_all(self.data(at)).unwrap();
    }

    fn endpoint(&self, at: usize) -> String {
        format!("https://127.0.0.1:{}", self.ports[at].0)
    }

    fn seats(&self) -> Vec<Seat> {
        (0..3)
            .map(|at| Seat {
                node: format!("master-{at}"),
                peer: format!("https://127.0.0.1:{}", self.ports[at].1),
                client: Some(self.endpoint(at)),
            })
            .collect()
    }

    fn tls(&self) -> Tls {
        let dir = Dir::new(&self.dir);
        Tls {
            ca: dir.certificate("etcd-ca"),
            certificate: dir.certificate("etcd-client"),
            key: dir.key("etcd-client"),
            name: Some("localhost".into()),
        }
    }

    fn client(&self, at: usize) -> Client {
        let config = Config {
            tls: Some(self.tls()),
            give_up_after: PATIENCE,
            ..Config::new(vec![self.endpoint(at)])
        };
        Client::new(&config).unwrap()
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        for child in self.running.values_mut() {
            _ = child.kill();
            _ = child.wait();
        }
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

async fn put(client: &Client, key: &str) {
    let put = PutRequest {
        key: key.to_owned().into(),
        value: "here".into(),
        ..PutRequest::default()
    };
    let txn = TxnRequest {
        success: vec![RequestOp {
            request: Some(Request::Put(put)),
        }],
        ..TxnRequest::default()
    };
    client.txn(txn).await.unwrap();
}

async fn has(client: &Client, key: &str) -> bool {
    let range = RangeRequest {
        key: key.to_owned().into(),
        ..RangeRequest::default()
    };
    client
        .range(range)
        .await
        .is_ok_and(|found| found.count == 1)
}

/// What the API would say of a master that has died; its part of the steps is played.
fn died() -> Api {
    let dead = || Err("it is silent".to_owned());
    Api {
        node: Some(Node {
            ready: dead(),
            joined: Joined {
                api: dead(),
                etcd: dead(),
            },
        }),
        host: Some(host(None)),
        machine: Some(Machine { deleting: false }),
        user_data: false,
        requests: Vec::new(),
        metal3: Metal3::Active {
            on: "master-0".into(),
            images: Ok(()),
        },
    }
}

fn host(mark: Option<String>) -> Host {
    Host {
        mark,
        deleting: false,
        provisioned: true,
        doing: String::new(),
        far: None,
    }
}

async fn seen(etcd: &Etcd, api: &Api) -> Seen {
    Seen {
        api: Reach::Answers(api.clone()),
        etcd: etcd.look().await,
        assets: Reach::Answers(()),
        power: Power::Off,
        trouble: None,
    }
}

fn next(plan: &Plan, seen: &Seen) -> replace::Next {
    let asked = Asked {
        plan,
        host: replace::find(plan, LOST).unwrap(),
        force: false,
    };
    replace::next(&asked, seen, &BTreeMap::new(), Timestamp::now())
}

/// Until three members answer and follow one leader.
async fn formed(etcd: &Etcd) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let seen = etcd.look().await;
        if let Reach::Answers(members) = &seen
            && members.len() == 3
            && members.iter().all(|member| member.well.is_ok())
        {
            return;
        }
        assert!(Instant::now() < deadline, "etcd did not form: {seen:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_was_lost_with_its_disk_is_replaced_and_has_the_old_data() {
    let temp = created("pxe");
    let dir = Dir::new(temp.path());
    let facts = Facts::default();
    let (plan, _) = dir.plan(&facts).unwrap();
    let mut members = Members::start(temp.path());
    let etcd =
        Etcd::new(&members.seats(), LOST, &members.tls()).unwrap_or_else(|why| panic!("{why:?}"));
    formed(&etcd).await;
    let client = members.client(0);
    put(&client, "/before").await;
    let mut api = died();

    // As long as it answers it is not touched.
    let well = next(&plan, &seen(&etcd, &api).await);
    assert!(well.stuck.unwrap().what.contains("it is well"));

    members.lose(1);
    let deadline = Instant::now() + PATIENCE;
    let mut steps = Vec::new();
    loop {
        let seen = seen(&etcd, &api).await;
        let next = next(&plan, &seen);
        assert!(Instant::now() < deadline, "{steps:?} {seen:?} {next:?}");
        assert_eq!(next.stuck, None, "{steps:?} {seen:?}");
        for action in &next.actions {
            let done = match action {
                Action::RemoveMember(id) => etcd.remove(*id).await,
                Action::AddLearner => etcd.add_learner().await,
                Action::Promote(id) => etcd.promote(*id).await,
                Action::DeleteNode | Action::DeleteHost | Action::DeleteMachine => {
                    (api.node, api.host, api.machine) = (None, None, None);
                    Ok(())
                }
                Action::CreateHost { member } => {
                    let binary = Binary {
                        sha256: "0".repeat(64),
                        bootstrap_url: None,
                    };
                    let now = OffsetDateTime::now_utc();
                    let made = dir
                        .replacement(LOST, &facts, &binary, now)
                        .unwrap()
                        .unwrap();
                    members.spawn(1, &user_data(&made.user_data));
                    (api.host, api.user_data) = (Some(host(Some(replace::mark(*member)))), true);
                    Ok(())
                }
                Action::CreateMachine => {
                    api.machine = Some(Machine { deleting: false });
                    Ok(())
                }
                Action::SwitchOff | Action::Approve(_) | Action::Forget => Ok(()),
            };
            // A learner that is behind, or a leader that is being found: it is tried again.
            match done {
                Ok(()) => steps.push(action.clone()),
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
        // The others go on meanwhile.
        put(&client, "/meanwhile").await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        if let Reach::Answers(members) = &seen.etcd
            && members.len() == 3
            && members
                .iter()
                .all(|member| member.voter && member.well.is_ok())
        {
            break;
        }
    }
    assert!(matches!(steps[0], Action::RemoveMember(_)), "{steps:?}");
    let own = members.client(1);
    assert!(has(&own, "/before").await && has(&own, "/meanwhile").await);
    // It is asked for nothing but its readiness from now on.
    let last = next(&plan, &seen(&etcd, &api).await);
    assert_eq!((last.step, last.actions), (replace::Step::Ready, vec![]));
}

/// The config in a Secret.
fn user_data(secret: &serde_json::Value) -> Vec<u8> {
    let data = secret["data"]["userData"].as_str().unwrap();
    crate::decoded(data)
}
