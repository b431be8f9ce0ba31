//! The API from inside the process: for controllers, and for programs that run the server as a part of themselves.

use axum::body::Body;
use axum::http::{Method, Request, Response, header};
use bytes::Bytes;
use objects::access::User;
use serde_json::Value;

use crate::api::Api;
use crate::auth::{MASTERS, authenticated};

/// Speaks to the API as one user. Clones are cheap.
#[derive(Clone)]
pub struct Local {
    api: Api,
    user: User,
}

/// The API said no.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} ({code} {reason})")]
pub struct Refusal {
    pub code: u16,
    pub reason: String,
    pub message: String,
}

/// Answers are no larger than all there is; this is only against endless ones.
const LARGEST_ANSWER: usize = 1 << 30;

pub const MERGE_PATCH: &str = "application/merge-patch+json";
const JSON: &str = "application/json";

impl Local {
    /// As the server itself, which may do anything.
    pub fn new(api: Api) -> Self {
        let user = User {
            name: "system:apiserver".to_owned(),
            groups: vec![MASTERS.to_owned()],
            ..User::default()
        };
        Self {
            api,
            user: authenticated(user),
        }
    }

    pub async fn get(&self, path: &str) -> Result<Value, Refusal> {
        self.send(Method::GET, path, None, JSON).await
    }

    pub async fn create(&self, path: &str, object: &Value) -> Result<Value, Refusal> {
        self.send(Method::POST, path, Some(object), JSON).await
    }

    pub async fn update(&self, path: &str, object: &Value) -> Result<Value, Refusal> {
        self.send(Method::PUT, path, Some(object), JSON).await
    }

    pub async fn merge(&self, path: &str, patch: &Value) -> Result<Value, Refusal> {
        let sent = self.send(Method::PATCH, path, Some(patch), MERGE_PATCH);
        sent.await
    }

    pub async fn delete(&self, path: &str, options: &Value) -> Result<Value, Refusal> {
        self.send(Method::DELETE, path, Some(options), JSON).await
    }

    /// One request as it is, for clients that make their own.
    pub async fn handle(&self, request: Request<Bytes>) -> Response<Body> {
        self.api.handle(&self.user, request).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        media: &str,
    ) -> Result<Value, Refusal> {
        let body = body.map_or_else(Bytes::new, |body| body.to_string().into());
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, media)
            .header(header::ACCEPT, JSON)
            .header(header::USER_AGENT, "plinth-apiserver")
            .body(body)
            .map_err(|error| Refusal {
                code: 400,
                reason: "BadRequest".into(),
                message: error.to_string(),
            })?;
        let response = self.handle(request).await;
        let code = response.status().as_u16();
        let body = axum::body::to_bytes(response.into_body(), LARGEST_ANSWER).await;
        let answer: Value = body
            .ok()
            .and_then(|body| serde_json::from_slice(&body).ok())
            .unwrap_or_default();
        if code < 400 {
            return Ok(answer);
        }
        let text = |field: &str| answer[field].as_str().unwrap_or_default().to_owned();
        Err(Refusal {
            code,
            reason: text("reason"),
            message: text("message"),
        })
    }
}
