//! What boot clients and BMCs fetch over HTTP, by path.
//!
//! | path | what |
//! |---|---|
//! | `/boot.ipxe` | the script iPXE begins with |
//! | `/pxelinux.cfg/<mac>` | a known server's script |
//! | `/boot/<mac>.ipxe` | the same, or one that waits |
//! | `/boot/<mac>/kernel`, `/boot/<mac>/initrd` | the agent's system |
//! | `/images/…` | images for agents |
//! | `/media/<node>/<key>/boot.iso` | a node's CD (on its own port) |
//! | anything else | a loader |

use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use model::Mac;
use tracing::{info, warn};
use uuid::Uuid;

use super::http::{self, Watch};
use super::notebook::About;
use super::serve::Peer;
use super::shelf::{Item, Shelf};
use super::sightings::Sightings;
use super::{Current, script};
use crate::boot::media::Discs;
use crate::record::Node;
use crate::store::Store;

#[derive(Clone)]
pub struct Web {
    pub store: Arc<Store>,
    pub settings: Current,
    pub loaders: Shelf,
    /// The first that has it.
    pub images: Vec<Shelf>,
    pub sightings: Sightings,
    pub discs: Discs,
}

impl Web {
    /// Scripts, systems, images and loaders.
    pub fn files(self) -> Router {
        Router::new().fallback(file).with_state(self)
    }

    /// CDs.
    pub fn media(self) -> Router {
        Router::new().fallback(medium).with_state(self)
    }

    /// The node that has this card.
    fn node(&self, mac: Mac) -> Option<Arc<Node>> {
        let tables = self.store.read();
        let port = tables.ports.named(&mac.to_string())?;
        tables.nodes.get(port.node_uuid).cloned()
    }

    fn script(&self, mac: Mac, or_hold: bool) -> Response {
        let settings = self.settings.get();
        let text = match self.node(mac) {
            Some(node) => script::of(&node, mac, &settings),
            None if or_hold => script::hold(mac, &settings),
            None => return (StatusCode::NOT_FOUND, "no node has this card\n").into_response(),
        };
        self.sightings
            .saw(mac, "fetched its boot script", About::default());
        text.into_response()
    }

    fn system(&self, mac: Mac, kernel: bool) -> Result<Item, Box<Response>> {
        let settings = self.settings.get();
        let node = self.node(mac).ok_or_else(|| Box::new(not_found()))?;
        let (kernel_file, initrd_file) = settings.system_files(&node).map_err(|problem| {
            Box::new((StatusCode::NOT_FOUND, format!("{problem}\n")).into_response())
        })?;
        let path = if kernel { kernel_file } else { initrd_file };
        Item::file(&path).map_err(|error| {
            warn!(path = %path.display(), %error, "a boot file cannot be read");
            let why = format!("could not read {}: {error}\n", path.display());
            Box::new((StatusCode::NOT_FOUND, why).into_response())
        })
    }
}

fn not_found() -> Response {
    (StatusCode::NOT_FOUND, "nothing is here\n").into_response()
}

async fn file(State(web): State<Web>, request: Request) -> Response {
    if let Some(refusal) = http::refuse_method(&request) {
        return refusal;
    }
    let path = http::decode(request.uri().path());
    let elements: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let mac_in = |name: &str| script::parse_mac(name);
    match elements.as_slice() {
        ["boot.ipxe" | "inspector.ipxe"] => script::START.into_response(),
        ["pxelinux.cfg", name] => match mac_in(name) {
            Some(mac) => web.script(mac, false),
            None => not_found(),
        },
        ["boot", name] => match name.strip_suffix(".ipxe").and_then(mac_in) {
            Some(mac) => web.script(mac, true),
            None => not_found(),
        },
        ["boot", name, part @ ("kernel" | "initrd")] => {
            let Some(mac) = mac_in(name) else {
                return not_found();
            };
            let is_kernel = *part == "kernel";
            let opening = {
                let web = web.clone();
                tokio::task::spawn_blocking(move || web.system(mac, is_kernel)).await
            };
            match opening {
                Ok(Ok(item)) => {
                    let what = if is_kernel {
                        "fetched the kernel"
                    } else {
                        "fetched the ramdisk"
                    };
                    let (sightings, size) = (web.sightings.clone(), item.size());
                    let watch: Watch = Box::new(move |end| {
                        if end == size {
                            sightings.saw(mac, what, About::default());
                        }
                    });
                    http::answer(&request, item, Some(watch))
                }
                Ok(Err(refusal)) => *refusal,
                Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
            }
        }
        ["images", rest @ ..] => {
            let name = rest.join("/");
            http::from_shelves(web.images.clone(), name, request, None).await
        }
        rest => {
            let name = rest.join("/");
            let peer = request.extensions().get::<Peer>().map(|peer| peer.0);
            let mac = peer.and_then(|peer| web.sightings.at(peer));
            let watch = mac.map(|mac| {
                let what = format!("fetched {name} by HTTP");
                let sightings = web.sightings.clone();
                let watch: Watch = Box::new(move |_| {
                    sightings.saw(mac, what.clone(), About::default());
                });
                watch
            });
            http::from_shelves(vec![web.loaders.clone()], name, request, watch).await
        }
    }
}

