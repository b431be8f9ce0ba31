//! Ironic's REST API.
//!
//! ```text
//!  bytes ─▶ version ─▶ auth ─▶ body limits ─▶ Request ─▶ route by path and method ─▶ Reply | Fault ─▶ bytes
//! ```
//!
//! Objects of the API are tables of fields (`field`); lists, patches and version rules work on those tables, and each
//! kind of object adds only what is its own.

mod allocations;
mod answer;
mod auth;
mod body;
mod cell;
mod collection;
mod discovered;
mod drivers;
mod fault;
mod field;
mod health;
mod kept;
mod nodes;
mod patch;
mod portgroups;
mod ports;
mod ramdisk;
mod request;
mod root;
mod shards;
#[cfg(test)]
mod tests;
mod value;
mod version;
mod volume;

use std::sync::{Arc, PoisonError, RwLock};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Method, Response, StatusCode};

use answer::{finish, plain, refused};
pub use auth::{Auth, Users};
pub use cell::{MASK, Stamp};
use fault::Fault;
use field::Scope;
pub use ramdisk::new_token;
use request::{Query, Reply, Request, unescape};
use version::Version;

use crate::boot::notebook::Notebook;
use crate::conductor::Conductor;
use crate::store::Store;

/// What the API is told by the configuration.
pub struct Options {
    /// Where clients see us, where that differs from what they call.
    pub public_endpoint: Option<String>,
    pub max_limit: usize,
    pub tls: bool,
    /// Whether agents may call.
    pub ramdisk_endpoints: bool,
    /// What was seen on the network.
    pub notebook: Arc<Notebook>,
}

pub struct Service {
    pub store: Arc<Store>,
    pub conductor: Arc<Conductor>,
    pub options: Options,
    auth: RwLock<Auth>,
}

impl Service {
    pub fn new(
        store: Arc<Store>,
        conductor: Arc<Conductor>,
        options: Options,
        auth: Auth,
    ) -> Arc<Self> {
        Arc::new(Self {
            store,
            conductor,
            options,
            auth: RwLock::new(auth),
        })
    }

    /// From now on these users, and no others, may call.
    pub fn set_auth(&self, auth: Auth) {
        *self.auth.write().unwrap_or_else(PoisonError::into_inner) = auth;
    }

    fn auth(&self) -> Auth {
        self.auth
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn scope<'a>(&'a self, request: &'a Request) -> Scope<'a> {
        Scope {
            base: &request.base,
            version: request.version,
            host: &self.conductor.options.host,
        }
    }
}

/// The whole API as a service for connections.
pub fn router(service: Arc<Service>) -> Router {
    Router::new().fallback(handle).with_state(service)
}

async fn handle(
    State(service): State<Arc<Service>>,
    request: axum::extract::Request,
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path();
    if let Some(answer) = health::answer(&service, path) {
        return answer;
    }
    let version = match Version::negotiate(&parts.headers) {
        Ok(version) => version,
        Err(fault) => return finish(Err(fault), None),
    };
    let Some(mut elements) = split(path) else {
        return finish(Err(Fault::no_such_path()), Some(version));
    };
    if version.0 < 91
        && let Some(bare) = elements
            .last()
            .and_then(|last| last.strip_suffix(".json"))
            .map(str::to_owned)
    {
        elements.pop();
        elements.push(bare);
    }
    let base = request::base(
        service.options.public_endpoint.as_deref(),
        &parts.headers,
        service.options.tls,
    );
    let at_root = elements.is_empty();
    if elements.first().is_some_and(|first| first == "v1") {
        elements.remove(0);
    }
    if !open(&elements)
        && let Err(refusal) = service.auth().check(&parts.headers).await
    {
        return refused(&refusal);
    }
    let body = match body::read(body, body::limit(&elements)).await {
        Ok(body) => body,
        Err(fault) => return plain(&fault, version),
    };
    let query = match Query::parse(parts.uri.query().unwrap_or_default()) {
        Ok(query) => query,
        Err(fault) => return finish(Err(fault), Some(version)),
    };
    if at_root {
        let result = if parts.method == Method::GET {
            Ok(root::root(&base))
        } else {
            Err(Fault::method_not_allowed())
        };
        return finish(result, Some(version));
    }
    // HEAD is GET whose body the connection leaves out.
    let method = if parts.method == Method::HEAD {
        Method::GET
    } else {
        parts.method
    };
    let request = Request {
        method,
        path: elements,
        query,
        version,
        base,
        body,
    };
    finish(answered(service, request).await, Some(version))
}

/// Anything that may change something is done to its end, even if the client goes away meanwhile: otherwise a lock would
/// stay, or a verb that is on disk already would not be told to the node's task.
async fn answered(service: Arc<Service>, request: Request) -> Result<Reply, Fault> {
    if request.method == Method::GET && request.path.first().is_none_or(|first| first != "lookup") {
        return route(&service, &request).await;
    }
    let work = tokio::spawn(async move { route(&service, &request).await });
    work.await.unwrap_or_else(|error| {
        tracing::error!(%error, "a request was not finished");
        Err(Fault::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "The request could not be finished; see the service's log.",
        ))
    })
}

