use std::time::Duration;

use super::fake::{Answer, Fake, SYSTEM, Seen, ok, refusal, status, system, system_with};
use crate::redfish::{Auth, Error, Reset};
use crate::{Lasting, Power};
use serde_json::json;

fn is(seen: &Seen, method: &str, path: &str) -> bool {
    seen.method == method && seen.path == path
}

#[tokio::test]
async fn one_session_is_opened_kept_and_given_back() {
    let bmc = Fake::start(|_| None).await;
    let client = bmc.client();
    for _ in 0..3 {
        assert_eq!(client.power().await.unwrap(), Some(Power::Off));
    }
    client.close().await;
    assert_eq!(bmc.count("POST", "/sessions/Session"), 1);
    assert_eq!(bmc.count("DELETE", "/sessions/Session/7"), 1);
    let after_login = bmc.seen().into_iter().filter(|seen| seen.path == SYSTEM);
    assert!(
        after_login
            .into_iter()
            .all(|seen| seen.token.as_deref() == Some("token-0") && !seen.basic)
    );
    client.close().await;
    assert_eq!(
        bmc.count("DELETE", "/sessions/Session/7"),
        1,
        "closed is closed"
    );
}

#[tokio::test]
async fn many_askers_share_one_session() {
    let bmc = Fake::start(|_| None).await;
    let client = bmc.client();
    let asks = (0..8).map(|_| client.power());
    assert!(
        futures::future::join_all(asks)
            .await
            .into_iter()
            .all(|power| power.is_ok())
    );
    assert_eq!(bmc.count("POST", "/sessions/Session"), 1);
}

#[tokio::test]
async fn a_session_the_bmc_forgot_is_opened_again() {
    let bmc = Fake::start(|seen| {
        (seen.path == SYSTEM && seen.token.as_deref() == Some("token-0")).then(|| status(401))
    })
    .await;
    assert_eq!(bmc.client().power().await.unwrap(), Some(Power::Off));
    assert_eq!(bmc.count("POST", "/sessions/Session"), 2);
}

#[tokio::test]
async fn a_bmc_that_takes_no_token_is_given_the_password() {
    let bmc = Fake::start(|seen| (seen.path == SYSTEM && !seen.basic).then(|| status(401))).await;
    assert_eq!(bmc.client().power().await.unwrap(), Some(Power::Off));
    assert_eq!(bmc.count("POST", "/sessions/Session"), 2);
}

#[tokio::test]
async fn a_wrong_login_is_told_after_all_ways_were_tried_and_without_the_password() {
    let bmc = Fake::start(|seen| {
        (seen.path != "/redfish/v1/").then(|| refusal(401, "Base.1.8.InsufficientPrivilege", "no"))
    })
    .await;
    let client = bmc.client();
    let error = client.power().await.unwrap_err();
    assert!(
        matches!(&error, Error::Login { user, .. } if user == "admin"),
        "{error}"
    );
    let shown = format!("{error} {error:?} {client:?} {}", model::chain(&error));
    assert!(
        !shown.contains("hunter2") && !shown.contains("token-"),
        "{shown}"
    );
}

#[tokio::test]
async fn what_is_forbidden_stays_so_and_leaks_no_session() {
    let bmc = Fake::start(|seen| {
        (seen.path.ends_with("Reset"))
            .then(|| refusal(403, "SMC.1.0.OemLicenseNotPassed", "buy it"))
    })
    .await;
    let client = bmc.client();
    let error = client.reset(Reset::On).await.unwrap_err();
    assert!(
        error.says("OemLicenseNotPassed") && error.status() == Some(403),
        "{error}"
    );
    assert!(error.to_string().contains("buy it"));
    client.close().await;
    assert_eq!(
        bmc.count("POST", "/sessions/Session"),
        bmc.count("DELETE", "/sessions/Session/7")
    );
}

