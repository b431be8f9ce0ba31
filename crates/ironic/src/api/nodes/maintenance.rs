//! `/v1/nodes/{id}/maintenance`.

use axum::http::Method;

use crate::api::Service;
use crate::api::fault::Fault;
use crate::api::request::{Reply, Request};
use crate::api::value;

pub async fn route(service: &Service, request: &Request, ident: &str) -> Result<Reply, Fault> {
    match request.method {
        Method::PUT => {
            let mut body = request.object_or_empty(&["reason"])?;
            let reason = value::text(body.remove("reason").unwrap_or_default(), 4096)
                .map_err(|problem| Fault::bad_request(format!("reason: {problem}")))?;
            super::change(service, request, ident, |node| {
                node.life.maintenance = true;
                node.maintenance_reason = reason;
                Ok(())
            })
            .await?;
        }
        Method::DELETE => {
            super::change(service, request, ident, |node| {
                node.end_maintenance();
                Ok(())
            })
            .await?;
        }
        _ => return Err(Fault::method_not_allowed()),
    }
    Ok(Reply::accepted())
}
