//! YAML as a tree that remembers where everything stood, and the text of every scalar as it was written.
//!
//! A tree of our own because every problem of a file is to be told at once with its place, scalars must keep their
//! text (a password `0123` is not a number), and nothing of a file may be quoted back: it holds secrets. Size, depth
//! and what aliases expand to are bounded.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_saphyr::granit_parser::{self, Parser, ScalarStyle, Span};

use crate::problem::Problems;

/// Line and column, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Place {
    pub line: usize,
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

#[derive(Debug, Clone)]
pub struct Node {
    pub kind: Kind,
    pub at: Place,
}

#[derive(Debug, Clone)]
pub enum Kind {
    /// `plain` is without quotes: it may be a number, a truth value or null.
    Scalar {
        text: String,
        plain: bool,
    },
    Sequence(Vec<Node>),
    Mapping(Vec<Entry>),
}

#[derive(Debug, Clone)]
pub struct Entry {
    pub key: String,
    pub at: Place,
    pub value: Node,
}

/// No file of ours comes near; an install of a thousand hosts is about one MiB.
const LARGEST_BYTES: usize = 8 << 20;
const MOST_NODES: usize = 400_000;
const DEEPEST: usize = 64;

/// The one document of a text. `None` if it is no YAML at all; the problems say why.
pub fn parse(text: &str, problems: &mut Problems) -> Option<Node> {
    if text.len() > LARGEST_BYTES {
        let mib = text.len() >> 20;
        problems.add(
            "",
            format!("the file has {mib} MiB"),
            "an install-config.yaml has a few KiB; is this the right file?",
        );
        return None;
    }
    let mut options = granit_parser::Options::default();
    options.set_emit_comments(false);
    let mut tree = Tree {
        parser: Parser::new_from_str_with_options(text, options),
        anchors: BTreeMap::new(),
        left: MOST_NODES,
        problems,
    };
    tree.document()
}

impl Node {
    pub fn is_null(&self) -> bool {
        matches!(&self.kind, Kind::Scalar { text, plain: true } if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }

    pub fn get(&self, key: &str) -> Option<&Node> {
        match &self.kind {
            Kind::Mapping(entries) => entries.iter().find(|e| e.key == key).map(|e| &e.value),
            Kind::Scalar { .. } | Kind::Sequence(_) => None,
        }
    }

    /// Where a field stands, or the nearest thing around it.
    pub fn place(&self, path: &str) -> Place {
        let mut node = self;
        for step in path.split(['.', '[']).filter(|step| !step.is_empty()) {
            let next = match (&node.kind, step.strip_suffix(']')) {
                (Kind::Sequence(items), Some(index)) => {
                    index.parse().ok().and_then(|index: usize| items.get(index))
                }
                (Kind::Mapping(_), None) => node.get(step),
                (Kind::Scalar { .. } | Kind::Sequence(_) | Kind::Mapping(_), _) => None,
            };
            match next {
                Some(next) => node = next,
                None => break,
            }
        }
        node.at
    }

    /// What JSON would say: plain scalars become numbers, truth values and null.
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value;
        match &self.kind {
            Kind::Sequence(items) => items.iter().map(Self::to_json).collect(),
            Kind::Mapping(entries) => Value::Object(
                entries
                    .iter()
                    .map(|entry| (entry.key.clone(), entry.value.to_json()))
                    .collect(),
            ),
            Kind::Scalar { .. } if self.is_null() => Value::Null,
            Kind::Scalar { text, plain: true } => truth(text)
                .map(Value::from)
                .or_else(|| integer(text).map(Value::from))
                .or_else(|| {
                    let number =
                        text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
                    let float: Option<f64> = text.parse().ok().filter(|_| number);
                    float.filter(|f| f.is_finite()).map(Value::from)
                })
                .unwrap_or_else(|| Value::String(text.clone())),
            Kind::Scalar { text, .. } => Value::String(text.clone()),
        }
    }

