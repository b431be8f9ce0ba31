//! Events, and the life of the service.

use super::*;

#[tokio::test]
async fn events_are_posted_to_a_subscriber_and_only_those_it_asked_for() {
    let (posted, mut letters) = tokio::sync::mpsc::channel::<(HeaderMap, Value)>(16);
    let app = axum::Router::new().route(
        "/hook",
        axum::routing::post(
            move |headers: HeaderMap, axum::Json(letter): axum::Json<Value>| {
                let posted = posted.clone();
                async move { posted.send((headers, letter)).await.unwrap() }
            },
        ),
    );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });

    let bench = bench(vendor("generic"));
    let handle = crate::bmc::redfish::spawn(
        TcpListener::bind("127.0.0.1:0").await.unwrap(),
        None,
        Arc::clone(&bench.bmc),
    )
    .unwrap();
    let wanted = json!({
        "Destination": url,
        "Protocol": "Redfish",
        "Context": "mine",
        "EventTypes": ["StatusChange"],
        "HttpHeaders": [{"Authorization": "Bearer hush"}],
    });
    let created = bench
        .send("POST", "/redfish/v1/EventService/Subscriptions", wanted)
        .await
        .is(201);
    let location = created.header("location").to_string();
    assert!(
        !bench
            .get(&location)
            .await
            .is(200)
            .body
            .to_string()
            .contains("hush")
    );
    let test = json!({"MessageId": "Lab.1.0.Hello", "EventType": "Alert"});
    bench
        .send("POST", &bench.action(Action::TestEvent), test.clone())
        .await
        .is(204);
    let status_test = json!({"MessageId": "Lab.1.0.Hello", "EventType": "StatusChange"});
    bench
        .send("POST", &bench.action(Action::TestEvent), status_test)
        .await
        .is(204);
    let wait = Duration::from_secs(5);
    let (headers, letter) = tokio::time::timeout(wait, letters.recv())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(headers["authorization"], "Bearer hush");
    assert_eq!(
        letter["Events"][0]["EventType"], "StatusChange",
        "the alert was not asked for"
    );
    // The watcher looks at the server from its first turn on; the reset comes after that.
    tokio::net::TcpStream::connect(handle.address())
        .await
        .unwrap();
    bench.reset("On").await.is(204);
    loop {
        let (_, letter) = tokio::time::timeout(wait, letters.recv())
            .await
            .expect("an event of the power")
            .unwrap();
        assert_eq!(letter["Context"], "mine");
        if letter["Events"][0]["MessageId"] == "ResourceEvent.1.3.ResourcePoweredOn" {
            break;
        }
    }
    bench.send("DELETE", &location, Value::Null).await.is(204);
    bench.send("DELETE", &location, Value::Null).await.is(404);
    handle.stop().await;
}

#[tokio::test]
async fn subscriptions_are_limited() {
    let bench = bench(vendor("generic"));
    let wanted = json!({"Destination": "http://127.0.0.1:1/", "Protocol": "Redfish"});
    for _ in 0..16 {
        bench
            .send(
                "POST",
                "/redfish/v1/EventService/Subscriptions",
                wanted.clone(),
            )
            .await
            .is(201);
    }
    let reply = bench
        .send("POST", "/redfish/v1/EventService/Subscriptions", wanted)
        .await
        .is(400);
    assert_eq!(reply.id(), "CreateLimitReachedForResource");
}

#[tokio::test]
async fn stopping_ends_open_connections_at_once_and_frees_the_address() {
    use tokio::io::AsyncReadExt as _;
    let bench = bench(vendor("generic"));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let handle = crate::bmc::redfish::spawn(listener, None, Arc::clone(&bench.bmc)).unwrap();
    let address = handle.address();
    let mut idle = tokio::net::TcpStream::connect(address).await.unwrap();
    handle.stop().await;
    let mut byte = [0];
    let read = tokio::time::timeout(Duration::from_secs(5), idle.read(&mut byte))
        .await
        .expect("the connection ends");
    assert!(matches!(read, Ok(0) | Err(_)));
    TcpListener::bind(address)
        .await
        .expect("the address is free");
}

#[tokio::test]
async fn a_client_that_never_finishes_its_handshake_holds_up_nobody() {
    let bench = bench(vendor("generic"));
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).unwrap();
    let key = made.signing_key.serialize_der().try_into().unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let handle =
        crate::bmc::redfish::spawn(listener, Some(Arc::new(tls)), Arc::clone(&bench.bmc)).unwrap();
    let _silent = tokio::net::TcpStream::connect(handle.address())
        .await
        .unwrap();
    let root = format!("https://{}/redfish/v1/", handle.address());
    let client = bench.bmc.fetcher.client();
    let answer = tokio::time::timeout(Duration::from_secs(5), client.get(root).send())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(answer.status(), 200);
    handle.stop().await;
}
