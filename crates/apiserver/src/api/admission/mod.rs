//! Rules over an object's schema: what a write may do given the rest of the cluster.
//!
//! Each rule is a pure function over a [`Review`]; what it needs to know of other objects is gathered first.

mod claims;
mod hosts;
mod signing;

use objects::access::User;
use objects::{Cause, Kind, Status};
use serde_json::Value;

use super::{Call, object};
use crate::store::Page;

pub use claims::{Claims, Stake};
pub use signing::check_approval;

/// A write on its way, and what its rules look at.
pub struct Review<'a> {
    pub kind: &'a Kind,
    /// Empty for the object itself.
    pub subresource: &'a str,
    pub new: &'a Value,
    pub old: Option<&'a Value>,
    /// The namespace the object is in, if there is one of that name.
    pub namespace: Option<Value>,
    /// Objects of the kind that this one may collide with, where that is to be found out.
    pub others: Vec<Value>,
}

type Rule = fn(&Review<'_>) -> Result<(), Status>;

const RULES: [Rule; 2] = [namespace_takes_objects, hosts::host_is_sound];

/// Fills in what only the server knows before an object is first checked.
pub fn fill(kind: &Kind, user: &User, object: &mut Value) {
    signing::name_the_requester(kind, user, object);
}

/// Runs every rule on a create or update. What it gives is to be held until the write is done.
pub async fn check<'a>(
    call: &Call<'a>,
    subresource: &str,
    new: &Value,
    old: Option<&Value>,
) -> Result<Option<Stake<'a>>, Status> {
    if subresource.is_empty() && call.kind.group == "rbac.authorization.k8s.io" {
        call.core.access.check_write(call.user, new, old)?;
    }
    let namespace = match object::meta(new, "namespace") {
        "" => None,
        name => {
            let key = crate::store::key("", "namespaces", "", name);
            // What is at hand decides, unless it is not there: then it may be too new to be at hand.
            let kept = match call.core.store.peek(&key) {
                Some(kept) => Some(kept),
                None if old.is_none() => {
                    call.core
                        .store
                        .get(&key)
                        .await
                        .map_err(|error| call.store_failed(&error))?
                        .0
                }
                None => None,
            };
            kept.and_then(|kept| serde_json::from_slice(&kept.value).ok())
        }
    };
    let (mut stake, mut others) = (None, Vec::new());
    if subresource.is_empty() && hosts::claims_anew(call.kind, new, old) {
        stake = Some(stake_claim(call, new)?);
        others = rivals(call, new).await?;
    }
    let review = Review {
        kind: call.kind,
        subresource,
        new,
        old,
        namespace,
        others,
    };
    RULES.iter().try_for_each(|rule| rule(&review))?;
    Ok(stake)
}

fn stake_claim<'a>(call: &Call<'a>, host: &Value) -> Result<Stake<'a>, Status> {
    call.claims.stake(host).map_err(|rival| {
        let why = format!(
            "host {rival}, which claims the same server, is being written at this moment; try again"
        );
        Status::conflict(&call.kind.resource(), object::meta(host, "name"), &why)
    })
}

/// Hosts that claim the same server as this one.
async fn rivals(call: &Call<'_>, host: &Value) -> Result<Vec<Value>, Status> {
    let prefix = object::prefix(call.kind, "");
    let listing = call.core.store.list(&prefix, &Page::default()).await;
    let listing = listing.map_err(|error| call.store_failed(&error))?;
    let found = call.claims.colliding(host, &listing.items);
    found.into_iter().map(|kv| call.lens.read(kv)).collect()
}

/// The namespaces a cluster cannot be without.
const IMMORTAL: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Rules for deletions.
pub fn check_delete(kind: &Kind, object: &Value) -> Result<(), Status> {
    let name = object::meta(object, "name");
    if kind.group.is_empty() && kind.plural == "namespaces" && IMMORTAL.contains(&name) {
        return Err(Status::forbidden(
            &kind.resource(),
            name,
            "this namespace may not be deleted",
        ));
    }
    Ok(())
}

/// A namespace must be there and not on its way out before something is put into it.
fn namespace_takes_objects(review: &Review<'_>) -> Result<(), Status> {
    if review.old.is_some() || !review.kind.namespaced {
        return Ok(());
    }
    let name = object::meta(review.new, "namespace");
    let Some(namespace) = &review.namespace else {
        return Err(Status::not_found(
            &objects::Resource::new("", "namespaces"),
            name,
        ));
    };
    if !object::is_being_deleted(namespace) {
        return Ok(());
    }
    let why =
        format!("unable to create new content in namespace {name} because it is being terminated");
    Err(Status::forbidden(
        &review.kind.resource(),
        object::meta(review.new, "name"),
        &why,
    ))
}

fn invalid(review: &Review<'_>, causes: Vec<Cause>) -> Status {
    Status::invalid(
        &review.kind.group,
        &review.kind.kind,
        object::meta(review.new, "name"),
        causes,
    )
}
