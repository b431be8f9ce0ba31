//! The next step for one host, from what Ironic on the VM that cleans says of it.

use serde::Serialize;

use super::{Action, Node};
use crate::install::{Far, TRIES};

/// What Ironic is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Verb {
    Manage,
    /// Automated cleaning: the metadata of every disk is erased.
    Provide,
    /// Of a host that is deployed; cleaning follows.
    Undeploy,
}

pub(super) enum Next {
    Do(Action),
    Wait {
        reason: String,
        far: Option<Far>,
    },
    /// Cleaned, and off.
    Done,
    GivenUp {
        what: String,
        remedy: &'static str,
    },
}

/// It is being cleaned, was cleaned, or failed at it: its being on is Ironic's doing.
pub(super) fn is_begun(node: &Node) -> bool {
    matches!(
        node.life.state.as_str(),
        "deleting" | "cleaning" | "clean wait" | "clean hold" | "clean failed" | "available"
    )
}

pub(super) fn next(host: &str, node: Option<&Node>, tries: u32) -> Next {
    let Some(Node { life, off }) = node else {
        return Next::Do(Action::Enrol(host.to_owned()));
    };
    // After a failed cleaning maintenance does not end by itself; after a BMC's silence it does.
    let cleaning_failed = life.state == "clean failed";
    if let Some(reason) = life.maintenance.as_ref().filter(|_| !cleaning_failed) {
        return Next::Wait {
            reason: format!("maintenance to end: {reason}"),
            far: None,
        };
    }
    let ask = |verb, again| {
        Next::Do(Action::Ask {
            host: host.to_owned(),
            verb,
            again,
        })
    };
    let again = |verb, step: &str, remedy| {
        if tries + 1 < TRIES {
            return ask(verb, true);
        }
        let why = life.last_error.as_deref().unwrap_or("no reason was given");
        Next::GivenUp {
            what: format!("{step} failed {TRIES} times; the last time: {why}"),
            remedy,
        }
    };
    match life.state.as_str() {
        "available" if *off => Next::Done,
        "available" => Next::Wait {
            reason: "it to be off".to_owned(),
            far: None,
        },
        // Verifying failed: Ironic falls back to enroll and says why.
        "enroll" if life.last_error.is_some() => again(Verb::Manage, "talking to the BMC", BMC),
        "enroll" | "inspect failed" | "adopt failed" => ask(Verb::Manage, false),
        "manageable" => ask(Verb::Provide, false),
        // Cleaning starts from manageable.
        "clean failed" => again(Verb::Manage, "cleaning", HOST),
        "error" => again(Verb::Undeploy, "bringing it back", HOST),
        "active" | "wait call-back" | "deploy failed" | "rescue" | "rescue wait"
        | "rescue failed" | "unrescue failed" | "service wait" | "service failed" => {
            ask(Verb::Undeploy, false)
        }
        state => Next::Wait {
            reason: match &life.waiting {
                Some(waiting) => format!("{state}: {waiting}"),
                None => state.to_owned(),
            },
            far: life.far,
        },
    }
}

const BMC: &str = "check the BMC's address, user and password in install-config.yaml, and run the same command again";
const HOST: &str = "look at the host's console (plinth console) and its BMC, mend the cause and run the same command again";
