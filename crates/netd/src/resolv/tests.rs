use std::fs;
use std::os::unix::fs::symlink;

use super::*;

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("resolv.conf")
    }

    fn desk(&self) -> Desk {
        Desk {
            config: Resolv {
                path: self.path(),
                upstreams_from: None,
                saved: self.folder.path().join("state/original"),
                write: true,
            },
            own: vec!["192.0.2.10".parse().unwrap()],
            domain: "c1.test".into(),
            rewritten: 0,
            settling: None,
        }
    }

    fn text(&self) -> String {
        fs::read_to_string(self.path()).unwrap()
    }
}

fn upstreams(found: &Found) -> Vec<String> {
    found.upstreams.iter().map(ToString::to_string).collect()
}

const ORIGINAL: &str = "search lan.test\nnameserver 192.0.2.1\n";

#[test]
fn ours_goes_in_front_and_the_original_comes_back() {
    let place = Place::new();
    fs::write(place.path(), ORIGINAL).unwrap();
    let mut desk = place.desk();
    assert_eq!(upstreams(&desk.look().unwrap()), ["192.0.2.1:53"]);
    assert!(
        place
            .text()
            .contains("search c1.test lan.test\nnameserver 192.0.2.10\nnameserver 192.0.2.1\n")
    );
    assert!(!desk.look().unwrap().replaced);
    desk.restore().unwrap();
    assert_eq!(place.text(), ORIGINAL);
    assert!(!desk.config.saved.exists());
}

#[test]
fn after_a_crash_the_original_is_still_known() {
    let place = Place::new();
    fs::write(place.path(), ORIGINAL).unwrap();
    place.desk().look().unwrap();
    // The next process finds ours in place.
    let mut desk = place.desk();
    assert_eq!(upstreams(&desk.look().unwrap()), ["192.0.2.1:53"]);
    // One that died between saving and replacing leaves the original twice.
    desk.restore().unwrap();
    Original::read(&place.path())
        .unwrap()
        .save(&desk.config.saved)
        .unwrap();
    desk.look().unwrap();
    desk.restore().unwrap();
    assert_eq!(place.text(), ORIGINAL);
}

#[test]
fn a_rewrite_by_another_is_a_new_original() {
    let place = Place::new();
    fs::write(place.path(), ORIGINAL).unwrap();
    let mut desk = place.desk();
    desk.look().unwrap();
    let other = "nameserver 198.51.100.1\n";
    fs::write(place.path(), "names").unwrap();
    assert!(!desk.look().unwrap().replaced, "it is still being written");
    fs::write(place.path(), other).unwrap();
    assert!(!desk.look().unwrap().replaced);
    let found = desk.look().unwrap();
    assert!(found.replaced);
    assert_eq!(upstreams(&found), ["198.51.100.1:53"]);
    desk.restore().unwrap();
    assert_eq!(place.text(), other);
    // Written by another just before the end: theirs stays.
    desk.look().unwrap();
    fs::write(place.path(), ORIGINAL).unwrap();
    desk.restore().unwrap();
    assert_eq!(place.text(), ORIGINAL);
}

#[test]
fn a_link_is_followed_for_upstreams_and_is_a_link_again_afterwards() {
    let place = Place::new();
    let target = place.folder.path().join("stub.conf");
    symlink("stub.conf", place.path()).unwrap();
    let mut desk = place.desk();
    assert!(desk.look().unwrap().upstreams.is_empty());
    assert!(!place.path().is_symlink());
    // Its owner writes the target, now and later.
    for server in ["192.0.2.1", "192.0.2.2"] {
        fs::write(&target, format!("nameserver {server}\n")).unwrap();
        assert_eq!(upstreams(&desk.look().unwrap()), [format!("{server}:53")]);
        assert!(place.text().contains(&format!("nameserver {server}\n")));
    }
    assert_eq!(
        fs::read_to_string(&target).unwrap(),
        "nameserver 192.0.2.2\n"
    );
    desk.restore().unwrap();
    assert_eq!(
        fs::read_link(place.path()).unwrap(),
        PathBuf::from("stub.conf")
    );
}

