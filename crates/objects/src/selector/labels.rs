//! Label selectors: `app=a,tier in (x,y),!old,replicas>3`.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::json::{fields, items, text, texts};
use crate::metadata::{label_key, label_value};
use crate::status::Status;

/// A label selector; every requirement must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    Exists,
    Absent,
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Above(i64),
    Below(i64),
}

impl Labels {
    /// Reads the query parameter; the empty text selects everything.
    pub fn parse(text: &str) -> Result<Self, Status> {
        let tokens = tokens(text);
        let mut parser = Parser {
            tokens: &tokens,
            at: 0,
        };
        parser
            .requirements()
            .map(Self)
            .map_err(|why| Status::bad_request(format!("unable to parse requirement: {why}")))
    }

    /// Reads a `metav1.LabelSelector` (`matchLabels`, `matchExpressions`).
    pub fn from_json(selector: &Value) -> Result<Self, Status> {
        let refuse = |why: String| Status::bad_request(format!("invalid label selector: {why}"));
        let mut requirements = vec![];
        for (key, value) in fields(selector, "/matchLabels") {
            let values = BTreeSet::from([value.as_str().unwrap_or_default().to_owned()]);
            requirements.push(requirement(key, Test::In(values)).map_err(refuse)?);
        }
        for expression in items(selector, "/matchExpressions") {
            let values = texts(expression, "/values");
            let values = values.into_iter().map(Into::into).collect();
            let test = match text(expression, "/operator") {
                "In" => Test::In(values),
                "NotIn" => Test::NotIn(values),
                "Exists" => Test::Exists,
                "DoesNotExist" => Test::Absent,
                other => {
                    return Err(refuse(format!(
                        "{other:?} is not a valid label selector operator"
                    )));
                }
            };
            requirements.push(requirement(text(expression, "/key"), test).map_err(refuse)?);
        }
        Ok(Self(requirements))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the object (with `metadata.labels`) is meant.
    pub fn matches(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.0.iter().all(|requirement| {
            let value = labels.get(&requirement.key).and_then(Value::as_str);
            requirement.test.holds(value)
        })
    }
}

impl Test {
    fn holds(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::Exists => value.is_some(),
            Self::Absent => value.is_none(),
            Self::In(values) => value.is_some_and(|value| values.contains(value)),
            Self::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Self::Above(bound) => number().is_some_and(|number| number > *bound),
            Self::Below(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

/// A requirement whose key and values may be labels at all.
fn requirement(key: &str, test: Test) -> Result<Requirement, String> {
    if let Some(why) = label_key(key) {
        return Err(format!("<nil>: Invalid value: {key:?}: {why}"));
    }
    if let Test::In(values) | Test::NotIn(values) = &test {
        if values.is_empty() {
            return Err("for 'in', 'notin' operators, values set can't be empty".into());
        }
        for value in values {
            if let Some(why) = label_value(value) {
                return Err(format!("values[0][{key}]: Invalid value: {value:?}: {why}"));
            }
        }
    }
    Ok(Requirement {
        key: key.into(),
        test,
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    /// One of `( ) , ! = == != < >`.
    Sign(&'a str),
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = vec![];
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_sign = |c: char| "(),!=<>".contains(c);
        let (token, length) = if is_sign(first) {
            let length = if rest.starts_with("==") || rest.starts_with("!=") {
                2
            } else {
                1
            };
            (Token::Sign(&rest[..length]), length)
        } else {
            let length = rest
                .find(|c: char| is_sign(c) || c.is_whitespace())
                .unwrap_or(rest.len());
            (Token::Word(&rest[..length]), length)
        };
        tokens.push(token);
        rest = rest[length..].trim_start();
    }
    tokens
}

struct Parser<'a> {
    tokens: &'a [Token<'a>],
    at: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.at).copied()
    }

    fn next(&mut self) -> Option<Token<'a>> {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn requirements(&mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = vec![];
        while self.peek().is_some() {
            requirements.push(self.requirement()?);
            match self.next() {
                None => break,
                Some(Token::Sign(",")) if self.peek().is_some() => {}
                Some(Token::Sign(",")) => {
                    return Err("found '', expected: identifier after ','".into());
                }
                Some(token) => {
                    return Err(format!(
                        "found {}, expected: ',' or 'end of string'",
                        shown(token)
                    ));
                }
            }
        }
        Ok(requirements)
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let absent = self.peek() == Some(Token::Sign("!"));
        if absent {
            self.next();
        }
        let key = match self.next() {
            Some(Token::Word(key)) => key,
            Some(token) => {
                return Err(format!(
                    "found {}, expected: !, identifier, or 'end of string'",
                    shown(token)
                ));
            }
            None => return Err("found '', expected: identifier".into()),
        };
        if absent {
            return requirement(key, Test::Absent);
        }
        let test = match self.peek() {
            None | Some(Token::Sign(",")) => return requirement(key, Test::Exists),
            Some(Token::Sign("=" | "==")) => {
                self.next();
                Test::In(BTreeSet::from([self.value()]))
            }
            Some(Token::Sign("!=")) => {
                self.next();
                Test::NotIn(BTreeSet::from([self.value()]))
            }
            Some(Token::Sign(sign @ (">" | "<"))) => {
                self.next();
                let value = self.value();
                let bound = value.parse().map_err(|_| {
                    format!("{value:?}: for 'Gt', 'Lt' operators, the value must be an integer")
                })?;
                if sign == ">" {
                    Test::Above(bound)
                } else {
                    Test::Below(bound)
                }
            }
            Some(Token::Word("in")) => {
                self.next();
                Test::In(self.values()?)
            }
            Some(Token::Word("notin")) => {
                self.next();
                Test::NotIn(self.values()?)
            }
            Some(token) => {
                let expected = "in, notin, =, ==, !=, gt, lt";
                return Err(format!("found {}, expected: {expected}", shown(token)));
            }
        };
        requirement(key, test)
    }

