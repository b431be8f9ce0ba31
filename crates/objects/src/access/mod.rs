//! Role based access: who may do what, from Roles, ClusterRoles and their bindings.
//!
//! Allowed is what any rule of any role bound to the user allows; there is no denial. Nobody can give away more than they
//! have ([`Policy::check_write`]), unless they may `escalate` or `bind`.

mod cover;
mod rule;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use rule::Rule;

use crate::json::{items, text};
use crate::kinds::Resource;
use crate::selector::Labels;
use crate::status::Status;

const GROUP: &str = "rbac.authorization.k8s.io";

/// Who asks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask<'a> {
    Resource {
        verb: &'a str,
        group: &'a str,
        resource: &'a str,
        /// Empty for the object itself.
        subresource: &'a str,
        /// Empty for cluster-scoped objects and for all namespaces.
        namespace: &'a str,
        /// Empty where no one object is meant.
        name: &'a str,
    },
    Path {
        verb: &'a str,
        path: &'a str,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// With the binding that allows it, for the audit log and reviews.
    Allowed {
        reason: String,
    },
    NoOpinion,
}

/// All roles and bindings of the cluster. Fed by a watch; asked on every request.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// By namespace and name; the namespace of a ClusterRole is empty.
    roles: BTreeMap<(String, String), Vec<Rule>>,
    /// By namespace, then name; the namespace of a ClusterRoleBinding is empty.
    bindings: BTreeMap<String, BTreeMap<String, Binding>>,
}

#[derive(Debug, Clone)]
struct Binding {
    subjects: Vec<Subject>,
    /// The role's key in [`Policy::roles`].
    role: (String, String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Subject {
    User(String),
    Group(String),
}

impl Policy {
    /// Takes in (or replaces) one Role, ClusterRole, RoleBinding or ClusterRoleBinding; other kinds are not looked at.
    pub fn put(&mut self, object: &Value) {
        let (namespace, name) = key(object);
        match text(object, "/kind") {
            "Role" | "ClusterRole" => {
                self.roles.insert((namespace, name), rule::of(object));
            }
            "RoleBinding" | "ClusterRoleBinding" => {
                let binding = Binding::read(object, &namespace);
                let all = self.bindings.entry(namespace).or_default();
                all.insert(name, binding);
            }
            _ => {}
        }
    }

    /// Forgets one.
    pub fn remove(&mut self, object: &Value) {
        let (namespace, name) = key(object);
        match text(object, "/kind") {
            "Role" | "ClusterRole" => {
                self.roles.remove(&(namespace, name));
            }
            "RoleBinding" | "ClusterRoleBinding" => {
                if let Some(all) = self.bindings.get_mut(&namespace) {
                    all.remove(&name);
                }
            }
            _ => {}
        }
    }

    pub fn decide(&self, user: &User, ask: &Ask<'_>) -> Decision {
        let namespace = match ask {
            Ask::Resource { namespace, .. } => namespace,
            Ask::Path { .. } => "",
        };
        for (place, name, binding) in self.bound(user, namespace) {
            let rules = self.roles.get(&binding.role);
            if rules.into_iter().flatten().any(|rule| rule.allows(ask)) {
                let (role_namespace, role) = &binding.role;
                let kind = if place.is_empty() {
                    "ClusterRoleBinding"
                } else {
                    "RoleBinding"
                };
                let role_kind = if role_namespace.is_empty() {
                    "ClusterRole"
                } else {
                    "Role"
                };
                let at = if place.is_empty() {
                    name.to_owned()
                } else {
                    format!("{name}/{place}")
                };
                return Decision::Allowed {
                    reason: format!(
                        "RBAC: allowed by {kind} {at:?} of {role_kind} {role:?} to {user}",
                        user = user.shown()
                    ),
                };
            }
        }
        Decision::NoOpinion
    }

    /// The rules that hold for the user in a namespace (SelfSubjectRulesReview).
    pub fn rules(&self, user: &User, namespace: &str) -> Vec<Rule> {
        let mut rules = vec![];
        for (_, _, binding) in self.bound(user, namespace) {
            rules.extend(self.roles.get(&binding.role).into_iter().flatten().cloned());
        }
        let mut seen = BTreeSet::new();
        rules.retain(|rule| seen.insert(rule.clone()));
        rules
    }

    /// Bindings that name the user: those of the cluster, and those of the namespace.
    fn bound<'a>(
        &'a self,
        user: &'a User,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str, &'a Binding)> {
        let places = ["", namespace];
        let count = if namespace.is_empty() { 1 } else { 2 };
        places.into_iter().take(count).flat_map(move |place| {
            let all = self.bindings.get(place).into_iter().flatten();
            all.filter(|(_, binding)| binding.names(user))
                .map(move |(name, binding)| (place, name.as_str(), binding))
        })
    }

    /// Whether the user may write this RBAC object: nobody gives away more than they have, unless they may `escalate`
    /// or `bind`. Other kinds are always fine.
    pub fn check_write(
        &self,
        user: &User,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let (namespace, name) = key(object);
        let kind = text(object, "/kind");
        let (resource, given, verb, about) = match kind {
            "Role" | "ClusterRole" => {
                let unchanged = old.is_some_and(|old| {
                    old["rules"] == object["rules"]
                        && old["aggregationRule"] == object["aggregationRule"]
                });
                let resource = if kind == "Role" {
                    "roles"
                } else {
                    "clusterroles"
                };
                let given = if unchanged { vec![] } else { rule::of(object) };
                (resource, given, "escalate", name.clone())
            }
            "RoleBinding" | "ClusterRoleBinding" => {
                let binding = Binding::read(object, &namespace);
                let unchanged = old.is_some_and(|old| {
                    old["subjects"] == object["subjects"] && old["roleRef"] == object["roleRef"]
                });
                if unchanged {
                    return Ok(());
                }
                let resource = if binding.role.0.is_empty() {
                    "clusterroles"
                } else {
                    "roles"
                };
                if self.may(user, "bind", resource, &namespace, &binding.role.1) {
                    return Ok(());
                }
                let Some(rules) = self.roles.get(&binding.role) else {
                    let missing = Resource::new(GROUP, resource);
                    return Err(Status::not_found(&missing, &binding.role.1));
                };
                (resource, rules.clone(), "bind", binding.role.1.clone())
            }
            _ => return Ok(()),
        };
        if self.may(user, verb, resource, &namespace, &about) {
            return Ok(());
        }
        // Whoever collects rules by label cannot know what they will be.
        if object["aggregationRule"].is_object()
            && old.is_none_or(|old| old["aggregationRule"] != object["aggregationRule"])
        {
            let everything = Rule::everything();
            self.check_cover(user, "", kind, &name, &everything)?;
        }
        self.check_cover(user, &namespace, kind, &name, &given)
    }

    fn may(&self, user: &User, verb: &str, resource: &str, namespace: &str, name: &str) -> bool {
        let ask = Ask::Resource {
            verb,
            group: GROUP,
            resource,
            subresource: "",
            namespace,
            name,
        };
        matches!(self.decide(user, &ask), Decision::Allowed { .. })
    }

    fn check_cover(
        &self,
        user: &User,
        namespace: &str,
        kind: &str,
        name: &str,
        given: &[Rule],
    ) -> Result<(), Status> {
        let missing = cover::missing(&self.rules(user, namespace), given);
        if missing.is_empty() {
            return Ok(());
        }
        let lines: Vec<_> = missing.iter().map(Rule::compact).collect();
        let why = format!(
            "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
            user.name,
            json!(user.groups),
            lines.join("\n"),
        );
        let resource = Resource::new(GROUP, &format!("{}s", kind.to_lowercase()));
        Err(Status::forbidden(&resource, name, &why))
    }
}

impl Binding {
    fn read(object: &Value, namespace: &str) -> Self {
        let role_namespace = match text(object, "/roleRef/kind") {
            "Role" => namespace,
            _ => "",
        };
        let subjects = items(object, "/subjects").iter().filter_map(|subject| {
            let name = text(subject, "/name");
            match text(subject, "/kind") {
                "User" => Some(Subject::User(name.into())),
                "Group" => Some(Subject::Group(name.into())),
                "ServiceAccount" => {
                    let namespace = match text(subject, "/namespace") {
                        "" => namespace,
                        namespace => namespace,
                    };
                    Some(Subject::User(format!(
                        "system:serviceaccount:{namespace}:{name}"
                    )))
                }
                _ => None,
            }
        });
        Self {
            subjects: subjects.collect(),
            role: (role_namespace.into(), text(object, "/roleRef/name").into()),
        }
    }

