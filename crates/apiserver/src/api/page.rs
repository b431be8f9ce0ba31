//! The `continue` token of a paged list: where the next page begins, and the revision all pages show.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

/// What a token holds. Clients must not read it, so its form may change with the server's version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    #[serde(rename = "v")]
    pub version: String,
    /// The revision of the first page.
    #[serde(rename = "rv")]
    pub revision: u64,
    /// The last key given out, without the list's prefix.
    #[serde(rename = "start")]
    pub after: String,
}

const VERSION: &str = "meta.k8s.io/v1";
/// Longer than any key; what is longer was not made here.
const LONGEST: usize = 4096;

impl Token {
    pub fn new(revision: u64, after: &str) -> Self {
        Self {
            version: VERSION.to_owned(),
            revision,
            after: after.to_owned(),
        }
    }

    pub fn render(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).expect("strings and numbers serialise"))
    }

    /// `None` for anything this server did not make.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > LONGEST {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok()?;
        let token: Self = serde_json::from_slice(&bytes).ok()?;
        // A start that climbs out of its prefix would list another kind.
        let sound = token.version == VERSION
            && !token.after.is_empty()
            && !token.after.split('/').any(|part| part == "..");
        sound.then_some(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_token_comes_back_as_it_was(revision: u64, after in "[a-z]{1,20}/[a-z0-9.-]{1,40}") {
            prop_assume!(!after.split('/').any(|part| part == ".."));
            let token = Token::new(revision, &after);
            prop_assert_eq!(Token::parse(&token.render()), Some(token));
        }

        #[test]
        fn any_text_is_a_token_or_none(text in ".{0,80}") {
            let _ = Token::parse(&text);
        }
    }
}
