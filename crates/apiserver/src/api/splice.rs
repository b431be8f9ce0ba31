//! A kept object as text, with its resourceVersion put in: lists and watches need not read what they only pass on.

/// The text with `"resourceVersion":"N"` in its metadata. `None` where the text is not an object of this apiVersion
/// with metadata: then it has to be read after all.
pub fn with_version(text: &[u8], api_version: &str, revision: u64) -> Option<Vec<u8>> {
    let mut scan = Scan { text, at: 0 };
    scan.expect(b'{')?;
    let (mut inside, mut right_version) = (None, false);
    loop {
        let key = scan.string()?;
        scan.expect(b':')?;
        scan.blanks();
        let begin = scan.at;
        scan.value()?;
        let value = text[begin..scan.at].trim_ascii_end();
        match key {
            b"metadata" => inside = (value.first() == Some(&b'{')).then_some(begin + 1),
            b"apiVersion" => {
                let written = value.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
                right_version = written == api_version.as_bytes();
            }
            _ => {}
        }
        if let (Some(inside), true) = (inside, right_version) {
            return Some(insert(text, inside, revision));
        }
        scan.expect(b',')?;
    }
}

fn insert(text: &[u8], at: usize, revision: u64) -> Vec<u8> {
    let (before, after) = text.split_at(at);
    let comma = if after.trim_ascii_start().first() == Some(&b'}') {
        ""
    } else {
        ","
    };
    let field = format!("\"resourceVersion\":\"{revision}\"{comma}");
    [before, field.as_bytes(), after].concat()
}

/// A walk over JSON that looks at no more than where values end.
struct Scan<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Scan<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    fn expect(&mut self, wanted: u8) -> Option<()> {
        self.blanks();
        (self.peek()? == wanted).then(|| self.at += 1)
    }

    /// What stands between the quotes, escapes and all.
    fn string(&mut self) -> Option<&'a [u8]> {
        self.expect(b'"')?;
        let begin = self.at;
        loop {
            match self.peek()? {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        self.text.get(begin..self.at - 1)
    }

    fn value(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match self.peek()? {
                b'"' => drop(self.string()?),
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    self.at += 1;
                }
                _ => self.at += 1,
            }
            self.blanks();
            let ends = self
                .peek()
                .is_none_or(|byte| matches!(byte, b',' | b'}' | b']'));
            if depth == 0 && ends {
                return Some(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn tree() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            ".{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-z\"\\\\{]{1,6}", inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_text_says_what_the_object_would(spec in tree(), data in tree(), labels in tree(), revision in any::<u64>()) {
            let mut object = json!({"apiVersion": "v1", "data": data, "kind": "K", "metadata": {"labels": labels}, "spec": spec});
            let text = object.to_string();
            let spliced = with_version(text.as_bytes(), "v1", revision).expect("it has metadata");
            object["metadata"]["resourceVersion"] = json!(revision.to_string());
            prop_assert_eq!(serde_json::from_slice::<Value>(&spliced).expect("JSON"), object);
            prop_assert!(with_version(text.as_bytes(), "v2", revision).is_none());
        }

        #[test]
        fn any_bytes_are_passed_on_or_refused(bytes in any::<Vec<u8>>()) {
            let _ = with_version(&bytes, "v1", 1);
        }
    }

    #[test]
    fn metadata_that_is_empty_gets_no_comma() {
        let spliced =
            with_version(br#"{"metadata": {} ,"apiVersion":"v1"}"#, "v1", 7).expect("an object");
        assert_eq!(
            spliced,
            br#"{"metadata": {"resourceVersion":"7"} ,"apiVersion":"v1"}"#
        );
    }
}
