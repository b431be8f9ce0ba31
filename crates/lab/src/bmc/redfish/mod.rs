//! The Redfish service of one BMC.
//!
//! ```text
//!   request ─▶ faults ─▶ login ─▶ path::Resource ─▶ method ─▶ query, body, If-Match ─▶ the resource's file
//!                                                                                          │
//!   answer  ◀── @odata.id, ETag, Allow, OData-Version ◀── Answer, or Problem ◀─────────────┘
//! ```
//!
//! One file per family of resources. Each has `render*`, which makes JSON of the server's view, and where it can
//! be changed `change`, `create`, `delete` or the name of the action: read all of the body first, then tell the
//! chassis.

mod base;
mod bios;
mod body;
mod boot;
mod chassis;
mod etag;
pub(super) mod events;
mod gate;
mod manager;
mod messages;
mod parts;
mod path;
mod query;
mod root;
mod secure_boot;
mod serve;
pub(super) mod sessions;
mod storage;
mod system;
pub(super) mod tasks;
#[cfg(test)]
mod tests;
mod update;
mod virtual_media;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body as HttpBody;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use serde_json::{Map, Value, json};

pub use serve::{Handle, serve, spawn};

use super::Bmc;
use super::personality::Refused;
use crate::server::{Event, Refusal, TellError};
use body::Body;
use messages::{self as m, Message, Problem};
use path::{Action, Resource};

/// The service as an axum application.
pub fn app(bmc: Arc<Bmc>) -> Router {
    Router::new().fallback(handle).with_state(bmc)
}

/// What a request is answered with, when nothing is wrong with it.
#[derive(Debug)]
pub struct Answer {
    status: StatusCode,
    body: Option<Value>,
    headers: Vec<(&'static str, String)>,
}

impl Answer {
    fn new(status: StatusCode, body: Option<Value>) -> Self {
        Self {
            status,
            body,
            headers: vec![],
        }
    }

