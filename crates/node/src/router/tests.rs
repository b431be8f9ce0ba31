//! The stand-in on the loopback.

use super::*;

async fn start() -> Running {
    _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let text = "listen: ['127.0.0.1']\nhttp: 0\nhttps: 0\nhealth: 0\n";
    let config = Config::parse(text, Path::new("router.yaml")).expect("it is complete");
    Running::start(&config).await.expect("it starts")
}

async fn get(url: String) -> (u16, String) {
    let client = reqwest::Client::builder()
        .tls_danger_accept_invalid_certs(true)
        .no_proxy()
        .build()
        .expect("a client");
    let answer = client.get(url).send().await.expect("an answer");
    (
        answer.status().as_u16(),
        answer.text().await.expect("a page"),
    )
}

#[tokio::test]
async fn every_request_is_told_what_this_is() {
    let running = start().await;
    for url in [
        format!("http://{}/", running.http[0]),
        format!("http://{}/healthz/ready", running.http[0]),
        format!("https://{}/console?x=1", running.https[0]),
    ] {
        let (code, page) = get(url.clone()).await;
        assert_eq!(code, 503, "{url}");
        assert!(page.contains("stand-in for an ingress router"), "{page}");
    }
}

#[tokio::test]
async fn the_health_port_is_well_and_knows_nothing_else() {
    let running = start().await;
    let at = |path: &str| get(format!("http://{}{path}", running.health[0]));
    assert_eq!(at("/healthz").await.0, 200);
    assert_eq!(at("/healthz/ready").await.0, 200);
    assert_eq!(at("/").await.0, 404);
}

#[tokio::test]
async fn nonsense_on_any_port_harms_nobody() {
    use tokio::io::AsyncWriteExt as _;
    let running = start().await;
    for address in running
        .http
        .iter()
        .chain(&running.https)
        .chain(&running.health)
    {
        for nonsense in [&b"\x00\x01\x02\r\n\r\n"[..], b"GET / HTTP/9\r\n\r\n", b""] {
            let mut stream = TcpStream::connect(address).await.expect("it listens");
            stream.write_all(nonsense).await.expect("it is heard");
        }
    }
    assert_eq!(get(format!("http://{}/", running.http[0])).await.0, 503);
}
