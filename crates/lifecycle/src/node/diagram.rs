//! The picture of the state machine, drawn from the table.

use std::fmt::Write as _;

use super::{EVENTS, Kind, State, VERBS, Verb, allowed};

/// The page `docs/states/node.md`.
pub fn page() -> String {
    let mut text = String::from(
        "# States of a node\n\nMade from `lifecycle::node::table` by `cargo test -p lifecycle`; set `BLESS=1` to write it anew.\n\n\
         Verbs of clients are in capitals, events of the service in small letters..\n\n",
    );
    text.push_str("```mermaid\n");
    text.push_str(&mermaid());
    text.push_str("```\n\n| state | is | verbs | minor version |\n|---|---|---|---|\n");
    for state in State::ALL {
        let verbs = allowed(state);
        let names: Vec<&str> = verbs.iter().map(|verb| verb.as_str()).collect();
        let since: Vec<String> = verbs
            .iter()
            .map(|verb| verb.since(state).to_string())
            .collect();
        let _ = writeln!(
            text,
            "| {state} | {} | {} | {} |",
            kind(state),
            names.join(", "),
            since.join(", ")
        );
    }
    text.push_str("\n`deploy` is `active` and `undeploy` is `deleted` from minor version 73 on.\n");
    text
}

/// The machine as a Mermaid state diagram.
pub fn mermaid() -> String {
    let mut text = String::from("stateDiagram-v2\n");
    for state in State::ALL {
        let _ = writeln!(text, "    state \"{state}\" as {}", id(state));
    }
    let _ = writeln!(text, "    [*] --> {}", id(State::Enroll));
    for (from, verb, to) in VERBS {
        let _ = writeln!(
            text,
            "    {} --> {}: {}",
            id(*from),
            id(*to),
            capitals(*verb)
        );
    }
    for (from, event, to) in EVENTS {
        let _ = writeln!(text, "    {} --> {}: {event}", id(*from), id(*to));
    }
    text
}

/// The machine for Graphviz.
pub fn dot() -> String {
    let mut text =
        String::from("digraph node {\n    rankdir=LR;\n    node [shape=box, fontname=\"sans\"];\n");
    for state in State::ALL {
        let style = match state.kind() {
            Kind::Stable => "style=\"rounded,bold\"",
            Kind::Working => "style=solid",
            Kind::Waiting | Kind::Held => "style=dashed",
            Kind::Failed => "style=solid, color=red",
        };
        let _ = writeln!(text, "    \"{state}\" [{style}];");
    }
    for (from, verb, to) in VERBS {
        let _ = writeln!(
            text,
            "    \"{from}\" -> \"{to}\" [label=\"{}\", style=bold];",
            capitals(*verb)
        );
    }
    for (from, event, to) in EVENTS {
        let _ = writeln!(text, "    \"{from}\" -> \"{to}\" [label=\"{event}\"];");
    }
    text.push_str("}\n");
    text
}

fn id(state: State) -> String {
    state.as_str().replace([' ', '-'], "_")
}

fn capitals(verb: Verb) -> String {
    verb.as_str().to_uppercase()
}

fn kind(state: State) -> &'static str {
    match state.kind() {
        Kind::Stable => "at rest",
        Kind::Working => "at work",
        Kind::Waiting => "waiting for the host",
        Kind::Held => "held",
        Kind::Failed => "failed",
    }
}
