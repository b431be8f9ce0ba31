mod cases;
mod world;

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use Verdict::{Fail, Pass, Warn};
use cases::CASES;
use world::{MEDIA, NOW, PXE, STATIC, good, why};

#[test]
fn every_check_says_what_the_facts_say() {
    for (at, (id, site, change, expected)) in CASES.iter().enumerate() {
        let mut world = good(site);
        change(&mut world);
        assert_eq!(
            world.verdict(id),
            *expected,
            "case {at} of {id}: {:#?}",
            world
                .findings()
                .iter()
                .filter(|f| f.id == *id)
                .collect::<Vec<_>>()
        );
    }
}

#[test]
fn a_good_site_passes() {
    for site in [PXE, MEDIA, STATIC] {
        for finding in good(site).findings() {
            // A BMC does not know what Linux will call a disk.
            let allowed = finding.id == "root-device" && site != STATIC;
            assert!(finding.verdict == Pass || allowed, "{finding:?}");
        }
    }
}

#[test]
fn every_check_can_pass_and_can_object() {
    let mut passes: BTreeSet<&str> = BTreeSet::new();
    for site in [PXE, MEDIA, STATIC] {
        passes.extend(
            good(site)
                .findings()
                .iter()
                .filter(|f| f.verdict == Pass)
                .map(|f| f.id),
        );
    }
    for check in CHECKS {
        let wanted = match check.severity {
            Severity::Fail => Fail,
            Severity::Warn => Warn,
        };
        let objects = CASES
            .iter()
            .any(|(id, _, _, verdict)| *id == check.id && *verdict == wanted);
        assert!(objects, "no case makes {} object", check.id);
        assert!(passes.contains(check.id), "no site lets {} pass", check.id);
    }
    assert!(CHECKS.len() >= 40, "{}", CHECKS.len());
    let ids: BTreeSet<&str> = CHECKS.iter().map(|check| check.id).collect();
    assert_eq!(ids.len(), CHECKS.len(), "two checks share an id");
}

#[test]
fn nothing_seen_is_never_a_failure_of_what_was_not_seen() {
    for site in [PXE, MEDIA, STATIC] {
        let mut world = good(site);
        world.seen = Observed {
            now: NOW,
            ..Observed::default()
        };
        for finding in world.findings() {
            assert!(finding.verdict < Warn, "{finding:?}");
        }
    }
}

#[test]
fn whatever_is_objected_to_has_a_remedy_and_no_secret() {
    for (_, site, change, _) in CASES {
        let mut world = good(&site.replace("change-me", "hunter2"));
        change(&mut world);
        for finding in world.findings() {
            let text = format!("{finding:?}");
            assert!(
                !text.contains("hunter2") && !text.contains("aHVudGVyMg"),
                "{text}"
            );
            assert!(
                finding.verdict < Warn || !finding.remedy.is_empty(),
                "{text}"
            );
        }
    }
}

#[test]
fn checks_are_chosen_by_id_and_need_what_they_need() {
    let id = |id: &str| vec![id.to_owned()];
    let only = Selection::new(id("vip-free"), Vec::new()).unwrap();
    assert_eq!(
        only.checks().map(|check| check.id).collect::<Vec<_>>(),
        ["vip-free"]
    );
    assert!(only.needs(Need::Claims) && !only.needs(Need::Bmcs));
    let skip = Selection::new(Vec::new(), id("vrid-quiet")).unwrap();
    assert!(!skip.needs(Need::Vrrp) && skip.needs(Need::Bmcs));
    let error = Selection::new(id("vip-fre"), Vec::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no check \"vip-fre\"; did you mean \"vip-free\"?"
    );
}

#[test]
fn a_table_says_the_worst_first_and_one_reason_once() {
    let mut world = good(PXE);
    world.bmc(Bmc::Silent {
        why: why("no route to host"),
    });
    world.taken("baremetal", "192.0.2.5");
    world.first_worker_on();
    insta::assert_snapshot!(render(&world.findings(), false));
}

#[test]
fn the_catalogue_is_as_agreed() {
    let lines: BTreeMap<&str, String> = CHECKS
        .iter()
        .map(|check| (check.id, format!("{:?}: {}", check.severity, check.title)))
        .collect();
    insta::assert_json_snapshot!(lines);
}