async fn medium(State(web): State<Web>, request: Request) -> Response {
    if let Some(refusal) = http::refuse_method(&request) {
        return refusal;
    }
    let path = http::decode(request.uri().path());
    let elements: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let ["media", node, key, "boot.iso"] = elements.as_slice() else {
        return not_found();
    };
    let (Ok(node), Ok(key)) = (node.parse::<Uuid>(), key.parse::<Uuid>()) else {
        return not_found();
    };
    let found = {
        let tables = web.store.read();
        let card = tables.ports.of(node).next().map(|port| port.address);
        tables.nodes.get(node).cloned().map(|node| (node, card))
    };
    // A wrong key is as good as no node.
    let Some((node, card, order)) = found.and_then(|(node, card)| {
        let order = node.boot_order.clone().filter(|order| order.key == key)?;
        Some((node, card, order))
    }) else {
        return not_found();
    };
    let made = {
        let (web, node) = (web.clone(), Arc::clone(&node));
        tokio::task::spawn_blocking(move || web.discs.of(&node, &order, &web.settings.get())).await
    };
    let disc = match made {
        Ok(Ok(disc)) => disc,
        Ok(Err(error)) => {
            let why = model::chain(&error);
            warn!(node = %node.uuid, error = why, "a CD cannot be made");
            return (StatusCode::INTERNAL_SERVER_ERROR, format!("{why}\n")).into_response();
        }
        Err(_) => return StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    };
    let size = disc.size();
    let watch = card.map(|mac| {
        let sightings = web.sightings.clone();
        let watch: Watch = Box::new(move |end| {
            sightings.progress(mac, format!("read the CD ({} %)", end * 100 / size.max(1)));
        });
        watch
    });
    http::answer(&request, Item::Disc(disc), watch)
}

/// Says at the start what is missing, so that nobody has to find out from a screen in another building.
pub fn look_around(loaders: &Path, settings: &super::Settings) -> Vec<String> {
    let mut missing = Vec::new();
    for (_, names) in super::dhcp::LOADERS.iter().take(2) {
        if !names.iter().any(|name| loaders.join(name).is_file()) {
            missing.push(format!(
                "boot.loaders: {} has no {}; Debian has it in the package ipxe",
                loaders.display(),
                names[0]
            ));
        }
    }
    match &settings.boot.ramdisk {
        None => info!("no ramdisk is set: only nodes with deploy_kernel and deploy_ramdisk boot"),
        Some(ramdisk) => {
            for (key, path) in [("kernel", &ramdisk.kernel), ("initrd", &ramdisk.initrd)] {
                if !path.is_file() {
                    missing.push(format!(
                        "boot.ramdisk.{key}: {} is not a file; `plinth image build ramdisk` makes one",
                        path.display()
                    ));
                }
            }
            if !ramdisk.uefi_loader.is_file() && !ramdisk.bios_loader.is_file() {
                missing.push(format!(
                    "boot.ramdisk: there is neither {} nor {}; without a loader no CD boots",
                    ramdisk.uefi_loader.display(),
                    ramdisk.bios_loader.display()
                ));
            }
        }
    }
    missing
}
