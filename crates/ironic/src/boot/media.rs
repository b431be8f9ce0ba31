//! A node's own CD, made while it is read: nothing is written, and a restart in the middle is not noticed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use media::{BootIso, BootIsoError, Content, Layout, Piece, boot_iso, iso};
use uuid::Uuid;

use super::Settings;
use super::arguments::{self, Carrier};
use crate::record::{BootOrder, Node};

/// Discs kept ready, for BMCs read them in thousands of small pieces.
const READY: usize = 64;
/// Loaders are read into memory.
const MAX_LOADER: u64 = 16 << 20;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("node {node} cannot be booted from a CD: {problem}")]
    Node { node: Uuid, problem: String },
    #[error("could not read {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("could not lay out the CD")]
    Layout(#[from] BootIsoError),
}

/// One disc, its files open.
#[derive(Debug)]
pub struct Disc {
    layout: Layout<usize>,
    files: Vec<File>,
}

impl Disc {
    pub fn size(&self) -> u64 {
        self.layout.len()
    }

    /// Fills the buffer from this place of the disc.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut rest = buffer;
        for piece in self.layout.pieces(offset, rest.len() as u64) {
            let (now, later) = rest.split_at_mut(piece.len() as usize);
            match piece {
                Piece::Bytes(bytes) => now.copy_from_slice(bytes),
                Piece::Zeros(_) => now.fill(0),
                Piece::File { token, offset, .. } => {
                    self.files[*token].read_exact_at(now, offset)?;
                }
            }
            rest = later;
        }
        if rest.is_empty() {
            Ok(())
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }
}

/// Discs made lately, by the boot they are for.
#[derive(Debug, Clone, Default)]
pub struct Discs(Arc<Mutex<Ready>>);

type Ready = BTreeMap<Uuid, (Recipe, Arc<Disc>)>;

/// What a disc is made of: another recipe, another disc.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Recipe {
    kernel: PathBuf,
    initrd: PathBuf,
    arguments: String,
    files: Vec<(String, Vec<u8>)>,
}

impl Discs {
    /// The disc of a node's present boot. Blocks.
    pub fn of(
        &self,
        node: &Node,
        order: &BootOrder,
        settings: &Settings,
    ) -> Result<Arc<Disc>, Error> {
        let recipe = recipe(node, order, settings)?;
        {
            let ready = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((made_of, disc)) = ready.get(&order.key)
                && *made_of == recipe
            {
                return Ok(Arc::clone(disc));
            }
        }
        let disc = Arc::new(make(&recipe, node, order, settings)?);
        let mut ready = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if ready.len() >= READY {
            ready.pop_first();
        }
        ready.insert(order.key, (recipe, Arc::clone(&disc)));
        Ok(disc)
    }
}

fn recipe(node: &Node, order: &BootOrder, settings: &Settings) -> Result<Recipe, Error> {
    let wrong = |problem: String| Error::Node {
        node: node.uuid,
        problem,
    };
    let (kernel, initrd) = settings.system_files(node).map_err(wrong)?;
    let arguments = arguments::of(node, order, Carrier::Disc, settings.append(), &settings.api);
    let mut files = Vec::new();
    if let Some(certificate) = &settings.api.certificate {
        files.push((
            "etc/ironic-python-agent/ironic.crt".to_owned(),
            certificate.clone(),
        ));
        files.push((
            "etc/ironic-python-agent.d/ironic-tls.conf".to_owned(),
            b"[DEFAULT]\ninsecure = False\ncafile = /etc/ironic-python-agent/ironic.crt\n".to_vec(),
        ));
    }
    if !node.network_data.is_empty() {
        let text = serde_json::to_vec(&node.network_data)
            .expect("an object of JSON can be written as such");
        files.push(("openstack/latest/network_data.json".to_owned(), text));
    }
    Ok(Recipe {
        kernel,
        initrd,
        arguments: arguments.map_err(wrong)?,
        files,
    })
}

fn make(
    recipe: &Recipe,
    node: &Node,
    order: &BootOrder,
    settings: &Settings,
) -> Result<Disc, Error> {
    let mut files = Vec::new();
    let mut open = |path: &Path| -> Result<Content<usize>, Error> {
        let failed = |source| Error::Read {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(failed)?;
        let len = file.metadata().map_err(failed)?.len();
        files.push(file);
        let token = files.len() - 1;
        Ok(Content::File { token, len })
    };
    let (kernel, initrd) = (open(&recipe.kernel)?, open(&recipe.initrd)?);
    let ramdisk = settings.boot.ramdisk.as_ref();
    let loader = |path: Option<&PathBuf>| match path {
        Some(path) if path.exists() => read(path).map(Some),
        Some(_) | None => Ok(None),
    };
    let is_config = recipe
        .files
        .iter()
        .any(|(path, _)| path.starts_with("openstack/"));
    let layout = boot_iso(BootIso {
        label: if is_config {
            "config-2"
        } else {
            "VMEDIA_BOOT_ISO"
        }
        .into(),
        publisher: order.key.to_string(),
        kernel,
        initrd,
        cmdline: recipe.arguments.clone(),
        uefi: loader(ramdisk.map(|ramdisk| &ramdisk.uefi_loader))?,
        bios: loader(ramdisk.map(|ramdisk| &ramdisk.bios_loader))?,
        files: recipe
            .files
            .iter()
            .map(|(path, bytes)| iso::File {
                path: path.clone(),
                content: Content::Bytes(bytes.clone()),
            })
            .collect(),
        modified: u64::try_from(node.created_at.as_second()).unwrap_or_default(),
    })?;
    Ok(Disc { layout, files })
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let failed = |source| Error::Read {
        path: path.to_owned(),
        source,
    };
    let size = std::fs::metadata(path).map_err(failed)?.len();
    if size > MAX_LOADER {
        return Err(failed(io::Error::other(
            "it is too large for a boot loader",
        )));
    }
    std::fs::read(path).map_err(failed)
}
