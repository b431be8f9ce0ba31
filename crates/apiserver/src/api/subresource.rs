//! What hangs below an object: its status and scale, and what only some kinds have.

use objects::kinds::Subresource;
use objects::{Cause, Status};
use serde_json::{Value, json};

use super::answer::Answer;
use super::request::Verb;
use super::write::{How, Next};
use super::{Call, TokenWish, admission, body, object, patch, read, write};

pub async fn answer(call: &Call<'_>, verb: Verb, name: &str) -> Result<Answer, Status> {
    let subresource = call
        .kind
        .subresource(name)
        .ok_or_else(Status::no_such_path)?;
    if !subresource.verbs().contains(&verb.as_str()) {
        return Err(Status::method_not_supported(
            &call.kind.resource(),
            verb.as_str(),
        ));
    }
    let reads = verb == Verb::Get;
    match subresource {
        Subresource::Status | Subresource::Approval if reads => read::get(call).await,
        Subresource::Scale(_) if reads => get_scale(call).await,
        Subresource::Status => write_object(call, verb, name).await,
        Subresource::Approval => {
            admission::check_approval(call).await?;
            write_object(call, verb, name).await
        }
        Subresource::Scale(_) => set_scale(call, verb).await,
        Subresource::Finalize => write::update(call, name).await,
        Subresource::Token => token(call).await,
    }
}

async fn write_object(call: &Call<'_>, verb: Verb, name: &str) -> Result<Answer, Status> {
    if verb == Verb::Update {
        write::update(call, name).await
    } else {
        patch::patch(call, name).await
    }
}

async fn get_scale(call: &Call<'_>) -> Result<Answer, Status> {
    let object = read::find(call).await?;
    Ok(Answer::json(scale_of(call, &object)?))
}

fn scale_of(call: &Call<'_>, object: &Value) -> Result<Value, Status> {
    call.kind.scale(object).ok_or_else(Status::no_such_path)
}

/// A write to the scale is a change of the object's replicas and nothing else; it answers with the scale.
async fn set_scale(call: &Call<'_>, verb: Verb) -> Result<Answer, Status> {
    let how = How::parse(call, "scale")?;
    let media = body::media(&call.parts.headers);
    let whole = verb == Verb::Update;
    let written = if whole {
        body::object(&call.parts.headers, call.body)?.value
    } else {
        body::yaml(call.body)?.value
    };
    let compute = |old: &Value| {
        let before = scale_of(call, old)?;
        let scale = match media.as_str() {
            _ if whole => written.clone(),
            body::APPLY_PATCH | body::STRATEGIC_PATCH => objects::patch::merge(&before, &written)?,
            media => patch::patched(call, media, &before, &written)?,
        };
        let version = object::meta(&scale, "resourceVersion");
        if !version.is_empty() && version != object::meta(old, "resourceVersion") {
            return Err(Status::modified(&call.kind.resource(), call.name()));
        }
        let object = call.kind.with_scale(old, &scale)?;
        let prepared = objects::write::prepare(call.kind, object, call.namespace(), call.name())?;
        Ok(Next {
            object: prepared.object,
            warnings: Vec::new(),
            tracked: false,
        })
    };
    let changed = write::change(call, &how, compute).await?;
    Ok(Answer::json(scale_of(call, &changed.object)?).with_warnings(changed.warnings))
}

/// A token for a ServiceAccount (`kubectl create token`).
async fn token(call: &Call<'_>) -> Result<Answer, Status> {
    // Kubernetes' limits, in seconds.
    const USUAL: i64 = 3600;
    const SHORTEST: i64 = 600;
    const LONGEST: i64 = 1 << 32;
    let account = read::find(call).await?;
    let mut request = body::object(&call.parts.headers, call.body)?.value;
    let seconds = request
        .pointer("/spec/expirationSeconds")
        .and_then(Value::as_i64)
        .unwrap_or(USUAL);
    if !(SHORTEST..=LONGEST).contains(&seconds) {
        let cause = Cause::invalid(
            "spec.expirationSeconds",
            &json!(seconds),
            "may not specify a duration less than 10 minutes",
        );
        return Err(Status::invalid(
            "authentication.k8s.io",
            "TokenRequest",
            call.name(),
            vec![cause],
        ));
    }
    let audiences: Vec<String> = request
        .pointer("/spec/audiences")
        .and_then(Value::as_array)
        .map(|list| {
            list.iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect()
        })
        .unwrap_or_default();
    let wish = TokenWish {
        namespace: call.namespace(),
        name: call.name(),
        uid: object::meta(&account, "uid"),
        audiences,
        seconds,
    };
    let (token, expires) = call.core.access.issue(&wish)?;
    request["apiVersion"] = json!("authentication.k8s.io/v1");
    request["kind"] = json!("TokenRequest");
    request["metadata"] = json!({ "name": call.name(), "namespace": call.namespace(), "creationTimestamp": whole_seconds(call.now) });
    request["spec"]["expirationSeconds"] = json!(seconds);
    request["status"] = json!({ "token": token, "expirationTimestamp": whole_seconds(expires) });
    let mut answer = Answer::json(request);
    answer.code = 201;
    Ok(answer)
}

/// Kubernetes' times have no fractions.
fn whole_seconds(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
