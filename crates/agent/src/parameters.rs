//! What the kernel line tells the agent: the `ipa-…` parameters of Ironic, and a few of everyone's.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use model::{Mac, Secret};

/// The parameters, with Ironic's defaults for those not given.
#[derive(Debug, Clone)]
pub struct Parameters {
    /// Where Ironic's API may be, in order of preference, without a slash at the end.
    pub api: Vec<String>,
    pub inspection_callback: Option<String>,
    /// Given when only this server can read the kernel line, as on virtual media.
    pub token: Option<Secret<String>>,
    pub debug: bool,
    /// Take any certificate of Ironic and of image servers.
    pub insecure: bool,
    pub lookup_timeout: Duration,
    pub lookup_interval: Duration,
    pub listen_host: Option<IpAddr>,
    pub listen_port: u16,
    pub advertise_host: Option<String>,
    pub advertise_port: Option<u16>,
    pub boot_mac: Option<Mac>,
    pub collectors: Vec<String>,
    /// How long to listen for LLDP, if at all.
    pub lldp: Option<Duration>,
    pub ignore_bootloader_failure: bool,
    pub download: Download,
    pub http_timeout: Duration,
    pub global_request_id: Option<String>,
    /// `boot_method=vmedia`: the CD we came from holds configuration files.
    pub virtual_media: bool,
}

/// How patient an image download is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Download {
    /// Without a byte for so long, the connection is given up.
    pub timeout: Duration,
    pub retries: u32,
    pub interval: Duration,
}

impl Default for Download {
    fn default() -> Self {
        Self {
            timeout: Duration::from_mins(1),
            retries: 9,
            interval: Duration::from_secs(10),
        }
    }
}

/// A parameter that cannot be used; the default is taken in its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("kernel parameter {name}={value}: {why}")]
pub struct Problem {
    pub name: String,
    pub value: String,
    pub why: &'static str,
}

impl Parameters {
    /// Reads a kernel line. Whatever is wrong in it is listed, for the server must come up all the same.
    pub fn parse(line: &str) -> (Self, Vec<Problem>) {
        let mut words = Words {
            given: words(line),
            problems: vec![],
        };
        let parameters = Self {
            api: words.urls("ipa-api-url"),
            inspection_callback: words.urls("ipa-inspection-callback-url").into_iter().next(),
            token: words.text("ipa-agent-token").map(Secret::new),
            debug: words.flag("ipa-debug"),
            insecure: words.flag("ipa-insecure"),
            lookup_timeout: words.seconds("ipa-lookup-timeout", 600),
            lookup_interval: words.seconds("ipa-lookup-interval", 1),
            listen_host: words.parse("ipa-listen-host", "is no address"),
            listen_port: words.parse("ipa-listen-port", "is no port").unwrap_or(PORT),
            advertise_host: words.text("ipa-advertise-host"),
            advertise_port: words.parse("ipa-advertise-port", "is no port"),
            boot_mac: words.text("bootif").and_then(|mac| boot_mac(&mac)),
            collectors: words
                .text("ipa-inspection-collectors")
                .unwrap_or_else(|| "default,logs".into())
                .split(',')
                .map(|name| name.trim().to_owned())
                .collect(),
            lldp: None,
            ignore_bootloader_failure: words.flag("ipa-ignore-bootloader-failure"),
            download: Download {
                timeout: words.seconds("ipa-image-download-connection-timeout", 60),
                retries: words
                    .parse("ipa-image-download-connection-retries", "is no number")
                    .unwrap_or(9),
                interval: words.seconds("ipa-image-download-connection-retry-interval", 10),
            },
            http_timeout: words.seconds("ipa-http-request-timeout", 30),
            global_request_id: words.text("ipa-global-request-id"),
            virtual_media: words.text("boot_method").as_deref() == Some("vmedia"),
        };
        let asked = words.flag("ipa-collect-lldp")
            || parameters.collectors.iter().any(|name| name == "lldp");
        let lldp = words
            .seconds("ipa-lldp-timeout", 30)
            .min(Duration::from_mins(2));
        let parameters = Self {
            lldp: asked.then_some(lldp),
            ..parameters
        };
        (parameters, words.problems)
    }
}

/// Where the agent listens unless told otherwise.
pub const PORT: u16 = 9999;

/// `01-52-54-00-12-34-56` (the first pair is the link type), or a MAC in any of its writings.
pub fn boot_mac(text: &str) -> Option<Mac> {
    let mac = if text.len() == 20 {
        text.get(3..)?
    } else {
        text
    };
    mac.replace('-', ":").parse().ok()
}

