//! Kinds from a CustomResourceDefinition, or everything that is wrong with it.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::builtin::ALL_VERBS;
use super::{Kind, Scale, Subresource};
use crate::json::{items, text, texts};
use crate::metadata::{dns_label, dns_subdomain};
use crate::path::Path;
use crate::schema::Schema;
use crate::status::Cause;
use crate::table::{self, Column, jsonpath::JsonPath};

/// The served kinds of a CRD.
pub(super) fn kinds(crd: &Value) -> Result<Vec<Kind>, Vec<Cause>> {
    let mut reader = Reader { problems: vec![] };
    reader.names(crd);
    reader.conversion(crd);
    let storage = reader.versions(crd);
    let spec = Path::Root.field("spec");
    let at = spec.field("versions");
    let mut kinds = vec![];
    for (index, version) in items(crd, "/spec/versions").iter().enumerate() {
        let kind = reader.kind(crd, version, at.index(index), &storage);
        if version["served"] == true {
            kinds.push(kind);
        }
    }
    if reader.problems.is_empty() {
        Ok(kinds)
    } else {
        Err(reader.problems)
    }
}

struct Reader {
    problems: Vec<Cause>,
}

impl Reader {
    fn names(&mut self, crd: &Value) {
        let group = text(crd, "/spec/group");
        let plural = text(crd, "/spec/names/plural");
        self.required(crd, "spec.group");
        self.required(crd, "spec.scope");
        self.required(crd, "spec.names.plural");
        self.required(crd, "spec.names.kind");
        if !group.is_empty() && (dns_subdomain(group).is_some() || !group.contains('.')) {
            let why = "should be a domain with at least one dot";
            self.invalid("spec.group", &json!(group), why);
        }
        let scope = text(crd, "/spec/scope");
        if !["Cluster", "Namespaced", ""].contains(&scope) {
            let known = [json!("Cluster"), json!("Namespaced")];
            let problem = Cause::not_supported("spec.scope", &json!(scope), &known);
            self.problems.push(problem);
        }
        let name = text(crd, "/metadata/name");
        if !plural.is_empty() && !group.is_empty() && name != format!("{plural}.{group}") {
            let why = "must be spec.names.plural+\".\"+spec.group";
            self.invalid("metadata.name", &json!(name), why);
        }
        let lower = [
            ("spec.names.plural", plural),
            ("spec.names.singular", text(crd, "/spec/names/singular")),
        ];
        let short = texts(crd, "/spec/names/shortNames");
        let short = short.iter().map(|name| ("spec.names.shortNames", *name));
        for (field, name) in lower.into_iter().chain(short) {
            if let Some(why) = Some(name).filter(|n| !n.is_empty()).and_then(dns_label) {
                self.invalid(field, &json!(name), &why);
            }
        }
        for field in ["kind", "listKind"] {
            let name = text(crd, &format!("/spec/names/{field}"));
            if let Some(why) = dns_label(&name.to_lowercase()).filter(|_| !name.is_empty()) {
                let why = format!("may have mixed case, but should otherwise match: {why}");
                self.invalid(&format!("spec.names.{field}"), &json!(name), &why);
            }
        }
        let (kind, list) = (
            text(crd, "/spec/names/kind"),
            text(crd, "/spec/names/listKind"),
        );
        if !kind.is_empty() && kind == list {
            let why = "kind and listKind may not be the same";
            self.invalid("spec.names.listKind", &json!(list), why);
        }
        if crd["spec"]["preserveUnknownFields"] == true {
            let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                       spec.versions[*].schema instead";
            self.invalid("spec.preserveUnknownFields", &json!(true), why);
        }
    }

    /// DEVIATION: versions convert by their apiVersion only; there is no call to a webhook.
    fn conversion(&mut self, crd: &Value) {
        let strategy = text(crd, "/spec/conversion/strategy");
        if !["", "None"].contains(&strategy) {
            let at = "spec.conversion.strategy";
            let problem = Cause::not_supported(at, &json!(strategy), &[json!("None")]);
            self.problems.push(problem);
        }
    }

    /// Names of versions; the one that objects are kept in.
    fn versions(&mut self, crd: &Value) -> String {
        let versions = items(crd, "/spec/versions");
        let spec = Path::Root.field("spec");
        let at = spec.field("versions");
        let mut seen = BTreeSet::new();
        for (index, version) in versions.iter().enumerate() {
            let name = text(version, "/name");
            let at = at.index(index).field("name").to_string();
            if let Some(why) = dns_label(name) {
                self.invalid(&at, &json!(name), &why);
            } else if !seen.insert(name) {
                self.problems.push(Cause::duplicate(at, &json!(name)));
            }
        }
        let storage: Vec<_> = versions
            .iter()
            .filter(|version| version["storage"] == true)
            .map(|version| text(version, "/name"))
            .collect();
        if let [one] = storage.as_slice() {
            return (*one).into();
        }
        let why = "must have exactly one version marked as storage version";
        self.invalid("spec.versions", &json!(seen), why);
        String::new()
    }

