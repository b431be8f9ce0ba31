//! Every kind the server knows now.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use super::{Kind, builtin};
use crate::json::{text, texts};
use crate::status::Cause;

/// Every kind the server knows now. Cheap to clone; replaced as a whole when a CRD comes or goes.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    /// By group, version, plural.
    kinds: BTreeMap<(String, String, String), Arc<Kind>>,
}

impl Registry {
    /// The built-in kinds.
    pub fn builtin() -> Self {
        static BUILTIN: OnceLock<Registry> = OnceLock::new();
        let made = BUILTIN.get_or_init(|| {
            let mut registry = Self::default();
            for kind in builtin::kinds() {
                registry.put(kind);
            }
            registry
        });
        made.clone()
    }

    fn put(&mut self, kind: Kind) {
        let key = (
            kind.group.clone(),
            kind.version.clone(),
            kind.plural.clone(),
        );
        self.kinds.insert(key, Arc::new(kind));
    }

    /// Serves (or serves anew) the kinds of a CRD.
    pub fn put_crd(&mut self, crd: &Value) -> Result<(), Vec<Cause>> {
        let kinds = Kind::from_crd(crd)?;
        let group = text(crd, "/spec/group");
        let taken = |kind: &&Arc<Kind>| !kind.custom && kind.group == group;
        if self.kinds.values().any(|kind| taken(&kind)) {
            let why = "the group is served by the API server itself";
            return Err(vec![Cause::invalid("spec.group", &json!(group), why)]);
        }
        self.remove_crd(text(crd, "/metadata/name"));
        for kind in kinds {
            self.put(kind);
        }
        Ok(())
    }

    /// Serves them no longer. `name` is the CRD's: `baremetalhosts.metal3.io`.
    pub fn remove_crd(&mut self, name: &str) {
        self.kinds
            .retain(|_, kind| !kind.custom || kind.resource().to_string() != name);
    }

    /// Names of a CRD that another resource of its group has already (for the condition NamesAccepted).
    pub fn taken_names(&self, crd: &Value) -> Vec<String> {
        let group = text(crd, "/spec/group");
        let name = text(crd, "/metadata/name");
        let others: Vec<_> = self
            .kinds
            .values()
            .filter(|kind| kind.group == group && kind.resource().to_string() != name)
            .collect();
        let resources: BTreeSet<&str> = others
            .iter()
            .flat_map(|kind| {
                let names = [kind.plural.as_str(), kind.singular.as_str()];
                names
                    .into_iter()
                    .chain(kind.short_names.iter().map(String::as_str))
            })
            .collect();
        let kinds: BTreeSet<&str> = others
            .iter()
            .flat_map(|kind| [kind.kind.as_str(), kind.list_kind.as_str()])
            .collect();
        let mut taken = vec![];
        let names = [
            text(crd, "/spec/names/plural"),
            text(crd, "/spec/names/singular"),
        ];
        let short = texts(crd, "/spec/names/shortNames");
        taken.extend(
            names
                .into_iter()
                .chain(short)
                .filter(|n| resources.contains(n)),
        );
        let names = [
            text(crd, "/spec/names/kind"),
            text(crd, "/spec/names/listKind"),
        ];
        taken.extend(names.into_iter().filter(|n| kinds.contains(n)));
        taken.into_iter().map(Into::into).collect()
    }

    /// By path: `("metal3.io", "v1alpha1", "baremetalhosts")`.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Kind>> {
        let key = (group.into(), version.into(), plural.into());
        self.kinds.get(&key).cloned()
    }

    /// By apiVersion and kind: `("metal3.io/v1alpha1", "BareMetalHost")`; for owner references.
    pub fn find_kind(&self, api_version: &str, kind: &str) -> Option<Arc<Kind>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.of(group, version).find(|k| k.kind == kind).cloned()
    }

    /// All of them, in a fixed order.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.kinds.values()
    }

    /// The kinds of one group and version, by plural.
    pub fn of<'a>(
        &'a self,
        group: &'a str,
        version: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Kind>> {
        self.all()
            .filter(move |kind| kind.group == group && kind.version == version)
    }

    /// One kind per kept resource, in its preferred version: what a garbage collector or a namespace sweep walks.
    /// Reviews, which are never kept, are left out.
    pub fn preferred(&self) -> Vec<Arc<Kind>> {
        let mut chosen: BTreeMap<_, Arc<Kind>> = BTreeMap::new();
        for kind in self.all().filter(|kind| kind.verbs.contains(&"list")) {
            let place = chosen.entry(kind.storage()).or_insert_with(|| kind.clone());
            let same = place.group == kind.group;
            if (same && rank(&kind.version) < rank(&place.version)) || kind.group.is_empty() {
                *place = kind.clone();
            }
        }
        chosen.into_values().collect()
    }

    /// Every group but the core's, each with its versions, the preferred one first.
    pub(super) fn groups(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for kind in self.all().filter(|kind| !kind.group.is_empty()) {
            let versions = groups.entry(&kind.group).or_default();
            if !versions.contains(&kind.version.as_str()) {
                versions.push(&kind.version);
            }
        }
        for versions in groups.values_mut() {
            versions.sort_by_key(|version| rank(version));
        }
        groups
    }
}

