//! The server as its clients see it; the whole way, with a real API, is in plinth's interop tests.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DnType, IsCa, Issuer,
    KeyPair,
};

use super::*;
use crate::identity::Files;

struct Site {
    dir: tempfile::TempDir,
    authority: Issuer<'static, KeyPair>,
    ca: rcgen::Certificate,
    address: std::net::SocketAddr,
    _serves: JoinSet<()>,
}

impl Site {
    async fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = params.self_signed(&key).expect("an authority");
        let authority = Issuer::new(params, key);
        let files = Files::open(&dir.path().join("state"), "n").expect("it opens");
        let files = files.for_server(None);
        let request = files.draw(jiff::Timestamp::now()).expect("a key");
        let asked = CertificateSigningRequestParams::from_pem(&request.pem).expect("a request");
        let signed = asked.signed_by(&authority).expect("a certificate").pem();
        let identity = files.take(&request, &signed).expect("it is ours");
        let offer = tls::server(&identity, &[ca.der().to_vec()]).expect("a server");
        let units = dir.path().join("units");
        std::fs::create_dir(&units).expect("a directory");
        std::fs::write(units.join("plinth-netd.service"), "").expect("a unit");
        std::fs::write(units.join("sshd.service"), "").expect("a unit");
        let nowhere = "127.0.0.1:1".parse().expect("an address");
        let config = config::Server {
            listen: nowhere,
            units,
            // Says what it was asked.
            journalctl: "echo".into(),
            nft: dir.path().join("no-nft"),
            netd: nowhere,
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it has one");
        let (_, offered) = watch::channel(Some(offer));
        let mut serves = JoinSet::new();
        serves.spawn(accept(listener, Arc::new(Answers::new(config)), offered));
        Self {
            dir,
            authority,
            ca,
            address,
            _serves: serves,
        }
    }

    /// Somebody of this organization, or nobody at all.
    fn client(&self, organization: Option<&str>) -> reqwest::Client {
        _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let ca = reqwest::Certificate::from_der(self.ca.der()).expect("a certificate");
        let mut builder = reqwest::Client::builder()
            .tls_certs_only([ca])
            .no_proxy()
            .resolve("n", self.address);
        if let Some(organization) = organization {
            let mut params = CertificateParams::default();
            let name = &mut params.distinguished_name;
            name.push(DnType::OrganizationName, organization);
            let key = KeyPair::generate().expect("a key");
            let certificate = params.signed_by(&key, &self.authority);
            let certificate = certificate.expect("a certificate").pem();
            let pem = format!("{certificate}{}", key.serialize_pem());
            let identity = reqwest::Identity::from_pem(pem.as_bytes()).expect("an identity");
            builder = builder.identity(identity);
        }
        builder.build().expect("a client")
    }

    async fn get(&self, client: &reqwest::Client, path: &str) -> (u16, String) {
        let url = format!("https://n:{}{path}", self.address.port());
        let answer = client.get(url).send().await.expect("an answer");
        let code = answer.status().as_u16();
        (code, answer.text().await.expect("a body"))
    }
}

#[tokio::test]
async fn masters_read_logs_of_daemons_and_counters_and_nothing_else() {
    let site = Site::start().await;
    let master = site.client(Some("system:masters"));
    let ok = |text: &str| (200, text.to_owned());
    assert_eq!(site.get(&master, "/healthz").await, ok("ok\n"));
    assert_eq!(site.get(&master, "/logs").await, ok("plinth-netd\n"));
    let (code, log) = site.get(&master, "/logs/plinth-netd").await;
    assert!(
        code == 200 && log.contains("--unit=plinth-netd.service"),
        "{log}"
    );
    for path in [
        "sshd",
        "plinth-node",
        "plinth-netd.service",
        "..%2Fetc%2Fpasswd",
        "-n1",
    ] {
        let (code, said) = site.get(&master, &format!("/logs/{path}")).await;
        assert!(
            code == 404 && said.contains("no such unit"),
            "{path}: {said}"
        );
    }
    assert_eq!(site.get(&master, "/etc/passwd").await.0, 404);
    let (code, counters) = site.get(&master, "/counters").await;
    assert_eq!(code, 200);
    for part in [
        "== /proc/net/dev\n",
        "lo:",
        "== /proc/net/snmp\n",
        "Tcp:",
        "== netd\nnot to be had",
    ] {
        assert!(counters.contains(part), "{part}: {counters}");
    }
    assert!(
        counters.contains("could not run") && counters.contains("no-nft"),
        "{counters}"
    );
    std::fs::remove_dir_all(site.dir.path().join("units")).expect("it was there");
    let (code, said) = site.get(&master, "/logs").await;
    assert!(
        code == 502 && said.contains("could not list the units"),
        "{said}"
    );
}

#[tokio::test]
async fn whoever_is_no_master_hears_no_and_whoever_is_nobody_hears_nothing() {
    let site = Site::start().await;
    let node = site.client(Some("system:nodes"));
    for path in ["/healthz", "/logs", "/logs/plinth-netd", "/counters", "/"] {
        assert_eq!(site.get(&node, path).await.0, 403, "{path}");
    }
    let nobody = site.client(None);
    let url = format!("https://n:{}/healthz", site.address.port());
    assert!(nobody.get(url).send().await.is_err());
}
