//! Virtual router ids: 1 to 255, one per address on a link.

use std::fmt;

/// Names one virtual router on a link; the two families count apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtualRouterId(u8);

impl VirtualRouterId {
    /// Zero is no id.
    pub fn new(id: u8) -> Option<Self> {
        (id != 0).then_some(Self(id))
    }

    pub fn get(self) -> u8 {
        self.0
    }

    /// The id that OpenShift gives `purpose` (`api`, `ingress`) of a cluster: a Fletcher sum of
    /// `<cluster>-<purpose>` modulo 15, plus one, so that old and new nodes of one cluster agree.
    pub fn of_cluster(cluster: &str, purpose: &str) -> Self {
        let (mut low, mut high) = (0_u8, 0_u8);
        let separated = [cluster.as_bytes(), b"-", purpose.as_bytes()].concat();
        for byte in separated {
            // Eight-bit arithmetic, as in the original: bytes from 242 on may wrap.
            low = low.wrapping_add(byte) % 15;
            high = (high + low) % 15;
        }
        Self(high * 16 + low + 1)
    }
}

impl fmt::Display for VirtualRouterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn clusters_get_the_ids_that_openshift_gives_them() {
        for (cluster, api, ingress, dns) in [
            ("cnf10", 147, 2, 158),
            ("cnf11", 228, 147, 239),
            ("ostest", 14, 93, 10),
            ("mycluster", 74, 137, 70),
        ] {
            let ids =
                ["api", "ingress", "dns"].map(|of| VirtualRouterId::of_cluster(cluster, of).get());
            assert_eq!(ids, [api, ingress, dns], "{cluster}");
        }
    }

    proptest! {
        #[test]
        fn the_two_ids_of_any_cluster_are_valid_and_differ(cluster in "[a-z0-9-]{1,60}") {
            let [api, ingress] = ["api", "ingress"].map(|of| VirtualRouterId::of_cluster(&cluster, of).get());
            prop_assert!((1..=239).contains(&api) && (1..=239).contains(&ingress));
            prop_assert_ne!(api, ingress);
        }
    }
}
