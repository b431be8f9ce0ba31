//! `/v1/shards`: how many nodes each has.

use std::collections::BTreeMap;

use axum::http::Method;
use serde_json::{Value, json};

use super::Service;
use super::fault::Fault;
use super::request::{Reply, Request};

pub fn list(service: &Service, request: &Request) -> Result<Reply, Fault> {
    if request.method != Method::GET {
        return Err(Fault::method_not_allowed());
    }
    request.query.only(&[])?;
    let mut counts = BTreeMap::<String, usize>::new();
    for shard in service
        .store
        .read()
        .nodes
        .all()
        .filter_map(|node| node.shard.clone())
    {
        *counts.entry(shard).or_default() += 1;
    }
    let shards: Vec<Value> = counts
        .into_iter()
        .map(|(name, count)| json!({"name": name, "count": count}))
        .collect();
    Ok(Reply::ok(&json!({"shards": shards})))
}
