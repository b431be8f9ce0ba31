use proptest::prelude::*;

use super::*;

fn file(path: &str, bytes: &[u8]) -> File<()> {
    File {
        path: path.into(),
        content: Content::Bytes(bytes.to_vec()),
    }
}

fn image(files: Vec<File<()>>) -> Image<()> {
    Image {
        label: "config-2".into(),
        publisher: String::new(),
        files,
        joliet: true,
        boot: Boot::default(),
        modified: 1_794_735_533,
    }
}

fn bytes(image: Image<()>) -> Vec<u8> {
    let mut out = Vec::new();
    let layout = image.layout().unwrap();
    layout
        .write_to(&mut out, |()| Ok(std::io::empty()))
        .unwrap();
    assert_eq!(out.len() as u64, layout.len());
    out
}

/// A reader of its own, by Rock Ridge names: enough to check the writer without trusting its structures.
fn read_all(iso: &[u8]) -> Vec<(String, Vec<u8>)> {
    fn le32(bytes: &[u8]) -> usize {
        u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize
    }
    fn walk(iso: &[u8], at: usize, len: usize, prefix: &str, out: &mut Vec<(String, Vec<u8>)>) {
        let (mut i, dir) = (0, &iso[at * 2048..at * 2048 + len]);
        while i < dir.len() {
            let record = &dir[i..];
            let record_len = record[0] as usize;
            if record_len == 0 {
                i = (i + 1).next_multiple_of(2048);
                continue;
            }
            let (start, size) = (le32(&record[2..]), le32(&record[10..]));
            let name_len = record[32] as usize;
            let mut field = 33 + name_len + usize::from(name_len.is_multiple_of(2));
            while field + 4 < record_len {
                if &record[field..field + 2] == b"NM" {
                    let name = String::from_utf8(
                        record[field + 5..field + record[field + 2] as usize].to_vec(),
                    );
                    let path = format!("{prefix}{}", name.unwrap());
                    if record[25] & 2 == 2 {
                        walk(iso, start, size, &format!("{path}/"), out);
                    } else {
                        out.push((path, iso[start * 2048..start * 2048 + size].to_vec()));
                    }
                }
                field += record[field + 2] as usize;
            }
            i += record_len;
        }
    }
    let root = &iso[16 * 2048 + 156..];
    let mut out = Vec::new();
    walk(iso, le32(&root[2..]), le32(&root[10..]), "", &mut out);
    out.sort();
    out
}

#[test]
fn config_drive_label_keeps_its_case_in_both_name_spaces() {
    let iso = bytes(image(vec![file("openstack/latest/user_data", b"{}")]));
    assert_eq!(&iso[16 * 2048 + 40..16 * 2048 + 49], b"config-2 ");
    assert_eq!(
        &iso[17 * 2048 + 40..17 * 2048 + 58],
        b"\0c\0o\0n\0f\0i\0g\0-\x002\0 "
    );
}

#[test]
fn same_input_gives_the_same_bytes() {
    let files = || vec![file("b", b"1"), file("a/c", b"2")];
    assert_eq!(bytes(image(files())), bytes(image(files())));
}

#[test]
fn file_of_four_gib_is_refused() {
    let content = Content::File {
        token: (),
        len: 1 << 32,
    };
    let big = File {
        path: "big".into(),
        content,
    };
    let error = image(vec![big]).layout().unwrap_err();
    assert_eq!(
        error.to_string(),
        "big: 4294967296 bytes; ISO 9660 holds files of less than 4 GiB"
    );
}

#[test]
fn bad_paths_are_refused() {
    for path in [
        "",
        "/a",
        "a//b",
        "a/../b",
        "a\n",
        &"n".repeat(65),
        "1/2/3/4/5/6/7/8/x",
    ] {
        assert!(image(vec![file(path, b"")]).layout().is_err(), "{path:?}");
    }
    for pair in [["a", "a"], ["a", "a/b"], ["a/b", "a"]] {
        let files = pair.map(|path| file(path, b"")).to_vec();
        assert!(
            matches!(image(files).layout(), Err(Error::Twice { .. })),
            "{pair:?}"
        );
    }
}

#[test]
fn boot_images_must_be_among_the_files_and_small_enough() {
    let mut missing = image(vec![]);
    missing.boot.uefi = Some("esp.img".into());
    assert_eq!(missing.layout(), Err(Error::NoBootImage("esp.img".into())));
    let mut tiny = image(vec![file("eltorito.img", &[0; 63])]);
    tiny.boot.bios = Some("eltorito.img".into());
    assert_eq!(tiny.layout(), Err(Error::BiosImage("eltorito.img".into())));
}

#[test]
fn boot_information_table_points_at_the_image_itself() {
    let mut iso = image(vec![file("a", &[1; 3000]), file("eltorito.img", &[7; 130])]);
    iso.boot.bios = Some("eltorito.img".into());
    let iso = bytes(iso);
    let found = read_all(&iso)
        .into_iter()
        .find(|(path, _)| path == "eltorito.img");
    let boot = found.unwrap().1;
    let word = |at: usize| u32::from_le_bytes(boot[at..at + 4].try_into().unwrap());
    assert_eq!([word(8), word(16)], [16, 130]);
    let at = word(12) as usize * 2048;
    assert_eq!(iso[at..at + 130], boot[..]);
    assert_eq!(
        word(20),
        0x0707_0707u32.wrapping_mul(16).wrapping_add(0x0707)
    );
}

#[test]
fn boot_loader_reading_past_the_last_file_stays_inside_the_image() {
    let mut iso = image(vec![file("eltorito.img", &[7; 130])]);
    iso.boot.bios = Some("eltorito.img".into());
    let layout = iso.layout().unwrap();
    let last = layout.extents().last().unwrap();
    assert!(layout.len() - (last.offset + last.content.len()) >= 64 << 10);
}

proptest! {
    #[test]
    fn any_files_can_be_read_back_by_their_rock_ridge_names(
        files in prop::collection::btree_map("[a-zA-Z0-9._ -]{1,60}", prop::collection::vec(any::<u8>(), 0..5000), 0..60),
        dirs in prop::collection::vec("[d-f]{1,3}", 0..3),
    ) {
        let expected: Vec<_> = files.into_iter()
            .filter(|(name, _)| name != "." && name != "..")
            .map(|(name, data)| (dirs.iter().chain([&name]).cloned().collect::<Vec<_>>().join("/"), data))
            .collect();
        let iso = bytes(image(expected.iter().map(|(path, data)| file(path, data)).collect()));
        let mut expected = expected;
        expected.sort();
        prop_assert_eq!(read_all(&iso), expected);
    }

    #[test]
    fn any_path_gives_a_layout_or_an_error(paths in prop::collection::vec(".{0,40}", 0..6), label in ".{0,40}") {
        let mut image = image(paths.iter().map(|path| file(path, b"x")).collect());
        image.label = label;
        let _ = image.layout();
    }
}
