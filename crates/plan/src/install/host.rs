//! The next step for one master, from what Ironic says of it.

use super::{Action, Far, IronicNode, TRIES};

/// What Ironic is asked for. `Deploy` comes with the image and the config drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    Manage,
    Inspect,
    Provide,
    Deploy,
}

pub(super) enum Next {
    Do(Action),
    Wait { reason: String, far: Option<Far> },
    Done,
    Stuck { what: String, remedy: String },
}

pub(super) fn next(host: &str, node: Option<&IronicNode>, tries: u32) -> Next {
    let Some(node) = node else {
        return Next::Do(Action::Enrol(host.to_owned()));
    };
    // After a failed cleaning maintenance does not end by itself; after a BMC's silence it does.
    let cleaning_failed = node.state == "clean failed";
    if let Some(reason) = node.maintenance.as_ref().filter(|_| !cleaning_failed) {
        return Next::Wait {
            reason: format!("maintenance to end: {reason}"),
            far: None,
        };
    }
    let ask = |verb| {
        Next::Do(Action::Ask {
            host: host.to_owned(),
            verb,
            again: false,
        })
    };
    let again = |verb, step: &str| failed(host, node, tries, verb, step);
    match node.state.as_str() {
        "active" => Next::Done,
        // Verifying failed: Ironic falls back to enroll and says why.
        "enroll" if node.last_error.is_some() => again(Verb::Manage, "talking to the BMC"),
        "enroll" => ask(Verb::Manage),
        "manageable" if node.inspected => ask(Verb::Provide),
        "manageable" => ask(Verb::Inspect),
        "available" => ask(Verb::Deploy),
        "inspect failed" => again(Verb::Inspect, "inspection"),
        // Cleaning starts from manageable.
        "clean failed" => again(Verb::Manage, "cleaning"),
        "deploy failed" | "error" => again(Verb::Deploy, "deployment"),
        state => Next::Wait {
            reason: match &node.waiting {
                Some(waiting) => format!("{state}: {waiting}"),
                None => state.to_owned(),
            },
            far: node.far,
        },
    }
}

fn failed(host: &str, node: &IronicNode, tries: u32, verb: Verb, step: &str) -> Next {
    if tries + 1 < TRIES {
        return Next::Do(Action::Ask {
            host: host.to_owned(),
            verb,
            again: true,
        });
    }
    let why = node.last_error.as_deref().unwrap_or("no reason was given");
    Next::Stuck {
        what: format!("{step} failed {TRIES} times; the last time: {why}"),
        remedy: if node.state == "enroll" {
            "check the BMC's address, user and password in install-config.yaml"
        } else {
            "look at the host's console and its BMC, mend the cause and run the same command again"
        }
        .to_owned(),
    }
}
