use super::*;
use proptest::prelude::*;
use serde_json::json;

fn disk(name: &str, gib: u64) -> Disk {
    Disk {
        name: name.into(),
        model: "Samsung SSD  970".into(),
        size: gib << 30,
        rotational: false,
        wwn: Some("0x5000c500".into()),
        serial: Some(format!("S-{name}")),
        vendor: None,
        wwn_with_extension: None,
        wwn_vendor_extension: None,
        hctl: Some("0:0:0:0".into()),
        by_path: Some(format!("/dev/disk/by-path/pci-{}", name.len())),
        logical_sectors: Some(512),
        physical_sectors: Some(512),
        tran: Some("sata".into()),
    }
}

fn hints(written: Value) -> Hints {
    serde_json::from_value(written).unwrap()
}

#[test]
fn every_operator_means_what_it_says() {
    for (hint, matches) in [
        (json!({"size": 100}), true),
        (json!({"size": "100"}), true),
        (json!({"size": "= 60"}), true),
        (json!({"size": "== 60"}), false),
        (json!({"size": "!= 60"}), true),
        (json!({"size": ">= 100"}), true),
        (json!({"size": "> 100"}), false),
        (json!({"size": "<= 100"}), true),
        (json!({"size": "< 100"}), false),
        (json!({"size": "<range-in> [ 50 100 ]"}), true),
        (json!({"size": "<range-in> [50 100)"}), false),
        (json!({"size": "<or> 50 <or> 100"}), true),
        (json!({"model": "samsung ssd 970"}), true),
        (json!({"model": "Samsung%20SSD%20970"}), true),
        (json!({"model": "<in> SSD"}), true),
        (json!({"model": "<all-in> 970 samsung"}), true),
        (json!({"model": "<all-in> 970 intel"}), false),
        (json!({"model": "s!= intel"}), true),
        (json!({"serial": "s== s-/dev/sda"}), true),
        (json!({"serial": "s< a"}), false),
        (json!({"name": "<or> /dev/sdz <or> /dev/sda"}), true),
        (json!({"name": "/dev/disk/by-path/pci-8"}), true),
        (json!({"rotational": false}), true),
        (json!({"rotational": "no"}), true),
        (json!({"rotational": true}), false),
        (json!({"vendor": "x"}), false),
        (json!({"size": ">= 50", "tran": "SATA"}), true),
        (json!({"size": ">= 50", "tran": "nvme"}), false),
    ] {
        let chosen = hints(hint.clone()).select(&[disk("/dev/sda", 100)]).is_ok();
        assert_eq!(chosen, matches, "{hint}");
    }
}

#[test]
fn hints_that_fit_several_disks_are_refused_by_name() {
    let disks = [disk("/dev/sda", 100), disk("/dev/sdb", 100)];
    let error = hints(json!({"size": ">= 50"})).select(&disks).unwrap_err();
    assert_eq!(
        error,
        SelectError::Several(vec!["/dev/sda".into(), "/dev/sdb".into()])
    );
    assert_eq!(
        hints(json!({"serial": "S-/dev/sdb"}))
            .select(&disks)
            .unwrap()
            .name,
        "/dev/sdb"
    );
}

#[test]
fn hints_that_fit_none_say_why_for_each_disk() {
    let error = hints(json!({"size": ">= 500"}))
        .select(&[disk("/dev/sda", 100)])
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"no disk matches the root device hints: /dev/sda: size is "100", not >= 500"#
    );
}

#[test]
fn without_hints_the_smallest_that_is_large_enough_is_taken_unless_two_are() {
    let none = Hints::default();
    let disks = [
        disk("/dev/sda", 100),
        disk("/dev/sdb", 2),
        disk("/dev/sdc", 8),
    ];
    assert_eq!(none.select(&disks).unwrap().name, "/dev/sdc");
    assert!(matches!(
        none.select(&disks[1..2]),
        Err(SelectError::TooSmall(_))
    ));
    let tie = [disk("/dev/sda", 100), disk("/dev/sdb", 100)];
    assert!(matches!(none.select(&tie), Err(SelectError::Tie(names)) if names.len() == 2));
    assert_eq!(none.select(&[]), Err(SelectError::NoDisks));
}

#[test]
fn every_problem_of_the_hints_is_told_at_once() {
    let written = json!({"size": ">= large", "colour": "red", "rotational": "maybe", "model": {"a": 1}, "serial": "", "hctl": "<range-in> 1 2"});
    let error = Hints::parse(&serde_json::from_value(written).unwrap()).unwrap_err();
    assert_eq!(error.0.len(), 6, "{error}");
    assert!(
        error.to_string().contains("there are size, model"),
        "{error}"
    );
}

proptest! {
    #[test]
    fn any_hint_is_read_or_refused_and_reads_back_the_same(text in ".{0,40}", field in 0..Field::ALL.len()) {
        let field = Field::ALL[field];
        if let Ok(pattern) = Pattern::parse(field, &Value::String(text)) {
            pattern.matches("something");
            let again = Pattern::parse(field, &Value::String(pattern.to_string()));
            prop_assert_eq!(again, Ok(pattern));
        }
    }
}
