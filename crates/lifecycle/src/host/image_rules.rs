//! What starts a deployment, and what ends one.

use super::view::Host;

impl Host {
    /// Something is to be deployed that is not.
    pub fn needs_provisioning(&self) -> bool {
        let (spec, status) = (&self.spec, &self.status);
        if !spec.online {
            return false;
        }
        let method = spec.deploy_method();
        if !method.is_empty() && method != status.deploy_method() {
            return true;
        }
        !spec.image_url().is_empty() && status.image_url().is_empty()
    }

    /// What is deployed, or being deployed, is no longer wanted. Only another URL or method is another deployment: a
    /// new checksum, format, user data or hint waits for the next one.
    pub fn is_cancelled(&self) -> bool {
        let (spec, status) = (&self.spec, &self.status);
        let other_image = !status.image_url().is_empty() && status.image_url() != spec.image_url();
        let method = spec.deploy_method();
        if !method.is_empty() {
            let other_method =
                !status.deploy_method().is_empty() && status.deploy_method() != method;
            return other_method || other_image;
        }
        if !status.deploy_method().is_empty() {
            return true;
        }
        spec.image_url().is_empty() || other_image
    }
}