/// Orders versions as Kubernetes does: v2, v1, v1beta2, v1beta1, v1alpha1, then all others by their text.
fn rank(version: &str) -> (u8, Reverse<(u32, u32)>, String) {
    let parsed = version.strip_prefix('v').and_then(|rest| {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (major, rest) = rest.split_at(digits);
        let major: u32 = major.parse().ok()?;
        let (stage, minor) = match rest {
            "" => (0, "0"),
            rest if rest.starts_with("beta") => (1, &rest[4..]),
            rest if rest.starts_with("alpha") => (2, &rest[5..]),
            _ => return None,
        };
        Some((stage, major, minor.parse().ok()?))
    });
    match parsed {
        Some((stage, major, minor)) => (stage, Reverse((major, minor)), String::new()),
        None => (3, Reverse((0, 0)), version.into()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn widget_crd() -> Value {
        serde_json::from_str(include_str!("widget.json")).unwrap()
    }

    pub(crate) fn widget() -> Arc<Kind> {
        let mut registry = Registry::builtin();
        registry.put_crd(&widget_crd()).unwrap();
        registry.find("example.com", "v1", "widgets").unwrap()
    }

    #[test]
    fn kinds_of_a_crd_come_and_go() {
        let mut registry = Registry::builtin();
        let before = registry.all().count();
        registry.put_crd(&widget_crd()).unwrap();
        assert_eq!(registry.all().count(), before + 2);
        assert!(registry.find_kind("example.com/v1", "Widget").is_some());
        registry.put_crd(&widget_crd()).unwrap();
        assert_eq!(registry.all().count(), before + 2);
        registry.remove_crd("widgets.example.com");
        assert_eq!(registry.all().count(), before);
        registry.remove_crd("secrets");
        assert_eq!(registry.all().count(), before);
    }

    #[test]
    fn a_crd_cannot_take_a_built_in_group() {
        let mut crd = widget_crd();
        crd["spec"]["group"] = json!("coordination.k8s.io");
        crd["metadata"]["name"] = json!("widgets.coordination.k8s.io");
        let problems = Registry::builtin().put_crd(&crd).unwrap_err();
        assert_eq!(problems[0].field, "spec.group");
    }

    #[test]
    fn names_taken_by_another_crd_are_named() {
        let mut registry = Registry::builtin();
        registry.put_crd(&widget_crd()).unwrap();
        assert_eq!(registry.taken_names(&widget_crd()), [""; 0]);
        let mut other = widget_crd();
        other["metadata"]["name"] = json!("gadgets.example.com");
        other["spec"]["names"]["plural"] = json!("gadgets");
        assert_eq!(
            registry.taken_names(&other),
            ["widget", "wd", "Widget", "WidgetList"]
        );
    }

    #[test]
    fn stable_versions_are_preferred() {
        let mut versions = [
            "v1alpha1", "foo", "v1", "v2beta1", "v10", "v1beta2", "v2", "v1beta1",
        ];
        versions.sort_by_key(|version| rank(version));
        assert_eq!(
            versions,
            [
                "v10", "v2", "v1", "v2beta1", "v1beta2", "v1beta1", "v1alpha1", "foo"
            ]
        );
    }

    #[test]
    fn each_kept_resource_is_walked_once() {
        let mut registry = Registry::builtin();
        registry.put_crd(&widget_crd()).unwrap();
        let walked: Vec<_> = registry
            .preferred()
            .iter()
            .map(|kind| format!("{}/{}", kind.api_version(), kind.plural))
            .collect();
        assert!(walked.contains(&"example.com/v1/widgets".into()));
        assert!(walked.contains(&"v1/events".into()));
        assert!(!walked.contains(&"events.k8s.io/v1/events".into()));
        assert!(!walked.iter().any(|name| name.contains("reviews")));
    }
}
