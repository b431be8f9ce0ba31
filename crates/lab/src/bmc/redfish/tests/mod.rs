//! The service without sockets: requests in, answers out, for every personality.

mod events;
mod images;
mod login;
mod power;
mod refusals;
mod tree;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body as HttpBody;
use axum::http::{HeaderMap, Request, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::Secret;
use rustls::RootCertStore;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tower::ServiceExt as _;

use super::base;
use super::path::{Action, Resource};
use crate::bmc::personality::{ALL, Etag, Insert};
use crate::bmc::{Bmc, Config, Personality, media};
use crate::fault::{Faults, Kind, Order};
use crate::hardware::{Disk, Firmware, Hardware, Network, Nic};
use crate::server::boot::{Device, Lasting, Override};
use crate::server::{Power, Server, sim};

/// One BMC on a bench, with a simulated server.
struct Bench {
    bmc: Arc<Bmc>,
    dir: tempfile::TempDir,
}

struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    body: Value,
}

impl Reply {
    fn id(&self) -> &str {
        let info = &self.body["error"]["@Message.ExtendedInfo"][0];
        info["MessageId"]
            .as_str()
            .and_then(|id| id.rsplit('.').next())
            .unwrap_or("")
    }

    fn message(&self) -> String {
        self.body["error"].to_string()
    }

    #[track_caller]
    fn is(self, status: u16) -> Self {
        assert_eq!(self.status.as_u16(), status, "{}", self.body);
        self
    }

    fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map(|v| v.to_str().unwrap())
            .unwrap_or_default()
    }
}

fn vendor(name: &str) -> &'static Personality {
    Personality::named(name).unwrap()
}

fn bench(personality: &'static Personality) -> Bench {
    bench_with(personality, |_| {})
}

fn bench_with(personality: &'static Personality, adjust: impl FnOnce(&mut Config)) -> Bench {
    let dir = tempfile::tempdir().unwrap();
    let hardware = Hardware {
        name: "server-0".into(),
        uuid: uuid::Uuid::from_u128(7),
        serial: "LAB0001".into(),
        cpus: 4,
        memory_mib: 6144,
        nics: vec![
            Nic {
                network: Network::Provisioning,
                mac: "52:54:00:00:00:01".parse().unwrap(),
                port: "p0".into(),
            },
            Nic {
                network: Network::Baremetal,
                mac: "52:54:00:00:00:02".parse().unwrap(),
                port: "b0".into(),
            },
        ],
        disks: vec![Disk {
            serial: "D1".into(),
            size_bytes: 20 << 30,
        }],
    };
    let faults = Faults::default();
    let board = sim::spawn(&hardware, dir.path(), None, faults.clone());
    let (server, _task) = Server::spawn(hardware, Firmware::Uefi, faults, board);
    let media_dir = dir.path().join("media");
    std::fs::create_dir(&media_dir).unwrap();
    let mut config = Config {
        server,
        personality,
        user: "admin".into(),
        password: Secret::new("s3cret:with colon".into()),
        mac: "52:54:00:00:01:01".parse().unwrap(),
        addresses: vec![
            "192.0.2.10".parse().unwrap(),
            "2001:db8::10".parse().unwrap(),
        ],
        media_dir,
        media_limits: media::Limits::default(),
        clients: media::Clients::new(RootCertStore::empty()),
        licensed: true,
        restart: Duration::ZERO,
    };
    adjust(&mut config);
    Bench {
        bmc: Bmc::new(config),
        dir,
    }
}

