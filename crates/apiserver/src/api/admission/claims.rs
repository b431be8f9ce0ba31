//! Which host claims which server, remembered so that a new host need not read a thousand others.
//!
//! A write puts up its stake before it looks at what is kept, and takes it down when it is kept itself: of two writes at
//! once with one claim, the second sees the first either at stake or kept.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::super::object::meta;
use super::hosts::{Place, boot_mac, place};
use crate::store::Kv;

/// What each host claimed when it was last looked at, by key. A host is read again only when it changed.
#[derive(Default)]
pub struct Claims {
    kept: Mutex<BTreeMap<Arc<str>, Claim>>,
    /// Of writes under way: the host's name, and what it claims.
    at_stake: Mutex<Vec<(String, Claim)>>,
}

/// A claim of a write under way; ends with it.
pub struct Stake<'a> {
    claims: &'a Claims,
    host: String,
    claim: Claim,
}

impl Drop for Stake<'_> {
    fn drop(&mut self) {
        let mut at_stake = lock(&self.claims.at_stake);
        let mine = at_stake
            .iter()
            .position(|(host, claim)| *host == self.host && *claim == self.claim);
        mine.map(|at| at_stake.swap_remove(at));
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Claim {
    revision: u64,
    mac: String,
    place: Option<Place>,
}

impl Claim {
    fn of(host: &Value, revision: u64) -> Self {
        Self {
            revision,
            mac: boot_mac(host),
            place: place(host),
        }
    }

    fn collides(&self, other: &Self) -> bool {
        (!self.mac.is_empty() && self.mac == other.mac)
            || (self.place.is_some() && self.place == other.place)
    }
}

impl Claims {
    /// Claims what this host says, unless another host's write is about to: then that host's name is given.
    pub fn stake(&self, host: &Value) -> Result<Stake<'_>, String> {
        let name = format!("{}/{}", meta(host, "namespace"), meta(host, "name"));
        let claim = Claim::of(host, 0);
        let mut at_stake = lock(&self.at_stake);
        let rival = at_stake
            .iter()
            .find(|(host, other)| *host != name && claim.collides(other));
        if let Some((rival, _)) = rival {
            return Err(rival.clone());
        }
        at_stake.push((name.clone(), claim.clone()));
        Ok(Stake {
            claims: self,
            host: name,
            claim,
        })
    }

    /// Those of all hosts that claim what this one does; itself among them, where it is kept already.
    pub fn colliding<'a>(&self, host: &Value, all: &'a [Kv]) -> Vec<&'a Kv> {
        let mine = Claim::of(host, 0);
        let mut known = lock(&self.kept);
        if known.len() > all.len() {
            let kept: std::collections::BTreeSet<&str> = all.iter().map(|kv| &*kv.key).collect();
            known.retain(|key, _| kept.contains(&**key));
        }
        all.iter()
            .filter(|kv| {
                let claim = known.entry(Arc::clone(&kv.key)).or_insert_with(|| read(kv));
                if claim.revision != kv.revision {
                    *claim = read(kv);
                }
                claim.collides(&mine)
            })
            .collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read(kv: &Kv) -> Claim {
    let host: Value = serde_json::from_slice(&kv.value).unwrap_or_default();
    Claim::of(&host, kv.revision)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn kv(name: &str, mac: &str, revision: u64) -> Kv {
        Kv {
            key: format!("/registry/metal3.io/baremetalhosts/a/{name}").into(),
            value: json!({"spec": {"bootMACAddress": mac}}).to_string().into(),
            revision,
        }
    }

    #[test]
    fn a_claim_is_known_until_its_host_changes_or_goes() {
        let claims = Claims::default();
        let names = |all: &[Kv]| -> Vec<String> {
            let mine = json!({"spec": {"bootMACAddress": "AA:00:00:00:00:01"}});
            let found = claims.colliding(&mine, all);
            found
                .iter()
                .map(|kv| kv.key.rsplit('/').next().unwrap_or("").to_owned())
                .collect()
        };
        let (x, y) = (
            kv("x", "aa:00:00:00:00:01", 1),
            kv("y", "aa:00:00:00:00:02", 2),
        );
        assert_eq!(names(&[x.clone(), y.clone()]), ["x"]);
        assert_eq!(
            names(&[kv("x", "aa:00:00:00:00:03", 3), y.clone()]),
            [""; 0]
        );
        assert_eq!(names(&[y]), [""; 0]);
        assert_eq!(lock(&claims.kept).len(), 1);
    }

    #[test]
    fn of_two_writes_at_once_one_claims_the_server() {
        let claims = Claims::default();
        let host = |name: &str| json!({"metadata": {"namespace": "a", "name": name}, "spec": {"bootMACAddress": "aa:00:00:00:00:01"}});
        let first = claims.stake(&host("x"));
        assert!(first.is_ok());
        assert_eq!(claims.stake(&host("y")).err().as_deref(), Some("a/x"));
        assert!(
            claims.stake(&host("x")).is_ok(),
            "a host is no rival of itself"
        );
        drop(first);
        assert!(claims.stake(&host("y")).is_ok());
        assert!(lock(&claims.at_stake).is_empty());
    }
}