#[tokio::test]
async fn without_sessions_or_with_none_free_basic_is_used() {
    let no_service = |seen: &Seen| is(seen, "POST", "/sessions/Session").then(|| status(404));
    let full = |seen: &Seen| {
        is(seen, "POST", "/sessions/Session").then(|| refusal(503, "IDRAC.2.8.RAC0218", "full"))
    };
    let silent = |seen: &Seen| is(seen, "POST", "/sessions/Session").then(|| status(201));
    let cases: [fn(&Seen) -> Option<Answer>; 3] = [no_service, full, silent];
    for case in cases {
        let bmc = Fake::start(case).await;
        let client = bmc.client();
        client.power().await.unwrap();
        client.power().await.unwrap();
        assert_eq!(
            bmc.count("POST", "/sessions/Session"),
            1,
            "asked once, and then known"
        );
        assert!(bmc.seen().last().unwrap().basic);
    }
}

#[tokio::test]
async fn the_way_to_log_in_can_be_fixed() {
    let bmc = Fake::start(|_| None).await;
    bmc.client_with(|config| config.auth = Auth::Basic)
        .power()
        .await
        .unwrap();
    assert_eq!(bmc.count("POST", "/sessions/Session"), 0);
    let bmc = Fake::start(|_| None).await;
    bmc.client_with(|config| config.auth = Auth::Nobody)
        .power()
        .await
        .unwrap();
    assert!(
        bmc.seen()
            .iter()
            .all(|seen| !seen.basic && seen.token.is_none())
    );
}

#[tokio::test]
async fn a_bmc_that_is_not_ready_is_asked_again_up_to_the_limit() {
    for answer in [
        || status(500),
        || refusal(503, "IDRAC.2.8.SYS518", "wait"),
        || refusal(400, "iLO.2.24.InvalidOperationForSystemState", "wait"),
    ] {
        let bmc =
            Fake::start(move |seen| (seen.path == SYSTEM && seen.before < 2).then(answer)).await;
        assert!(bmc.client().power().await.is_ok());
        assert_eq!(bmc.count("GET", SYSTEM), 3);
    }
    let bmc = Fake::start(|seen| {
        (seen.path == SYSTEM).then(|| refusal(503, "x", "still starting").with("retry-after", "0"))
    })
    .await;
    let error = bmc.client().power().await.unwrap_err();
    assert_eq!(bmc.count("GET", SYSTEM), 3);
    assert_eq!(
        error.to_string(),
        format!(
            "read the power state: {}{SYSTEM} answers 503, asked 3 times: still starting",
            bmc.url
        )
    );
    assert!(error.may_pass());
}

#[tokio::test]
async fn a_change_is_sent_again_only_where_the_bmc_did_nothing_with_it() {
    let reset = format!("{SYSTEM}/Actions/ComputerSystem.Reset");
    let path = reset.clone();
    let bmc = Fake::start(move |seen| is(seen, "POST", &path).then(|| status(500))).await;
    assert_eq!(
        bmc.client().reset(Reset::On).await.unwrap_err().status(),
        Some(500)
    );
    assert_eq!(bmc.count("POST", &reset), 1);
    let path = reset.clone();
    let bmc =
        Fake::start(move |seen| (is(seen, "POST", &path) && seen.before == 0).then(|| status(503)))
            .await;
    bmc.client().reset(Reset::On).await.unwrap();
    assert_eq!(bmc.count("POST", &reset), 2);
}

#[tokio::test]
async fn a_bmc_that_is_not_there_is_unreachable_with_the_number_of_tries() {
    let gone = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    let bmc = Fake::start(|_| None).await;
    let client =
        bmc.client_with(|config| config.address = format!("http://{gone}").parse().unwrap());
    let error = client.power().await.unwrap_err();
    assert!(
        matches!(error, Error::Unreachable { tries: 3, .. }),
        "{error:?}"
    );
    assert!(error.may_pass());
}