/// Names in lower case with `-` for `_`, as far as they are Ironic's; of a name given twice the last counts.
pub fn words(line: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for word in split(line) {
        let (name, value) = word.split_once('=').unwrap_or((word.as_str(), ""));
        let mut name = name.to_ascii_lowercase();
        if name.starts_with("ipa") {
            name = name.replace('_', "-");
        }
        found.insert(name, value.to_owned());
    }
    found
}

/// As the kernel does: blanks separate, double quotes keep blanks together and are taken away.
fn split(line: &str) -> Vec<String> {
    let (mut found, mut word, mut quoted) = (vec![], String::new(), false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => found.push(std::mem::take(&mut word)),
            c => word.push(c),
        }
    }
    found.push(word);
    found.retain(|word| !word.is_empty());
    found
}

struct Words {
    given: BTreeMap<String, String>,
    problems: Vec<Problem>,
}

impl Words {
    fn text(&self, name: &str) -> Option<String> {
        self.given
            .get(name)
            .filter(|text| !text.is_empty())
            .cloned()
    }

    fn flag(&mut self, name: &str) -> bool {
        let Some(value) = self.given.get(name) else {
            return false;
        };
        match value.to_ascii_lowercase().as_str() {
            "" | "1" | "true" | "yes" | "on" => true,
            "0" | "false" | "no" | "off" => false,
            _ => {
                self.complain(name, "is neither 1 nor 0");
                false
            }
        }
    }

    fn parse<T: std::str::FromStr>(&mut self, name: &str, why: &'static str) -> Option<T> {
        let parsed = self.text(name)?.parse().ok();
        if parsed.is_none() {
            self.complain(name, why);
        }
        parsed
    }

    fn seconds(&mut self, name: &str, default: u32) -> Duration {
        let seconds = self.parse(name, "is no number of seconds");
        Duration::from_secs(seconds.unwrap_or(default).into())
    }

    fn urls(&mut self, name: &str) -> Vec<String> {
        let Some(list) = self.text(name) else {
            return vec![];
        };
        let urls = list.split(',').map(|url| url.trim().trim_end_matches('/'));
        let (good, bad): (Vec<_>, Vec<_>) = urls
            .filter(|url| !url.is_empty())
            .partition(|url| url.starts_with("http://") || url.starts_with("https://"));
        if !bad.is_empty() {
            self.complain(name, "begins with neither http:// nor https://");
        }
        good.into_iter().map(str::to_owned).collect()
    }

    fn complain(&mut self, name: &str, why: &'static str) {
        self.problems.push(Problem {
            name: name.to_owned(),
            value: self.given.get(name).cloned().unwrap_or_default(),
            why,
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_as_ironic_writes_it_is_understood() {
        let line = "nofb vga=normal console=ttyS0 ipa-insecure=0 ipa_debug=1 BOOTIF=01-52-54-00-12-34-56 \
                    ipa-api-url=\"http://192.0.2.1:6385/,https://[2001:db8::1]:6385\" \
                    ipa-inspection-callback-url=http://192.0.2.1:6385/v1/continue_inspection \
                    ipa-agent-token=sesame ipa-collect-lldp=1 boot_method=vmedia ipa-lookup-timeout=30";
        let (parameters, problems) = Parameters::parse(line);
        assert_eq!(problems, []);
        assert_eq!(
            parameters.api,
            ["http://192.0.2.1:6385", "https://[2001:db8::1]:6385"]
        );
        assert_eq!(
            parameters.inspection_callback.as_deref(),
            Some("http://192.0.2.1:6385/v1/continue_inspection")
        );
        assert_eq!(parameters.token.unwrap().expose(), "sesame");
        assert!(parameters.debug && !parameters.insecure && parameters.virtual_media);
        assert_eq!(
            parameters.boot_mac.unwrap().to_string(),
            "52:54:00:12:34:56"
        );
        assert_eq!(parameters.lldp, Some(Duration::from_secs(30)));
        assert_eq!(parameters.lookup_timeout, Duration::from_secs(30));
        assert_eq!(parameters.download, Download::default());
    }

    #[test]
    fn what_cannot_be_used_is_listed_and_the_rest_is_taken() {
        let (parameters, problems) = Parameters::parse(
            "ipa-api-url=ftp://x,http://y ipa-listen-port=99999 ipa-insecure=maybe",
        );
        assert_eq!(parameters.api, ["http://y"]);
        assert_eq!(parameters.listen_port, PORT);
        let names: Vec<_> = problems
            .iter()
            .map(|problem| problem.name.as_str())
            .collect();
        assert_eq!(names, ["ipa-api-url", "ipa-insecure", "ipa-listen-port"]);
    }

    proptest! {
        #[test]
        fn any_line_gives_parameters(line in "\\PC{0,200}") {
            let _ = Parameters::parse(&line);
        }
    }
}