#[test]
fn a_deleted_file_is_made_again_from_the_original() {
    let place = Place::new();
    fs::write(place.path(), ORIGINAL).unwrap();
    let mut desk = place.desk();
    desk.look().unwrap();
    fs::remove_file(place.path()).unwrap();
    assert!(desk.look().unwrap().replaced);
    desk.restore().unwrap();
    assert_eq!(place.text(), ORIGINAL);
}

#[test]
fn a_missing_file_is_missing_again_afterwards() {
    let place = Place::new();
    let mut desk = place.desk();
    desk.look().unwrap();
    assert!(place.text().contains("nameserver 192.0.2.10\n"));
    desk.restore().unwrap();
    assert!(!place.path().exists());
}

#[test]
fn upstreams_can_come_from_another_file_and_nothing_be_written() {
    let place = Place::new();
    fs::write(place.path(), ORIGINAL).unwrap();
    let other = place.folder.path().join("nm.conf");
    fs::write(&other, "nameserver 203.0.113.9\n").unwrap();
    let mut desk = place.desk();
    desk.config.upstreams_from = Some(other);
    desk.config.write = false;
    assert_eq!(upstreams(&desk.look().unwrap()), ["203.0.113.9:53"]);
    desk.restore().unwrap();
    assert_eq!(place.text(), ORIGINAL);
}

#[test]
fn a_saved_original_that_makes_no_sense_is_an_error_and_nothing_is_written() {
    let place = Place::new();
    fs::write(place.path(), ORIGINAL).unwrap();
    let mut desk = place.desk();
    fs::create_dir_all(desk.config.saved.parent().unwrap()).unwrap();
    fs::write(&desk.config.saved, "nonsense").unwrap();
    assert!(matches!(desk.look(), Err(Error::Saved { .. })));
    assert_eq!(place.text(), ORIGINAL);
}

#[tokio::test]
async fn the_keeper_notices_and_restores() {
    let place = Place::new();
    fs::write(place.path(), ORIGINAL).unwrap();
    let desk = place.desk();
    let keeper = start(&desk.config, desk.own.clone(), "c1.test").unwrap();
    let mut upstreams = keeper.upstreams();
    assert_eq!(upstreams.borrow_and_update().len(), 1);
    fs::write(place.path(), "nameserver 192.0.2.1\nnameserver 192.0.2.2\n").unwrap();
    tokio::time::timeout(Duration::from_secs(10), upstreams.changed())
        .await
        .expect("the rewrite is noticed")
        .unwrap();
    assert_eq!(upstreams.borrow().len(), 2);
    keeper.stop().await.unwrap();
    assert_eq!(place.text(), "nameserver 192.0.2.1\nnameserver 192.0.2.2\n");
}

#[test]
fn where_systemd_resolved_answers_its_servers_are_asked_and_never_its_stub() {
    let place = Place::new();
    let folder = place.folder.path().join("run/systemd/resolve");
    fs::create_dir_all(&folder).unwrap();
    fs::write(
        folder.join("stub-resolv.conf"),
        "nameserver 127.0.0.53\noptions edns0\n",
    )
    .unwrap();
    fs::write(folder.join("resolv.conf"), ORIGINAL).unwrap();
    symlink("run/systemd/resolve/stub-resolv.conf", place.path()).unwrap();
    let mut desk = place.desk();
    assert_eq!(upstreams(&desk.look().unwrap()), ["192.0.2.1:53"]);
    assert!(!place.text().contains("127.0.0.53"));
    // It has read ours, and counts us among its servers.
    fs::write(
        folder.join("resolv.conf"),
        format!("nameserver 192.0.2.10\n{ORIGINAL}"),
    )
    .unwrap();
    assert_eq!(upstreams(&desk.look().unwrap()), ["192.0.2.1:53"]);
    desk.restore().unwrap();
    assert!(
        fs::read_link(place.path())
            .unwrap()
            .ends_with("stub-resolv.conf")
    );
}
