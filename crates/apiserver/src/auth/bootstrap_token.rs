//! Bootstrap tokens: `abcdef.0123456789abcdef`, kept as Secrets in kube-system, for nodes that have nothing else yet.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use objects::access::User;
use serde_json::Value;

use super::same;
use crate::store::{self, Store};

pub const GROUP: &str = "system:bootstrappers";
const TYPE: &str = "bootstrap.kubernetes.io/token";

/// Whose token this is, while it is valid.
pub fn user(store: &Store, token: &str, now: Timestamp) -> Option<User> {
    let (id, secret) = parse(token)?;
    let name = format!("bootstrap-token-{id}");
    let kept = store.peek(&store::key("", "secrets", "kube-system", &name))?;
    check(&serde_json::from_slice(&kept.value).ok()?, id, secret, now)
}

/// Six characters, a dot, sixteen more.
fn parse(token: &str) -> Option<(&str, &str)> {
    let (id, secret) = token.split_once('.')?;
    let plain = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    (id.len() == 6 && secret.len() == 16 && plain(id) && plain(secret)).then_some((id, secret))
}

fn check(object: &Value, id: &str, secret: &str, now: Timestamp) -> Option<User> {
    let field = |name: &str| {
        let text = object.get("data")?.get(name)?.as_str()?;
        String::from_utf8(STANDARD.decode(text).ok()?).ok()
    };
    let gone = object.pointer("/metadata/deletionTimestamp").is_some();
    if gone || object.get("type")?.as_str() != Some(TYPE) {
        return None;
    }
    if field("token-id")? != id || !same(field("token-secret")?.as_bytes(), secret.as_bytes()) {
        return None;
    }
    if field("usage-bootstrap-authentication")? != "true" {
        return None;
    }
    // A time that cannot be read is over.
    if let Some(expires) = field("expiration")
        && !expires
            .parse::<Timestamp>()
            .is_ok_and(|expires| expires > now)
    {
        return None;
    }
    let mut groups = vec![GROUP.to_owned()];
    let more = field("auth-extra-groups").unwrap_or_default();
    let more = more.split(',').map(str::trim);
    // Only groups of bootstrappers: a Secret must not make masters.
    groups.extend(
        more.filter(|group| group.starts_with("system:bootstrappers:"))
            .map(str::to_owned),
    );
    Some(User {
        name: format!("system:bootstrap:{id}"),
        groups,
        ..User::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn secret(change: impl FnOnce(&mut Value)) -> Value {
        let data = |text: &str| STANDARD.encode(text);
        let mut object = json!({
            "type": TYPE,
            "metadata": {"name": "bootstrap-token-abcdef", "namespace": "kube-system"},
            "data": {
                "token-id": data("abcdef"),
                "token-secret": data("0123456789abcdef"),
                "usage-bootstrap-authentication": data("true"),
                "auth-extra-groups": data("system:bootstrappers:worker,system:masters"),
                "expiration": data("2030-01-01T00:00:00Z"),
            },
        });
        change(&mut object);
        object
    }

    fn ask(object: &Value, token: &str) -> Option<User> {
        let (id, secret) = parse(token)?;
        check(object, id, secret, "2026-01-01T00:00:00Z".parse().unwrap())
    }

    const TOKEN: &str = "abcdef.0123456789abcdef";

    #[test]
    fn a_valid_token_gives_a_bootstrapper_and_never_a_master() {
        let user = ask(&secret(|_| {}), TOKEN).unwrap();
        assert_eq!(user.name, "system:bootstrap:abcdef");
        assert_eq!(user.groups, [GROUP, "system:bootstrappers:worker"]);
    }

    #[test]
    fn whatever_is_wrong_with_it_it_opens_nothing() {
        let expired = STANDARD.encode("2020-01-01T00:00:00Z");
        let table: [(&str, Value, &str); 6] = [
            ("another secret", secret(|_| {}), "abcdef.0123456789abcdee"),
            ("no token at all", secret(|_| {}), "hello"),
            (
                "another type",
                secret(|object| object["type"] = json!("Opaque")),
                TOKEN,
            ),
            (
                "expired",
                secret(|object| object["data"]["expiration"] = json!(expired)),
                TOKEN,
            ),
            (
                "an end nobody can read",
                secret(|object| object["data"]["expiration"] = json!("eA==")),
                TOKEN,
            ),
            (
                "not for this",
                secret(|object| object["data"]["usage-bootstrap-authentication"] = json!("")),
                TOKEN,
            ),
        ];
        for (why, object, token) in table {
            assert_eq!(ask(&object, token), None, "{why}");
        }
    }
}