    fn kind(&mut self, crd: &Value, version: &Value, at: Path<'_>, storage: &str) -> Kind {
        let names = |field: &str| text(crd, &format!("/spec/names/{field}"));
        let or = |text: &str, other: String| match text {
            "" => other,
            text => text.to_owned(),
        };
        let group = text(crd, "/spec/group");
        let name = text(version, "/name");
        let kind = names("kind");
        let owned = |texts: Vec<&str>| texts.into_iter().map(Into::into).collect();
        let deprecated = version["deprecated"] == true;
        let mut schema = self.schema(version, at.field("schema"));
        schema.status_apart = version.pointer("/subresources/status").is_some();
        let warning = text(version, "/deprecationWarning");
        Kind {
            group: group.into(),
            version: name.into(),
            kind: kind.into(),
            list_kind: or(names("listKind"), format!("{kind}List")),
            plural: names("plural").into(),
            singular: or(names("singular"), kind.to_lowercase()),
            short_names: owned(texts(crd, "/spec/names/shortNames")),
            categories: owned(texts(crd, "/spec/names/categories")),
            namespaced: text(crd, "/spec/scope") == "Namespaced",
            verbs: ALL_VERBS,
            subresources: self.subresources(version, at.field("subresources")),
            schema: Arc::new(schema),
            columns: self.columns(version, at.field("additionalPrinterColumns")),
            custom: true,
            storage_version: storage.into(),
            deprecation: deprecated
                .then(|| or(warning, format!("{group}/{name} {kind} is deprecated"))),
            selectable: self.selectable(version, at.field("selectableFields")),
        }
    }

    fn schema(&mut self, version: &Value, at: Path<'_>) -> Schema {
        let at = at.field("openAPIV3Schema");
        let Some(written) = version.pointer("/schema/openAPIV3Schema") else {
            self.problems
                .push(Cause::required(at.to_string(), "schemas are required"));
            return Schema::anything();
        };
        Schema::from_json(written).unwrap_or_else(|problems| {
            for mut problem in problems {
                problem.field = match problem.field.as_str() {
                    "" => at.to_string(),
                    below => format!("{at}.{below}"),
                };
                self.problems.push(problem);
            }
            Schema::anything()
        })
    }

    fn subresources(&mut self, version: &Value, at: Path<'_>) -> Vec<Subresource> {
        let mut subresources = vec![];
        if version.pointer("/subresources/status").is_some() {
            subresources.push(Subresource::Status);
        }
        if let Some(scale) = version.pointer("/subresources/scale") {
            let at = at.field("scale");
            let mut path = |field: &str, below: &str| {
                let written = text(scale, &format!("/{field}"));
                if !simple_path(written) || !written.starts_with(below) {
                    let why = format!("should be a json path under {below}");
                    let at = at.field(field).to_string();
                    self.problems
                        .push(Cause::invalid(at, &json!(written), &why));
                }
                written.to_owned()
            };
            subresources.push(Subresource::Scale(Scale {
                spec_replicas: path("specReplicasPath", ".spec"),
                status_replicas: path("statusReplicasPath", ".status"),
                label_selector: scale
                    .get("labelSelectorPath")
                    .filter(|path| *path != "")
                    .map(|_| path("labelSelectorPath", ".")),
            }));
        }
        subresources
    }

    fn columns(&mut self, version: &Value, at: Path<'_>) -> Vec<Column> {
        let mut columns = vec![table::name_column()];
        let written = items(version, "/additionalPrinterColumns");
        for (index, column) in written.iter().enumerate() {
            let at = at.index(index);
            for field in ["name", "type", "jsonPath"] {
                if text(column, &format!("/{field}")).is_empty() {
                    self.problems
                        .push(Cause::required(at.field(field).to_string(), ""));
                }
            }
            let kinds = ["boolean", "date", "integer", "number", "string"];
            if !kinds.contains(&text(column, "/type")) {
                let at = at.field("type").to_string();
                let known = kinds.map(|kind| json!(kind));
                self.problems
                    .push(Cause::not_supported(at, &column["type"], &known));
            }
            match JsonPath::parse(text(column, "/jsonPath")) {
                Ok(path) => columns.push(table::custom_column(column, path)),
                Err(why) => self.problems.push(Cause::invalid(
                    at.field("jsonPath").to_string(),
                    &column["jsonPath"],
                    &why,
                )),
            }
        }
        if written.is_empty() {
            columns.push(table::age_column());
        }
        columns
    }

