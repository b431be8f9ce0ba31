//! Fetches the image for the virtual drive: a whole copy, on disk, before the drive holds it.
//!
//! A real BMC streams blocks from the image server while the guest reads. A copy makes the guest independent of
//! that server, and an image that cannot be read is known before anything boots from it.

mod address;
mod client;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use model::Secret;
use reqwest::{Client, StatusCode};
use rustls::RootCertStore;
use tokio::io::AsyncWriteExt as _;

pub use address::{Address, AddressError};

/// How much a BMC is ready to fetch, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub size: u64,
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            size: 16 << 30,
            time: Duration::from_mins(30),
        }
    }
}

/// One image, as the client described it.
#[derive(Debug)]
pub struct Wanted<'a> {
    pub address: &'a Address,
    pub user: Option<&'a str>,
    pub password: Option<&'a Secret<String>>,
    pub verify_certificate: bool,
    /// The fault that changes bytes on the way.
    pub corrupt: bool,
}

/// Why an image is not there.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("connect to {url}")]
    Connect { url: String, source: reqwest::Error },
    #[error("{url} answers {status}")]
    Status { url: String, status: StatusCode },
    #[error("{url} is larger than the {limit} bytes this BMC takes")]
    TooLarge { url: String, limit: u64 },
    #[error("{url} has {needed} bytes, and {free} are free in {}", dir.display())]
    NoRoom {
        url: String,
        needed: u64,
        free: u64,
        dir: PathBuf,
    },
    #[error("{url} broke off after {at} bytes")]
    BrokeOff {
        url: String,
        at: u64,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("{url} took longer than {} s", limit.as_secs())]
    TooSlow { url: String, limit: Duration },
    #[error("write {}", path.display())]
    Write {
        path: PathBuf,
        source: std::io::Error,
    },
}

/// What BMCs fetch with. One for all of a rack: connections and trust take memory.
#[derive(Debug, Clone)]
pub struct Clients {
    /// Believes these authorities.
    strict: Client,
    /// Believes anyone.
    lax: Client,
}

impl Clients {
    pub fn new(trusted: RootCertStore) -> Self {
        Self {
            strict: client::strict(trusted),
            lax: client::lax(),
        }
    }
}

/// Fetches into one directory.
#[derive(Debug)]
pub struct Fetcher {
    dir: PathBuf,
    limits: Limits,
    clients: Clients,
    next: AtomicU64,
}

impl Fetcher {
    pub fn new(dir: PathBuf, limits: Limits, clients: Clients) -> Self {
        Self {
            dir,
            limits,
            clients,
            next: AtomicU64::new(1),
        }
    }

    /// The client for addresses that the BMC was told, with the usual disregard for their certificates.
    pub(super) fn client(&self) -> &Client {
        &self.clients.lax
    }

    /// A whole copy in a new file, or nothing.
    pub async fn fetch(&self, wanted: &Wanted<'_>) -> Result<PathBuf, FetchError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut file = Unfinished(Some(self.dir.join(format!("image-{number}"))));
        let path = file.path().to_path_buf();
        let url = || wanted.address.to_string();
        match tokio::time::timeout(self.limits.time, self.copy(wanted, &path)).await {
            Ok(done) => done?,
            Err(_) => {
                return Err(FetchError::TooSlow {
                    url: url(),
                    limit: self.limits.time,
                });
            }
        }
        file.0 = None;
        Ok(path)
    }

    /// Reads an image to its end and keeps nothing: enough for a firmware update.
    pub async fn probe(&self, address: &Address) -> Result<(), FetchError> {
        let wanted = Wanted {
            address,
            user: None,
            password: None,
            verify_certificate: false,
            corrupt: false,
        };
        let reading = async {
            let mut source = self.open(&wanted).await?;
            while source.next(self.limits.size).await?.is_some() {}
            Ok(())
        };
        let too_slow = |_| FetchError::TooSlow {
            url: address.to_string(),
            limit: self.limits.time,
        };
        tokio::time::timeout(self.limits.time, reading)
            .await
            .map_err(too_slow)?
    }

    /// Removes a copy. One that is gone already is no trouble.
    pub async fn discard(&self, path: &Path) {
        if path.starts_with(&self.dir) {
            _ = tokio::fs::remove_file(path).await;
        }
    }

