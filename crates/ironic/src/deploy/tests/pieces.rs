//! Checksums, images, steps and logs by themselves.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::Router;
use axum::routing::get;
use jiff::Timestamp;
use lifecycle::node::{Interface, Runner, StepKind, StepSpec};
use proptest::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::deploy::Settings;
use crate::deploy::checksum::{Algorithm, Checksum, Hashing};
use crate::deploy::image::{Check, Image, Kind};
use crate::deploy::logs;
use crate::deploy::steps::{Offer, Words};
use crate::deploy::store::{Error, Images};
use crate::record::{Interfaces, Node};

fn node(instance_info: &Value) -> Node {
    let interfaces = Interfaces {
        deploy: "direct".into(),
        raid: "no-raid".into(),
        ..Interfaces::default()
    };
    let mut node = Node::new(
        Uuid::nil(),
        "redfish".into(),
        interfaces,
        Timestamp::UNIX_EPOCH,
    );
    node.instance_info = instance_info.as_object().unwrap().clone();
    node
}

fn sha256(bytes: &[u8]) -> String {
    let mut hashing = Hashing::new(None);
    hashing.update(bytes);
    hashing.finish().0
}

#[test]
fn checksums_are_found_in_every_form_of_list() {
    let (a, b) = ("a".repeat(64), "b".repeat(128));
    for (text, wanted) in [
        (a.clone(), &a),
        (format!("{a}  os.raw\n{}  other", "c".repeat(64)), &a),
        (format!("# list\n{a} *./dir/os.raw"), &a),
        (format!("SHA256 (os.raw) = {a}\nSHA512 (os.raw) = {b}"), &b),
        (format!("SHA2-256 (x) = {a}\nSHA-256 (os.raw) = {a}"), &a),
    ] {
        assert_eq!(
            &Checksum::in_file(&text, "os.raw").unwrap().hex,
            wanted,
            "{text}"
        );
    }
    for (text, problem) in [
        (format!("{a}  x\n{b}  y"), "no entry"),
        (
            format!("{a}  os.raw\n{}  os.raw", "d".repeat(64)),
            "two different",
        ),
        ("<html>".to_string(), "no entry"),
    ] {
        let error = Checksum::in_file(&text, "os.raw").unwrap_err();
        assert!(error.contains(problem), "{error}");
    }
    assert!(
        Checksum::parse_as("sha512", &a)
            .unwrap_err()
            .contains("128")
    );
    assert_eq!(
        Checksum::parse(&"0".repeat(32)).unwrap().algorithm,
        Algorithm::Md5
    );
}

proptest! {
    #[test]
    fn any_text_may_be_a_list_of_checksums(text in ".{0,300}", name in ".{0,20}") {
        _ = Checksum::in_file(&text, &name);
    }

    #[test]
    fn any_bytes_may_be_logs(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        use base64::Engine as _;
        let dir = tempfile::tempdir().unwrap();
        let sent = base64::engine::general_purpose::STANDARD.encode(bytes);
        logs::keep(dir.path(), Uuid::nil(), &json!({"system_logs": sent}), 3).unwrap();
    }
}

#[test]
fn every_problem_of_an_image_is_named_with_its_field() {
    let problems = |info| {
        Image::of(&node(&info), &Settings::default())
            .unwrap_err()
            .join("\n")
    };
    assert!(problems(json!({})).contains("instance_info.image_source: is required"));
    let said = problems(
        json!({"image_source": "glance-id", "image_checksum": "xyz", "image_type": "partition"}),
    );
    for part in [
        "image_source: \"glance-id\"",
        "image_checksum: \"xyz\"",
        "image_type: only whole-disk",
    ] {
        assert!(said.contains(part), "{said}");
    }
    assert!(
        problems(json!({"image_source": "http://a/b"})).contains("image_checksum: is required")
    );
    let half = json!({"image_source": "http://a/b", "image_os_hash_algo": "sha256"});
    assert!(problems(half).contains("image_os_hash_value: is required"));

    let of = |info| Image::of(&node(&info), &Settings::default()).unwrap();
    let image =
        of(json!({"image_source": "http://a/b/os.qcow2?x=1", "image_checksum": "http://a/SUMS"}));
    assert_eq!((image.name(), image.kind), ("os.qcow2", Kind::Remote));
    assert_eq!(image.check, Check::Listed("http://a/SUMS".into()));
    let image = of(json!({"image_source": "file:///srv/os.raw"}));
    assert_eq!((image.kind, image.check), (Kind::Served, Check::Unknown));
    let local = json!({"image_source": "http://a/b", "image_checksum": "a".repeat(64), "image_download_source": "local"});
    assert_eq!(of(local).kind, Kind::Served);
}

