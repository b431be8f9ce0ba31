//! Tokens of service accounts, and standing in for others.

use std::sync::Arc;

use axum::http::HeaderMap;
use jiff::{SignedDuration, Timestamp};
use objects::access::User;
use serde_json::json;

use super::*;
use crate::config::ISSUER;
use crate::store::{self, Embedded, Store};

struct Fixture {
    auth: Arc<Auth>,
    store: Store,
    directory: tempfile::TempDir,
}

async fn fixture() -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    let store = Embedded::open(&directory.path().join("registry")).unwrap();
    let store = Store::Embedded(Arc::new(store));
    let account = json!({"metadata": {"name": "builder", "namespace": "metal", "uid": "u1"}});
    let key = store::key("", "serviceaccounts", "metal", "builder");
    store
        .create(&key, account.to_string().into())
        .await
        .unwrap();
    let tokens = Tokens::load(&directory.path().join("accounts.key"), ISSUER).unwrap();
    let auth = Auth::new(store.clone(), tokens, TokenFile::default());
    Fixture {
        auth,
        store,
        directory,
    }
}

fn wish(audiences: &[&str]) -> TokenWish<'static> {
    TokenWish {
        namespace: "metal",
        name: "builder",
        uid: "u1",
        audiences: audiences.iter().map(|text| (*text).to_owned()).collect(),
        seconds: 3600,
    }
}

#[tokio::test]
async fn a_token_is_its_account_until_it_expires_or_the_account_goes() {
    let it = fixture().await;
    let now = Timestamp::now();
    let (token, expires) = it.auth.tokens.issue(&wish(&[]), now).unwrap();
    let user = |now| it.auth.tokens.user(&it.store, &token, &[], now);
    let found = user(now).unwrap();
    assert_eq!(found.name, "system:serviceaccount:metal:builder");
    assert!(
        found
            .groups
            .contains(&"system:serviceaccounts:metal".to_owned())
    );
    assert!(user(expires).is_none(), "expired");
    assert!(
        user(now - SignedDuration::from_hours(1)).is_none(),
        "not yet"
    );
    // Another account of the same name is another account.
    let key = store::key("", "serviceaccounts", "metal", "builder");
    let kv = it.store.peek(&key).unwrap();
    let other = json!({"metadata": {"name": "builder", "namespace": "metal", "uid": "u2"}});
    it.store
        .update(&key, other.to_string().into(), kv.revision)
        .await
        .unwrap();
    assert!(user(now).is_none(), "the account is another");
}

#[tokio::test]
async fn a_token_is_good_for_its_audience_alone() {
    let it = fixture().await;
    let (token, _) = it
        .auth
        .tokens
        .issue(&wish(&["vault"]), Timestamp::now())
        .unwrap();
    assert!(it.auth.authenticate(&token, &[]).is_none());
    assert!(it.auth.authenticate(&token, &["other".into()]).is_none());
    assert!(it.auth.authenticate(&token, &["vault".into()]).is_some());
}

#[tokio::test]
async fn a_token_of_another_key_or_changed_on_its_way_is_nothing() {
    let it = fixture().await;
    let other = Tokens::load(&it.directory.path().join("other.key"), ISSUER).unwrap();
    let (token, _) = other.issue(&wish(&[]), Timestamp::now()).unwrap();
    assert!(it.auth.authenticate(&token, &[]).is_none());
    let (token, _) = it.auth.tokens.issue(&wish(&[]), Timestamp::now()).unwrap();
    for at in (0..token.len()).step_by(7) {
        let mut changed = token.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        // The last bits of a piece of base64 may mean nothing.
        if let Some(user) = it.auth.authenticate(&changed, &[]) {
            assert_eq!(user.name, "system:serviceaccount:metal:builder");
        }
    }
}

#[tokio::test]
async fn the_key_is_kept_for_its_owner_and_used_again() {
    let it = fixture().await;
    let path = it.directory.path().join("accounts.key");
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&path).unwrap());
    assert_eq!(mode & 0o777, 0o600);
    let (token, _) = it.auth.tokens.issue(&wish(&[]), Timestamp::now()).unwrap();
    let again = Tokens::load(&path, ISSUER).unwrap();
    assert!(
        again
            .user(&it.store, &token, &[], Timestamp::now())
            .is_some()
    );
}

fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(*name, value.parse().unwrap());
    }
    headers
}

#[tokio::test]
async fn only_those_who_may_stand_in_for_others() {
    let it = fixture().await;
    let user = |name: &str, group: &str| User {
        name: name.to_owned(),
        groups: vec![group.to_owned()],
        ..User::default()
    };
    let as_jane = headers(&[
        ("impersonate-user", "jane"),
        ("impersonate-group", "people"),
    ]);
    let master = user("root", MASTERS);
    let seen = it.auth.identify(Some(&master), &as_jane).unwrap();
    assert_eq!(seen.name, "jane");
    assert_eq!(seen.groups, ["people", AUTHENTICATED]);
    let refused = it.auth.identify(Some(&user("bob", "people")), &as_jane);
    assert_eq!(refused.unwrap_err().code, 403);
    let account = headers(&[("impersonate-user", "system:serviceaccount:metal:builder")]);
    let seen = it.auth.identify(Some(&master), &account).unwrap();
    assert!(
        seen.groups
            .contains(&"system:serviceaccounts:metal".to_owned())
    );
    let nobody = headers(&[("impersonate-group", "people")]);
    assert_eq!(
        it.auth.identify(Some(&master), &nobody).unwrap_err().code,
        400
    );
}