    fn names(&self, user: &User) -> bool {
        self.subjects.iter().any(|subject| match subject {
            Subject::User(name) => *name == user.name,
            Subject::Group(name) => user.groups.contains(name),
        })
    }
}

impl User {
    fn shown(&self) -> String {
        format!("User {:?}", self.name)
    }
}

fn key(object: &Value) -> (String, String) {
    let namespace = text(object, "/metadata/namespace").to_owned();
    (namespace, text(object, "/metadata/name").to_owned())
}

/// The rules of an aggregated ClusterRole: those of every role its selectors choose, without duplicates.
/// None where the role does not aggregate.
pub fn aggregate(role: &Value, cluster_roles: &[Value]) -> Option<Vec<Rule>> {
    role.get("aggregationRule")
        .filter(|rule| rule.is_object())?;
    let selectors: Vec<_> = items(role, "/aggregationRule/clusterRoleSelectors")
        .iter()
        .filter_map(|selector| Labels::from_json(selector).ok())
        .collect();
    let mut chosen: Vec<_> = cluster_roles
        .iter()
        .filter(|other| text(other, "/metadata/name") != text(role, "/metadata/name"))
        .filter(|other| selectors.iter().any(|selector| selector.matches(other)))
        .collect();
    chosen.sort_by_key(|other| text(other, "/metadata/name"));
    let mut seen = BTreeSet::new();
    let rules = chosen.into_iter().flat_map(rule::of);
    Some(rules.filter(|rule| seen.insert(rule.clone())).collect())
}

#[cfg(test)]
mod tests;
