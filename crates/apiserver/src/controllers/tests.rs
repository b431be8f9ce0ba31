//! Controllers at work in a whole server, on an embedded store.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::test_site::Site;

const MAPS: &str = "/api/v1/namespaces/metal/configmaps";

fn map(name: &str, owners: &[&Value]) -> Value {
    let owners: Vec<Value> = owners
        .iter()
        .map(|owner| {
            json!({
                "apiVersion": "v1", "kind": "ConfigMap", "blockOwnerDeletion": true,
                "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
            })
        })
        .collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": owners}})
}

#[tokio::test]
async fn what_must_be_there_from_the_start_is_there() {
    let site = Site::new().await;
    for path in [
        "/api/v1/namespaces/default",
        "/api/v1/namespaces/kube-system",
        "/api/v1/namespaces/metal",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/system:node",
    ] {
        site.local.get(path).await.unwrap();
    }
    for path in [
        "/api/v1/namespaces/metal/serviceaccounts/default",
        "/api/v1/namespaces/metal/configmaps/kube-root-ca.crt",
    ] {
        site.eventually(path, Result::is_ok).await.unwrap();
    }
    // What edit gathers has what view gathers.
    let edit = "/apis/rbac.authorization.k8s.io/v1/clusterroles/edit";
    site.eventually(edit, |role| {
        let text = role.as_ref().map(ToString::to_string).unwrap_or_default();
        text.contains("serviceaccounts/token") && text.contains("namespaces")
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn what_is_owned_goes_with_the_last_of_its_owners() {
    let site = Site::new().await;
    let one = site.local.create(MAPS, &map("one", &[])).await.unwrap();
    let two = site.local.create(MAPS, &map("two", &[])).await.unwrap();
    site.local
        .create(MAPS, &map("owned", &[&one, &two]))
        .await
        .unwrap();
    let ones = site
        .local
        .create(MAPS, &map("ones", &[&one]))
        .await
        .unwrap();
    site.local
        .create(MAPS, &map("ones-own", &[&ones]))
        .await
        .unwrap();
    site.local
        .delete(&format!("{MAPS}/one"), &json!({}))
        .await
        .unwrap();
    site.gone(&format!("{MAPS}/ones")).await;
    site.gone(&format!("{MAPS}/ones-own")).await;
    let owned = format!("{MAPS}/owned");
    let left = site.eventually(&owned, |seen| {
        let seen = seen.as_ref().unwrap();
        seen["metadata"]["ownerReferences"]
            .as_array()
            .is_some_and(|owners| owners.len() == 1)
    });
    assert_eq!(
        left.await.unwrap()["metadata"]["ownerReferences"][0]["name"],
        "two"
    );
    site.local
        .delete(&format!("{MAPS}/two"), &json!({}))
        .await
        .unwrap();
    site.gone(&owned).await;
}

#[tokio::test]
async fn an_owner_in_the_foreground_waits_for_what_blocks_it() {
    let site = Site::new().await;
    let owner = site.local.create(MAPS, &map("owner", &[])).await.unwrap();
    let mut held = map("held", &[&owner]);
    held["metadata"]["finalizers"] = json!(["test.plinth/hold"]);
    site.local.create(MAPS, &held).await.unwrap();
    let options = json!({"propagationPolicy": "Foreground"});
    site.local
        .delete(&format!("{MAPS}/owner"), &options)
        .await
        .unwrap();
    let held = format!("{MAPS}/held");
    site.eventually(&held, |seen| {
        seen.as_ref().is_ok_and(super::is_being_deleted)
    })
    .await
    .unwrap();
    site.local.get(&format!("{MAPS}/owner")).await.unwrap();
    site.local
        .merge(&held, &json!({"metadata": {"finalizers": null}}))
        .await
        .unwrap();
    site.gone(&held).await;
    site.gone(&format!("{MAPS}/owner")).await;
}

#[tokio::test]
async fn orphans_stay_and_forget() {
    let site = Site::new().await;
    let owner = site.local.create(MAPS, &map("owner", &[])).await.unwrap();
    site.local
        .create(MAPS, &map("orphan", &[&owner]))
        .await
        .unwrap();
    let options = json!({"propagationPolicy": "Orphan"});
    site.local
        .delete(&format!("{MAPS}/owner"), &options)
        .await
        .unwrap();
    site.gone(&format!("{MAPS}/owner")).await;
    let orphan = site.local.get(&format!("{MAPS}/orphan")).await.unwrap();
    let owners = orphan["metadata"]["ownerReferences"].as_array();
    assert!(owners.is_none_or(Vec::is_empty), "{orphan}");
}

#[tokio::test]
async fn what_names_an_owner_that_never_was_goes() {
    let site = Site::new().await;
    let stranger = json!({"metadata": {"name": "never", "uid": "0000"}});
    site.local
        .create(MAPS, &map("lost", &[&stranger]))
        .await
        .unwrap();
    site.gone(&format!("{MAPS}/lost")).await;
}

#[tokio::test]
async fn a_namespace_is_emptied_and_then_goes() {
    let site = Site::new().await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "short"}});
    site.local
        .create("/api/v1/namespaces", &namespace)
        .await
        .unwrap();
    let maps = "/api/v1/namespaces/short/configmaps";
    let mut held = map("held", &[]);
    held["metadata"]["finalizers"] = json!(["test.plinth/hold"]);
    site.local.create(maps, &held).await.unwrap();
    site.local.create(maps, &map("free", &[])).await.unwrap();
    site.local
        .delete("/api/v1/namespaces/short", &json!({}))
        .await
        .unwrap();
    site.gone(&format!("{maps}/free")).await;
    let waiting = site.local.get("/api/v1/namespaces/short").await.unwrap();
    assert_eq!(waiting["status"]["phase"], "Terminating");
    let patch = json!({"metadata": {"finalizers": null}});
    site.local
        .merge(&format!("{maps}/held"), &patch)
        .await
        .unwrap();
    site.gone("/api/v1/namespaces/short").await;
}

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "racks.test.plinth"},
        "spec": {
            "group": "test.plinth",
            "scope": "Namespaced",
            "names": {"plural": "racks", "singular": "rack", "kind": "Rack", "listKind": "RackList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

#[tokio::test]
async fn a_definition_is_established_and_takes_its_objects_with_it() {
    let site = Site::new().await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    site.local.create(definitions, &definition()).await.unwrap();
    let path = format!("{definitions}/racks.test.plinth");
    let established = site.eventually(&path, |seen| {
        let text = seen.as_ref().unwrap()["status"].to_string();
        text.contains("Established") && text.contains("InitialNamesAccepted")
    });
    assert_eq!(
        established.await.unwrap()["status"]["storedVersions"],
        json!(["v1"])
    );
    let racks = "/apis/test.plinth/v1/namespaces/metal/racks";
    let rack = json!({"apiVersion": "test.plinth/v1", "kind": "Rack", "metadata": {"name": "r"}});
    site.local.create(racks, &rack).await.unwrap();
    site.local.delete(&path, &json!({})).await.unwrap();
    site.gone(&path).await;
    let key = crate::store::key("test.plinth", "racks", "metal", "r");
    assert!(site.running.store().peek(&key).is_none());
}

#[tokio::test]
async fn a_secret_that_asks_for_a_token_gets_one_and_goes_with_its_account() {
    let site = Site::new().await;
    let accounts = "/api/v1/namespaces/metal/serviceaccounts";
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "builder"}});
    site.local.create(accounts, &account).await.unwrap();
    let secrets = "/api/v1/namespaces/metal/secrets";
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {"name": "builder-token", "annotations": {"kubernetes.io/service-account.name": "builder"}},
    });
    site.local.create(secrets, &secret).await.unwrap();
    let path = format!("{secrets}/builder-token");
    let filled = site.eventually(&path, |seen| {
        seen.as_ref()
            .is_ok_and(|secret| secret["data"]["token"].is_string())
    });
    let filled = filled.await.unwrap();
    let token = STANDARD
        .decode(filled["data"]["token"].as_str().unwrap())
        .unwrap();
    let token = String::from_utf8(token).unwrap();
    let ask = site.client(None).get(site.url(secrets)).bearer_auth(&token);
    let answer = ask.send().await.unwrap();
    assert_eq!(answer.status(), 403, "known, but without rights");
    site.local
        .delete(&format!("{accounts}/builder"), &json!({}))
        .await
        .unwrap();
    let ask = site.client(None).get(site.url(secrets)).bearer_auth(&token);
    assert_eq!(ask.send().await.unwrap().status(), 401);
    site.gone(&path).await;
}

