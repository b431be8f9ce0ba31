//! The checks of `plinth preflight`, before anything is made or powered on.

use plan::install::Site;
use plan::preflight::{self, Fact};

use super::{Failed, Installer};
use crate::preflight::{Options, observe};
use crate::progress::Tell;

impl Installer {
    /// Asks all that is to be asked; what does not stop an install is said and no more.
    pub(super) async fn check(&self, tell: &mut dyn Tell) -> Result<Site, Failed> {
        let Some(selection) = &self.options.checks else {
            return Ok(Site::Sound);
        };
        let certificates = Fact::of(self.dir.expiries());
        let options = Options::default();
        let observed = observe(&self.plan, &self.config, certificates, selection, options).await;
        let findings = preflight::check(&self.plan, &self.config, &observed, selection);
        for remark in preflight::remarks(&findings) {
            tell.note(&remark);
        }
        Ok(Site::of(&findings))
    }
}
