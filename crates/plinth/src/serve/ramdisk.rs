//! The ramdisk that hosts boot, where Ironic has none of its own.

use clap::Args;
use operator::Ramdisks;

#[derive(Args)]
pub struct Ramdisk {
    /// The ramdisk as a disc, for hosts that boot from virtual media
    #[arg(long = "deploy-iso", value_name = "URL")]
    iso: Option<String>,
    /// The kernel of the ramdisk, for hosts that boot over the network
    #[arg(long = "deploy-kernel", value_name = "URL", requires = "initrd")]
    kernel: Option<String>,
    /// The ramdisk itself
    #[arg(
        id = "initrd",
        long = "deploy-ramdisk",
        value_name = "URL",
        requires = "kernel"
    )]
    initrd: Option<String>,
    /// Ask for a PreprovisioningImage for every host, and answer with the ramdisk above if there is one
    #[arg(long = "build-preprov-image")]
    images: bool,
}

impl Ramdisk {
    pub fn tell(&self, config: &mut operator::Config) {
        config.host.deploy_iso.clone_from(&self.iso);
        config.host.deploy_kernel.clone_from(&self.kernel);
        config.host.deploy_ramdisk.clone_from(&self.initrd);
        if self.images {
            let any = operator::Ramdisk {
                iso: self.iso.clone(),
                kernel: self.kernel.clone(),
                initrd: self.initrd.clone(),
            };
            config.answer_images(Ramdisks {
                any,
                ..Ramdisks::default()
            });
        }
    }
}
