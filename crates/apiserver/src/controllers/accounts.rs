//! What every namespace has from its first day: a service account and the cluster's authority; and tokens in Secrets.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};
use tracing::info;

use super::work::{Controller, Next, read};
use super::{Context, all, is_being_deleted, meta};
use crate::local::Refusal;
use crate::store;

/// `default`, and the ConfigMap that programs verify this server with.
pub(super) struct Accounts(pub Context);

const AUTHORITY: &str = "kube-root-ca.crt";

impl Controller for Accounts {
    const NAME: &'static str = "accounts";

    fn prefix(&self) -> String {
        store::prefix("", "namespaces", "")
    }

    async fn look(&mut self, _: &str, object: Option<Value>) -> Result<Next, Refusal> {
        let Some(namespace) = object.filter(|object| !is_being_deleted(object)) else {
            return Ok(Next::Done);
        };
        let name = meta(&namespace, "name");
        let account =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        self.ensure(name, "serviceaccounts", &account).await?;
        if !self.0.ca.is_empty() {
            let authority = json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": AUTHORITY},
                "data": {"ca.crt": self.0.ca},
            });
            self.ensure(name, "configmaps", &authority).await?;
        }
        Ok(Next::Done)
    }
}

impl Accounts {
    async fn ensure(&self, namespace: &str, plural: &str, object: &Value) -> Result<(), Refusal> {
        let key = store::key("", plural, namespace, meta(object, "name"));
        if self.0.store.peek(&key).is_some() {
            return Ok(());
        }
        let path = format!("/api/v1/namespaces/{namespace}/{plural}");
        match self.0.local.create(&path, object).await {
            // There already, or the namespace goes.
            Err(refusal) if matches!(refusal.code, 403 | 404 | 409) => Ok(()),
            result => result.map(drop),
        }
    }
}

/// Accounts that went take their Secrets along.
pub(super) struct LostTokens(pub Context);

impl Controller for LostTokens {
    const NAME: &'static str = "lost-tokens";

    fn prefix(&self) -> String {
        store::prefix("", "serviceaccounts", "")
    }

    async fn look(&mut self, key: &str, object: Option<Value>) -> Result<Next, Refusal> {
        let mut parts = key.trim_start_matches(&self.prefix()).split('/');
        let (Some(namespace), Some(name), None) = (parts.next(), parts.next(), object) else {
            return Ok(Next::Done);
        };
        let secrets = all(&self.0.store, &store::prefix("", "secrets", namespace)).await?;
        for secret in secrets {
            if secret["metadata"]["annotations"][ACCOUNT] == json!(name) {
                TokenSecrets(self.0.clone()).look("", Some(secret)).await?;
            }
        }
        Ok(Next::Done)
    }
}

/// Secrets that ask for a token of a service account get one, and go with the account.
pub(super) struct TokenSecrets(pub Context);

const TYPE: &str = "kubernetes.io/service-account-token";
const ACCOUNT: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

impl Controller for TokenSecrets {
    const NAME: &'static str = "token-secrets";

    fn prefix(&self) -> String {
        store::prefix("", "secrets", "")
    }

    async fn look(&mut self, _: &str, object: Option<Value>) -> Result<Next, Refusal> {
        let wanted = |secret: &Value| secret["type"] == json!(TYPE) && !is_being_deleted(secret);
        let Some(secret) = object.filter(wanted) else {
            return Ok(Next::Done);
        };
        let annotation = |name: &str| {
            let annotations = &secret["metadata"]["annotations"];
            annotations[name].as_str().unwrap_or_default()
        };
        let (namespace, name) = (meta(&secret, "namespace"), meta(&secret, "name"));
        let path = format!("/api/v1/namespaces/{namespace}/secrets/{name}");
        let key = store::key("", "serviceaccounts", namespace, annotation(ACCOUNT));
        let (account, _) = self
            .0
            .store
            .get(&key)
            .await
            .map_err(|error| super::failed(&error))?;
        let account = account.as_ref().and_then(read);
        let uid = account.as_ref().map_or("", |account| meta(account, "uid"));
        let known = annotation(ACCOUNT_UID);
        if uid.is_empty() || (!known.is_empty() && known != uid) {
            info!(secret = name, namespace, "the account of a token is gone");
            let options = json!({"preconditions": {"uid": meta(&secret, "uid")}});
            return match self.0.local.delete(&path, &options).await {
                Err(refusal) if refusal.code != 404 => Err(refusal),
                _ => Ok(Next::Done),
            };
        }
        let filled = |field: &str| {
            let text = secret["data"][field].as_str();
            text.is_some_and(|text| !text.is_empty())
        };
        if !known.is_empty() && filled("token") && filled("namespace") {
            return Ok(Next::Done);
        }
        let account = (annotation(ACCOUNT), uid);
        let owner = (name, meta(&secret, "uid"));
        let token = self
            .0
            .tokens
            .issue_for_secret(namespace, account, owner, Timestamp::now());
        let token = token.map_err(|status| Refusal {
            code: status.code,
            reason: "InternalError".into(),
            message: status.message,
        })?;
        let mut data =
            json!({"token": STANDARD.encode(token), "namespace": STANDARD.encode(namespace)});
        if !self.0.ca.is_empty() {
            data["ca.crt"] = json!(STANDARD.encode(&self.0.ca));
        }
        let metadata = json!({
            "annotations": {ACCOUNT_UID: uid},
            "resourceVersion": meta(&secret, "resourceVersion"),
        });
        let patch = json!({"metadata": metadata, "data": data});
        self.0.local.merge(&path, &patch).await?;
        Ok(Next::Done)
    }
}