#[tokio::test]
async fn an_approved_request_is_signed() {
    let site = Site::new().await;
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, "carol");
    let key = rcgen::KeyPair::generate().unwrap();
    let request = params.serialize_request(&key).unwrap().pem().unwrap();
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let csr = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "carol"},
        "spec": {
            "request": STANDARD.encode(request), "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"], "expirationSeconds": 3600,
        },
    });
    let mut csr = site.local.create(requests, &csr).await.unwrap();
    csr["status"] = json!({"conditions": [{"type": "Approved", "status": "True", "reason": "Test", "message": "by the test"}]});
    let path = format!("{requests}/carol");
    site.local
        .update(&format!("{path}/approval"), &csr)
        .await
        .unwrap();
    let signed = site.eventually(&path, |seen| {
        seen.as_ref()
            .is_ok_and(|csr| csr["status"]["certificate"].is_string())
    });
    let signed = signed.await.unwrap();
    let pem = STANDARD
        .decode(signed["status"]["certificate"].as_str().unwrap())
        .unwrap();
    let pem = [pem, key.serialize_pem().into_bytes()].concat();
    std::fs::write(site.directory.path().join("carol.pem"), &pem).unwrap();
    std::fs::write(site.directory.path().join("carol.key"), b"").unwrap();
    let ask = site
        .client(Some("carol"))
        .get(site.url("/api/v1/nodes"))
        .send();
    let answer: Value = ask.await.unwrap().json().await.unwrap();
    assert!(
        answer["message"].as_str().unwrap().contains("\"carol\""),
        "{answer}"
    );
}

