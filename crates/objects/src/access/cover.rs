//! Whether somebody has all that they want to give away.

use super::rule::{Rule, covers_path, has};

/// The single permissions among `given` that no rule of `held` covers.
pub(super) fn missing(held: &[Rule], given: &[Rule]) -> Vec<Rule> {
    given
        .iter()
        .flat_map(single)
        .filter(|one| !held.iter().any(|rule| covers(rule, one)))
        .collect()
}

/// One verb on one resource (or path, or name) each.
fn single(rule: &Rule) -> Vec<Rule> {
    let mut all = vec![];
    for verb in &rule.verbs {
        for url in &rule.non_resource_urls {
            all.push(Rule {
                verbs: vec![verb.clone()],
                non_resource_urls: vec![url.clone()],
                ..Rule::default()
            });
        }
        for group in &rule.api_groups {
            for resource in &rule.resources {
                let one = Rule {
                    verbs: vec![verb.clone()],
                    api_groups: vec![group.clone()],
                    resources: vec![resource.clone()],
                    ..Rule::default()
                };
                if rule.resource_names.is_empty() {
                    all.push(one);
                    continue;
                }
                all.extend(rule.resource_names.iter().map(|name| Rule {
                    resource_names: vec![name.clone()],
                    ..one.clone()
                }));
            }
        }
    }
    all
}

/// Whether a rule covers one single permission.
fn covers(rule: &Rule, one: &Rule) -> bool {
    let verbs = one.verbs.iter().all(|verb| has(&rule.verbs, verb));
    if !one.non_resource_urls.is_empty() {
        let known = |url: &String| {
            rule.non_resource_urls
                .iter()
                .any(|written| covers_path(written, url))
        };
        return verbs && one.non_resource_urls.iter().all(known);
    }
    let names = rule.resource_names.is_empty()
        || (!one.resource_names.is_empty()
            && one
                .resource_names
                .iter()
                .all(|name| rule.resource_names.contains(name)));
    let resource = |wanted: &String| {
        let every_sub = wanted
            .split_once('/')
            .is_some_and(|(_, sub)| rule.resources.contains(&format!("*/{sub}")));
        has(&rule.resources, wanted) || every_sub
    };
    verbs
        && names
        && one
            .api_groups
            .iter()
            .all(|group| has(&rule.api_groups, group))
        && one.resources.iter().all(resource)
}
