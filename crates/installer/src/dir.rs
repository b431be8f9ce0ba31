//! Stages of an install directory.
//!
//! A file that a person edited since we wrote it is theirs: it is kept and used. If what we would write there changed
//! too, that is a conflict, and nothing is written at all until the person decides. Keys are made once; a directory
//! that holds a cluster is never given another one's.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use model::Secret;
use plan::assets::{self, Binary, File, Files, Inputs, Keys, Replacement};
use plan::cluster::{Identity, Plan};
use plan::install::Kept;
use plan::install_config::{self, Facts, InstallConfig, Payload, Refused};
use plan::preflight::Expiry;
use sha2::{Digest, Sha256};
use time::OffsetDateTime;

use crate::pki;
use crate::state::State;

pub const INSTALL_CONFIG: &str = "install-config.yaml";
const STATE: &str = ".plinth_install_state.json";
const METADATA: &str = "metadata.json";
const BOOTSTRAP_IGN: &str = "bootstrap.ign";
const KUBECONFIG: &str = "auth/kubeconfig";
const CLEANER_IGN: &str = "cleaning/cleaner.ign";

/// How far to go; each includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    Manifests,
    IgnitionConfigs,
}

/// What the files of a directory are rendered from.
struct Sources {
    config: InstallConfig,
    warnings: Vec<String>,
    identity: Identity,
    plan: Plan,
    keys: Keys,
    state: State,
}

impl Sources {
    fn inputs<'a>(&'a self, binary: &'a Binary) -> Inputs<'a> {
        Inputs {
            plan: &self.plan,
            config: &self.config,
            identity: &self.identity,
            keys: &self.keys,
            binary,
        }
    }
}

/// What happened to the files of a stage.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub written: Vec<String>,
    pub unchanged: usize,
    /// Edited by a person, and kept.
    pub kept: Vec<String>,
    pub warnings: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not read {path}")]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("could not write {path}")]
    Write {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{path} has {refused}")]
    Config { path: PathBuf, refused: Refused },
    #[error(
        "{path} cannot be read back; it was damaged or edited. Restore it, or begin in another directory"
    )]
    State {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("{dir} belongs to the cluster {owner}; begin {wanted} in another directory")]
    OtherCluster {
        dir: PathBuf,
        owner: String,
        wanted: String,
    },
    #[error(
        "{dir} holds the cluster {infra_id} (metadata.json), but its keys ({STATE}) are gone: nothing is overwritten. Restore the file, or begin in another directory"
    )]
    Living { dir: PathBuf, infra_id: String },
    #[error("{} edited since they were written, and the new content differs as well: {}. Move them away to have them written anew, or undo what changed in install-config.yaml", if .0.len() == 1 { "1 file was".to_owned() } else { format!("{} files were", .0.len()) }, .0.join(", "))]
    Conflict(Vec<String>),
    #[error(
        "{path}: payload: kubernetes can be planned, but this version installs builtin alone; write payload: builtin, or leave it out"
    )]
    Payload { path: PathBuf },
    #[error(transparent)]
    Pki(#[from] pki::Error),
}

impl Error {
    /// What the person asked for cannot be, and nothing was touched.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Config { .. }
            | Self::OtherCluster { .. }
            | Self::Living { .. }
            | Self::Payload { .. }
            | Self::Conflict(_) => true,
            Self::Read { .. } | Self::Write { .. } | Self::State { .. } | Self::Pki(_) => false,
        }
    }
}

pub struct Dir {
    path: PathBuf,
}

impl Dir {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// What can be written in install-config.yaml and planned is more than what can be installed.
    pub fn can_install(&self, config: &InstallConfig) -> Result<(), Error> {
        match config.payload {
            Payload::Builtin => Ok(()),
            Payload::Kubernetes { .. } => Err(Error::Payload {
                path: self.path.join(INSTALL_CONFIG),
            }),
        }
    }