#[tokio::test]
async fn a_bmc_that_accepts_and_says_nothing_runs_into_the_time_limit() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let bmc = Fake::start(|_| None).await;
    let address = format!("http://{}", listener.local_addr().unwrap());
    let client = bmc.client_with(|config| {
        config.address = address.parse().unwrap();
        config.limits.answer = Duration::from_millis(50);
    });
    let error = client.power().await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
}

#[tokio::test]
async fn etags_are_sent_back_in_the_form_that_is_taken() {
    type Takes = fn(Option<&str>) -> bool;
    let wants: [(&str, Takes, usize); 3] = [
        ("as given", |tag| tag == Some("W/\"5\""), 1),
        ("strong", |tag| tag == Some("\"5\""), 2),
        ("none", |tag| tag.is_none(), 3),
    ];
    for (name, taken, tries) in wants {
        let bmc = Fake::start(move |seen| match seen.method.as_str() {
            "GET" if seen.path == SYSTEM => Some(ok(system()).with("etag", "W/\"5\"")),
            "PATCH" if !taken(seen.if_match.as_deref()) => Some(status(412)),
            _ => None,
        })
        .await;
        bmc.client()
            .set_boot_device(&crate::redfish::BootDevice::Pxe, Lasting::Once)
            .await
            .unwrap();
        assert_eq!(bmc.count("PATCH", SYSTEM), tries, "{name}");
    }
    let bmc =
        Fake::start(|seen| (seen.method == "PATCH").then(|| refusal(412, "x", "stale"))).await;
    let error = bmc
        .client()
        .set_boot_device(&crate::redfish::BootDevice::Pxe, Lasting::Once)
        .await
        .unwrap_err();
    assert_eq!(error.status(), Some(412));
}

#[tokio::test]
async fn an_etag_inside_counts_and_an_empty_one_does_not() {
    for (tag, sent) in [("\"9\"", Some("\"9\"")), ("W/\"\"", None), ("", None)] {
        let bmc = Fake::start(move |seen| {
            is(seen, "GET", SYSTEM)
                .then(|| system_with(|system| system["@odata.etag"] = json!(tag)))
        })
        .await;
        bmc.client()
            .set_boot_device(&crate::redfish::BootDevice::Pxe, Lasting::Once)
            .await
            .unwrap();
        let patch = bmc
            .seen()
            .into_iter()
            .find(|seen| seen.method == "PATCH")
            .unwrap();
        assert_eq!(patch.if_match.as_deref(), sent);
    }
}

fn task(seen: &Seen, running: usize, end: &'static str) -> Option<Answer> {
    match (seen.method.as_str(), seen.path.as_str()) {
        ("POST", path) if path.ends_with("Reset") => {
            Some(status(202).with("location", "http://elsewhere.invalid/tasks/1"))
        }
        ("GET", "/tasks/1") if seen.before < running => Some(Answer {
            status: 202,
            ..ok(json!({"TaskState": "Running"}))
        }),
        ("GET", "/tasks/1") => Some(ok(
            json!({"TaskState": end, "Messages": [{"Message": "the disk is full"}]}),
        )),
        _ => None,
    }
}

#[tokio::test]
async fn a_task_is_followed_to_its_end_on_this_bmc() {
    let bmc = Fake::start(|seen| task(seen, 3, "Completed")).await;
    bmc.client().reset(Reset::On).await.unwrap();
    assert_eq!(bmc.count("GET", "/tasks/1"), 4);

    let bmc = Fake::start(|seen| task(seen, 1, "Exception")).await;
    let error = bmc.client().reset(Reset::On).await.unwrap_err();
    assert!(
        matches!(&error, Error::Task { state, message, .. } if state == "Exception" && message == "the disk is full"),
        "{error}"
    );

    let bmc = Fake::start(|seen| task(seen, usize::MAX, "")).await;
    let error = bmc.client().reset(Reset::On).await.unwrap_err();
    assert!(
        matches!(&error, Error::Slow { last, .. } if last == "the task is Running"),
        "{error}"
    );

    let purged = |seen: &Seen| {
        (seen.path == "/tasks/1" && seen.before == 2)
            .then(|| status(404))
            .or_else(|| task(seen, 9, ""))
    };
    let bmc = Fake::start(purged).await;
    bmc.client().reset(Reset::On).await.unwrap();
}

