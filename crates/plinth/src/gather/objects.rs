//! Every object that the API has, but for what Secrets hold.

use serde_json::{Value, json};

use super::parts::{Part, Site};
use super::redact::redact;
use super::{File, parts};

/// One kind, as discovery tells of it.
#[derive(Debug, PartialEq, Eq)]
struct Kind {
    path: String,
    file: String,
    secret: bool,
}

pub async fn all(site: &Site) -> Part {
    let cluster = match &site.cluster {
        Ok(cluster) => cluster,
        Err(why) => return Part::missing(why.clone()),
    };
    let groups = match cluster.get("/apis").await {
        Ok(groups) => groups,
        Err(why) => return Part::missing(why),
    };
    let mut part = Part::default();
    let preferred = groups["groups"].as_array().into_iter().flatten();
    let preferred =
        preferred.filter_map(|group| group["preferredVersion"]["groupVersion"].as_str());
    let mut versions = vec!["/api/v1".to_owned()];
    versions.extend(preferred.map(|version| format!("/apis/{version}")));
    for version in versions {
        match cluster.get(&version).await {
            Ok(resources) => {
                for kind in kinds(&version, &resources) {
                    match cluster.get(&kind.path).await {
                        Ok(list) => part.files.push(file(&kind, list)),
                        Err(why) => part.problems.push(format!("{}: {why}", kind.file)),
                    }
                }
            }
            Err(why) => part.problems.push(format!("{version}: {why}")),
        }
    }
    part
}

/// Those that can be listed.
fn kinds(version: &str, resources: &Value) -> Vec<Kind> {
    let all = resources["resources"].as_array().into_iter().flatten();
    all.filter_map(|resource| {
        let name = resource["name"].as_str()?;
        let verbs = resource["verbs"].as_array()?;
        let listed = verbs.iter().any(|verb| verb == "list") && !name.contains('/');
        let group = version.trim_start_matches("/apis/").split('/').next()?;
        let file = if version == "/api/v1" {
            name.to_owned()
        } else {
            format!("{name}.{group}")
        };
        listed.then(|| Kind {
            path: format!("{version}/{name}"),
            secret: version == "/api/v1" && name == "secrets",
            file,
        })
    })
    .collect()
}

fn file(kind: &Kind, mut list: Value) -> File {
    let path = format!("objects/{}.json", kind.file);
    if kind.secret {
        return File::json(path, &names(&list));
    }
    redact(&mut list);
    parts::File::json(path, &list)
}

/// What there is of Secrets, and which fields they have.
fn names(list: &Value) -> Value {
    let items = list["items"].as_array().into_iter().flatten();
    let named = items.map(|secret| {
        let fields: Vec<&String> = secret["data"]
            .as_object()
            .into_iter()
            .flat_map(|data| data.keys())
            .collect();
        json!({
            "namespace": secret["metadata"]["namespace"], "name": secret["metadata"]["name"],
            "type": secret["type"], "fields": fields,
        })
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_secrets_only_the_names_are_kept() {
        let list = json!({"items": [{
            "metadata": {"namespace": "n", "name": "bmc", "annotations": {"x": "aHVudGVyMg=="}},
            "type": "Opaque", "data": {"password": "aHVudGVyMg=="},
        }]});
        let kind = Kind {
            path: String::new(),
            file: "secrets".into(),
            secret: true,
        };
        let text = String::from_utf8(file(&kind, list).bytes).unwrap();
        assert!(
            text.contains("\"password\"") && text.contains("bmc"),
            "{text}"
        );
        assert!(!text.contains("aHVudGVyMg"), "{text}");
    }

    #[test]
    fn kinds_that_can_be_listed_are_taken_once() {
        let resources = json!({"resources": [
            {"name": "baremetalhosts", "verbs": ["get", "list"]},
            {"name": "baremetalhosts/status", "verbs": ["get", "list"]},
            {"name": "reviews", "verbs": ["create"]},
            {"nonsense": 1},
        ]});
        let found = kinds("/apis/metal3.io/v1alpha1", &resources);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, "/apis/metal3.io/v1alpha1/baremetalhosts");
        assert_eq!(found[0].file, "baremetalhosts.metal3.io");
        assert!(
            kinds(
                "/api/v1",
                &json!({"resources": [{"name": "secrets", "verbs": ["list"]}]})
            )[0]
            .secret
        );
    }
}