    /// The text of `install-config.yaml`. Never more than a person would write.
    pub fn text(&self) -> Result<String, Error> {
        let path = self.path.join(INSTALL_CONFIG);
        let bytes = std::fs::read(&path).map_err(|source| Error::Read { path, source })?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// What the file means.
    pub fn config(&self, facts: &Facts) -> Result<(InstallConfig, Vec<String>), Error> {
        let text = self.text()?;
        let resolved = install_config::parse(&text, facts).map_err(|refused| Error::Config {
            path: self.path.join(INSTALL_CONFIG),
            refused,
        })?;
        Ok((
            resolved.config,
            resolved.warnings.iter().map(ToString::to_string).collect(),
        ))
    }

    /// The plan, with the identity if the cluster has one already.
    pub fn plan(&self, facts: &Facts) -> Result<(Plan, Vec<String>), Error> {
        let (config, warnings) = self.config(facts)?;
        let state = self.state()?;
        let identity = state
            .filter(|state| state.cluster == config.name)
            .map(|state| state.identity());
        Ok((Plan::new(&config, identity), warnings))
    }

    /// When the certificates made here end; none where there is no cluster yet.
    pub fn expiries(&self) -> Result<Vec<Expiry>, Error> {
        let state = self.state()?;
        Ok(state.map(|state| state.expiries()).unwrap_or_default())
    }

    /// Renders up to the stage and writes what is new.
    pub fn create(
        &self,
        stage: Stage,
        facts: &Facts,
        binary: &Binary,
        now: OffsetDateTime,
    ) -> Result<Outcome, Error> {
        let mut sources = self.sources(facts, now)?;
        let inputs = sources.inputs(binary);
        let mut files = assets::manifests(&inputs);
        if stage >= Stage::IgnitionConfigs {
            files.extend(assets::ignition_configs(&inputs));
            files.extend(assets::access(&inputs));
        }
        let mut outcome = self.write(&files, &mut sources.state)?;
        outcome.warnings = sources.warnings;
        Ok(outcome)
    }

    /// What a fresh host in a lost master's place is made of, by the config as it is now. Certificates that have ended
    /// are made anew, and the directory's manifests and keys follow.
    pub fn replacement(
        &self,
        host: &str,
        facts: &Facts,
        binary: &Binary,
        now: OffsetDateTime,
    ) -> Result<Option<Replacement>, Error> {
        let mut sources = self.sources(facts, now)?;
        let inputs = sources.inputs(binary);
        let mut files = assets::manifests(&inputs);
        files.extend(assets::access(&inputs));
        let host = inputs
            .plan
            .hosts
            .iter()
            .find(|planned| planned.name == host);
        let replacement = host.and_then(|host| assets::replacement(&inputs, host));
        self.write(&files, &mut sources.state)?;
        Ok(replacement)
    }

    /// Refuses where this is another cluster's directory, or its keys are gone.
    pub fn is_own(&self, facts: &Facts) -> Result<(), Error> {
        let (config, _) = self.config(facts)?;
        self.own_state(&config).map(drop)
    }

    /// The config of a VM that cleans the cluster's hosts, with certificates that hold now. What an install kept is
    /// over by then: another one begins anew.
    pub fn cleaner(
        &self,
        facts: &Facts,
        binary: &Binary,
        now: OffsetDateTime,
    ) -> Result<(), Error> {
        let mut sources = self.sources(facts, now)?;
        let inputs = sources.inputs(binary);
        let (config, authority) = (assets::cleaner(&inputs), assets::authority(&inputs));
        sources.state.install = Kept::default();
        self.write(&authority, &mut sources.state)?;
        self.put(CLEANER_IGN, &config)
    }

    fn sources(&self, facts: &Facts, now: OffsetDateTime) -> Result<Sources, Error> {
        let (config, warnings) = self.config(facts)?;
        let mut state = self.own_state(&config)?;
        let identity = state.identity();
        let plan = Plan::new(&config, Some(identity.clone()));
        let keys = state.complete(&plan, now)?;
        Ok(Sources {
            config,
            warnings,
            identity,
            plan,
            keys,
            state,
        })
    }

    /// Every file of an install is there.
    pub fn is_complete(&self) -> bool {
        let there = |name: &str| self.path.join(name).exists();
        [METADATA, BOOTSTRAP_IGN, KUBECONFIG, STATE]
            .into_iter()
            .all(there)
    }

    /// What the install keeps between two runs.
    pub fn kept(&self) -> Result<Kept, Error> {
        Ok(self.state()?.map(|state| state.install).unwrap_or_default())
    }

    pub fn keep(&self, kept: &Kept) -> Result<(), Error> {
        let Some(mut state) = self.state()? else {
            // Nothing is decided yet that could be told apart from the next time.
            return Ok(());
        };
        state.install = kept.clone();
        let stored = serde_json::to_vec_pretty(&state).expect("the state is plain data");
        self.put(STATE, &File::private(stored))
    }

    pub fn ironic_password(&self) -> Secret<String> {
        let state = self.state().ok().flatten();
        Secret::new(state.map(|state| state.ironic_password).unwrap_or_default())
    }

    /// What nodes of a pool show to be served; empty if there is none.
    pub fn pool_secret(&self, pool: &str) -> Secret<String> {
        let state = self.state().ok().flatten();
        let secret = state.and_then(|mut state| state.pools.remove(pool));
        Secret::new(secret.unwrap_or_default())
    }

    /// PEM, by the plan's name; empty if it was never made.
    pub fn certificate(&self, name: &str) -> String {
        let path = self.path.join(format!("tls/{name}.crt"));
        std::fs::read_to_string(path).unwrap_or_default()
    }

    /// The key of the same.
    pub fn key(&self, name: &str) -> Secret<String> {
        let path = self.path.join(format!("tls/{name}.key"));
        Secret::new(std::fs::read_to_string(path).unwrap_or_default())
    }

    pub fn kubeconfig(&self) -> Result<String, Error> {
        self.read_text(KUBECONFIG)
    }

    pub fn bootstrap_ignition(&self) -> PathBuf {
        self.path.join(BOOTSTRAP_IGN)
    }

    pub fn cleaner_ignition(&self) -> PathBuf {
        self.path.join(CLEANER_IGN)
    }

    /// The pointer config of one host, as the operator may have edited it.
    pub fn pointer(&self, host: &str) -> Result<String, Error> {
        self.read_text(&format!("hosts/{host}.ign"))
    }

    /// By file name.
    pub fn manifests(&self) -> Result<BTreeMap<String, String>, Error> {
        let path = self.path.join("manifests");
        let error = |source| Error::Read {
            path: path.clone(),
            source,
        };
        let mut manifests = BTreeMap::new();
        for entry in std::fs::read_dir(&path).map_err(error)? {
            let name = entry
                .map_err(error)?
                .file_name()
                .to_string_lossy()
                .into_owned();
            if !name.starts_with('.') {
                let text = self.read_text(&format!("manifests/{name}"))?;
                manifests.insert(name, text);
            }
        }
        Ok(manifests)
    }

    fn read_text(&self, name: &str) -> Result<String, Error> {
        let path = self.path.join(name);
        std::fs::read_to_string(&path).map_err(|source| Error::Read { path, source })
    }

    fn state(&self) -> Result<Option<State>, Error> {
        let path = self.path.join(STATE);
        match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(|source| Error::State { path, source }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::Read { path, source }),
        }
    }

