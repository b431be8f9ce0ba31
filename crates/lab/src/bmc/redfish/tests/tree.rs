//! The tree of resources: links, expansion, headers.

use super::*;

#[tokio::test]
async fn every_link_of_every_vendor_leads_to_a_resource_that_knows_its_address() {
    for p in ALL {
        let bench = bench(p);
        let (mut open, mut seen) = (vec!["/redfish/v1/".to_string()], BTreeSet::new());
        while let Some(path) = open.pop() {
            if !seen.insert(path.clone()) {
                continue;
            }
            let reply = bench.get(&path).await;
            assert_eq!(reply.status, StatusCode::OK, "{}: {path}", p.name);
            assert_eq!(reply.header("odata-version"), "4.0");
            assert!(reply.header("link").contains("rel=describedby"), "{path}");
            assert!(
                reply.body["Name"].is_string() && reply.body["@odata.type"].is_string(),
                "{path}"
            );
            if !path.ends_with("/Registry") {
                assert_eq!(reply.body["@odata.id"], path.as_str(), "{}", p.name);
            }
            let tagged = reply.header("allow").contains("PATCH") || path.ends_with("/Accounts/1");
            assert_eq!(!reply.header("etag").is_empty(), tagged, "{path}");
            links(&reply.body, &mut open);
        }
        assert!(seen.len() > 40, "{}: {} resources", p.name, seen.len());
    }
}

fn links(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match (name.as_str(), value) {
                    ("@odata.id" | "@Redfish.ActionInfo" | "Uri", Value::String(path))
                        if !path.contains('#') =>
                    {
                        found.push(path.clone());
                    }
                    _ => links(value, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| links(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[tokio::test]
async fn a_collection_is_expanded_where_that_is_offered() {
    let generic = bench(vendor("generic"));
    let nics = format!("{}?$expand=.($levels=1)", generic.path(Resource::Nics));
    let members = &generic.get(&nics).await.is(200).body["Members"];
    assert_eq!(members[1]["MACAddress"], "52:54:00:00:00:02");
    let other = bench(vendor("supermicro"));
    other.get("/redfish/v1/Systems?$expand=.").await.is(501);
    other.get("/redfish/v1/Systems?cachebust=1").await.is(200);
}

#[tokio::test]
async fn heads_have_headers_and_no_body() {
    let bench = bench(vendor("generic"));
    let request = Bench::request("HEAD", "/redfish/v1/Systems/1")
        .body(HttpBody::empty())
        .unwrap();
    let reply = bench.raw(request).await.is(200);
    assert!(!reply.header("etag").is_empty() && reply.body.is_null());
}

#[tokio::test]
async fn the_metadata_is_xml_and_open_and_another_odata_is_not_spoken() {
    let bench = bench(vendor("generic"));
    let app = crate::bmc::redfish::app(Arc::clone(&bench.bmc));
    let request = Request::get("/redfish/v1/$metadata")
        .body(HttpBody::empty())
        .unwrap();
    let response = app.oneshot(request).await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/xml");
    let bytes = axum::body::to_bytes(response.into_body(), 1 << 16)
        .await
        .unwrap();
    assert!(
        bytes.starts_with(b"<?xml") && String::from_utf8_lossy(&bytes).contains("EntityContainer")
    );
    let newer = Request::get("/redfish/v1/").header("odata-version", "4.1");
    bench
        .raw(newer.body(HttpBody::empty()).unwrap())
        .await
        .is(412);
}
