//! A BMCEventSubscription: made once with the host's BMC, and ended with its object.

use std::time::Duration;

use jiff::Timestamp;

/// A BMCEventSubscription.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Subscription {
    pub deleting: bool,
    pub finalizer: bool,
    /// What the BMC calls it; empty where it was not made yet.
    pub id: String,
    /// Why it was not, as last written down.
    pub error: String,
    pub host: String,
}

/// What the shell sees besides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    pub host: Host,
    pub ironic_ready: bool,
    /// The Secret with headers for the destination: usable, or why not.
    pub headers: Result<(), String>,
    /// The BMC or Ironic refused, just now.
    pub refused: Option<String>,
}

/// The host that it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    Missing,
    /// It has no node in Ironic: it is new, unmanaged or detached.
    Unregistered,
    Registered {
        node: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    AddFinalizer,
    RemoveFinalizer,
    /// Then write down its id, or ask again with what was refused. One that was made while we died is made twice: BMCs
    /// have no word for "if it is not there".
    Subscribe {
        node: String,
    },
    /// One that is gone already is no trouble.
    Unsubscribe {
        node: String,
        id: String,
    },
    SaveError(String),
    Wait {
        reason: String,
        until: Timestamp,
    },
    /// Nothing, until it changes.
    Done,
}

/// After something only a person can mend.
const SLOW: Duration = Duration::from_mins(10);
const NOT_READY: Duration = Duration::from_secs(30);

pub fn next(subscription: &Subscription, seen: &Observed, now: Timestamp) -> Step {
    if subscription.deleting {
        return end(subscription, seen, now);
    }
    if !subscription.finalizer {
        return Step::AddFinalizer;
    }
    if !subscription.id.is_empty() {
        return Step::Done;
    }
    let name = &subscription.host;
    let node = match &seen.host {
        Host::Missing => {
            let why = format!("there is no host {name:?} in this namespace");
            return say(subscription, why, NOT_READY, now);
        }
        Host::Unregistered => {
            let why = format!("the host {name:?} is not registered with Ironic");
            return say(subscription, why, NOT_READY, now);
        }
        Host::Registered { node } => node,
    };
    if let Err(why) = &seen.headers {
        return say(subscription, why.clone(), NOT_READY, now);
    }
    if let Some(why) = &seen.refused {
        return say(subscription, why.clone(), SLOW, now);
    }
    if !seen.ironic_ready {
        return wait("Ironic to be ready", NOT_READY, now);
    }
    Step::Subscribe { node: node.clone() }
}

fn end(subscription: &Subscription, seen: &Observed, now: Timestamp) -> Step {
    if !subscription.finalizer {
        return Step::Done;
    }
    let node = match &seen.host {
        Host::Registered { node } if !subscription.id.is_empty() => node,
        // There is nothing to end, or nobody who could be asked to.
        Host::Missing | Host::Unregistered | Host::Registered { .. } => {
            return Step::RemoveFinalizer;
        }
    };
    if let Some(why) = &seen.refused {
        return say(subscription, why.clone(), NOT_READY, now);
    }
    if !seen.ironic_ready {
        return wait("Ironic to be ready", NOT_READY, now);
    }
    Step::Unsubscribe {
        node: node.clone(),
        id: subscription.id.clone(),
    }
}

/// Written down once, then waited out.
fn say(subscription: &Subscription, why: String, again: Duration, now: Timestamp) -> Step {
    if subscription.error == why {
        return wait(&why, again, now);
    }
    Step::SaveError(why)
}

fn wait(reason: &str, after: Duration, now: Timestamp) -> Step {
    Step::Wait {
        reason: reason.to_owned(),
        until: now.checked_add(after).unwrap_or(Timestamp::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new() -> Subscription {
        Subscription {
            finalizer: true,
            host: "h".into(),
            ..Subscription::default()
        }
    }

    fn made() -> Subscription {
        Subscription {
            id: "7".into(),
            ..new()
        }
    }

    fn going(subscription: Subscription) -> Subscription {
        Subscription {
            deleting: true,
            ..subscription
        }
    }

    fn ready() -> Observed {
        Observed {
            host: Host::Registered { node: "n".into() },
            ironic_ready: true,
            headers: Ok(()),
            refused: None,
        }
    }

    fn with(host: Host) -> Observed {
        Observed { host, ..ready() }
    }

    fn refused(why: &str) -> Observed {
        Observed {
            refused: Some(why.into()),
            ..ready()
        }
    }

    fn told(step: Step) -> String {
        match step {
            Step::AddFinalizer => "claim".into(),
            Step::RemoveFinalizer => "free".into(),
            Step::Subscribe { node } => format!("subscribe {node}"),
            Step::Unsubscribe { node, id } => format!("unsubscribe {id} of {node}"),
            Step::SaveError(why) => format!("say {why}"),
            Step::Wait { reason, .. } => format!("wait {reason}"),
            Step::Done => "done".into(),
        }
    }

    #[test]
    fn a_subscription_is_made_once_and_ended_with_its_object() {
        let away = Observed {
            ironic_ready: false,
            ..ready()
        };
        let no_headers = Observed {
            headers: Err("the Secret \"s\" does not exist".into()),
            ..ready()
        };
        let unclaimed = Subscription {
            finalizer: false,
            ..new()
        };
        let failed = Subscription {
            error: "400".into(),
            ..new()
        };
        for (name, subscription, seen, expected) in [
            ("fresh", unclaimed.clone(), ready(), "claim"),
            ("claimed", new(), ready(), "subscribe n"),
            ("made", made(), ready(), "done"),
            ("made, its host gone", made(), with(Host::Missing), "done"),
            (
                "of no host",
                new(),
                with(Host::Missing),
                "say there is no host \"h\" in this namespace",
            ),
            (
                "of a host that is new",
                new(),
                with(Host::Unregistered),
                "say the host \"h\" is not registered with Ironic",
            ),
            (
                "Ironic away",
                new(),
                away.clone(),
                "wait Ironic to be ready",
            ),
            (
                "no headers",
                new(),
                no_headers,
                "say the Secret \"s\" does not exist",
            ),
            ("refused", new(), refused("400"), "say 400"),
            (
                "refused, and said",
                failed.clone(),
                refused("400"),
                "wait 400",
            ),
            (
                "refused otherwise",
                failed.clone(),
                refused("500"),
                "say 500",
            ),
            ("another try", failed, ready(), "subscribe n"),
            ("going", going(made()), ready(), "unsubscribe 7 of n"),
            ("going, never made", going(new()), ready(), "free"),
            (
                "going, host gone",
                going(made()),
                with(Host::Missing),
                "free",
            ),
            (
                "going, host detached",
                going(made()),
                with(Host::Unregistered),
                "free",
            ),
            (
                "going, Ironic away",
                going(made()),
                away,
                "wait Ironic to be ready",
            ),
            ("going, refused", going(made()), refused("400"), "say 400"),
            ("gone", going(unclaimed), ready(), "done"),
        ] {
            let step = next(&subscription, &seen, Timestamp::UNIX_EPOCH);
            assert_eq!(told(step), expected, "{name}");
        }
    }
}