    fn count(&self) -> usize {
        1 + match &self.kind {
            Kind::Scalar { .. } => 0,
            Kind::Sequence(items) => items.iter().map(Self::count).sum(),
            Kind::Mapping(entries) => entries.iter().map(|entry| 1 + entry.value.count()).sum(),
        }
    }

    fn depth(&self) -> usize {
        1 + match &self.kind {
            Kind::Scalar { .. } => 0,
            Kind::Sequence(items) => items.iter().map(Self::depth).max().unwrap_or(0),
            Kind::Mapping(entries) => entries.iter().map(|e| e.value.depth()).max().unwrap_or(0),
        }
    }
}

/// The truth values of YAML 1.1, as the tools around us read them.
pub fn truth(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Some(true),
        "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// A plain integer; a leading zero makes it octal, as in YAML 1.1.
pub fn integer(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let value = if let Some(hex) = digits.strip_prefix("0x") {
        i64::from_str_radix(hex, 16)
    } else if let Some(octal) = digits.strip_prefix("0o") {
        i64::from_str_radix(octal, 8)
    } else if digits.len() > 1 && digits.starts_with('0') {
        i64::from_str_radix(digits, 8)
    } else {
        digits.parse()
    };
    value.ok().map(|value| sign * value)
}

struct Tree<'a> {
    parser: Parser<'a, granit_parser::StrInput<'a>>,
    /// Finished anchors, how many nodes they hold, and how deep they are.
    anchors: BTreeMap<usize, (Node, usize, usize)>,
    left: usize,
    problems: &'a mut Problems,
}

/// Stops reading; the problem is noted already.
struct Stop;

impl<'a> Tree<'a> {
    fn document(&mut self) -> Option<Node> {
        let mut found = None;
        loop {
            let (event, at) = self.event().ok()?;
            match event {
                granit_parser::Event::StreamEnd => break,
                granit_parser::Event::DocumentStart(..) if found.is_some() => {
                    let what = "a second document begins here";
                    self.problems
                        .add_at("", at, what, "the file holds one; remove the rest");
                    return None;
                }
                granit_parser::Event::Scalar(..)
                | granit_parser::Event::SequenceStart(..)
                | granit_parser::Event::MappingStart(..)
                | granit_parser::Event::Alias(_) => {
                    found = Some(self.node(event, at, 0).ok()?);
                }
                _ => {}
            }
        }
        if found.as_ref().is_none_or(Node::is_null) {
            self.problems.add(
                "",
                "the file is empty",
                "write at least apiVersion, baseDomain, metadata.name and platform.baremetal; `plinth explain` lists the fields",
            );
            return None;
        }
        found
    }