    /// A value; none is the empty one.
    fn value(&mut self) -> String {
        match self.peek() {
            Some(Token::Word(value)) => {
                self.next();
                value.into()
            }
            None | Some(Token::Sign(_)) => String::new(),
        }
    }

    fn values(&mut self) -> Result<BTreeSet<String>, String> {
        match self.next() {
            Some(Token::Sign("(")) => {}
            Some(token) => return Err(format!("found {}, expected: '('", shown(token))),
            None => return Err("found '', expected: '('".into()),
        }
        let mut values = BTreeSet::new();
        loop {
            values.insert(self.value());
            match self.next() {
                Some(Token::Sign(")")) => return Ok(values),
                Some(Token::Sign(",")) => {}
                Some(token) => return Err(format!("found {}, expected: ',' or ')'", shown(token))),
                None => return Err("found '', expected: ',' or ')'".into()),
            }
        }
    }
}

fn shown(token: Token<'_>) -> String {
    match token {
        Token::Word(text) | Token::Sign(text) => format!("'{text}'"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requirements_choose_as_in_kubernetes() {
        let labels =
            json!({"metadata": {"labels": {"app": "web", "tier": "x", "n": "5", "empty": ""}}});
        let table = [
            ("", true),
            ("app", true),
            ("app=web", true),
            ("app==web", true),
            (" app = web , tier = x ", true),
            ("app=db", false),
            ("app!=db", true),
            ("absent!=db", true),
            ("!absent", true),
            ("!app", false),
            ("app in (db, web)", true),
            ("app in (db)", false),
            ("absent in (db)", false),
            ("app notin (db)", true),
            ("absent notin (db)", true),
            ("app notin (web)", false),
            ("n>4", true),
            ("n>5", false),
            ("n<6,app", true),
            ("app>1", false),
            ("empty=", true),
            ("empty", true),
            ("app=", false),
            ("in in (in)", false),
            ("example.com/a.b notin (x),app", true),
        ];
        for (text, expected) in table {
            let selector = Labels::parse(text).unwrap();
            assert_eq!(selector.matches(&labels), expected, "{text}");
        }
        assert!(Labels::default().matches(&json!({})));
    }

    #[test]
    fn wrong_selectors_are_refused() {
        for text in [
            "a b",
            "app in",
            "app in (",
            "app in web",
            "app in (web",
            "=x",
            "app=web,",
            ",app",
            "a/b/c=x",
            "app=a b",
            "app=-x",
            "n>x",
            "-a",
            "(a)",
        ] {
            let status = Labels::parse(text).expect_err(text);
            assert_eq!(status.code, 400);
            assert!(status.message.starts_with("unable to parse requirement: "));
        }
    }

    #[test]
    fn the_object_form_says_the_same() {
        let selector = json!({"matchLabels": {"app": "web"}, "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["x"]},
            {"key": "old", "operator": "DoesNotExist"}]});
        let selector = Labels::from_json(&selector).unwrap();
        assert_eq!(selector, Labels::parse("app=web,tier in (x),!old").unwrap());
        let wrong = json!({"matchExpressions": [{"key": "a", "operator": "Like"}]});
        assert!(Labels::from_json(&wrong).is_err());
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_selector_or_refused(text in "[a-c(),!=<> inot/é-]{0,30}") {
            if let Ok(selector) = Labels::parse(&text) {
                selector.matches(&json!({"metadata": {"labels": {"a": "b"}}}));
            }
        }
    }
}
