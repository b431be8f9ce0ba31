//! `.plinth_install_state.json`: what was drawn by dice, and what was written last. For its owner only.

use std::collections::BTreeMap;

use model::Secret;
use plan::assets::{KeyPair, Keys};
use plan::cluster::{Certificate, Identity, Plan};
use plan::install_config::Role;
use plan::preflight::Expiry;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::pki::{self, Made};

#[derive(Serialize, Deserialize, Clone, Default)]
pub struct State {
    pub cluster: String,
    pub infra_id: String,
    pub cluster_id: String,
    #[serde(default)]
    certificates: BTreeMap<String, StoredCertificate>,
    #[serde(default)]
    service_account: Option<Stored>,
    #[serde(default)]
    pub pools: BTreeMap<String, String>,
    #[serde(default)]
    hosts: BTreeMap<String, String>,
    #[serde(default)]
    pub ironic_password: String,
    #[serde(default)]
    ironic_hash: String,
    /// SHA-256 of every file as we wrote it.
    #[serde(default)]
    pub written: BTreeMap<String, String>,
    /// How far the install is, as far as it cannot be seen.
    #[serde(default)]
    pub install: plan::install::Kept,
}

#[derive(Serialize, Deserialize, Clone)]
struct Stored {
    public: String,
    private: String,
}

#[derive(Serialize, Deserialize, Clone)]
struct StoredCertificate {
    #[serde(flatten)]
    pair: Stored,
    spec: Certificate,
    made: i64,
}

impl From<&KeyPair> for Stored {
    fn from(pair: &KeyPair) -> Self {
        Self {
            public: pair.public.clone(),
            private: pair.private.expose().clone(),
        }
    }
}

impl From<&Stored> for KeyPair {
    fn from(stored: &Stored) -> Self {
        Self {
            public: stored.public.clone(),
            private: Secret::new(stored.private.clone()),
        }
    }
}

impl State {
    /// A new cluster.
    pub fn new(name: &str) -> Self {
        const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz0123456789";
        let suffix: String = (0..5)
            .map(|_| char::from(LETTERS[rand::random_range(0..LETTERS.len())]))
            .collect();
        let identity = Identity::new(name, &suffix, uuid::Uuid::new_v4().to_string());
        Self {
            cluster: name.to_owned(),
            infra_id: identity.infra_id,
            cluster_id: identity.cluster_id,
            ..Self::default()
        }
    }

    pub fn identity(&self) -> Identity {
        Identity {
            infra_id: self.infra_id.clone(),
            cluster_id: self.cluster_id.clone(),
        }
    }

    /// When the certificates end.
    pub fn expiries(&self) -> Vec<Expiry> {
        let expiry = |(name, stored): (&String, &StoredCertificate)| Expiry {
            name: name.clone(),
            not_before: stored.made,
            not_after: stored.made + i64::from(stored.spec.days) * 24 * 60 * 60,
        };
        self.certificates.iter().map(expiry).collect()
    }

    /// Makes what is missing and keeps what is there.
    pub fn complete(&mut self, plan: &Plan, now: OffsetDateTime) -> Result<Keys, pki::Error> {
        let existing: BTreeMap<String, Made> = self
            .certificates
            .iter()
            .map(|(name, stored)| {
                (
                    name.clone(),
                    Made {
                        pair: (&stored.pair).into(),
                        spec: stored.spec.clone(),
                        made: stored.made,
                    },
                )
            })
            .collect();
        let made = pki::certificates(&plan.certificates, &existing, now)?;
        self.certificates = made
            .iter()
            .map(|(name, made)| {
                (
                    name.clone(),
                    StoredCertificate {
                        pair: (&made.pair).into(),
                        spec: made.spec.clone(),
                        made: made.made,
                    },
                )
            })
            .collect();
        if self.service_account.is_none() {
            self.service_account = Some((&pki::service_account()?).into());
        }
        let mut pools = vec![Role::Master, Role::Worker];
        if plan.cluster.arbiters > 0 {
            pools.push(Role::Arbiter);
        }
        for pool in pools {
            self.pools
                .entry(pool.name().to_owned())
                .or_insert_with(|| pki::token().expose().clone());
        }
        for host in plan.hosts.iter().filter(|host| host.machine.is_some()) {
            self.hosts
                .entry(host.name.clone())
                .or_insert_with(|| pki::token().expose().clone());
        }
        self.hosts.retain(|name, _| {
            plan.hosts
                .iter()
                .any(|host| host.name == *name && host.machine.is_some())
        });
        if self.ironic_password.is_empty() {
            pki::token().expose()[..24].clone_into(&mut self.ironic_password);
            // The cost only has to outlive an hour, and the bootstrap has little CPU to spare.
            self.ironic_hash = bcrypt::hash(&self.ironic_password, 6).unwrap_or_default();
        }
        Ok(self.keys(made))
    }

    fn keys(&self, made: BTreeMap<String, Made>) -> Keys {
        let secrets = |map: &BTreeMap<String, String>| {
            map.iter()
                .map(|(name, value)| (name.clone(), Secret::new(value.clone())))
                .collect()
        };
        let account = self.service_account.as_ref().expect("made just before");
        Keys {
            certificates: made
                .into_iter()
                .map(|(name, made)| (name, made.pair))
                .collect(),
            service_account: account.into(),
            pools: secrets(&self.pools),
            hosts: secrets(&self.hosts),
            ironic_password: Secret::new(self.ironic_password.clone()),
            ironic_hash: Secret::new(self.ironic_hash.clone()),
        }
    }
}