struct Shop {
    dir: tempfile::TempDir,
    url: String,
    served: Arc<AtomicU32>,
    images: Arc<Images>,
}

/// A web server, and a store that fetches from it.
async fn shop(most: u64) -> Shop {
    let dir = tempfile::tempdir().unwrap();
    let served = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&served);
    let slow = move || {
        let count = Arc::clone(&count);
        async move {
            count.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            vec![7_u8; 3000]
        }
    };
    let app = Router::new()
        .route("/os.raw", get(slow))
        .route("/other.raw", get(|| async { vec![8_u8; 3000] }))
        .route("/page", get(|| async { "<!DOCTYPE html><html></html>" }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let home = dir.path().join("images");
    let allowed = vec![dir.path().join("allowed")];
    let address = Some("http://boot.test/images/".to_owned());
    let images = Images::new(
        home,
        address,
        most,
        allowed,
        vec![dir.path().join("allowed/public")],
        reqwest::Client::new(),
    );
    Shop {
        dir,
        url,
        served,
        images: Arc::new(images),
    }
}

fn image(source: String, format: Option<&str>) -> Image {
    Image {
        source,
        kind: Kind::Served,
        format: format.map(ToOwned::to_owned),
        check: Check::Unknown,
    }
}

#[tokio::test]
async fn many_who_want_an_image_share_one_download() {
    let shop = shop(1 << 20).await;
    let image = image(format!("{}/os.raw", shop.url), None);
    let wanted = Checksum::parse(&sha256(&[7; 3000])).unwrap();
    let all = (0..20).map(|_| shop.images.fetch(&image, Some(&wanted), BTreeSet::new()));
    for stored in futures::future::join_all(all).await {
        assert_eq!(stored.unwrap().sha256, wanted.hex);
    }
    assert_eq!(shop.served.load(Ordering::Relaxed), 1);
    let stored = shop
        .images
        .fetch(&image, Some(&wanted), BTreeSet::new())
        .await
        .unwrap();
    assert_eq!(
        shop.images.address(&stored).unwrap(),
        format!("http://boot.test/images/{}", wanted.hex)
    );
    assert_eq!(shop.served.load(Ordering::Relaxed), 1);
    let names: Vec<_> = std::fs::read_dir(shop.dir.path().join("images"))
        .unwrap()
        .collect();
    assert_eq!(names.len(), 1, "nothing unfinished is left");
}

#[tokio::test]
async fn what_is_wrong_with_an_image_is_said_and_nothing_of_it_is_kept() {
    let shop = shop(1 << 20).await;
    let other = Checksum::parse(&"a".repeat(64)).unwrap();
    let get = |path: &str, format: Option<&'static str>, wanted: Option<Checksum>| {
        let (images, image) = (
            Arc::clone(&shop.images),
            image(format!("{}{path}", shop.url), format),
        );
        async move {
            images
                .fetch(&image, wanted.as_ref(), BTreeSet::new())
                .await
                .unwrap_err()
        }
    };
    assert!(matches!(
        *get("/os.raw", None, Some(other)).await,
        Error::Checksum { .. }
    ));
    assert!(
        get("/page", None, None)
            .await
            .to_string()
            .contains("is a web page")
    );
    assert!(
        get("/os.raw", Some("qcow2"), None)
            .await
            .to_string()
            .contains("says qcow2")
    );
    assert!(matches!(
        *get("/nothing", None, None).await,
        Error::Status { status: 404, .. }
    ));
    let names: Vec<_> = std::fs::read_dir(shop.dir.path().join("images"))
        .unwrap()
        .collect();
    assert!(names.is_empty(), "{names:?}");
}

#[tokio::test]
async fn files_come_from_where_they_may_and_are_copied_again_when_they_change() {
    let shop = shop(1 << 20).await;
    let allowed = shop.dir.path().join("allowed");
    std::fs::create_dir(&allowed).unwrap();
    std::fs::write(allowed.join("os.raw"), "one").unwrap();
    std::fs::write(shop.dir.path().join("secret"), "x").unwrap();
    std::os::unix::fs::symlink(shop.dir.path().join("secret"), allowed.join("link")).unwrap();
    let fetch = async |path: &std::path::Path| {
        let image = image(format!("file://{}", path.display()), None);
        shop.images.fetch(&image, None, BTreeSet::new()).await
    };
    assert_eq!(
        fetch(&allowed.join("os.raw")).await.unwrap().sha256,
        sha256(b"one")
    );
    std::fs::write(allowed.join("os.raw"), "three").unwrap();
    assert_eq!(
        fetch(&allowed.join("os.raw")).await.unwrap().sha256,
        sha256(b"three")
    );
    for path in ["secret", "allowed/link", "allowed/../secret"] {
        let error = fetch(&shop.dir.path().join(path)).await.unwrap_err();
        assert!(matches!(*error, Error::Elsewhere { .. }), "{error}");
    }
    assert!(matches!(
        *fetch(&allowed.join("none")).await.unwrap_err(),
        Error::Read { .. }
    ));
}