    fn event(&mut self) -> Result<(granit_parser::Event<'a>, Place), Stop> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => Ok((event, place(span))),
            Some(Err(error)) => {
                let mark = error.marker();
                let at = Place {
                    line: mark.line().max(1),
                    column: mark.col() + 1,
                };
                // The parser's words never quote the file.
                let what = format!("this is not YAML: {}", error.info());
                self.problems.add_at(
                    "",
                    at,
                    what,
                    "look at indentation, quotes and brackets just before",
                );
                Err(Stop)
            }
            None => Ok((
                granit_parser::Event::StreamEnd,
                Place { line: 1, column: 1 },
            )),
        }
    }

    fn node(
        &mut self,
        event: granit_parser::Event<'a>,
        at: Place,
        depth: usize,
    ) -> Result<Node, Stop> {
        self.spend(1, at)?;
        if depth > DEEPEST {
            self.problems.add_at(
                "",
                at,
                format!("nested more than {DEEPEST} deep"),
                "nothing in this file needs that",
            );
            return Err(Stop);
        }
        let (node, anchor) = match event {
            granit_parser::Event::Scalar(text, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain && tag.is_none();
                let text = text.into_owned();
                (Kind::Scalar { text, plain }, anchor)
            }
            granit_parser::Event::SequenceStart(_, anchor, _) => {
                let mut items = Vec::new();
                loop {
                    let (event, at) = self.event()?;
                    if matches!(event, granit_parser::Event::SequenceEnd) {
                        break;
                    }
                    items.push(self.node(event, at, depth + 1)?);
                }
                (Kind::Sequence(items), anchor)
            }
            granit_parser::Event::MappingStart(_, anchor, _) => {
                (Kind::Mapping(self.mapping(depth)?), anchor)
            }
            granit_parser::Event::Alias(anchor) => return self.alias(anchor, at, depth),
            _ => {
                self.problems.add_at(
                    "",
                    at,
                    "the document ends too early",
                    "is the file complete?",
                );
                return Err(Stop);
            }
        };
        let node = Node { kind: node, at };
        if anchor != 0 {
            let (count, deep) = (node.count(), node.depth());
            self.spend(count, at)?;
            self.anchors.insert(anchor, (node.clone(), count, deep));
        }
        Ok(node)
    }

    fn alias(&mut self, anchor: usize, at: Place, depth: usize) -> Result<Node, Stop> {
        let Some((node, count, deep)) = self.anchors.get(&anchor) else {
            let what = "this alias is inside what it refers to";
            self.problems.add_at("", at, what, "write the value out");
            return Err(Stop);
        };
        let (mut node, count, deep) = (node.clone(), *count, *deep);
        self.spend(count, at)?;
        if depth + deep > DEEPEST {
            let what = format!("nested more than {DEEPEST} deep by aliases");
            self.problems.add_at("", at, what, "write the value out");
            return Err(Stop);
        }
        node.at = at;
        Ok(node)
    }

    fn mapping(&mut self, depth: usize) -> Result<Vec<Entry>, Stop> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        let mut merged: Vec<Node> = Vec::new();
        loop {
            let (event, at) = self.event()?;
            if matches!(event, granit_parser::Event::MappingEnd) {
                break;
            }
            let key = self.node(event, at, depth + 1)?;
            let (event, value_at) = self.event()?;
            let value = self.node(event, value_at, depth + 1)?;
            let Kind::Scalar { text: key, plain } = key.kind else {
                self.problems
                    .add_at("", at, "a key must be a word", "write key: value");
                continue;
            };
            if plain && key == "<<" {
                merged.push(value);
            } else if seen.insert(key.clone()) {
                entries.push(Entry { key, at, value });
            } else {
                let shown: String = key.chars().take(64).collect();
                self.problems.add_at(
                    "",
                    at,
                    format!("the key {shown:?} is here a second time"),
                    "keep one of the two",
                );
            }
        }
        for node in merged {
            self.merge(node, &mut entries, &mut seen);
        }
        Ok(entries)
    }

    /// `<<: *other`: what is not written here comes from there.
    fn merge(
        &mut self,
        node: Node,
        entries: &mut Vec<Entry>,
        seen: &mut std::collections::BTreeSet<String>,
    ) {
        match node.kind {
            Kind::Mapping(others) => {
                for other in others {
                    if seen.insert(other.key.clone()) {
                        entries.push(other);
                    }
                }
            }
            Kind::Sequence(items) => {
                for item in items {
                    self.merge(item, entries, seen);
                }
            }
            Kind::Scalar { .. } => {
                let what = "<< merges mappings";
                self.problems.add_at(
                    "",
                    node.at,
                    what,
                    "give it an alias of one, such as <<: *defaults",
                );
            }
        }
    }

    fn spend(&mut self, nodes: usize, at: Place) -> Result<(), Stop> {
        if let Some(left) = self.left.checked_sub(nodes) {
            self.left = left;
            return Ok(());
        }
        let what = format!("more than {MOST_NODES} values, aliases written out");
        self.problems
            .add_at("", at, what, "remove aliases that multiply one another");
        Err(Stop)
    }
}

