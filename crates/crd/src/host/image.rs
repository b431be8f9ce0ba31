//! What is written to a root disk, or booted in its place.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An image and how it is checked.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = ("self.url == '' || self.url.matches('^(http|https|ftp|gopher|oci)://')",
        "the URL's scheme is none of http, https, ftp, gopher, oci"),
    validation = ("self.url == '' || self.url.startsWith('oci://') || (has(self.format) && self.format == 'live-iso') \
        || (has(self.checksum) && self.checksum != '')",
        "an image needs a checksum: a digest, or the URL of a file with one"),
    validation = ("!self.url.startsWith('oci://') || !has(self.checksum) || self.checksum == ''",
        "an image from a registry is checked by its digest: leave checksum out"),
    validation = ("!has(self.ociAuthSecretName) || self.ociAuthSecretName == '' || self.url.startsWith('oci://')",
        "ociAuthSecretName is for images from a registry (oci://) only"),
)]
pub struct Image {
    /// Where the image is.
    #[schemars(length(max = 4096))]
    pub url: String,
    /// A digest, or the URL of a file with one. Needed but for live-iso and oci://.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub checksum: Option<String>,
    /// What kind of digest; found from its length unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum_type: Option<ChecksumType>,
    /// The image's format. A live-iso is booted, not written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<DiskFormat>,
    /// Secret of a registry's login, in the host's namespace, for oci:// only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub oci_auth_secret_name: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum ChecksumType {
    Md5,
    Sha256,
    Sha512,
    Auto,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum DiskFormat {
    Raw,
    Qcow2,
    Vdi,
    Vmdk,
    LiveIso,
}
