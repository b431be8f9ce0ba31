//! The password between Ironic and its agent.

use std::sync::atomic::{AtomicBool, Ordering};

use model::Secret;

/// Says who may speak to the API.
#[derive(Debug)]
pub struct Gate {
    token: Option<Secret<String>>,
    used: AtomicBool,
}

impl Gate {
    pub fn new(token: Option<Secret<String>>) -> Self {
        Self {
            token,
            used: AtomicBool::new(false),
        }
    }

    /// Whether the caller may give commands.
    pub fn may_command(&self, given: Option<&str>) -> bool {
        let Some(token) = &self.token else {
            return true;
        };
        let right = given.is_some_and(|given| same(given.as_bytes(), token.expose().as_bytes()));
        self.used.fetch_or(right, Ordering::Relaxed);
        right
    }

    /// Whether the caller may look: anyone, until Ironic has shown that it knows the token.
    pub fn may_read(&self, given: Option<&str>) -> bool {
        self.may_command(given) || (given.is_none() && !self.used.load(Ordering::Relaxed))
    }
}

/// Takes as long for a wrong token as for a right one.
fn same(a: &[u8], b: &[u8]) -> bool {
    let differences = a
        .iter()
        .zip(b)
        .fold(0, |all, (a, b)| std::hint::black_box(all | (a ^ b)));
    a.len() == b.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_is_free_until_the_token_was_used() {
        let gate = Gate::new(Some(Secret::new("sesame".into())));
        assert!(gate.may_read(None));
        assert!(!gate.may_command(None));
        assert!(!gate.may_command(Some("sesam")));
        assert!(!gate.may_command(Some("sesamE")));
        assert!(gate.may_read(None));
        assert!(gate.may_command(Some("sesame")));
        assert!(!gate.may_read(None));
        assert!(!gate.may_read(Some("x")));
        assert!(gate.may_read(Some("sesame")));
    }

    #[test]
    fn without_a_token_everyone_may() {
        assert!(Gate::new(None).may_command(None));
    }
}
