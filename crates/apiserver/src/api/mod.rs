//! The Kubernetes API: a request comes in with its user, an answer or a stream goes out.
//!
//! ```text
//!   request ─ parse ─▶ may they? ─▶ which kind? ─┬─ get, list ──────────▶ read ──┐
//!                                                ├─ watch ──────────────▶ watch ─┤
//!                                                ├─ create, update, patch▶ write ┼─▶ answer: object, table,
//!                                                ├─ delete ─────────────▶ delete ┤   metadata, stream
//!                                                ├─ scale, token, ... ──▶ subresource
//!                                                └─ reviews ────────────▶ reviews ┘
//!            not a resource: discovery, OpenAPI, version
//! ```
//!
//! What an object may be is decided in the crate `objects`; what is kept and in which order, in `store`. Here both meet.

mod access;
mod admission;
mod answer;
mod body;
mod delete;
mod documents;
mod errors;
pub mod kinds;
mod negotiate;
pub mod object;
mod openapi_proto;
mod openapi_v2;
mod options;
mod page;
mod patch;
mod protobuf;
mod read;
pub mod request;
mod reviews;
mod splice;
mod subresource;
#[cfg(test)]
mod tests;
mod watch;
mod write;

use std::sync::Arc;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{Request, Response};
use bytes::Bytes;
use jiff::Timestamp;
use objects::access::User;
use objects::{Kind, Status};

pub use access::{Access, TokenWish};
use answer::Answer;
pub use documents::version;
use kinds::Kinds;
use negotiate::Shape;
use object::Lens;
use request::{RequestInfo, Resource, Verb};

use crate::store::Store;

/// What every request shares.
pub struct Core {
    pub store: Store,
    pub kinds: Arc<Kinds>,
    pub access: Arc<dyn Access>,
    /// Turns true when the server stops: watches end then.
    pub stop: tokio::sync::watch::Receiver<bool>,
}

/// The API of one server. Clones are the same API.
#[derive(Clone)]
pub struct Api {
    core: Arc<Core>,
    claims: Arc<admission::Claims>,
}

impl Api {
    pub fn new(core: Arc<Core>) -> Self {
        Self {
            core,
            claims: Arc::default(),
        }
    }

    /// Answers one request. Every refusal is a `Status` in the body.
    pub async fn handle(&self, user: &User, request: Request<Bytes>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let info = request::parse(&parts.method, &parts.uri);
        let answer = self.route(user, &info, &parts, &body).await;
        answer::render(answer, &parts)
    }

    async fn route(
        &self,
        user: &User,
        info: &RequestInfo,
        parts: &Parts,
        body: &Bytes,
    ) -> Result<Answer, Status> {
        access::check(&*self.core.access, user, info)?;
        let Some(shape) = negotiate::shape(&parts.headers) else {
            return Err(Status::not_acceptable(&["application/json"]));
        };
        let Some(at) = &info.resource else {
            return documents::answer(&self.core.kinds, info, shape, &parts.headers);
        };
        let registry = self.core.kinds.current();
        let kind = registry
            .find(&at.group, &at.version, &at.plural)
            .ok_or_else(Status::no_such_path)?;
        let lens = self.core.kinds.lens(kind);
        let kind = &*lens.kind;
        let call = Call {
            core: &self.core,
            claims: &self.claims,
            user,
            kind,
            lens: &lens,
            at,
            parts,
            body,
            shape,
            now: Timestamp::now(),
        };
        let mut answer = call.answer(info.verb).await?;
        answer.warnings.extend(kind.deprecation.clone());
        Ok(answer)
    }
}

/// One request for one kind of object, on its way.
struct Call<'a> {
    core: &'a Core,
    claims: &'a admission::Claims,
    user: &'a User,
    kind: &'a Kind,
    lens: &'a Lens,
    at: &'a Resource,
    parts: &'a Parts,
    body: &'a Bytes,
    shape: Shape,
    now: Timestamp,
}

impl Call<'_> {
    async fn answer(&self, verb: Verb) -> Result<Answer, Status> {
        self.check_scope(verb)?;
        if let Some(subresource) = self.at.subresource.as_deref() {
            return subresource::answer(self, verb, subresource).await;
        }
        if !self.kind.verbs.contains(&verb.as_str()) {
            return Err(Status::method_not_supported(
                &self.kind.resource(),
                verb.as_str(),
            ));
        }
        if let Some(review) = reviews::Review::of(self.kind) {
            return reviews::answer(self, review);
        }
        match verb {
            Verb::Get => read::get(self).await,
            Verb::List => read::list(self).await,
            Verb::Watch => watch::watch(self).await,
            Verb::Create => write::create(self).await,
            Verb::Update => write::update(self, "").await,
            Verb::Patch => patch::patch(self, "").await,
            Verb::Delete => delete::delete(self).await,
            Verb::DeleteCollection => delete::collection(self).await,
            Verb::Post | Verb::Put | Verb::Head | Verb::Options => Err(
                Status::method_not_supported(&self.kind.resource(), verb.as_str()),
            ),
        }
    }

    /// A path with a namespace for a kind without one, or the other way round, is no path at all.
    fn check_scope(&self, verb: Verb) -> Result<(), Status> {
        let about_itself = self.kind.group.is_empty() && self.kind.plural == "namespaces";
        if !self.kind.namespaced && self.at.namespace.is_some() && !about_itself {
            return Err(Status::no_such_path());
        }
        if !self.kind.namespaced || self.at.namespace.is_some() {
            return Ok(());
        }
        if self.at.name.is_some() && !self.is_collection() {
            return Err(Status::no_such_path());
        }
        // Over all namespaces at once one can only look.
        if matches!(verb, Verb::List | Verb::Watch) {
            return Ok(());
        }
        Err(Status::method_not_supported(
            &self.kind.resource(),
            verb.as_str(),
        ))
    }

    /// A list narrowed to one name by its field selector still names no object in its path.
    fn is_collection(&self) -> bool {
        self.parts
            .uri
            .path()
            .trim_end_matches('/')
            .ends_with(&format!("/{}", self.at.plural))
    }

    fn namespace(&self) -> &str {
        if self.kind.namespaced {
            self.at.namespace.as_deref().unwrap_or("")
        } else {
            ""
        }
    }

    fn name(&self) -> &str {
        self.at.name.as_deref().unwrap_or("")
    }

    fn query(&self) -> &str {
        self.parts.uri.query().unwrap_or("")
    }

    fn key(&self) -> String {
        object::key(self.kind, self.namespace(), self.name())
    }

    fn not_found(&self) -> Status {
        Status::not_found(&self.kind.resource(), self.name())
    }

    fn store_failed(&self, error: &crate::store::Error) -> Status {
        errors::of_store(error, &self.kind.resource(), self.name())
    }
}
