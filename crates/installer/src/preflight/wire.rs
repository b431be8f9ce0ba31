//! What is heard on a bridge, with an ear plugged into it as the bootstrap VM will be: a tap.
//!
//! A frame sent from the bridge itself would not reach programs of this machine; one from a port does. The tap is gone
//! when its descriptor is closed, however this ends.

mod ear;

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use linux::netlink::{self, Netlink};
use linux::tap;
use model::Mac;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, poll};
use plan::preflight::{Fact, Segment, Wire};

use ear::Ear;

/// What is wanted of a bridge.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Listen {
    pub claims: bool,
    pub vrrp: bool,
    pub dhcp: bool,
}

/// Three of a keepalived's advertisements; a DHCP server that pings first answers within.
const LISTENING: Duration = Duration::from_secs(4);
/// Frames get lost: asked so often, within the first half.
const QUESTIONS: u32 = 4;
/// A bridge with spanning tree holds a new port back; with the standard's delays this long.
const FORWARDING: Duration = Duration::from_secs(35);

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Tap(#[from] tap::Error),
    #[error("plug a tap into {bridge}")]
    Plug {
        bridge: String,
        source: netlink::Error,
    },
    #[error("speak on the tap")]
    Frames(#[from] io::Error),
    #[error("{bridge} forwards nothing from a new port within {} s (spanning tree)", FORWARDING.as_secs())]
    Blocked { bridge: String },
}

pub async fn hear(segment: &Segment, listen: Listen) -> Wire {
    match try_hear(segment).await {
        Ok(ear) => Wire {
            claims: only(listen.claims, ear.claims),
            vrrp: only(listen.vrrp, ear.vrrp),
            offers: only(listen.dhcp, ear.offers),
        },
        Err(error) => {
            let why = model::chain(&error);
            Wire {
                claims: Fact::Unknown(why.clone()),
                vrrp: Fact::Unknown(why.clone()),
                offers: Fact::Unknown(why),
            }
        }
    }
}

fn only<T>(wanted: bool, value: T) -> Fact<T> {
    if wanted {
        Fact::Known(value)
    } else {
        Fact::Unasked
    }
}

async fn try_hear(segment: &Segment) -> Result<Ear, Error> {
    let name = format!("plpre{:08x}", rand::random::<u32>());
    let tap = tap::open(&name, false)?;
    plug(&name, &segment.bridge).await?;
    forwarding(&name, &segment.bridge).await?;
    // Locally administered, and nobody's.
    let dice: [u8; 4] = rand::random();
    let mac = Mac([0x52, 0x5a, dice[0], dice[1], dice[2], dice[3]]);
    let ear = Ear::new(mac, &segment.addresses);
    let heard = tokio::task::spawn_blocking(move || converse(&tap, ear));
    Ok(heard.await.map_err(io::Error::other)??)
}

/// Asks and listens until the time is over; blocks for that long and no longer.
fn converse(tap: &OwnedFd, mut ear: Ear) -> io::Result<Ear> {
    let flags = OFlag::from_bits_retain(fcntl(tap, FcntlArg::F_GETFL)?);
    fcntl(tap, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    let begin = Instant::now();
    let end = begin + LISTENING;
    let pause = LISTENING / 2 / QUESTIONS;
    let mut asked = 0;
    let mut buffer = vec![0; 65_536];
    loop {
        let now = Instant::now();
        let next = if asked < QUESTIONS {
            begin + pause * asked
        } else {
            end
        };
        if now >= end {
            return Ok(ear);
        }
        if now >= next {
            asked += 1;
            for frame in ear.questions() {
                nix::unistd::write(tap, &frame)?;
            }
            continue;
        }
        let left = (next - now).as_millis().min(1000) as u16 + 1;
        let mut ready = [PollFd::new(tap.as_fd(), PollFlags::POLLIN)];
        if poll(&mut ready, left)? > 0 {
            match nix::unistd::read(tap, &mut buffer) {
                Ok(length) => ear.hear(&buffer[..length]),
                Err(Errno::EAGAIN | Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

async fn plug(name: &str, bridge: &str) -> Result<(), Error> {
    let wrong = |source| Error::Plug {
        bridge: bridge.to_owned(),
        source,
    };
    let netlink = Netlink::connect().map_err(wrong)?;
    netlink
        .set_master(name, Some(bridge))
        .await
        .map_err(wrong)?;
    netlink.set_up(name).await.map_err(wrong)
}

/// Waits until the bridge lets the port speak: `state` 3.
async fn forwarding(name: &str, bridge: &str) -> Result<(), Error> {
    let state = format!("/sys/class/net/{name}/brport/state");
    let deadline = Instant::now() + FORWARDING;
    loop {
        match tokio::fs::read_to_string(&state).await {
            Ok(text) if text.trim() == "3" => return Ok(()),
            // Another namespace's view of sysfs shows nothing: then listening tells.
            Err(_) => return Ok(()),
            Ok(_) if Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            Ok(_) => {
                return Err(Error::Blocked {
                    bridge: bridge.to_owned(),
                });
            }
        }
    }
}
