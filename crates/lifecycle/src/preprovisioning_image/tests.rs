use super::*;

fn image() -> Image {
    Image {
        generation: 1,
        finalizers: vec![FINALIZER.to_owned()],
        spec: ImageRequest {
            architecture: "x86_64".into(),
            accept_formats: vec![ImageFormat::Iso, ImageFormat::Initrd],
            ..ImageRequest::default()
        },
        ..Image::default()
    }
}

fn ramdisks() -> Ramdisks {
    let arm = Ramdisk {
        kernel: Some("http://arm/kernel".into()),
        initrd: Some("http://arm/initrd".into()),
        iso: None,
    };
    Ramdisks {
        by_architecture: BTreeMap::from([("aarch64".into(), arm)]),
        any: Ramdisk {
            iso: Some("http://any/iso".into()),
            ..Ramdisk::default()
        },
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("it is in range")
}

/// The image with whatever is to be saved saved.
fn answered(mut image: Image, secret: Option<&str>, now: Timestamp) -> Image {
    for _ in 0..3 {
        match next(&image, &ramdisks(), secret, now) {
            Step::Save(status) => image.status = *status,
            _ => return image,
        }
    }
    panic!("it never comes to rest: {image:?}");
}

fn told(image: &Image) -> String {
    let status = &image.status;
    let condition = |kind: &str| {
        let found = status.conditions.iter().find(|seen| seen.kind == kind);
        let found = found.expect("it is always said");
        assert_eq!(found.observed_generation, image.generation);
        (found.status == Truth::True).then(|| found.reason.clone())
    };
    match (condition("Ready"), condition("Error")) {
        (Some(_), None) => format!("{} {}", status.image_url, status.kernel_url),
        (None, Some(reason)) => reason,
        other => panic!("both or neither: {other:?}"),
    }
}

#[test]
fn the_first_accepted_format_that_there_is_for_the_architecture_is_the_answer() {
    use ImageFormat::{Initrd, Iso};
    for (name, architecture, formats, expected) in [
        ("a disc", "x86_64", vec![Iso, Initrd], "http://any/iso "),
        (
            "no disc for it",
            "aarch64",
            vec![Iso, Initrd],
            "http://arm/initrd http://arm/kernel",
        ),
        (
            "only the other",
            "x86_64",
            vec![Initrd],
            "ConfigurationError",
        ),
        ("nothing will do", "x86_64", vec![], "ConfigurationError"),
    ] {
        let mut image = image();
        image.spec.architecture = architecture.into();
        image.spec.accept_formats = formats;
        let image = answered(image, None, at(0));
        assert_eq!(told(&image), expected, "{name}");
        if told(&image).starts_with("http") {
            assert_eq!(image.status.architecture, architecture, "{name}");
        }
    }
}

#[test]
fn a_secret_is_waited_for_ever_more_patiently_and_its_version_is_written_down() {
    let mut waiting = image();
    waiting.spec.network_data_name = "net".into();
    let waiting = answered(waiting, None, at(0));
    assert_eq!(told(&waiting), MISSING);
    for (now, pause) in [(0, 10), (60, 70), (100_000, 600)] {
        let Step::Wait { until, .. } = next(&waiting, &ramdisks(), None, at(now)) else {
            panic!("there is nothing else to do");
        };
        assert_eq!(until, at(now + pause));
    }
    let there = answered(waiting, Some("7"), at(60));
    assert_eq!(told(&there), "http://any/iso ");
    let version = |image: &Image| image.status.network_data.clone().map(|data| data.version);
    assert_eq!(version(&there).as_deref(), Some("7"));
    assert_eq!(
        version(&answered(there, Some("8"), at(61))).as_deref(),
        Some("8")
    );
}

#[test]
fn a_changed_request_is_answered_anew_for_its_generation() {
    let mut changed = answered(image(), None, at(0));
    changed.generation = 2;
    changed.spec.architecture = "aarch64".into();
    let changed = answered(changed, None, at(5));
    assert_eq!(told(&changed), "http://arm/initrd http://arm/kernel");
    // It was ready all along.
    assert_eq!(since(&changed.status, "Ready"), Some(at(0)));
}

#[test]
fn an_image_is_let_go_of_last() {
    let mut going = image();
    going.deleting = true;
    going.finalizers.push("somebody".into());
    let step = |image: &Image| next(image, &ramdisks(), None, at(0));
    assert!(matches!(step(&going), Step::Wait { .. }));
    going.finalizers.pop();
    assert_eq!(step(&going), Step::RemoveFinalizer);
    going.finalizers.clear();
    assert_eq!(step(&going), Step::Done);
    going.deleting = false;
    assert_eq!(step(&going), Step::AddFinalizer);
}
