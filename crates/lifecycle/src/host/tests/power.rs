//! Power, reboots, and what happens while a host is off.

use super::given::{Given, host, in_use, now, rest};
use crate::host::{Action, DataImage, ErrorType, State, Step, Trouble, annotations, troubled};
use crate::node;

const STEADY: &str = "wait 60s: a change of the host, or of its power";

fn off() -> Given {
    host(State::Provisioned, node::State::Active).has("a")
}

#[test]
fn power_follows_online() {
    assert_eq!(rest().says(), STEADY);
    assert_eq!(rest().offline().says(), "soft power off, [PowerOff]");
    let off = host(State::Available, node::State::Available);
    assert_eq!(off.says(), "power on, [PowerOn]");
    let seen = off.with(|given| given.node().power_state = Some("power on".into()));
    assert!(seen.saves().powered_on);
    let busy = rest()
        .offline()
        .with(|given| given.node().target_power_state = Some("soft power off".into()));
    assert_eq!(busy.says(), "wait 3s: the host to be powered off");
    let working = rest()
        .offline()
        .with(|given| given.node().target_provision_state = Some("active".into()));
    assert_eq!(
        working.says(),
        "wait 3s: Ironic to finish what it does to the node"
    );
}

#[test]
fn a_power_off_that_fails_is_an_error_and_then_a_hard_one() {
    let cannot = rest()
        .offline()
        .with(|given| given.seen.soft_power_refused = true);
    assert_eq!(cannot.says(), "power off, [PowerOff]");
    let broken = rest()
        .offline()
        .with(|given| given.node().last_error = Some("no answer".into()));
    assert_eq!(
        broken.says(),
        "PowerManagement error: the host cannot be powered off: no answer; a hard power off follows, \
         [PowerManagementError]"
    );
    let again = broken.failed(ErrorType::PowerManagement, "no answer");
    assert_eq!(again.says(), "power off, status Ok, [PowerOff]");
    let mended = rest().failed(ErrorType::PowerManagement, "no answer");
    assert_eq!(
        mended.saves().error_count,
        0,
        "what is as it should be is no error"
    );
}

#[test]
fn a_reboot_goes_off_then_forgets_the_request_then_on() {
    let asked = in_use().annotated(annotations::REBOOT, "");
    assert_eq!(asked.says(), "soft power off, [PowerOff]");
    let hard = in_use().annotated(annotations::REBOOT, r#"{"mode":"hard"}"#);
    assert_eq!(hard.says(), "power off, [PowerOff]");
    let odd = in_use().annotated(annotations::REBOOT, "now");
    assert_eq!(
        odd.says(),
        "soft power off, [PowerOff], [InvalidAnnotationValue]"
    );
    let seen_off = off().annotated(annotations::REBOOT, "");
    assert_eq!(seen_off.says(), "remove reboot.metal3.io");
    assert_eq!(off().says(), "power on, [PowerOn]");
    let held = off().annotated("reboot.metal3.io/fencing", "");
    assert_eq!(held.says(), STEADY);
}

#[test]
fn a_host_nobody_uses_is_rebooted_by_force_only() {
    let free = rest().annotated(annotations::REBOOT, "");
    assert_eq!(free.says(), STEADY);
    let forced = rest().annotated(annotations::REBOOT, r#"{"force":true}"#);
    assert_eq!(forced.says(), "soft power off, [PowerOff]");
}

#[test]
fn a_host_that_may_not_be_off_is_rebooted_and_the_request_goes_at_once() {
    let given = in_use().annotated(annotations::REBOOT, "").with(|given| {
        given.host.spec.disable_power_off = true;
        given.node().disable_power_off = Some(true);
    });
    assert_eq!(
        given.says(),
        "soft rebooting, remove reboot.metal3.io, [PowerOff]"
    );
    let held = given.with(|given| {
        given.host.annotations = [("reboot.metal3.io/fencing".to_owned(), String::new())].into();
    });
    assert_eq!(held.says(), STEADY, "or it would reboot for ever");
}

/// A host that is off, with a data image and perhaps its disc in the drive.
fn with_disc(given: Given, attached: &str, inserted: bool) -> Given {
    given.with(|given| {
        given.seen.data_image = Some(DataImage {
            url: "http://iso".into(),
            attached: attached.into(),
            ..DataImage::default()
        });
        given.seen.media_inserted = Some(inserted);
    })
}

fn image(given: &mut Given) -> &mut DataImage {
    given.seen.data_image.as_mut().unwrap()
}

#[test]
fn a_data_image_is_changed_while_the_host_is_off() {
    let fresh = with_disc(off(), "", true);
    assert_eq!(
        fresh.says(),
        "detach media, attach http://iso, data image is \"http://iso\""
    );
    let there = with_disc(off(), "http://iso", true);
    assert_eq!(there.says(), "power on, [PowerOn]");
    let forgotten = with_disc(off(), "http://iso", false);
    assert_eq!(
        forgotten.says(),
        "data image is \"\", attach http://iso, data image is \"http://iso\""
    );
    let going = there.clone().with(|given| image(given).deleting = true);
    assert_eq!(going.says(), "detach media, data image is \"\"");
    let old = there.with(|given| {
        given.seen.ironic = Some(89);
        given.seen.media_inserted = None;
    });
    assert_eq!(old.says(), "power on, [PowerOn]", "it cannot be asked");
}

#[test]
fn a_disc_that_is_to_go_leaves_a_host_that_stays_off() {
    let going =
        with_disc(off().offline(), "http://iso", true).with(|given| image(given).deleting = true);
    assert_eq!(going.says(), "detach media, data image is \"\"");
    let free = host(State::Available, node::State::Available);
    let left = with_disc(free, "http://iso", true);
    assert_eq!(left.says(), "detach media, data image is \"\"");
    let stays = with_disc(off().offline(), "http://other", true);
    assert_eq!(stays.says(), STEADY, "it is changed on the way up");
}

#[test]
fn a_drive_in_trouble_is_the_data_images_error_and_is_waited_out() {
    let given = with_disc(off(), "", false);
    let attach = Action::AttachMedia {
        node: "node-1".into(),
        url: "http://iso".into(),
    };
    let refused = Trouble::Refused {
        message: "no drive".into(),
    };
    let step = troubled(
        &given.host,
        &given.seen,
        &given.config,
        now(),
        &attach,
        &refused,
    );
    let Step::Do { actions, .. } = step else {
        panic!("{step:?}");
    };
    let saved = Action::SaveDataImage {
        attached: String::new(),
        error: Some("no drive".into()),
    };
    assert_eq!(actions, [saved]);
    let failed = given.with(|given| {
        image(given).error_count = 1;
        image(given).last_reconciled = Some(now());
    });
    assert!(
        failed.says().contains("another try to change the disc"),
        "{}",
        failed.says()
    );
}