    fn no_content() -> Self {
        Self::new(StatusCode::NO_CONTENT, None)
    }
}

async fn handle(State(bmc): State<Arc<Bmc>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let resource = Resource::parse(parts.uri.path(), bmc.personality);
    let answer = match answer(&bmc, &parts, resource, body).await {
        Ok(answer) => answer,
        Err(problem) => {
            tracing::debug!(
                method = %parts.method,
                path = parts.uri.path(),
                status = problem.status.as_u16(),
                error = problem.messages.first().map(Message::id),
                "refused"
            );
            explain(&problem, resource)
        }
    };
    respond(answer, resource, parts.method == Method::HEAD)
}

fn explain(problem: &Problem, resource: Option<Resource>) -> Answer {
    let mut answer = Answer::new(problem.status, Some(problem.render()));
    if problem.status == StatusCode::UNAUTHORIZED {
        answer
            .headers
            .push(("www-authenticate", "Basic realm=\"Redfish\"".into()));
    }
    if let (StatusCode::METHOD_NOT_ALLOWED, Some(resource)) = (problem.status, resource) {
        answer.headers.push(("allow", resource.allow().into()));
    }
    if let Some(seconds) = problem.retry_after {
        answer.headers.push(("retry-after", seconds.to_string()));
    }
    answer
}

fn respond(answer: Answer, resource: Option<Resource>, head: bool) -> Response {
    let described_by = answer.body.as_ref().and_then(describe);
    let (media_type, text) = match answer.body {
        Some(Value::String(xml)) => ("application/xml", Some(xml)),
        Some(json) => ("application/json; charset=utf-8", Some(json.to_string())),
        None => ("", None),
    };
    let mut response = Response::new(match &text {
        Some(text) if !head => HttpBody::from(text.clone()),
        Some(_) | None => HttpBody::empty(),
    });
    *response.status_mut() = answer.status;
    let headers = response.headers_mut();
    headers.insert("odata-version", HeaderValue::from_static("4.0"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if text.is_some() {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    }
    if let Some(link) = described_by {
        headers.insert(header::LINK, link);
    }
    if let Some(resource) = resource.filter(|_| answer.status.is_success()) {
        headers.insert(header::ALLOW, HeaderValue::from_static(resource.allow()));
    }
    for (name, value) in answer.headers {
        // Values are our own ids, paths and numbers.
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    response
}

/// A link to the schema of a resource.
fn describe(resource: &Value) -> Option<HeaderValue> {
    let kind = resource.get("@odata.type")?.as_str()?.strip_prefix('#')?;
    let schema = kind.rsplit_once('.')?.0;
    let link = format!("<http://redfish.dmtf.org/schemas/v1/{schema}.json>; rel=describedby");
    HeaderValue::try_from(link).ok()
}

async fn answer(
    bmc: &Arc<Bmc>,
    parts: &Parts,
    resource: Option<Resource>,
    body: HttpBody,
) -> Result<Answer, Problem> {
    gate::suffer_faults(bmc).await?;
    gate::check_version(&parts.headers)?;
    let logging_in = parts.method == Method::POST && resource == Some(Resource::Sessions);
    if !logging_in && !resource.is_some_and(Resource::is_public) {
        gate::log_in(bmc, &parts.headers, parts.uri.path())?;
    }
    let resource = resource.ok_or_else(|| Problem::new(&m::MISSING_AT_URI, &[parts.uri.path()]))?;
    let method = parts.method.as_str();
    if !resource.allows(method) {
        return Err(not_allowed(method, resource));
    }
    match method {
        "GET" | "HEAD" => read(bmc, resource, parts),
        "PATCH" => {
            change(
                bmc,
                resource,
                gate::read_object(bmc, parts, body).await?,
                &parts.headers,
            )
            .await
        }
        "DELETE" => delete(bmc, resource),
        _ => post(bmc, resource, gate::read_object(bmc, parts, body).await?).await,
    }
}

fn not_allowed(method: &str, resource: Resource) -> Problem {
    Problem::new(&m::METHOD_NOT_ALLOWED, &[method, resource.allow()])
}

fn read(bmc: &Bmc, resource: Resource, parts: &Parts) -> Result<Answer, Problem> {
    let (status, mut json) = render(bmc, resource)
        .ok_or_else(|| Problem::new(&m::MISSING_AT_URI, &[parts.uri.path()]))?;
    let mut answer = Answer::new(status, None);
    if let Some(tag) = json.get("@odata.etag").and_then(Value::as_str) {
        let known = parts
            .headers
            .get(header::IF_NONE_MATCH)
            .and_then(|v| v.to_str().ok());
        answer.headers.push(("etag", tag.into()));
        if known == Some(tag) {
            answer.status = StatusCode::NOT_MODIFIED;
            return Ok(answer);
        }
    }
    if status == StatusCode::ACCEPTED {
        answer
            .headers
            .push(("location", resource.path(bmc.personality)));
    }
    if query::wants_expansion(bmc, parts.uri.query().unwrap_or_default())? {
        query::expand(bmc, &mut json);
    }
    answer.body = Some(json);
    Ok(answer)
}

async fn change(
    bmc: &Arc<Bmc>,
    resource: Resource,
    fields: Map<String, Value>,
    headers: &HeaderMap,
) -> Result<Answer, Problem> {
    let gone = || Problem::new(&m::MISSING_AT_URI, &[&resource.path(bmc.personality)]);
    let known = content(bmc, resource).ok_or_else(gone)?.1;
    let if_match = headers
        .get(header::IF_MATCH)
        .map(|tag| tag.to_str().unwrap_or("?"));
    etag::check(bmc.personality, if_match, &known)?;
    if fields.is_empty() {
        return Err(Problem::new(&m::MALFORMED_JSON, &["it changes nothing"]));
    }
    let body = Body::of_resource(fields);
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the table of methods in path.rs refuses the rest before"
    )]
    match resource {
        Resource::System => system::change(bmc, body, &known).await?,
        Resource::BiosSettings => bios::change(bmc, body, &known).await?,
        Resource::SecureBoot => secure_boot::change(bmc, body, &known).await?,
        Resource::Slot(slot) => virtual_media::change(bmc, slot, body, &known).await?,
        Resource::Manager => manager::change(bmc, body, &known)?,
        Resource::Chassis => chassis::change(bmc, body, &known)?,
        Resource::SessionService => sessions::change_service(bmc, body, &known)?,
        other => return Err(not_allowed("PATCH", other)),
    }
    let (status, json) = render(bmc, resource).ok_or_else(gone)?;
    let mut answer = Answer::new(status, None);
    if let Some(tag) = json.get("@odata.etag").and_then(Value::as_str) {
        answer.headers.push(("etag", tag.into()));
    }
    answer.body = Some(json);
    Ok(answer)
}

async fn post(
    bmc: &Arc<Bmc>,
    resource: Resource,
    fields: Map<String, Value>,
) -> Result<Answer, Problem> {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the table of methods in path.rs refuses the rest before"
    )]
    match resource {
        Resource::Sessions => sessions::create(bmc, Body::of_resource(fields)),
        Resource::Subscriptions => events::create(bmc, Body::of_resource(fields)),
        Resource::Action(action) => act(bmc, action, Body::of_action(action.name(), fields)).await,
        other => Err(not_allowed("POST", other)),
    }
}