fn place(span: Span) -> Place {
    Place {
        line: span.start.line().max(1),
        column: span.start.col() + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    fn read(text: &str) -> (Option<Node>, Vec<String>) {
        let mut problems = Problems::default();
        let node = parse(text, &mut problems);
        (
            node,
            problems.errors.iter().map(ToString::to_string).collect(),
        )
    }

    #[test]
    fn places_count_from_one() {
        let (node, problems) = read("a: 1\nb:\n  - c: x\n  - d: 0123\n");
        let node = node.unwrap();
        assert!(problems.is_empty());
        assert_eq!(node.place("b[1].d").to_string(), "line 4, column 8");
        assert_eq!(node.place("b[1].missing").to_string(), "line 4, column 5");
    }

    #[test]
    fn scalars_keep_their_text_and_become_json_only_when_asked() {
        let (node, _) =
            read("{a: 0123, b: '1', c: yes, d: ~, e: 1.5, f: 0x10, g: -3, h: nan, i: 1.2.3}");
        let node = node.unwrap();
        let json = serde_json::json!({"a": 83, "b": "1", "c": true, "d": null, "e": 1.5, "f": 16, "g": -3, "h": "nan", "i": "1.2.3"});
        assert_eq!(node.to_json(), json);
    }

    #[test]
    fn duplicate_keys_second_documents_and_broken_text_are_told_with_their_place() {
        for (text, expected) in [
            (
                "a: 1\na: 2\n",
                "(line 2, column 1): the key \"a\" is here a second time; keep one of the two",
            ),
            (
                "a: 1\n---\nb: 2\n",
                "(line 2, column 1): a second document begins here; the file holds one; remove the rest",
            ),
            ("", "the file is empty; write at least apiVersion"),
            ("null\n", "the file is empty"),
            ("a: [hunter2\n", "this is not YAML"),
            (
                "a: *hunter2\n",
                "this is not YAML: while parsing node, found unknown anchor",
            ),
            ("a: &x [*x]\n", "this alias is inside what it refers to"),
            ("? [a]\n: 1\n", "a key must be a word"),
        ] {
            let problems = read(text).1.join("\n");
            assert!(problems.contains(expected), "{text:?}: {problems}");
            assert!(!problems.contains("hunter2"), "{problems}");
        }
    }

    #[test]
    fn aliases_and_merges_work_and_bombs_do_not() {
        let (node, problems) = read("base: &b {x: 1, y: 2}\nother:\n  <<: *b\n  y: 3\n");
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!(
            node.unwrap().to_json()["other"],
            serde_json::json!({"y": 3, "x": 1})
        );
        let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_string();
        for i in 1..12 {
            let refs = vec![format!("*a{}", i - 1); 9].join(",");
            _ = writeln!(bomb, "a{i}: &a{i} [{refs}]");
        }
        let (node, problems) = read(&bomb);
        assert!(node.is_none());
        assert!(
            problems[0].contains("more than 400000 values"),
            "{problems:?}"
        );
    }

    #[test]
    fn comments_may_stand_anywhere() {
        let (node, problems) =
            read("# a\na: # b\n  # c\n  - 1 # d\n  # e\n  - {x: 1, # f\n     y: 2}\n# g\n");
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!(
            node.unwrap().to_json()["a"],
            serde_json::json!([1, {"x": 1, "y": 2}])
        );
    }

    #[test]
    fn depth_and_size_are_bounded() {
        let deep = "[".repeat(10_000);
        let (node, problems) = read(&deep);
        assert!(node.is_none() && problems.len() == 1, "{problems:?}");
        let (node, problems) = read(&" ".repeat(LARGEST_BYTES + 1));
        assert!(
            node.is_none() && problems[0].contains("8 MiB"),
            "{problems:?}"
        );
    }
}