async fn route(service: &Service, request: &Request) -> Result<Reply, Fault> {
    let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
    let since = |since: u16| {
        if request.version.0 < since {
            Err(Fault::no_such_path())
        } else {
            Ok(())
        }
    };
    match path.as_slice() {
        [] if request.method == Method::GET => Ok(root::v1(request)),
        [] => Err(Fault::method_not_allowed()),
        // Not Ironic's: what only this service has.
        ["plinth", "v1", "discovered", rest @ ..] => {
            discovered::route(service, request, rest).await
        }
        ["nodes", rest @ ..] => nodes::route(service, request, rest).await,
        ["ports", rest @ ..] => ports::route(service, request, rest).await,
        ["portgroups", rest @ ..] => {
            since(23)?;
            portgroups::route(service, request, rest).await
        }
        ["drivers", rest @ ..] => drivers::route(service, request, rest),
        ["conductors", rest @ ..] => {
            since(49)?;
            drivers::conductors(service, request, rest)
        }
        ["allocations", rest @ ..] => {
            since(52)?;
            allocations::route(service, request, rest).await
        }
        ["lookup"] => {
            since(22)?;
            agents_may_call(service)?;
            ramdisk::lookup(service, request).await
        }
        ["heartbeat", ident] => {
            since(22)?;
            agents_may_call(service)?;
            ramdisk::heartbeat(service, request, ident).await
        }
        ["continue_inspection"] => {
            agents_may_call(service)?;
            ramdisk::continue_inspection(service, request).await
        }
        ["volume", rest @ ..] => {
            since(32)?;
            volume::route(service, request, rest).await
        }
        ["chassis", rest @ ..] => kept::route(service, request, kept::chassis(), rest).await,
        ["shards"] => {
            since(82)?;
            shards::list(service, request)
        }
        ["events"] if request.method == Method::POST => {
            since(54)?;
            Ok(Reply::no_content())
        }
        ["deploy_templates", rest @ ..] => {
            since(55)?;
            kept::route(service, request, kept::deploy_templates(), rest).await
        }
        ["runbooks", rest @ ..] => {
            since(92)?;
            kept::route(service, request, kept::runbooks(), rest).await
        }
        ["inspection_rules", rest @ ..] => {
            since(96)?;
            kept::route(service, request, kept::inspection_rules(), rest).await
        }
        _ => Err(Fault::no_such_path()),
    }
}

fn agents_may_call(service: &Service) -> Result<(), Fault> {
    if service.options.ramdisk_endpoints {
        return Ok(());
    }
    Err(Fault::forbidden(
        "The calls of agents are not served at this address.",
    ))
}

fn check_trait(name: &str) -> Result<(), Fault> {
    nodes::check_trait(name)
}

/// The elements of a path; nothing where it cannot be decoded.
fn split(path: &str) -> Option<Vec<String>> {
    path.split('/')
        .filter(|element| !element.is_empty())
        .map(unescape)
        .collect()
}

/// Whether a path is for everyone.
fn open(path: &[String]) -> bool {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    matches!(
        path.as_slice(),
        [] | ["lookup" | "continue_inspection"] | ["heartbeat", _]
    )
}
