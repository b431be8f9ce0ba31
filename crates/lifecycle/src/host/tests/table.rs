//! Every state of a host with every state of a node: what is done.

use std::fmt::Write as _;

use super::given::{Given, host};
use crate::host::State;
use crate::node;

fn page(title: &str, given: impl Fn(node::State) -> Given) -> String {
    let mut text = format!("# {title}\n");
    for state in node::State::ALL {
        let _ = writeln!(text, "{:16} {}", state.as_str(), given(state).says());
    }
    text
}

#[test]
fn what_is_done_for_every_state_of_host_and_node() {
    let mut text = String::new();
    for state in [
        State::Registering,
        State::Inspecting,
        State::Preparing,
        State::Available,
    ] {
        text += &page(state.as_str(), |node| host(state, node));
    }
    text += &page("available, an image is wanted", |node| {
        host(State::Available, node).wants("a")
    });
    text += &page("provisioning", |node| {
        host(State::Provisioning, node).wants("a")
    });
    text += &page("provisioned", |node| {
        host(State::Provisioned, node).has("a").powered_on()
    });
    text += &page("provisioned, the image is no longer wanted", |node| {
        host(State::Provisioned, node)
            .has("a")
            .with(|given| given.host.spec.image = None)
    });
    text += &page("externally provisioned", |node| {
        host(State::ExternallyProvisioned, node)
            .powered_on()
            .with(|given| given.host.spec.externally_provisioned = true)
    });
    text += &page("deprovisioning", |node| host(State::Deprovisioning, node));
    text += &page("powering off before delete", |node| {
        host(State::PoweringOff, node).powered_on().deleting()
    });
    text += &page("deleting", |node| host(State::Deleting, node).deleting());
    text += &page("provisioned and detached", |node| {
        host(State::Provisioned, node)
            .has("a")
            .annotated("baremetalhost.metal3.io/detached", "")
    });
    insta::assert_snapshot!(text);
}

#[test]
fn a_host_in_use_is_never_cleaned_inspected_or_deployed_whatever_its_node_does() {
    for state in node::State::ALL {
        for given in [
            host(State::Provisioned, state).has("a"),
            host(State::ExternallyProvisioned, state)
                .with(|given| given.host.spec.externally_provisioned = true),
        ] {
            let said = given.says();
            for verb in ["provide", "clean", "inspect", "active", "deleted"] {
                assert!(!said.contains(&format!("verb {verb}")), "{state}: {said}");
            }
        }
    }
}