async fn act(bmc: &Arc<Bmc>, action: Action, body: Body) -> Result<Answer, Problem> {
    match action {
        Action::Reset => system::reset(bmc, body).await,
        Action::ResetBmc => manager::reset(bmc, body),
        Action::Insert(slot) => virtual_media::insert(bmc, slot, body).await,
        Action::Eject(slot) => virtual_media::eject(bmc, slot, body).await,
        Action::ResetBios => bios::reset(bmc, body).await,
        Action::ResetKeys => secure_boot::reset_keys(bmc, body),
        Action::Update => update::update(bmc, body),
        Action::TestEvent => events::submit_test(bmc, body),
    }
}

fn delete(bmc: &Bmc, resource: Resource) -> Result<Answer, Problem> {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the table of methods in path.rs refuses the rest before"
    )]
    let was_there = match resource {
        Resource::Session(id) => sessions::delete(bmc, id),
        Resource::Subscription(id) => events::delete(bmc, id),
        other => return Err(not_allowed("DELETE", other)),
    };
    if was_there {
        Ok(Answer::no_content())
    } else {
        Err(Problem::new(
            &m::MISSING_AT_URI,
            &[&resource.path(bmc.personality)],
        ))
    }
}

/// A resource as it is sent: with its address and, if it can be changed, its ETag.
fn render(bmc: &Bmc, resource: Resource) -> Option<(StatusCode, Value)> {
    let (status, mut json) = content(bmc, resource)?;
    if resource.has_etag() {
        json["@odata.etag"] = etag::of(bmc.personality, &json).into();
    }
    if !matches!(resource, Resource::Versions | Resource::Metadata) {
        json["@odata.id"] = resource.path(bmc.personality).into();
    }
    Some((status, json))
}

