//! What the conditions of a host say in words. `kubectl describe` shows the words; `plinth status` takes them apart
//! again.

use std::fmt;

use jiff::Timestamp;

use super::view::Node;

/// What a host at work waits for: the message of its Progressing condition.
///
/// `the host to boot the ramdisk and take the image [deploy.write_image 40 %: writing]`
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Waiting {
    pub what: String,
    /// Ironic's step.
    pub step: Option<String>,
    /// How far the step is, in tens: every change of it is a write of the host's status.
    pub percent: Option<u8>,
    /// What the step is at, or what Ironic itself waits for.
    pub seen: Option<String>,
}

impl Waiting {
    pub fn new(what: &str, node: Option<&Node>) -> Self {
        let info = node.map(|node| &node.driver_internal_info);
        let text = info
            .and_then(|info| info.get("waiting"))
            .and_then(|waiting| waiting["for"].as_str());
        let progress = info.and_then(|info| info.get("progress"));
        let phase = progress.and_then(|progress| progress["phase"].as_str());
        let percent = progress.and_then(|progress| progress["percent"].as_f64());
        let (seen, counted) = text.map(without_percent).unzip();
        Self {
            what: plain(what),
            step: node.and_then(step),
            percent: percent.or(counted.flatten()).map(tens),
            seen: phase.map(plain).or(seen.map(|seen| plain(&seen))),
        }
    }

    pub fn parse(message: &str) -> Self {
        let bare = || Self {
            what: message.to_owned(),
            ..Self::default()
        };
        let inner = message.strip_suffix(']');
        let Some((what, details)) = inner.and_then(|inner| inner.rsplit_once(" [")) else {
            return bare();
        };
        let (head, seen) = match details.split_once(": ") {
            Some((head, seen)) => (head, Some(seen)),
            None => (details, None),
        };
        let (step, percent) = match head.strip_suffix(" %") {
            Some(head) => {
                let (step, number) = head.rsplit_once(' ').unwrap_or(("", head));
                (step, number.parse().ok())
            }
            None => (head, None),
        };
        let text = |text: &str| (text != NO_STEP && !text.is_empty()).then(|| text.to_owned());
        Self {
            what: what.to_owned(),
            step: text(step),
            percent,
            seen: seen.and_then(text),
        }
    }
}

/// Where something is told of no step.
const NO_STEP: &str = "-";

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if self.step.is_none() && self.percent.is_none() && self.seen.is_none() {
            return Ok(());
        }
        write!(f, " [{}", self.step.as_deref().unwrap_or(NO_STEP))?;
        if let Some(percent) = self.percent {
            write!(f, " {percent} %")?;
        }
        if let Some(seen) = &self.seen {
            write!(f, ": {seen}")?;
        }
        f.write_str("]")
    }
}

/// One line, without the signs that have a meaning here.
fn plain(text: &str) -> String {
    text.chars()
        .map(|char| match char {
            '[' => '(',
            ']' => ')',
            char if char.is_control() => ' ',
            char => char,
        })
        .collect()
}

fn step(node: &Node) -> Option<String> {
    [&node.deploy_step, &node.clean_step, &node.service_step]
        .into_iter()
        .find_map(|step| {
            let name = step["step"].as_str()?;
            let interface = step["interface"].as_str().unwrap_or("agent");
            Some(plain(&format!("{interface}.{name}")).replace([' ', ':'], "_"))
        })
}

/// `the agent to call (read the CD (37 %))`: the words without the number, and the number.
fn without_percent(text: &str) -> (String, Option<f64>) {
    let found = text.find(" %)").and_then(|end| {
        let start = text[..end].rfind(" (")?;
        let number = text[start + 2..end].parse().ok()?;
        let words = format!("{}{}", &text[..start], &text[end + 3..]);
        Some((words, number))
    });
    match found {
        Some((words, number)) => (words, Some(number)),
        None => (text.to_owned(), None),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is between 0 and 10"
)]
fn tens(percent: f64) -> u8 {
    (percent.clamp(0.0, 100.0) / 10.0) as u8 * 10
}

/// An error and when it is tried again: the message of the Ready condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    pub error: String,
    pub at: Timestamp,
}

const NEXT_TRY: &str = "; next try at ";

impl Retry {
    /// Nothing where the message tells of no error.
    pub fn parse(message: &str) -> Option<Self> {
        let (error, at) = message.rsplit_once(NEXT_TRY)?;
        Some(Self {
            error: error.to_owned(),
            at: at.parse().ok()?,
        })
    }
}

impl fmt::Display for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{NEXT_TRY}{}", self.error, self.at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn node(fields: &Value) -> Node {
        let mut node = json!({"uuid": "u", "provision_state": "wait call-back"});
        for (key, value) in fields.as_object().unwrap() {
            node[key] = value.clone();
        }
        serde_json::from_value(node).unwrap()
    }

    #[test]
    fn the_words_tell_the_step_and_how_far_it_is() {
        for (name, fields, told) in [
            ("an Ironic that tells nothing", json!({}), "the host"),
            (
                "writing",
                json!({"deploy_step": {"interface": "deploy", "step": "write_image"}, "driver_internal_info": {
                    "progress": {"percent": 43.7, "phase": "writing"}, "waiting": {"for": "the agent", "until": "x"}}}),
                "the host [deploy.write_image 40 %: writing]",
            ),
            (
                "booting",
                json!({"driver_internal_info": {"waiting": {"for": "the agent to call (read the CD (37 %))"}}}),
                "the host [- 30 %: the agent to call (read the CD)]",
            ),
            (
                "a step alone",
                json!({"clean_step": {"interface": "deploy", "step": "erase_devices_metadata"}, "deploy_step": {}}),
                "the host [deploy.erase_devices_metadata]",
            ),
        ] {
            let waiting = Waiting::new("the host", Some(&node(&fields)));
            assert_eq!(waiting.to_string(), told, "{name}");
            assert_eq!(Waiting::parse(told), waiting, "{name}");
        }
    }

    #[test]
    fn an_error_tells_when_it_is_tried_again() {
        let told = "no answer; next try at 2027-01-15T08:00:00Z";
        let retry = Retry::parse(told).unwrap();
        assert_eq!(retry.error, "no answer");
        assert_eq!(retry.to_string(), told);
        assert_eq!(Retry::parse("no answer"), None);
    }

    proptest! {
        #[test]
        fn whatever_is_told_can_be_read(what in "[^\\[\\]]{0,20}", step in ".{0,20}", percent in any::<f64>(), seen in ".{0,30}") {
            let node = node(&json!({"deploy_step": {"step": step, "interface": "deploy"},
                "driver_internal_info": {"progress": {"percent": percent}, "waiting": {"for": seen}}}));
            let waiting = Waiting::new(&what, Some(&node));
            let read = Waiting::parse(&waiting.to_string());
            prop_assert_eq!(read.what, waiting.what);
            prop_assert_eq!(read.percent, waiting.percent);
        }

        #[test]
        fn any_message_can_be_read(message in ".*") {
            _ = Waiting::parse(&message);
            _ = Retry::parse(&message);
        }
    }
}