    fn selectable(&mut self, version: &Value, at: Path<'_>) -> Vec<String> {
        let mut fields = vec![];
        for (index, field) in items(version, "/selectableFields").iter().enumerate() {
            let path = text(field, "/jsonPath");
            if !simple_path(path) || path.starts_with(".metadata") {
                let at = at.index(index).field("jsonPath").to_string();
                let why = "must be a simple path and not under metadata";
                self.problems.push(Cause::invalid(at, &json!(path), why));
            }
            fields.push(path.trim_start_matches('.').into());
        }
        fields
    }

    fn required(&mut self, crd: &Value, field: &str) {
        if text(crd, &format!("/{}", field.replace('.', "/"))).is_empty() {
            self.problems.push(Cause::required(field, ""));
        }
    }

    fn invalid(&mut self, field: &str, value: &Value, why: &str) {
        self.problems.push(Cause::invalid(field, value, why));
    }
}

/// `.spec.replicas`: dots and names, nothing else.
fn simple_path(path: &str) -> bool {
    let name = |name: &str| {
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
    };
    path.strip_prefix('.')
        .is_some_and(|path| path.split('.').all(name))
}

#[cfg(test)]
mod tests {
    use super::super::registry::tests::widget_crd;
    use super::*;

    fn said(crd: &Value) -> Vec<String> {
        let problems = kinds(crd).err().unwrap_or_default();
        problems.iter().map(Cause::line).collect()
    }

    #[test]
    fn a_good_crd_gives_its_served_versions() {
        let kinds = kinds(&widget_crd()).unwrap();
        assert_eq!(kinds.len(), 2);
        assert_eq!(kinds[0].api_version(), "example.com/v1");
        assert_eq!(kinds[0].columns.len(), 5);
        assert!(kinds[0].has_status());
        assert_eq!(kinds[0].selectable, ["spec.color"]);
        assert_eq!(kinds[1].storage_version, "v1");
        let warning = kinds[1].deprecation.as_deref();
        assert_eq!(warning, Some("example.com/v1beta1 Widget is deprecated"));
        let stored = kinds[1].to_storage(json!({"apiVersion": "example.com/v1beta1"}));
        assert_eq!(stored["apiVersion"], "example.com/v1");
        assert_eq!(
            kinds[1].from_storage(stored)["apiVersion"],
            "example.com/v1beta1"
        );
    }

    #[test]
    fn everything_wrong_with_a_crd_is_said_at_once() {
        let mut crd = widget_crd();
        crd["metadata"]["name"] = json!("other.example.com");
        crd["spec"]["scope"] = json!("Galaxy");
        crd["spec"]["conversion"] = json!({"strategy": "Webhook"});
        crd["spec"]["versions"][0]["storage"] = json!(false);
        crd["spec"]["versions"][0]["schema"] = json!({"openAPIV3Schema": {"type": "object",
            "properties": {"spec": {"description": "no type"}}}});
        crd["spec"]["versions"][1]["schema"] = json!(null);
        crd["spec"]["versions"][1]["additionalPrinterColumns"] =
            json!([{"name": "A", "type": "text", "jsonPath": ".a["}]);
        let found = said(&crd);
        let starts = [
            "spec.scope: Unsupported value: \"Galaxy\"",
            "metadata.name: Invalid value: \"other.example.com\": must be spec.names.plural+\".\"+spec.group",
            "spec.conversion.strategy: Unsupported value: \"Webhook\"",
            "spec.versions: Invalid value: []interface {}{\"v1\", \"v1beta1\"}: must have exactly one version marked as storage version",
            "spec.versions[0].schema.openAPIV3Schema.properties[spec].type: Required value: must not be empty",
            "spec.versions[1].schema.openAPIV3Schema: Required value: schemas are required",
            "spec.versions[1].additionalPrinterColumns[0].type: Unsupported value: \"text\"",
            "spec.versions[1].additionalPrinterColumns[0].jsonPath: Invalid value",
        ];
        assert_eq!(found.len(), starts.len(), "{found:#?}");
        for (line, start) in found.iter().zip(starts) {
            assert!(line.starts_with(start), "{line}\n{start}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_object_is_a_crd_or_a_list_of_problems(spec in crate::schema::arbitrary::json_like_schema()) {
            let _ = kinds(&json!({"spec": spec}));
            let mut crd = widget_crd();
            crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = spec;
            let _ = kinds(&crd);
        }
    }
}