fn content(bmc: &Bmc, resource: Resource) -> Option<(StatusCode, Value)> {
    let json = match resource {
        Resource::Versions => root::render_versions(),
        Resource::Root => root::render(bmc),
        Resource::Odata => root::render_odata(bmc),
        Resource::Metadata => root::render_metadata().into(),
        Resource::Systems => system::render_all(bmc),
        Resource::System => system::render(bmc),
        Resource::ResetInfo => system::render_reset_info(bmc),
        Resource::Bios => bios::render(bmc),
        Resource::BiosSettings => bios::render_settings(bmc),
        Resource::SecureBoot => secure_boot::render(bmc),
        Resource::Nics => parts::render_nics(bmc),
        Resource::Nic(number) => parts::render_nic(bmc, number)?,
        Resource::Processors => parts::render_processors(bmc),
        Resource::Processor => parts::render_processor(bmc),
        Resource::Memory => parts::render_memory(bmc),
        Resource::Dimm => parts::render_dimm(bmc),
        Resource::Storages => storage::render_all(bmc),
        Resource::Storage => storage::render(bmc),
        Resource::Drive(number) => storage::render_drive(bmc, number)?,
        Resource::Controllers => storage::render_controllers(bmc),
        Resource::Controller => storage::render_controller(),
        Resource::Volumes => storage::render_volumes(bmc),
        Resource::SimpleStorages => storage::render_simple_all(bmc),
        Resource::SimpleStorage => storage::render_simple(bmc),
        Resource::Slots => virtual_media::render_all(bmc),
        Resource::Slot(slot) => virtual_media::render(bmc, slot),
        Resource::SlotCertificates(_) => virtual_media::render_certificates(bmc),
        Resource::Managers => manager::render_all(bmc),
        Resource::Manager => manager::render(bmc),
        Resource::ManagerNics => manager::render_nics(bmc),
        Resource::ManagerNic => manager::render_nic(bmc),
        Resource::ChassisCollection => chassis::render_all(bmc),
        Resource::Chassis => chassis::render(bmc),
        Resource::Power => chassis::render_power(bmc),
        Resource::Thermal => chassis::render_thermal(bmc),
        Resource::SessionService => sessions::render_service(bmc),
        Resource::Sessions => sessions::render_all(bmc),
        Resource::Session(id) => sessions::render(bmc, id)?,
        Resource::AccountService => root::render_account_service(bmc),
        Resource::Accounts => root::render_accounts(bmc),
        Resource::Account => root::render_account(bmc),
        Resource::Roles => root::render_roles(bmc),
        Resource::Role(number) => root::render_role(number),
        Resource::TaskService => tasks::render_service(bmc),
        Resource::Tasks => tasks::render_all(bmc),
        Resource::Task(id) | Resource::TaskMonitor(id) => return tasks::render(bmc, id),
        Resource::EventService => events::render_service(bmc),
        Resource::Subscriptions => events::render_all(bmc),
        Resource::Subscription(id) => events::render(bmc, id)?,
        Resource::UpdateService => update::render_service(bmc),
        Resource::FirmwareInventory => update::render_inventory(bmc),
        Resource::Firmware(component) => update::render_firmware(bmc, component),
        Resource::Registries => root::render_registries(bmc),
        Resource::BaseFile => root::render_base_file(bmc),
        Resource::BaseRegistry => base::render_registry(),
        Resource::AttributesFile => root::render_attributes_file(bmc),
        Resource::AttributesRegistry => bios::render_registry(bmc),
        Resource::CertificateService => root::render_certificate_service(bmc),
        Resource::CertificateLocations => root::render_certificate_locations(),
        Resource::Action(_) => return None,
    };
    Some((StatusCode::OK, json))
}

fn link(bmc: &Bmc, resource: &Resource) -> Value {
    json!({"@odata.id": resource.path(bmc.personality)})
}

fn collection(bmc: &Bmc, kind: &str, name: &str, members: &[Resource]) -> Value {
    json!({
        "@odata.type": format!("#{kind}.{kind}"),
        "Name": name,
        "Members": members.iter().map(|member| link(bmc, member)).collect::<Vec<_>>(),
        "Members@odata.count": members.len(),
    })
}

/// A refusal in the vendor's words.
fn vendor(no: &Refused) -> Problem {
    Problem::of(no.status, Message::of_vendor(no.id, no.text))
}

/// Tells the chassis, and waits for its decision.
async fn tell(bmc: &Bmc, event: Event) -> Result<(), Problem> {
    match tokio::time::timeout(DECISION_TIME, bmc.server.tell(event)).await {
        Ok(decided) => decided.map_err(refused),
        Err(_) => Err(Problem::new(&m::UNAVAILABLE, &["5"])),
    }
}

const DECISION_TIME: Duration = Duration::from_secs(30);

/// A refusal of the chassis, in Redfish's words.
fn refused(error: TellError) -> Problem {
    let refusal = match error {
        TellError::Refused(refusal) => refusal,
        TellError::GoingDown => return Problem::new(&m::UNAVAILABLE, &["5"]),
    };
    let problem = match &refusal {
        Refusal::NeedsPower(reset) => Problem::new(
            &m::PARAMETER_VALUE_CONFLICT,
            &["ResetType", &format!("{reset:?}")],
        ),
        Refusal::NeedsUefi => Problem::new(
            &m::PROPERTY_VALUE_CONFLICT,
            &["BootSourceOverrideTarget", "BootSourceOverrideMode"],
        ),
        Refusal::SecureBootNeedsUefi => Problem::new(
            &m::PROPERTY_VALUE_CONFLICT,
            &["SecureBootEnable", "BootSourceOverrideMode"],
        ),
        Refusal::UnknownAttribute(name) => Problem::new(&m::PROPERTY_UNKNOWN, &[name]),
        Refusal::WrongAttributeType { name, got, .. } => {
            Problem::new(&m::PROPERTY_VALUE_TYPE, &[got, name])
        }
    };
    problem.because(format!("{refusal}."))
}
