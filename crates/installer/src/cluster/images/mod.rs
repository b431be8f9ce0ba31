//! The OS image and the ramdisk, from the cache, from Debian packages or from a URL.

mod fetch;

use std::path::{Path, PathBuf};

use image::{os, ramdisk};
use plan::assets::payload;
use plan::cluster::{Image, OS_IMAGE, Plan};
use plan::install::Problem;

use super::{Failed, Options};
use crate::bootstrap::Payload;
use crate::progress::Tell;

/// Where they are on this machine.
#[derive(Debug, Clone)]
pub struct Images {
    pub bootstrap_os: PathBuf,
    pub cluster_os: PathBuf,
    pub cluster_os_sha256: String,
    /// Its name in the payload.
    pub os_on_disc: &'static str,
    pub ramdisk: ramdisk::Ramdisk,
}

/// Why an image cannot be had.
#[derive(Debug)]
pub enum Lack {
    /// It is not what install-config.yaml says; to fetch it again would change nothing.
    Unfit(Problem),
    /// Another try may help.
    Failed(Failed),
}

impl<E: std::error::Error> From<E> for Lack {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl From<Failed> for Lack {
    fn from(failed: Failed) -> Self {
        Self::Failed(failed)
    }
}

impl From<Lack> for Failed {
    fn from(lack: Lack) -> Self {
        match lack {
            Lack::Unfit(problem) => Self(problem.to_string()),
            Lack::Failed(failed) => failed,
        }
    }
}

/// Loaders for network boot; Debian's package `ipxe` has them.
const LOADERS: &str = "/usr/lib/ipxe";
const LOADER_NAMES: [&str; 4] = ["undionly.kpxe", "snponly.efi", "ipxe.efi", "ipxe.pxe"];

impl Images {
    pub async fn get(plan: &Plan, options: &Options, tell: &mut dyn Tell) -> Result<Self, Lack> {
        Self::with_agent(plan, &options.agent, options.metal, tell).await
    }

    /// Finds, builds or fetches them. Minutes at the first time, an instant later. `metal`: for real servers.
    pub async fn with_agent(
        plan: &Plan,
        agent: &Path,
        metal: bool,
        tell: &mut dyn Tell,
    ) -> Result<Self, Lack> {
        let cluster_os = one(&plan.images.cluster_os, tell).await?;
        let bootstrap_os = one(&plan.images.bootstrap_os, tell).await?;
        let sum = cluster_os.clone();
        let cluster_os_sha256 = match &plan.images.cluster_os.sha256 {
            Some(sha256) => sha256.clone(),
            None => blocking(move || Ok(crate::dir::checksum(&sum)?)).await?,
        };
        tell.note("the ramdisk");
        let recipe = ramdisk::Options {
            flavour: if metal {
                ramdisk::Flavour::Metal
            } else {
                ramdisk::Flavour::Lab
            },
            agent: agent.to_owned(),
            mirror: None,
            cache: None,
            refresh: false,
        };
        let ramdisk = blocking(move || Ok(ramdisk::build(&recipe, |_| ())?)).await?;
        Ok(Self {
            os_on_disc: payload::os_image(&plan.images.cluster_os.source),
            bootstrap_os,
            cluster_os,
            cluster_os_sha256,
            ramdisk,
        })
    }

    /// All that the bootstrap VM needs and cannot fetch.
    pub fn payload(&self, binary: &Path) -> Payload {
        let mut payload = Payload::default();
        let name = |path: &Path| {
            path.file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned()
        };
        payload.add(model::payload::PROGRAM, binary);
        payload.add(self.os_on_disc, &self.cluster_os);
        let file = self.os_on_disc.rsplit('/').next().unwrap_or_default();
        let sums = format!("{}  {file}\n", self.cluster_os_sha256);
        payload.text(&format!("{}.sha256sum", self.os_on_disc), sums);
        for file in [
            &self.ramdisk.kernel,
            &self.ramdisk.initrd,
            &self.ramdisk.uefi_loader,
            &self.ramdisk.bios_loader,
        ] {
            payload.add(&format!("ramdisk/{}", name(file)), file);
        }
        for loader in LOADER_NAMES {
            let file = Path::new(LOADERS).join(loader);
            if file.is_file() {
                payload.add(&format!("ipxe/{loader}"), file);
            }
        }
        payload
    }

    pub fn format(&self) -> &'static str {
        if self.os_on_disc.ends_with("qcow2") {
            "qcow2"
        } else {
            "raw"
        }
    }
}

async fn one(image: &Image, tell: &mut dyn Tell) -> Result<PathBuf, Lack> {
    if image.source == OS_IMAGE {
        tell.note("the OS image");
        let built = blocking(|| Ok(os::build(&os::Options::default(), |_| ())?)).await?;
        return Ok(built.qcow2);
    }
    fetch::fetch(image, &image::cache_dir()?.join("images"), tell).await
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failed> + Send + 'static,
) -> Result<T, Failed> {
    tokio::task::spawn_blocking(work).await?
}