#[tokio::test]
async fn a_file_that_anybody_may_fetch_is_served_as_it_is() {
    let shop = shop(1 << 20).await;
    let allowed = shop.dir.path().join("allowed");
    std::fs::create_dir_all(allowed.join("public/lab")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(allowed.join(name), text).unwrap();
    write("public/lab/os.raw", "an image");
    write("public/empty.raw", "");
    write("public/page.raw", "<!DOCTYPE html><html></html>");
    write("mine.raw", "not public");
    let find = async |source: String| shop.images.in_place(&image(source, None)).await;
    let at = |name: &str| format!("file://{}", allowed.join(name).display());
    assert_eq!(
        find(at("public/lab/os.raw")).await.unwrap().unwrap(),
        "http://boot.test/images/lab/os.raw"
    );
    for wrong in ["public/empty.raw", "public/page.raw", "public/none.raw"] {
        assert!(find(at(wrong)).await.unwrap().is_err(), "{wrong}");
    }
    assert!(find(at("mine.raw")).await.is_none(), "it is copied");
    assert!(find(format!("{}/os.raw", shop.url)).await.is_none());
    assert!(matches!(
        find("file:///etc/hostname".into()).await,
        Some(Err(Error::Elsewhere { .. }))
    ));
}

#[tokio::test]
async fn images_nobody_uses_make_room_for_those_somebody_wants() {
    let shop = shop(4000).await;
    let first = image(format!("{}/os.raw", shop.url), None);
    let second = image(format!("{}/other.raw", shop.url), None);
    let stored = shop
        .images
        .fetch(&first, None, BTreeSet::new())
        .await
        .unwrap();
    let in_use = BTreeSet::from([stored.sha256.clone()]);
    let error = shop.images.fetch(&second, None, in_use).await.unwrap_err();
    assert!(error.to_string().contains("images_max_gib"), "{error}");
    shop.images
        .fetch(&second, None, BTreeSet::new())
        .await
        .unwrap();
    assert!(!shop.dir.path().join("images").join(&stored.sha256).exists());
}

#[test]
fn steps_are_joined_with_the_configured_priorities_and_arguments_are_checked() {
    let words = Words::of(StepKind::Clean);
    let answer = json!({"clean_steps": {"m": [
        {"step": "erase_devices", "priority": 10, "interface": "deploy", "argsinfo": null},
        {"step": "erase_devices_metadata", "priority": 99, "interface": "deploy"},
        {"step": "burnin", "priority": 0, "interface": "deploy", "argsinfo": {"time": {"required": true}}},
        {"step": "create_configuration", "priority": 5, "interface": "raid"},
        {"step": 7}, "nonsense"]}, "hardware_manager_version": {"m": "1"}});
    let node = node(&json!({}));
    let offer = Offer::read(&words, &answer, &node);
    let own = vec![
        StepSpec::new(Interface::Bios, "factory_reset", 3, Runner::Service),
        StepSpec::new(Interface::Deploy, "erase_devices", 3, Runner::Service),
    ];
    let settings = Settings {
        step_priorities: [("bios.factory_reset".to_owned(), 0)].into(),
        ..Settings::default()
    };
    let all = offer.joined(own, StepKind::Clean, &settings, &node);
    let all: Vec<_> = all
        .iter()
        .map(|step| (step.to_string(), step.priority, step.by))
        .collect();
    assert_eq!(
        all,
        [
            ("deploy.erase_devices".to_owned(), 0, Runner::Agent),
            (
                "deploy.erase_devices_metadata".to_owned(),
                10,
                Runner::Agent
            ),
            ("deploy.burnin".to_owned(), 0, Runner::Agent),
            ("bios.factory_reset".to_owned(), 0, Runner::Service),
        ]
    );
    let mut asked = StepSpec::new(Interface::Deploy, "burnin", 0, Runner::Agent);
    asked.args.insert("speed".into(), 1.into());
    assert_eq!(
        offer.problems(&[asked]),
        [
            "step deploy.burnin has no argument \"speed\"; there are time",
            "step deploy.burnin needs the argument \"time\"",
        ]
    );
}

#[test]
fn of_logs_the_newest_are_kept() {
    use base64::Engine as _;
    let dir = tempfile::tempdir().unwrap();
    let sent = json!({"system_logs": base64::engine::general_purpose::STANDARD.encode("x")});
    for _ in 0..5 {
        logs::keep(dir.path(), Uuid::new_v4(), &sent, 2).unwrap();
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    assert!(logs::keep(dir.path(), Uuid::nil(), &json!({}), 2).is_err());
}
