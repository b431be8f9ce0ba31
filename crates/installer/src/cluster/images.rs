//! The OS image and the ramdisk, from the cache, from Debian packages or from a URL.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use image::{os, ramdisk};
use plan::assets::payload;
use plan::cluster::{Image, OS_IMAGE, Plan};
use sha2::{Digest as _, Sha256};

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

/// Loaders for network boot; Debian's package `ipxe` has them.
const LOADERS: &str = "/usr/lib/ipxe";
const LOADER_NAMES: [&str; 4] = ["undionly.kpxe", "snponly.efi", "ipxe.efi", "ipxe.pxe"];

impl Images {
    pub async fn get(plan: &Plan, options: &Options, tell: &mut dyn Tell) -> Result<Self, Failed> {
        Self::with_agent(plan, &options.agent, options.metal, tell).await
    }

    /// Finds, builds or fetches them. Minutes at the first time, an instant later. `metal`: for real servers.
    pub async fn with_agent(
        plan: &Plan,
        agent: &Path,
        metal: bool,
        tell: &mut dyn Tell,
    ) -> Result<Self, Failed> {
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

async fn one(image: &Image, tell: &mut dyn Tell) -> Result<PathBuf, Failed> {
    if image.source == OS_IMAGE {
        tell.note("the OS image");
        let built = blocking(|| Ok(os::build(&os::Options::default(), |_| ())?)).await?;
        return Ok(built.qcow2);
    }
    fetch(image, tell).await
}

/// A first byte, and no longer pause than this between two.
const SILENCE: Duration = Duration::from_mins(1);

/// Into the cache, by its checksum; kept only if it is what was promised.
async fn fetch(image: &Image, tell: &mut dyn Tell) -> Result<PathBuf, Failed> {
    let source = &image.source;
    let Some(sha256) = &image.sha256 else {
        return Err(Failed(format!(
            "{source} has no checksum; add ?sha256=... to it in install-config.yaml"
        )));
    };
    let format = payload::os_image(source).rsplit('.').next();
    let format = format.unwrap_or_default();
    let dir = image::cache_dir()?.join("images");
    std::fs::create_dir_all(&dir)?;
    let path = dir.join(format!("{sha256}.{format}"));
    if path.exists() {
        return Ok(path);
    }
    tell.note(source);
    let client = reqwest::Client::builder()
        .connect_timeout(Duration::from_secs(10))
        .read_timeout(SILENCE)
        .build()?;
    let mut answer = client.get(source).send().await?.error_for_status()?;
    let mut file = tempfile::NamedTempFile::new_in(&dir)?;
    let mut digest = Sha256::new();
    while let Some(chunk) = answer.chunk().await? {
        digest.update(&chunk);
        file.write_all(&chunk)?;
    }
    let found = crate::dir::hex(&digest.finalize());
    if found != *sha256 {
        return Err(Failed(format!(
            "{source} has the checksum {found}, not {sha256} as install-config.yaml says"
        )));
    }
    file.as_file().sync_all()?;
    file.persist(&path)?;
    Ok(path)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failed> + Send + 'static,
) -> Result<T, Failed> {
    tokio::task::spawn_blocking(work).await?
}