impl Bench {
    async fn raw(&self, request: Request<HttpBody>) -> Reply {
        let response = super::app(Arc::clone(&self.bmc))
            .oneshot(request)
            .await
            .unwrap();
        let (parts, body) = response.into_parts();
        let bytes = axum::body::to_bytes(body, 1 << 24).await.unwrap();
        let body = if bytes.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&bytes).unwrap()
        };
        Reply {
            status: parts.status,
            headers: parts.headers,
            body,
        }
    }

    fn request(method: &str, path: &str) -> axum::http::request::Builder {
        let basic = STANDARD.encode("admin:s3cret:with colon");
        Request::builder()
            .method(method)
            .uri(path)
            .header("authorization", format!("Basic {basic}"))
    }

    async fn get(&self, path: &str) -> Reply {
        self.raw(Self::request("GET", path).body(HttpBody::empty()).unwrap())
            .await
    }

    async fn send(&self, method: &str, path: &str, body: Value) -> Reply {
        let mut request = Self::request(method, path).header("content-type", "application/json");
        // As a careful client does, whether it is needed or not.
        if method == "PATCH" {
            let tag = self
                .get(path)
                .await
                .header("etag")
                .trim_start_matches("W/")
                .to_string();
            let weak = self.bmc.personality.etag == Etag::Weak;
            request = request.header("if-match", if weak { format!("W/{tag}") } else { tag });
        }
        self.raw(request.body(HttpBody::from(body.to_string())).unwrap())
            .await
    }

    fn path(&self, resource: Resource) -> String {
        resource.path(self.bmc.personality)
    }

    fn action(&self, action: Action) -> String {
        self.path(Resource::Action(action))
    }

    fn slot(&self) -> usize {
        self.bmc
            .personality
            .media
            .slots
            .iter()
            .position(|slot| slot.insert != Insert::Never)
            .unwrap()
    }

    async fn system(&self) -> Value {
        self.get(&self.path(Resource::System)).await.is(200).body
    }

    async fn reset(&self, kind: &str) -> Reply {
        self.send(
            "POST",
            &self.action(Action::Reset),
            json!({"ResetType": kind}),
        )
        .await
    }

    /// Sends the override with everything the pickiest vendor wants.
    async fn boot(&self, target: &str, enabled: &str) -> Reply {
        let boot = json!({
            "BootSourceOverrideTarget": target,
            "BootSourceOverrideEnabled": enabled,
            "BootSourceOverrideMode": "UEFI",
        });
        self.send("PATCH", &self.path(Resource::System), json!({"Boot": boot}))
            .await
    }

    async fn powered(&self, power: Power) {
        let mut status = self.bmc.server.watch();
        let reached = status.wait_for(|status| status.view.power == power);
        tokio::time::timeout(Duration::from_secs(5), reached)
            .await
            .expect("the server changes power")
            .unwrap();
    }

    async fn insert(&self, image: &str) -> Reply {
        let slot = self.slot();
        let protocol = if image.starts_with("https") {
            "HTTPS"
        } else {
            "HTTP"
        };
        if self.bmc.personality.media.slots[slot].insert == Insert::Patch {
            let body = json!({"Image": image, "Inserted": true, "WriteProtected": true});
            return self
                .send("PATCH", &self.path(Resource::Slot(slot)), body)
                .await;
        }
        let body = json!({"Image": image, "TransferProtocolType": protocol});
        let reply = self
            .send("POST", &self.action(Action::Insert(slot)), body)
            .await;
        if reply.status == StatusCode::ACCEPTED {
            self.finished(&reply).await
        } else {
            reply
        }
    }

    /// Follows a task to its end.
    async fn finished(&self, accepted: &Reply) -> Reply {
        let monitor = accepted.header("location").to_string();
        let deadline = tokio::time::Instant::now() + Duration::from_secs(5);
        loop {
            let reply = self.get(&monitor).await;
            if reply.status != StatusCode::ACCEPTED {
                return reply;
            }
            assert!(
                tokio::time::Instant::now() < deadline,
                "still running: {}",
                reply.body
            );
            tokio::task::yield_now().await;
        }
    }

    fn fault(&self, kind: Kind) {
        self.bmc.server.faults().add(Order::new(kind).times(1));
    }

    fn images(&self) -> usize {
        std::fs::read_dir(self.dir.path().join("media"))
            .unwrap()
            .count()
    }
}

/// An image server on loopback: `/image.iso`, and behind a login `/private.iso`.
async fn image_server(content: &'static [u8]) -> String {
    use axum::response::IntoResponse as _;
    let app = axum::Router::new()
        .route(
            "/image.iso",
            axum::routing::get(move || async move { content }),
        )
        .route(
            "/private.iso",
            axum::routing::get(move |headers: HeaderMap| async move {
                let want = format!("Basic {}", STANDARD.encode("me:hush"));
                if headers
                    .get("authorization")
                    .is_some_and(|v| v.as_bytes() == want.as_bytes())
                {
                    content.into_response()
                } else {
                    StatusCode::UNAUTHORIZED.into_response()
                }
            }),
        );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    url
}
