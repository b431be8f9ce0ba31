//! Which disk the operating system goes to, and which disks are left alone.

use std::collections::BTreeMap;

use model::inventory::Disk;
use model::root_device::Hints;
use serde_json::Value;

use super::machine::Failure;

/// The one disk that Ironic's node names: by its hints, or the smallest that is large enough.
pub fn root_disk<'a>(
    disks: &'a [Disk],
    node: &Value,
    in_use: impl Fn(&Disk) -> Option<String>,
) -> Result<&'a Disk, Failure> {
    let none = |why: String| Failure::new("DeviceNotFound", why);
    let hints = hints(node)?;
    let skipped = skipped(node)?;
    let mut candidates: Vec<Disk> = vec![];
    for disk in disks.iter().filter(|disk| !matches_any(&skipped, disk)) {
        // A hint that means the ramdisk's own disk must be told, not worked around.
        if !hints.is_empty() || in_use(disk).is_none() {
            candidates.push(disk.clone());
        }
    }
    let chosen = hints
        .select(&candidates)
        .map_err(|error| none(error.to_string()))?;
    if let Some(why) = in_use(chosen) {
        return Err(none(format!("{} cannot be written: {why}", chosen.name)));
    }
    Ok(disks
        .iter()
        .find(|disk| disk.name == chosen.name)
        .expect("the candidates are among the disks"))
}

/// The disks that may be erased, and why others may not.
pub fn erasable<'a>(
    disks: &'a [Disk],
    node: &Value,
    in_use: impl Fn(&Disk) -> Option<String>,
) -> Result<(Vec<&'a Disk>, Vec<String>), Failure> {
    let skipped = skipped(node)?;
    let (mut erase, mut left) = (vec![], vec![]);
    for disk in disks {
        if matches_any(&skipped, disk) {
            left.push(format!("{}: listed in skip_block_devices", disk.name));
        } else if let Some(why) = in_use(disk) {
            left.push(format!("{}: {why}", disk.name));
        } else {
            erase.push(disk);
        }
    }
    Ok((erase, left))
}

fn hints(node: &Value) -> Result<Hints, Failure> {
    let given = [
        &node["instance_info"]["root_device"],
        &node["properties"]["root_device"],
    ];
    match given.into_iter().find(|hints| !is_empty(hints)) {
        Some(hints) => parse(hints, "root_device"),
        None => Ok(Hints::default()),
    }
}

fn skipped(node: &Value) -> Result<Vec<Hints>, Failure> {
    match &node["properties"]["skip_block_devices"] {
        Value::Array(list) => list
            .iter()
            .filter(|hints| !is_empty(hints))
            .map(|hints| parse(hints, "skip_block_devices"))
            .collect(),
        Value::Null => Ok(vec![]),
        _ => Err(Failure::invalid("skip_block_devices is not a list")),
    }
}

fn parse(hints: &Value, field: &str) -> Result<Hints, Failure> {
    let Value::Object(map) = hints else {
        return Err(Failure::invalid(format!(
            "{field} is not an object of hints"
        )));
    };
    let map: BTreeMap<_, _> = map.clone().into_iter().collect();
    Hints::parse(&map).map_err(|error| Failure::invalid(format!("{field}: {error}")))
}

fn is_empty(hints: &Value) -> bool {
    hints.is_null() || hints.as_object().is_some_and(serde_json::Map::is_empty)
}

fn matches_any(hints: &[Hints], disk: &Disk) -> bool {
    let one = std::slice::from_ref(disk);
    hints.iter().any(|hints| hints.select(one).is_ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::disk;
    use super::*;

    fn free(_: &Disk) -> Option<String> {
        None
    }

    #[test]
    fn instance_hints_win_over_the_nodes_own() {
        let disks = [disk("/dev/sda", 10), disk("/dev/sdb", 20)];
        let node = json!({
            "instance_info": {"root_device": {"name": "/dev/sdb"}},
            "properties": {"root_device": {"name": "/dev/sda"}},
        });
        assert_eq!(root_disk(&disks, &node, free).unwrap().name, "/dev/sdb");
    }

    #[test]
    fn without_hints_the_smallest_free_disk_is_taken() {
        let disks = [
            disk("/dev/sda", 8),
            disk("/dev/sdb", 20),
            disk("/dev/sdc", 5),
        ];
        let node = json!({"properties": {"skip_block_devices": [{"name": "/dev/sdc"}]}});
        let stick = |disk: &Disk| (disk.name == "/dev/sda").then(|| "we run from it".to_owned());
        assert_eq!(root_disk(&disks, &node, stick).unwrap().name, "/dev/sdb");
    }

    #[test]
    fn hints_that_mean_a_disk_in_use_are_an_error() {
        let disks = [disk("/dev/sda", 8), disk("/dev/sdb", 20)];
        let node = json!({"properties": {"root_device": {"name": "/dev/sda"}}});
        let used = |disk: &Disk| (disk.name == "/dev/sda").then(|| "we run from it".to_owned());
        let failure = root_disk(&disks, &node, used).unwrap_err();
        assert!(failure.details.contains("we run from it"), "{failure:?}");
    }

    #[test]
    fn bad_hints_are_refused_before_any_disk_is_looked_at() {
        for node in [
            json!({"properties": {"root_device": {"colour": "red"}}}),
            json!({"properties": {"root_device": "sda"}}),
            json!({"properties": {"skip_block_devices": "sda"}}),
        ] {
            assert_eq!(root_disk(&[], &node, free).unwrap_err().code, 400, "{node}");
        }
    }

    #[test]
    fn disks_left_alone_are_listed_with_the_reason() {
        let disks = [disk("/dev/sda", 8), disk("/dev/sdb", 20)];
        let node = json!({"properties": {"skip_block_devices": [{"name": "/dev/sda"}]}});
        let (erase, left) = erasable(&disks, &node, free).unwrap();
        assert_eq!(erase[0].name, "/dev/sdb");
        assert_eq!(left, ["/dev/sda: listed in skip_block_devices"]);
    }
}