    /// The state of this cluster: that of the directory, or a new one where there is no cluster.
    fn own_state(&self, config: &InstallConfig) -> Result<State, Error> {
        match self.state()? {
            Some(state) if state.cluster == config.name => Ok(state),
            Some(state) => Err(Error::OtherCluster {
                dir: self.path.clone(),
                owner: state.cluster,
                wanted: config.name.clone(),
            }),
            None => match std::fs::read(self.path.join(METADATA)) {
                Ok(bytes) => {
                    let metadata: serde_json::Value =
                        serde_json::from_slice(&bytes).unwrap_or_default();
                    let infra_id = metadata["infraID"]
                        .as_str()
                        .unwrap_or("of an unknown name")
                        .to_owned();
                    Err(Error::Living {
                        dir: self.path.clone(),
                        infra_id,
                    })
                }
                Err(_) => Ok(State::new(&config.name)),
            },
        }
    }

    fn write(&self, files: &Files, state: &mut State) -> Result<Outcome, Error> {
        let mut outcome = Outcome::default();
        let mut todo: Vec<(&String, &File)> = Vec::new();
        let mut conflicts = Vec::new();
        for (path, file) in files {
            let wanted = digest(&file.bytes);
            let disk = self.read(path)?.map(|bytes| digest(&bytes));
            match decide(
                disk.as_deref(),
                state.written.get(path).map(String::as_str),
                &wanted,
            ) {
                Decision::Write => todo.push((path, file)),
                Decision::Same => outcome.unchanged += 1,
                Decision::Keep => outcome.kept.push(path.clone()),
                Decision::Conflict => conflicts.push(path.clone()),
            }
        }
        if !conflicts.is_empty() {
            return Err(Error::Conflict(conflicts));
        }
        for (path, file) in files {
            if !outcome.kept.contains(path) {
                state.written.insert(path.clone(), digest(&file.bytes));
            }
        }
        // Keys first: files that were written with keys that nobody kept would be worthless.
        let stored = serde_json::to_vec_pretty(state).expect("the state is plain data");
        self.put(STATE, &File::private(stored))?;
        for (path, file) in todo {
            self.put(path, file)?;
            outcome.written.push(path.clone());
        }
        Ok(outcome)
    }

    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, Error> {
        let path = self.path.join(path);
        match std::fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::Read { path, source }),
        }
    }

    /// Whole or not at all: beside it, then renamed.
    fn put(&self, path: &str, file: &File) -> Result<(), Error> {
        let path = self.path.join(path);
        let error = |source| Error::Write {
            path: path.clone(),
            source,
        };
        let parent = path.parent().unwrap_or(&self.path);
        std::fs::create_dir_all(parent).map_err(error)?;
        let secret_dir = file.mode == 0o600 && parent != self.path;
        if secret_dir {
            std::fs::set_permissions(parent, std::fs::Permissions::from_mode(0o700))
                .map_err(error)?;
        }
        let beside = beside(&path);
        _ = std::fs::remove_file(&beside);
        let mut open = std::fs::OpenOptions::new();
        let mut out = open
            .write(true)
            .create_new(true)
            .mode(file.mode)
            .open(&beside)
            .map_err(error)?;
        out.write_all(&file.bytes).map_err(error)?;
        out.sync_all().map_err(error)?;
        std::fs::rename(&beside, &path).map_err(error)
    }
}

fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.new"))
}

#[derive(Debug, PartialEq, Eq)]
enum Decision {
    Write,
    Same,
    Keep,
    Conflict,
}

/// `disk`: what is there; `ours`: what we wrote last; `wanted`: what we would write.
fn decide(disk: Option<&str>, ours: Option<&str>, wanted: &str) -> Decision {
    match (disk, ours) {
        (Some(disk), _) if disk == wanted => Decision::Same,
        (None, _) => Decision::Write,
        (Some(disk), Some(ours)) if disk == ours => Decision::Write,
        (Some(_), Some(ours)) if ours == wanted => Decision::Keep,
        (Some(_), Some(_) | None) => Decision::Conflict,
    }
}

fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

pub fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
}

/// The checksum of a program, as nodes will verify it.
pub fn checksum(path: &Path) -> Result<String, Error> {
    let measured = measure(path).map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })?;
    Ok(measured.0)
}

/// A file's checksum and size.
pub fn measure(path: &Path) -> std::io::Result<(String, u64)> {
    let mut file = std::fs::File::open(path)?;
    let (mut digest, mut size) = (Sha256::new(), 0);
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok((hex(&digest.finalize()), size));
        }
        digest.update(&buffer[..read]);
        size += read as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PXE: &str = include_str!("../../../examples/pxe.yaml");

    fn dir(text: &str) -> (tempfile::TempDir, Dir) {
        let temp = tempfile::tempdir().unwrap();
        std::fs::write(temp.path().join(INSTALL_CONFIG), text).unwrap();
        let dir = Dir::new(temp.path());
        (temp, dir)
    }

    fn create(dir: &Dir, stage: Stage) -> Result<Outcome, Error> {
        create_on_day(dir, stage, 20_000)
    }

    fn create_on_day(dir: &Dir, stage: Stage, day: i64) -> Result<Outcome, Error> {
        let binary = Binary {
            sha256: "0".repeat(64),
            bootstrap_url: None,
        };
        dir.create(
            stage,
            &Facts::default(),
            &binary,
            OffsetDateTime::UNIX_EPOCH + time::Duration::days(day),
        )
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn asking_again_changes_nothing_and_keys_are_for_their_owner() {
        let (temp, dir) = dir(PXE);
        let first = create(&dir, Stage::IgnitionConfigs).unwrap();
        assert!(first.written.contains(&"bootstrap.ign".to_owned()));
        let again = create(&dir, Stage::IgnitionConfigs).unwrap();
        assert_eq!(
            (again.written.len(), again.unchanged),
            (0, first.written.len())
        );
        for secret in [STATE, "tls/root-ca.key", "bootstrap.ign", "auth/kubeconfig"] {
            assert_eq!(mode(&temp.path().join(secret)), 0o600, "{secret}");
        }
        assert_eq!(mode(&temp.path().join("tls")), 0o700);
    }

    #[test]
    fn an_edited_file_is_kept() {
        let (temp, dir) = dir(PXE);
        create(&dir, Stage::Manifests).unwrap();
        let edited = temp
            .path()
            .join("manifests/99_baremetal-provisioning-config.yaml");
        std::fs::write(&edited, "mine").unwrap();
        let outcome = create(&dir, Stage::IgnitionConfigs).unwrap();
        assert_eq!(
            outcome.kept,
            ["manifests/99_baremetal-provisioning-config.yaml"]
        );
        assert_eq!(std::fs::read_to_string(&edited).unwrap(), "mine");
    }

    #[test]
    fn an_edited_file_whose_source_changed_too_is_a_conflict_and_nothing_is_written() {
        let (temp, dir) = dir(PXE);
        create(&dir, Stage::Manifests).unwrap();
        let infrastructure = temp
            .path()
            .join("manifests/cluster-infrastructure-02-config.yaml");
        std::fs::write(&infrastructure, "mine").unwrap();
        std::fs::write(
            temp.path().join(INSTALL_CONFIG),
            PXE.replace("- 192.0.2.5", "- 192.0.2.7"),
        )
        .unwrap();
        let state = std::fs::read(temp.path().join(STATE)).unwrap();
        let Err(Error::Conflict(files)) = create(&dir, Stage::Manifests) else {
            panic!("a conflict")
        };
        assert_eq!(files, ["manifests/cluster-infrastructure-02-config.yaml"]);
        assert_eq!(std::fs::read(temp.path().join(STATE)).unwrap(), state);
    }

    #[test]
    fn a_changed_config_makes_only_what_it_changes() {
        let (temp, dir) = dir(PXE);
        create(&dir, Stage::IgnitionConfigs).unwrap();
        let key = std::fs::read(temp.path().join("tls/root-ca.key")).unwrap();
        std::fs::write(
            temp.path().join(INSTALL_CONFIG),
            PXE.replace("- 192.0.2.5", "- 192.0.2.7"),
        )
        .unwrap();
        let outcome = create(&dir, Stage::IgnitionConfigs).unwrap();
        assert!(
            outcome.written.contains(&"tls/apiserver.crt".to_owned()),
            "{:?}",
            outcome.written
        );
        assert!(
            !outcome.written.contains(&"tls/admin.crt".to_owned()),
            "{:?}",
            outcome.written
        );
        assert_eq!(
            std::fs::read(temp.path().join("tls/root-ca.key")).unwrap(),
            key
        );
    }

    #[test]
    fn what_has_expired_is_made_anew_and_authorities_stay() {
        let (_temp, dir) = dir(PXE);
        create(&dir, Stage::IgnitionConfigs).unwrap();
        let next_week = create_on_day(&dir, Stage::IgnitionConfigs, 20_007).unwrap();
        let tls: Vec<_> = next_week
            .written
            .iter()
            .filter(|path| path.starts_with("tls/"))
            .collect();
        assert_eq!(tls, ["tls/bootstrap.crt", "tls/bootstrap.key"]);
        let far = create_on_day(&dir, Stage::IgnitionConfigs, 30_000).unwrap();
        assert!(
            !far.written.iter().any(|path| path.contains("-ca.")),
            "{:?}",
            far.written
        );
    }

    #[test]
    fn a_replacement_has_the_clusters_keys_and_the_hosts_new_bmc() {
        let (temp, dir) = dir(PXE);
        create(&dir, Stage::IgnitionConfigs).unwrap();
        let moved = PXE.replace("192.0.2.102", "192.0.2.202");
        std::fs::write(temp.path().join(INSTALL_CONFIG), moved).unwrap();
        let binary = Binary {
            sha256: "1".repeat(64),
            bootstrap_url: None,
        };
        let now = OffsetDateTime::UNIX_EPOCH + time::Duration::days(20_007);
        let key = std::fs::read(temp.path().join("tls/etcd-ca.key")).unwrap();
        let made = dir.replacement("master-1", &Facts::default(), &binary, now);
        let made = made.unwrap().expect("the config has it");
        let address = made.host("c2")["spec"]["bmc"]["address"].to_string();
        assert!(address.contains("192.0.2.202"), "{address}");
        let manifest = temp
            .path()
            .join("manifests/99_openshift-cluster-api_hosts-1.yaml");
        let manifest = std::fs::read_to_string(manifest).unwrap();
        assert!(manifest.contains("192.0.2.202"), "{manifest}");
        assert_eq!(
            std::fs::read(temp.path().join("tls/etcd-ca.key")).unwrap(),
            key
        );
        assert_eq!(dir.pool_secret("master").expose().len(), 64);
        let nobody = dir.replacement("nobody", &Facts::default(), &binary, now);
        assert!(nobody.unwrap().is_none());
    }

    #[test]
    fn a_living_cluster_is_never_overwritten() {
        let (temp, dir) = dir(PXE);
        create(&dir, Stage::IgnitionConfigs).unwrap();
        std::fs::write(
            temp.path().join(INSTALL_CONFIG),
            PXE.replace("name: pxe", "name: other"),
        )
        .unwrap();
        assert!(matches!(
            create(&dir, Stage::Manifests),
            Err(Error::OtherCluster { .. })
        ));
        std::fs::write(temp.path().join(INSTALL_CONFIG), PXE).unwrap();
        std::fs::remove_file(temp.path().join(STATE)).unwrap();
        let key = std::fs::read(temp.path().join("tls/root-ca.key")).unwrap();
        assert!(matches!(
            create(&dir, Stage::IgnitionConfigs),
            Err(Error::Living { .. })
        ));
        assert_eq!(
            std::fs::read(temp.path().join("tls/root-ca.key")).unwrap(),
            key
        );
    }

    #[test]
    fn a_bad_config_touches_nothing() {
        let (temp, dir) = dir(&PXE.replace("- 192.0.2.5", "- nowhere"));
        assert!(
            create(&dir, Stage::IgnitionConfigs)
                .unwrap_err()
                .is_refusal()
        );
        let names: Vec<_> = std::fs::read_dir(temp.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, [INSTALL_CONFIG]);
    }

    #[test]
    fn what_is_done_with_a_file_follows_from_three_checksums() {
        for (disk, ours, wanted, expected) in [
            (None, None, "a", Decision::Write),
            (None, Some("a"), "a", Decision::Write),
            (Some("a"), None, "a", Decision::Same),
            (Some("a"), Some("b"), "a", Decision::Same),
            (Some("a"), Some("a"), "b", Decision::Write),
            (Some("c"), Some("a"), "a", Decision::Keep),
            (Some("c"), Some("a"), "b", Decision::Conflict),
            (Some("c"), None, "b", Decision::Conflict),
        ] {
            assert_eq!(
                decide(disk, ours, wanted),
                expected,
                "{disk:?} {ours:?} {wanted}"
            );
        }
    }
}
