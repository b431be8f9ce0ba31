//! Entity tags: given with every resource that can be changed, and asked back with the change.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::Value;

use super::messages::{self as m, Problem};
use super::vendor;
use crate::bmc::Personality;
use crate::bmc::personality::Etag;

/// What a server does by itself.
///
/// DEVIATION: these do not count for an ETag. Otherwise a change would be refused because the clock went on, or
/// because the server came up between a client's reading and writing.
const VOLATILE: [&str; 4] = ["DateTime", "PowerState", "BootProgress", "Status"];

/// The tag of a resource, in the vendor's form.
pub fn of(p: &Personality, resource: &Value) -> String {
    match p.etag {
        Etag::Strong => format!("\"{}\"", opaque(resource)),
        Etag::Weak | Etag::WeakGivenStrongWanted => format!("W/\"{}\"", opaque(resource)),
    }
}

fn opaque(resource: &Value) -> String {
    let mut hasher = DefaultHasher::new();
    if let Value::Object(fields) = resource {
        for (name, value) in fields
            .iter()
            .filter(|(name, _)| !VOLATILE.contains(&name.as_str()))
        {
            (name, value.to_string()).hash(&mut hasher);
        }
    }
    format!("{:016x}", hasher.finish())
}

/// Whether a change with this `If-Match` may go ahead.
pub fn check(p: &Personality, if_match: Option<&str>, resource: &Value) -> Result<(), Problem> {
    let wanted = match (if_match.map(str::trim), p.if_match_missing) {
        (None | Some(""), Some(no)) => return Err(vendor(&no)),
        (None | Some(""), None) | (Some("*"), _) => return Ok(()),
        (Some(wanted), _) => wanted,
    };
    let now = opaque(resource);
    let fits = wanted.split(',').map(str::trim).any(|tag| {
        let (weak, tag) = tag
            .strip_prefix("W/")
            .map_or((false, tag), |tag| (true, tag));
        let same = tag.trim_matches('"') == now;
        match p.etag {
            Etag::Weak => same,
            Etag::Strong | Etag::WeakGivenStrongWanted => same && !weak,
        }
    });
    if fits {
        Ok(())
    } else {
        Err(Problem::new(&m::PRECONDITION_FAILED, &[])
            .because("The ETag was given for another state of the resource."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bmc::personality::ALL;
    use serde_json::json;

    #[test]
    fn tags_follow_what_a_client_can_change() {
        let p = &ALL[0];
        let tag =
            |power: &str, boot: &str| of(p, &json!({"PowerState": power, "Boot": {"T": boot}}));
        assert_eq!(tag("On", "Cd"), tag("Off", "Cd"));
        assert_ne!(tag("On", "Cd"), tag("On", "Hdd"));
    }

    #[test]
    fn each_vendor_takes_the_form_it_wants() {
        let resource = json!({"A": 1});
        let strong = format!("\"{}\"", opaque(&resource));
        let weak = format!("W/{strong}");
        for p in ALL {
            let ok = |tag: &str| check(p, Some(tag), &resource).is_ok();
            assert!(
                ok(&strong) && ok("*") && ok(&format!("\"other\", {strong}")),
                "{}",
                p.name
            );
            assert_eq!(ok(&weak), p.etag == Etag::Weak, "{}", p.name);
            assert!(!ok("\"other\"") && !ok("other"), "{}", p.name);
            assert_eq!(
                check(p, None, &resource).is_ok(),
                p.if_match_missing.is_none(),
                "{}",
                p.name
            );
            assert_eq!(
                check(p, Some(""), &resource).is_ok(),
                p.if_match_missing.is_none(),
                "{}",
                p.name
            );
        }
    }
}