/// A request for a node's client certificate, made by whoever these say.
async fn ask_for_node(site: &Site, name: &str, user: &str, group: &str) -> String {
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    for (kind, value) in [
        (rcgen::DnType::OrganizationName, "system:nodes"),
        (rcgen::DnType::CommonName, "system:node:n1"),
    ] {
        params.distinguished_name.push(kind, value);
    }
    let key = rcgen::KeyPair::generate().unwrap();
    let request = params.serialize_request(&key).unwrap().pem().unwrap();
    let csr = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
        "spec": {
            "request": STANDARD.encode(request), "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "usages": ["digital signature", "client auth"],
        },
    });
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let asked = site
        .client(None)
        .post(site.url(requests))
        .bearer_auth("admin-token")
        .header("Impersonate-User", user)
        .header("Impersonate-Group", group)
        .json(&csr);
    let answer = asked.send().await.unwrap();
    assert_eq!(answer.status(), 201, "{}", answer.text().await.unwrap());
    format!("{requests}/{name}")
}

#[tokio::test]
async fn a_node_renews_its_own_certificate_and_nobody_elses() {
    let site = Site::new().await;
    let nodes = "system:nodes";
    let other = ask_for_node(&site, "other", "system:node:n2", nodes).await;
    let first = ask_for_node(&site, "first", "system:bootstrap:x", "system:bootstrappers").await;
    let own = ask_for_node(&site, "own", "system:node:n1", nodes).await;
    let signed = site.eventually(&own, |seen| {
        seen.as_ref()
            .is_ok_and(|csr| csr["status"]["certificate"].is_string())
    });
    let reason = &signed.await.unwrap()["status"]["conditions"][0]["reason"];
    assert_eq!(reason, "AutoApproved");
    for path in [other, first] {
        let left = site.local.get(&path).await.unwrap();
        assert!(left["status"]["conditions"].is_null(), "{left}");
    }
}
