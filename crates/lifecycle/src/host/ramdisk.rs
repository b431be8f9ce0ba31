//! Which ramdisk a host boots: one built for it, or the one for all.

use super::State;
use super::bmc;
use super::pass::{Flow, Halt, Pass};
use super::spec::{CleaningMode, InspectionMode};
use super::status::Operational;
use super::step::Action;
use super::view::{ImageFormat, ImageRequest, PreprovisioningImage};

/// The ramdisk of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ramdisk {
    /// Whatever it has.
    Unchanged,
    Iso {
        url: String,
    },
    Initrd {
        kernel: String,
        ramdisk: String,
        params: Option<String>,
    },
}

impl Ramdisk {
    /// The four keys of `driver_info`; those without a value are taken away.
    pub fn driver_info(&self) -> Option<[(&'static str, Option<String>); 4]> {
        let (kernel, ramdisk, iso, params) = match self {
            Self::Unchanged => return None,
            Self::Iso { url } => (None, None, Some(url.clone()), None),
            Self::Initrd {
                kernel,
                ramdisk,
                params,
            } => (
                Some(kernel.clone()),
                Some(ramdisk.clone()),
                None,
                params.clone(),
            ),
        };
        Some([
            ("deploy_kernel", kernel),
            ("deploy_ramdisk", ramdisk),
            ("deploy_iso", iso),
            ("kernel_append_params", params),
        ])
    }
}

impl Pass<'_> {
    /// The ramdisk to use; waits for it to be built where the next thing to do needs it.
    pub fn ramdisk(&self) -> Flow<Ramdisk> {
        if !self.config.image_builder {
            return Ok(self.common_ramdisk());
        }
        let formats = self.image_formats();
        if formats.is_empty() {
            return Ok(Ramdisk::Unchanged);
        }
        let request = ImageRequest {
            network_data_name: self.host.spec.preprovisioning_network_data_name.clone(),
            architecture: self.architecture(),
            accept_formats: formats,
        };
        let image = match &self.seen.preprovisioning_image {
            Some(image) if image.deleting && !image.image_url.is_empty() => image,
            Some(image) if image.wanted == request && !image.deleting => image,
            Some(_) | None => {
                let ensure = Action::EnsurePreprovisioningImage(request);
                return Err(Self::act(vec![ensure], vec![]));
            }
        };
        if let Some(why) = &image.error {
            return Err(Halt::Failed(format!("the ramdisk cannot be built: {why}")));
        }
        if self.is_current(image) {
            return self.built(image);
        }
        if self.needs_image() {
            return Err(self.working(
                "the ramdisk to be built for this host",
                self.config.pace.image,
            ));
        }
        Ok(Ramdisk::Unchanged)
    }

    fn common_ramdisk(&self) -> Ramdisk {
        let config = self.config;
        let iso = bmc::parse(&self.host.spec).is_ok_and(|address| bmc::boots_iso(address.scheme));
        if let Some(url) = &config.deploy_iso
            && iso
        {
            return Ramdisk::Iso { url: url.clone() };
        }
        match (&config.deploy_kernel, &config.deploy_ramdisk) {
            (Some(kernel), Some(ramdisk)) => Ramdisk::Initrd {
                kernel: kernel.clone(),
                ramdisk: ramdisk.clone(),
                params: None,
            },
            (Some(_) | None, _) => Ramdisk::Unchanged,
        }
    }

    /// What kinds of image can be used now; none where none is.
    fn image_formats(&self) -> Vec<ImageFormat> {
        let status = self.status();
        let spec = &self.host.spec;
        let idle = match status.state() {
            State::None
            | State::Unmanaged
            | State::Registering
            | State::PoweringOff
            | State::Deleting => true,
            State::Provisioned | State::ExternallyProvisioned => {
                status.operational_status != Operational::Servicing
            }
            State::Deprovisioning => spec.automated_cleaning_mode == CleaningMode::Disabled,
            State::Inspecting => self.host.inspection_mode() == InspectionMode::Fast,
            State::MatchProfile | State::Preparing | State::Available | State::Provisioning => {
                false
            }
        };
        if idle {
            return Vec::new();
        }
        let iso = bmc::parse(spec).is_ok_and(|address| bmc::boots_iso(address.scheme));
        if iso {
            vec![ImageFormat::Iso, ImageFormat::Initrd]
        } else {
            vec![ImageFormat::Initrd]
        }
    }

    fn needs_image(&self) -> bool {
        let live = self
            .host
            .spec
            .image
            .as_ref()
            .is_some_and(super::Image::is_live_iso);
        match self.status().state() {
            State::Provisioning => !live,
            State::Inspecting
            | State::Preparing
            | State::MatchProfile
            | State::Deprovisioning
            | State::Provisioned
            | State::ExternallyProvisioned => true,
            State::None
            | State::Unmanaged
            | State::Registering
            | State::Available
            | State::PoweringOff
            | State::Deleting => false,
        }
    }

    fn is_current(&self, image: &PreprovisioningImage) -> bool {
        let wanted = &image.wanted;
        let version = self.seen.network_secret_version.as_deref().unwrap_or("");
        image.ready
            && !image.image_url.is_empty()
            && image.architecture == wanted.architecture
            && image
                .format
                .is_some_and(|format| wanted.accept_formats.contains(&format))
            && image.network_data_name == wanted.network_data_name
            && (wanted.network_data_name.is_empty() || image.network_data_version == version)
    }

    fn built(&self, image: &PreprovisioningImage) -> Flow<Ramdisk> {
        let url = image.image_url.clone();
        if image.format == Some(ImageFormat::Iso) {
            return Ok(Ramdisk::Iso { url });
        }
        let kernel = match image.kernel_url.as_str() {
            "" => self.config.deploy_kernel.clone(),
            kernel => Some(kernel.to_owned()),
        };
        let Some(kernel) = kernel else {
            return Err(Halt::Failed(
                "the ramdisk was built without a kernel, and the operator knows of none".into(),
            ));
        };
        let params = &image.extra_kernel_params;
        Ok(Ramdisk::Initrd {
            kernel,
            ramdisk: url,
            params: (!params.is_empty()).then(|| format!("%default% {params}")),
        })
    }
}
