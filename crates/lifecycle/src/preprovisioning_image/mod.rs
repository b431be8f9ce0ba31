//! Answering a PreprovisioningImage: which ramdisk the host of the same name boots.
//!
//! ```text
//!   spec: formats, architecture, Secret ──▶ next(..) ──▶ status: URLs, what they were chosen for, Ready or Error
//! ```
//!
//! The images are given, one for each architecture; nothing is built. Whoever builds images of their own answers in our
//! place, by the same rules: the status is written whole, with the inputs it is for, so that a reader never takes an
//! old image for a new request.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::host::{Condition, ImageFormat, ImageRequest, Truth};

pub const FINALIZER: &str = "preprovisioningimage.metal3.io";

/// A PreprovisioningImage.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Image {
    pub generation: i64,
    pub deleting: bool,
    pub finalizers: Vec<String>,
    pub spec: ImageRequest,
    pub status: Status,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub image_url: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kernel_url: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub extra_kernel_params: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<ImageFormat>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_data: Option<SecretVersion>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub architecture: String,
    pub conditions: Vec<Condition>,
}

/// A Secret as it was when an image was chosen for it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SecretVersion {
    pub name: String,
    pub version: String,
}

/// The ramdisks there are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ramdisks {
    pub by_architecture: BTreeMap<String, Ramdisk>,
    /// For architectures that have none of their own.
    pub any: Ramdisk,
}

/// Where a ramdisk is: as a disc, or as what boots over the network. The kernel may be Ironic's own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ramdisk {
    pub iso: Option<String>,
    pub kernel: Option<String>,
    pub initrd: Option<String>,
}

impl Ramdisks {
    /// Whether there is anything to answer with.
    pub fn is_empty(&self) -> bool {
        let nothing = |ramdisk: &Ramdisk| ramdisk.iso.is_none() && ramdisk.initrd.is_none();
        nothing(&self.any) && self.by_architecture.values().all(nothing)
    }

    fn of(&self, architecture: &str) -> &Ramdisk {
        self.by_architecture.get(architecture).unwrap_or(&self.any)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    AddFinalizer,
    RemoveFinalizer,
    /// The status whole.
    Save(Box<Status>),
    Wait {
        reason: String,
        until: Timestamp,
    },
    /// Nothing, until it changes.
    Done,
}

/// Between looks for a Secret that is missing: longer the longer it is.
const SOON: Duration = Duration::from_secs(10);
const LATE: Duration = Duration::from_mins(10);

/// `secret` is the version of the Secret that the image names, if it is there.
pub fn next(image: &Image, ramdisks: &Ramdisks, secret: Option<&str>, now: Timestamp) -> Step {
    let claimed = image.finalizers.iter().any(|name| name == FINALIZER);
    if image.deleting {
        return match (claimed, image.finalizers.len()) {
            // Others may still boot what it names.
            (false, _) => Step::Done,
            (true, 1) => Step::RemoveFinalizer,
            (true, _) => Step::Wait {
                reason: "the others who use the image".to_owned(),
                until: after(now, SOON),
            },
        };
    }
    if !claimed {
        return Step::AddFinalizer;
    }
    let answer = answer(image, ramdisks, secret);
    let missing = matches!(&answer, Err(trouble) if trouble.reason == MISSING);
    let status = status(image, answer, now);
    if status != image.status {
        return Step::Save(Box::new(status));
    }
    if !missing {
        return Step::Done;
    }
    let since = since(&status, "Error").unwrap_or(now);
    let waited = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    Step::Wait {
        reason: format!("the Secret {:?}", image.spec.network_data_name),
        until: after(now, waited.saturating_add(SOON).min(LATE)),
    }
}

struct Answer {
    format: ImageFormat,
    url: String,
    kernel: String,
    network: Option<SecretVersion>,
}

struct Trouble {
    reason: &'static str,
    message: String,
}

const MISSING: &str = "MissingNetworkData";
const REFUSED: &str = "ConfigurationError";

fn answer(image: &Image, ramdisks: &Ramdisks, secret: Option<&str>) -> Result<Answer, Trouble> {
    let spec = &image.spec;
    let ramdisk = ramdisks.of(&spec.architecture);
    let found = spec.accept_formats.iter().find_map(|format| {
        let url = match format {
            ImageFormat::Iso => ramdisk.iso.as_ref(),
            ImageFormat::Initrd => ramdisk.initrd.as_ref(),
        };
        Some((*format, url?.clone()))
    });
    let Some((format, url)) = found else {
        let formats: Vec<&str> = spec.accept_formats.iter().map(|f| word(*f)).collect();
        return Err(Trouble {
            reason: REFUSED,
            message: format!(
                "there is no ramdisk for {:?} as {}",
                spec.architecture,
                if formats.is_empty() {
                    "no format is accepted".to_owned()
                } else {
                    formats.join(" or ")
                }
            ),
        });
    };
    let name = &spec.network_data_name;
    let network = match (name.as_str(), secret) {
        ("", _) => None,
        (_, Some(version)) => Some(SecretVersion {
            name: name.clone(),
            version: version.to_owned(),
        }),
        (_, None) => {
            return Err(Trouble {
                reason: MISSING,
                message: format!("the Secret {name:?} does not exist"),
            });
        }
    };
    let kernel = match format {
        ImageFormat::Iso => String::new(),
        ImageFormat::Initrd => ramdisk.kernel.clone().unwrap_or_default(),
    };
    Ok(Answer {
        format,
        url,
        kernel,
        network,
    })
}

fn word(format: ImageFormat) -> &'static str {
    match format {
        ImageFormat::Iso => "iso",
        ImageFormat::Initrd => "initrd",
    }
}

fn status(image: &Image, answer: Result<Answer, Trouble>, now: Timestamp) -> Status {
    let condition = |kind: &str, holds: bool, reason: &str, message: &str| {
        let truth = if holds { Truth::True } else { Truth::False };
        let same = image.status.conditions.iter();
        let same = same.filter(|old| old.kind == kind && old.status == truth);
        Condition {
            kind: kind.to_owned(),
            status: truth,
            reason: reason.to_owned(),
            message: message.to_owned(),
            last_transition_time: same
                .map(|old| old.last_transition_time)
                .next()
                .unwrap_or(now),
            observed_generation: image.generation,
        }
    };
    match answer {
        Ok(answer) => Status {
            image_url: answer.url,
            kernel_url: answer.kernel,
            extra_kernel_params: String::new(),
            format: Some(answer.format),
            network_data: answer.network,
            architecture: image.spec.architecture.clone(),
            conditions: vec![
                condition("Error", false, "ImageSuccess", ""),
                condition("Ready", true, "ImageSuccess", "The image can be booted"),
            ],
        },
        Err(trouble) => Status {
            conditions: vec![
                condition("Error", true, trouble.reason, &trouble.message),
                condition("Ready", false, trouble.reason, &trouble.message),
            ],
            ..Status::default()
        },
    }
}

fn since(status: &Status, kind: &str) -> Option<Timestamp> {
    let found = status.conditions.iter().find(|seen| seen.kind == kind)?;
    Some(found.last_transition_time)
}

fn after(now: Timestamp, pause: Duration) -> Timestamp {
    now.checked_add(pause).unwrap_or(Timestamp::MAX)
}