#[tokio::test]
async fn answers_that_are_no_resources_are_named() {
    let bmc = Fake::start(|seen| {
        (seen.path == SYSTEM).then(|| Answer {
            status: 200,
            headers: vec![],
            body: "<html>".into(),
        })
    })
    .await;
    assert!(matches!(
        bmc.client().power().await.unwrap_err(),
        Error::NotJson { .. }
    ));
    let bmc = Fake::start(|seen| (seen.path == SYSTEM).then(|| ok(json!([1])))).await;
    assert!(matches!(
        bmc.client().power().await.unwrap_err(),
        Error::NotJson { .. }
    ));
    let bmc =
        Fake::start(|seen| (seen.path == SYSTEM).then(|| ok(json!({"Id": "x".repeat(30_000)}))))
            .await;
    assert!(matches!(
        bmc.client().power().await.unwrap_err(),
        Error::TooLarge { limit: 20_000, .. }
    ));
    let bmc = Fake::start(|seen| (seen.path == SYSTEM).then(|| ok(json!({"Id": "1"})))).await;
    let error = bmc.client().power().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("read the power state: {}{SYSTEM} lacks PowerState", bmc.url)
    );
    let bmc = Fake::start(|seen| {
        (seen.path == SYSTEM)
            .then(|| system_with(|system| _ = system.as_object_mut().unwrap().remove("Actions")))
    })
    .await;
    let error = bmc.client().system().await.unwrap_err().to_string();
    assert!(
        error.ends_with("lacks Actions.#ComputerSystem.Reset.target"),
        "{error}"
    );
}

#[tokio::test]
async fn a_redirect_elsewhere_is_not_followed_with_our_token() {
    let thief = Fake::start(|_| None).await;
    let there = format!("{}/stolen", thief.url);
    let bmc = Fake::start(move |seen| {
        (seen.path == SYSTEM).then(|| status(307).with("location", &there))
    })
    .await;
    assert_eq!(bmc.client().power().await.unwrap_err().status(), Some(307));
    assert!(thief.seen().is_empty());
    let bmc = Fake::start(|seen| match seen.path.as_str() {
        SYSTEM => Some(status(307).with("location", "/here")),
        "/here" => Some(ok(system())),
        _ => None,
    })
    .await;
    assert_eq!(bmc.client().power().await.unwrap(), Some(Power::Off));
}

#[tokio::test]
async fn several_systems_need_a_choice() {
    let two = |seen: &Seen| {
        (seen.path == "/redfish/v1/Systems")
            .then(|| ok(json!({"Members": [{"@odata.id": "/a"}, {"@odata.id": "/b"}]})))
    };
    let bmc = Fake::start(two).await;
    let error = bmc.client().power().await.unwrap_err().to_string();
    assert!(error.contains("2 systems"), "{error}");
    let client = bmc.client_with(|config| config.system = Some(SYSTEM.into()));
    assert_eq!(client.power().await.unwrap(), Some(Power::Off));
}

#[tokio::test]
async fn pages_of_a_collection_end() {
    let round = |seen: &Seen| {
        (seen.path == "/redfish/v1/Systems").then(|| {
            ok(json!({"Members": [{"@odata.id": SYSTEM}], "Members@odata.nextLink": "/redfish/v1/Systems?$skip=1"}))
        })
    };
    let bmc = Fake::start(round).await;
    let client = bmc.client_with(|config| config.limits.members = 10);
    assert!(
        client.power().await.is_err(),
        "ten times the same is not one"
    );
    assert!(bmc.count("GET", "/redfish/v1/Systems") <= 10);
}
