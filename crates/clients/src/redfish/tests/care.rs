//! The BMC's own affairs: its jobs, its clock, its light, its sessions.

use serde_json::json;

use super::fake::{Answer, Fake, SYSTEM, Seen, ok, status, system_with};
use crate::redfish::{Error, Light};

const MANAGER: &str = "/redfish/v1/Managers/1";

/// The system, as one that says who manages it.
fn managed(seen: &Seen) -> Option<Answer> {
    let links = json!({"ManagedBy": [{"@odata.id": MANAGER}]});
    (seen.path == SYSTEM).then(|| system_with(|system| system["Links"] = links))
}

#[tokio::test]
async fn jobs_that_wait_at_a_dell_are_thrown_away_and_others_have_none() {
    const SERVICE: &str = "/redfish/v1/Dell/Jobs";
    const CLEAR: &str = "/redfish/v1/Dell/Jobs/Actions/Delete";
    let dell = Fake::start(|seen| match (seen.method.as_str(), seen.path.as_str()) {
        ("GET", MANAGER) => Some(ok(
            json!({"Id": "1", "Links": {"Oem": {"Dell": {"DellJobService": {"@odata.id": SERVICE}}}}}),
        )),
        ("GET", SERVICE) => Some(ok(
            json!({"Actions": {"#DellJobService.DeleteJobQueue": {"target": CLEAR}}}),
        )),
        ("POST", CLEAR) => Some(status(200)),
        _ => managed(seen),
    })
    .await;
    assert!(dell.client().clear_jobs().await.unwrap());
    assert_eq!(
        dell.bodies("POST", CLEAR),
        [json!({"JobID": "JID_CLEARALL"})]
    );
    let plain = Fake::start(|seen| match seen.path.as_str() {
        MANAGER => Some(ok(json!({"Id": "1"}))),
        _ => managed(seen),
    })
    .await;
    assert!(!plain.client().clear_jobs().await.unwrap());
}

#[tokio::test]
async fn the_clock_is_set_where_there_is_one() {
    let bmc = Fake::start(|seen| match (seen.method.as_str(), seen.path.as_str()) {
        ("GET", MANAGER) => Some(ok(
            json!({"Id": "1", "DateTime": "2000-01-01T00:00:00+00:00", "FirmwareVersion": "7.1"}),
        )),
        ("PATCH", MANAGER) => Some(status(204)),
        _ => managed(seen),
    })
    .await;
    let client = bmc.client();
    client.set_clock("2026-01-02T03:04:05+00:00").await.unwrap();
    assert_eq!(
        bmc.bodies("PATCH", MANAGER),
        [json!({"DateTime": "2026-01-02T03:04:05+00:00"})]
    );
    assert_eq!(client.bmc_version().await.unwrap().as_deref(), Some("7.1"));
    assert_eq!(
        client.clock().await.unwrap().as_deref(),
        Some("2000-01-01T00:00:00+00:00")
    );
}

#[tokio::test]
async fn licences_are_read_where_the_bmc_lists_them() {
    const LICENCES: &str = "/redfish/v1/Managers/1/LicenseService/";
    let hpe = Fake::start(|seen| match seen.path.as_str() {
        MANAGER => Some(ok(
            json!({"Id": "1", "Oem": {"Hpe": {"Links": {"LicenseService": {"@odata.id": LICENCES}}}}}),
        )),
        LICENCES => Some(ok(json!({"Members": [{"@odata.id": "/licence"}]}))),
        "/licence" => Some(ok(json!({"Id": "1", "License": "iLO Advanced"}))),
        _ => managed(seen),
    })
    .await;
    assert_eq!(
        hpe.client().licences().await.unwrap(),
        Some(vec!["iLO Advanced".to_string()])
    );
    let plain = Fake::start(|seen| match seen.path.as_str() {
        MANAGER => Some(ok(json!({"Id": "1"}))),
        _ => managed(seen),
    })
    .await;
    assert_eq!(plain.client().licences().await.unwrap(), None);
}

#[tokio::test]
async fn the_light_is_set_in_whichever_way_the_bmc_has_it() {
    for (shown, sent) in [
        (
            json!({"IndicatorLED": "Off"}),
            json!({"IndicatorLED": "Lit"}),
        ),
        (
            json!({"LocationIndicatorActive": false}),
            json!({"LocationIndicatorActive": true}),
        ),
    ] {
        let bmc = Fake::start(
            move |seen| match (seen.method.as_str(), seen.path.as_str()) {
                ("GET", SYSTEM) => Some(system_with(|system| {
                    system
                        .as_object_mut()
                        .unwrap()
                        .extend(shown.as_object().unwrap().clone());
                })),
                ("PATCH", SYSTEM) => Some(status(204)),
                _ => None,
            },
        )
        .await;
        assert_eq!(bmc.client().light().await.unwrap(), Some(Light::Off));
        bmc.client().set_light(Light::Lit).await.unwrap();
        assert_eq!(bmc.bodies("PATCH", SYSTEM), [sent]);
    }
    let dark = Fake::start(|_| None).await;
    assert_eq!(dark.client().light().await.unwrap(), None);
    let error = dark.client().set_light(Light::Lit).await.unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
}

#[tokio::test]
async fn systems_behind_one_bmc_share_its_session() {
    let bmc = Fake::start(|_| None).await;
    let first = bmc.client();
    let second = first.of_system(Some(SYSTEM.to_string()));
    first.power().await.unwrap();
    second.power().await.unwrap();
    let logins = |seen: &Seen| seen.method == "POST" && seen.path.contains("Session");
    assert_eq!(bmc.seen().iter().filter(|seen| logins(seen)).count(), 1);
}