    async fn copy(&self, wanted: &Wanted<'_>, path: &Path) -> Result<(), FetchError> {
        let mut source = self.open(wanted).await?;
        if let Some(size) = source.response.content_length() {
            self.check_room(&source.url, size)?;
        }
        let failed = |error| FetchError::Write {
            path: path.to_path_buf(),
            source: error,
        };
        let mut file = tokio::fs::File::create_new(path).await.map_err(failed)?;
        loop {
            let at = source.at;
            let Some(chunk) = source.next(self.limits.size).await? else {
                break;
            };
            if wanted.corrupt {
                let mut chunk = chunk.to_vec();
                corrupt(&mut chunk, at);
                file.write_all(&chunk).await.map_err(failed)?;
            } else {
                file.write_all(&chunk).await.map_err(failed)?;
            }
        }
        file.flush().await.map_err(failed)
    }

    async fn open(&self, wanted: &Wanted<'_>) -> Result<Source, FetchError> {
        let client = if wanted.verify_certificate {
            &self.clients.strict
        } else {
            &self.clients.lax
        };
        let mut request = client.get(wanted.address.url.clone());
        request = match wanted.user {
            Some(user) => request.basic_auth(user, wanted.password.map(Secret::expose)),
            None => wanted.address.authorize(request),
        };
        let url = wanted.address.to_string();
        let response = match tokio::time::timeout(SILENCE, request.send()).await {
            Ok(answer) => answer.map_err(|e| FetchError::Connect {
                url: url.clone(),
                source: e.without_url(),
            })?,
            Err(_) => {
                return Err(FetchError::TooSlow {
                    url,
                    limit: SILENCE,
                });
            }
        };
        if !response.status().is_success() {
            return Err(FetchError::Status {
                url,
                status: response.status(),
            });
        }
        Ok(Source {
            url,
            response,
            at: 0,
        })
    }

    fn check_room(&self, url: &str, size: u64) -> Result<(), FetchError> {
        if size > self.limits.size {
            return Err(FetchError::TooLarge {
                url: url.into(),
                limit: self.limits.size,
            });
        }
        let failed = |e: nix::Error| FetchError::Write {
            path: self.dir.clone(),
            source: e.into(),
        };
        let room = nix::sys::statvfs::statvfs(&self.dir).map_err(failed)?;
        let free = room.blocks_available() * room.fragment_size();
        if size.saturating_add(SPARE) > free {
            return Err(FetchError::NoRoom {
                url: url.into(),
                needed: size,
                free,
                dir: self.dir.clone(),
            });
        }
        Ok(())
    }
}

/// An image as it comes in.
struct Source {
    url: String,
    response: reqwest::Response,
    /// How much of it has come.
    at: u64,
}

impl Source {
    async fn next(&mut self, limit: u64) -> Result<Option<Bytes>, FetchError> {
        let broke_off = |at, source| FetchError::BrokeOff {
            url: self.url.clone(),
            at,
            source,
        };
        let next = tokio::time::timeout(SILENCE, self.response.chunk()).await;
        let next = next
            .map_err(|e| broke_off(self.at, e.into()))?
            .map_err(|e| broke_off(self.at, e.without_url().into()))?;
        self.at += next.as_ref().map_or(0, |chunk| chunk.len() as u64);
        if self.at > limit {
            return Err(FetchError::TooLarge {
                url: self.url.clone(),
                limit,
            });
        }
        Ok(next)
    }
}

/// How long an image server may say nothing.
const SILENCE: Duration = Duration::from_secs(30);

/// Left free on the disk, for everyone else's sake.
const SPARE: u64 = 64 << 20;

/// A file that is removed unless its making comes to an end, be it by an error or by nobody waiting any more.
struct Unfinished(Option<PathBuf>);

impl Unfinished {
    fn path(&self) -> &Path {
        self.0.as_deref().expect("it is taken only when finished")
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            _ = std::fs::remove_file(path);
        }
    }
}

/// Changes the first byte of every 64 KiB, so that each run damages the same places and no file escapes.
fn corrupt(chunk: &mut [u8], at: u64) {
    const EVERY: u64 = 64 << 10;
    let first = at.next_multiple_of(EVERY) - at;
    for byte in chunk
        .iter_mut()
        .skip(first as usize)
        .step_by(EVERY as usize)
    {
        *byte ^= 0xff;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn damage_does_not_depend_on_how_the_bytes_arrive(
            len in 1usize..300_000,
            cut in 1usize..90_000,
        ) {
            let mut whole = vec![0u8; len];
            corrupt(&mut whole, 0);
            prop_assert_eq!(whole[0], 0xff);
            let mut pieces = vec![0u8; len];
            let mut at = 0;
            for piece in pieces.chunks_mut(cut) {
                corrupt(piece, at);
                at += piece.len() as u64;
            }
            prop_assert_eq!(whole, pieces);
        }
    }
}
