//! Images that we serve ourselves: each fetched once, whoever asks for it, and checked while it is fetched.
//!
//! A file appears under its name only when it is whole and right; the name is its sha256.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _, Shared};
use futures::{Stream, StreamExt as _};
use tokio::io::AsyncWriteExt as _;
use tracing::{info, warn};
use uuid::Uuid;

use super::checksum::{Checksum, Hashing};
use super::image::Image;
use super::probe;

pub struct Images {
    dir: PathBuf,
    /// Where agents find the directory.
    url: Option<String>,
    most: u64,
    allowed: Vec<PathBuf>,
    /// What is in these is found under the same address as it is.
    public: Vec<PathBuf>,
    http: reqwest::Client,
    /// What is being fetched; whoever wants the same waits with the first.
    flights: Mutex<HashMap<String, Flight>>,
    /// What was fetched since the start, by source and checksum.
    known: Mutex<HashMap<String, Stored>>,
}

type Flight = Shared<BoxFuture<'static, Result<Stored, Arc<Error>>>>;

/// An image that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The sha256 of its bytes, and the name of the file.
    pub sha256: String,
    pub bytes: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("fetch {image}")]
    Fetch {
        image: String,
        source: reqwest::Error,
    },
    #[error("the server of {image} answers {status}")]
    Status { image: String, status: u16 },
    #[error("read {path}")]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(
        "{path} is in none of the directories that images may come from (deploy.image_directories)"
    )]
    Elsewhere { path: PathBuf },
    #[error("{0}")]
    Wrong(String),
    #[error("{image} broke off after {got} of {said} bytes")]
    Truncated { image: String, got: u64, said: u64 },
    #[error("{image} has checksum {found}, and {wanted} was asked for")]
    Checksum {
        image: String,
        found: String,
        wanted: Checksum,
    },
    #[error(
        "{image} does not fit: images may take {most} bytes (deploy.images_max_gib), and those in use leave {left}"
    )]
    Full { image: String, most: u64, left: u64 },
    #[error("keep the image in {path}")]
    Keep {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(
        "agents cannot be told where images are: there are no boot services (boot), and deploy.images_url is not set"
    )]
    NoAddress,
}

impl Images {
    pub fn new(
        dir: PathBuf,
        url: Option<String>,
        most: u64,
        allowed: Vec<PathBuf>,
        public: Vec<PathBuf>,
        http: reqwest::Client,
    ) -> Self {
        Self {
            dir,
            url,
            most,
            allowed,
            public,
            http,
            flights: Mutex::default(),
            known: Mutex::default(),
        }
    }

    /// Where the agent finds an image.
    pub fn address(&self, stored: &Stored) -> Result<String, Error> {
        let base = self.url.as_deref().ok_or(Error::NoAddress)?;
        Ok(format!("{}/{}", base.trim_end_matches('/'), stored.sha256))
    }

    /// Where the agent finds a file of ours that anybody may fetch as it is; nothing if the image is no such file.
    ///
    /// It is not read here: the agent holds what it gets against the checksum.
    pub async fn in_place(&self, image: &Image) -> Option<Result<String, Error>> {
        let path = file_path(&image.source)?;
        let whole = match self.allowed(&path).await {
            Ok(whole) => whole,
            Err(error) => return Some(Err(error)),
        };
        let within = |dir: &PathBuf| {
            let name = whole.strip_prefix(dir.canonicalize().ok()?).ok()?;
            name.to_str().map(str::to_owned)
        };
        let name = self.public.iter().find_map(within)?;
        let base = self.url.as_deref()?.trim_end_matches('/');
        let head = match tokio::fs::File::open(&whole).await {
            Ok(file) => read(Some(file), whole.clone()).await,
            Err(source) => Some((
                Err(Error::Read {
                    path: whole.clone(),
                    source,
                }),
                None,
            )),
        };
        Some(match head {
            None => Err(Error::Wrong(format!("{} is empty", image.source))),
            Some((Err(error), _)) => Err(error),
            Some((Ok(head), _)) => match probe::wrong(image, &head) {
                Some(wrong) => Err(Error::Wrong(wrong)),
                None => Ok(format!("{base}/{name}")),
            },
        })
    }

    /// Sees to it that the image is there. `in_use` are the names of those that must stay.
    pub async fn fetch(
        self: &Arc<Self>,
        image: &Image,
        wanted: Option<&Checksum>,
        in_use: BTreeSet<String>,
    ) -> Result<Stored, Arc<Error>> {
        self.address(&Stored {
            sha256: String::new(),
            bytes: 0,
        })?;
        let key = self.key(image, wanted).await?;
        let flight = {
            let mut flights = lock(&self.flights);
            if let Some(flight) = flights.get(&key) {
                flight.clone()
            } else {
                if let Some(stored) = lock(&self.known).get(&key)
                    && self.dir.join(&stored.sha256).is_file()
                {
                    return Ok(stored.clone());
                }
                let flight = self.launch(key.clone(), image.clone(), wanted.cloned(), in_use);
                flights.insert(key, flight.clone());
                flight
            }
        };
        flight.await
    }

    /// A task of its own: it goes on for the others when the first who asked is gone.
    fn launch(
        self: &Arc<Self>,
        key: String,
        image: Image,
        wanted: Option<Checksum>,
        in_use: BTreeSet<String>,
    ) -> Flight {
        let images = Arc::clone(self);
        let task = tokio::spawn(async move {
            let result = images.get(&image, wanted.as_ref(), &in_use).await;
            if let Ok(stored) = &result {
                lock(&images.known).insert(key.clone(), stored.clone());
            }
            lock(&images.flights).remove(&key);
            result.map_err(Arc::new)
        });
        async move { task.await.expect("fetching an image does not panic") }
            .boxed()
            .shared()
    }

    /// A small text file of ours, such as a list of checksums; nothing if it is elsewhere.
    pub async fn text(&self, source: &str, most: usize) -> Option<Result<String, Error>> {
        let path = file_path(source)?;
        let read = async {
            let whole = self.allowed(&path).await?;
            let failed = |source| Error::Read {
                path: whole.clone(),
                source,
            };
            if tokio::fs::metadata(&whole).await.map_err(failed)?.len() > most as u64 {
                return Err(Error::Wrong(format!("{source} is too large")));
            }
            let bytes = tokio::fs::read(&whole).await.map_err(failed)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        Some(read.await)
    }

    /// Where it really is, if that is where files may come from.
    async fn allowed(&self, path: &Path) -> Result<PathBuf, Error> {
        let failed = |source| Error::Read {
            path: path.to_owned(),
            source,
        };
        let whole = tokio::fs::canonicalize(path).await.map_err(failed)?;
        let inside = |dir: &PathBuf| dir.canonicalize().is_ok_and(|dir| whole.starts_with(dir));
        if !self.allowed.iter().any(inside) {
            let path = path.to_owned();
            return Err(Error::Elsewhere { path });
        }
        Ok(whole)
    }

    /// What makes two requests the same. A file is another when it was changed.
    async fn key(&self, image: &Image, wanted: Option<&Checksum>) -> Result<String, Error> {
        let wanted = wanted.map(ToString::to_string).unwrap_or_default();
        let Some(path) = file_path(&image.source) else {
            return Ok(format!("{} {wanted}", image.source));
        };
        let failed = |source| Error::Read {
            path: path.clone(),
            source,
        };
        let whole = self.allowed(&path).await?;
        let about = tokio::fs::metadata(&whole).await.map_err(failed)?;
        let changed = about.modified().ok();
        Ok(format!(
            "{} {wanted} {} {changed:?}",
            whole.display(),
            about.len()
        ))
    }

    async fn get(
        &self,
        image: &Image,
        wanted: Option<&Checksum>,
        in_use: &BTreeSet<String>,
    ) -> Result<Stored, Error> {
        let keep = |source| Error::Keep {
            path: self.dir.clone(),
            source,
        };
        tokio::fs::create_dir_all(&self.dir).await.map_err(keep)?;
        // A checksum of the right kind names the file: perhaps an earlier run fetched it.
        if let Some(Checksum {
            algorithm: super::checksum::Algorithm::Sha256,
            hex,
        }) = wanted
            && let Ok(about) = tokio::fs::metadata(self.dir.join(hex)).await
        {
            return Ok(Stored {
                sha256: hex.clone(),
                bytes: about.len(),
            });
        }
        info!(image = image.source, "fetching an image");
        let name = || image.source.clone();
        let (said, stream) = self.open(image).await?;
        let left = self.make_room(said.unwrap_or(0), in_use).await;
        if said.unwrap_or(0) > left {
            return Err(Error::Full {
                image: name(),
                most: self.most,
                left,
            });
        }
        let partial = Partial(self.dir.join(format!(".{}", Uuid::new_v4())));
        let (stored, found) = self.copy(image, wanted, stream, &partial.0, left).await?;
        if let Some(said) = said
            && said != stored.bytes
        {
            return Err(Error::Truncated {
                image: name(),
                got: stored.bytes,
                said,
            });
        }
        if let Some(wanted) = wanted
            && wanted.hex != found
        {
            return Err(Error::Checksum {
                image: name(),
                found,
                wanted: wanted.clone(),
            });
        }
        let path = self.dir.join(&stored.sha256);
        tokio::fs::rename(&partial.0, &path).await.map_err(keep)?;
        info!(image = image.source, bytes = stored.bytes, "image fetched");
        Ok(stored)
    }

    async fn open(
        &self,
        image: &Image,
    ) -> Result<
        (
            Option<u64>,
            impl Stream<Item = Result<bytes::Bytes, Error>> + use<>,
        ),
        Error,
    > {
        let name = image.source.clone();
        if let Some(path) = file_path(&name) {
            let failed = |source| Error::Read {
                path: path.clone(),
                source,
            };
            let file = tokio::fs::File::open(&path).await.map_err(failed)?;
            let size = file.metadata().await.map_err(failed)?.len();
            let stream = futures::stream::unfold(Some(file), move |file| read(file, path.clone()));
            return Ok((Some(size), stream.left_stream()));
        }
        let answer = self
            .http
            .get(&name)
            .send()
            .await
            .map_err(|source| Error::Fetch {
                image: name.clone(),
                source: source.without_url(),
            })?;
        if !answer.status().is_success() {
            let status = answer.status().as_u16();
            return Err(Error::Status {
                image: name,
                status,
            });
        }
        let size = answer.content_length();
        let stream = answer.bytes_stream().map(move |chunk| {
            chunk.map_err(|source| Error::Fetch {
                image: name.clone(),
                source: source.without_url(),
            })
        });
        Ok((size, stream.right_stream()))
    }

    async fn copy(
        &self,
        image: &Image,
        wanted: Option<&Checksum>,
        stream: impl Stream<Item = Result<bytes::Bytes, Error>>,
        to: &Path,
        left: u64,
    ) -> Result<(Stored, String), Error> {
        let keep = |source| Error::Keep {
            path: to.to_owned(),
            source,
        };
        let mut file = tokio::fs::File::create_new(to).await.map_err(keep)?;
        let mut hashing = Hashing::new(wanted);
        let mut bytes = 0;
        let mut looked = false;
        futures::pin_mut!(stream);
        loop {
            let late = || Error::Wrong(format!("{} sends nothing any more", image.source));
            let Some(chunk) = tokio::time::timeout(SILENCE, stream.next())
                .await
                .map_err(|_| late())?
            else {
                break;
            };
            let chunk = chunk?;
            if !looked && let Some(wrong) = probe::wrong(image, &chunk) {
                return Err(Error::Wrong(wrong));
            }
            looked = true;
            bytes += chunk.len() as u64;
            if bytes > left {
                return Err(Error::Full {
                    image: image.source.clone(),
                    most: self.most,
                    left,
                });
            }
            hashing.update(&chunk);
            file.write_all(&chunk).await.map_err(keep)?;
        }
        if bytes == 0 {
            return Err(Error::Wrong(format!("{} is empty", image.source)));
        }
        file.flush().await.map_err(keep)?;
        file.sync_all().await.map_err(keep)?;
        let (sha256, found) = hashing.finish();
        Ok((Stored { sha256, bytes }, found))
    }

    /// Removes images nobody uses, the oldest first, until there is room; says how much there is.
    async fn make_room(&self, wanted: u64, in_use: &BTreeSet<String>) -> u64 {
        let (dir, most, in_use) = (self.dir.clone(), self.most, in_use.clone());
        let work = move || {
            let mut files = Vec::new();
            for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                if let Ok(about) = entry.metadata()
                    && about.is_file()
                {
                    files.push((about.modified().ok(), name, about.len()));
                }
            }
            files.sort();
            let mut used: u64 = files.iter().map(|(_, _, size)| size).sum();
            for (_, name, size) in files {
                if used.saturating_add(wanted) <= most {
                    break;
                }
                // What begins with a dot is being fetched.
                if in_use.contains(&name) || name.starts_with('.') {
                    continue;
                }
                match std::fs::remove_file(dir.join(&name)) {
                    Ok(()) => {
                        info!(image = name, size, "image removed to make room");
                        used -= size;
                    }
                    Err(error) => warn!(image = name, %error, "could not remove an image"),
                }
            }
            most.saturating_sub(used)
        };
        tokio::task::spawn_blocking(work).await.unwrap_or(0)
    }

    /// What an earlier run left unfinished.
    pub fn sweep(&self) {
        for entry in std::fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with('.') {
                _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

/// A server that sends nothing for so long has stopped.
const SILENCE: Duration = Duration::from_mins(1);

/// Gone when it was not finished.
struct Partial(PathBuf);

impl Drop for Partial {
    fn drop(&mut self) {
        _ = std::fs::remove_file(&self.0);
    }
}

fn file_path(source: &str) -> Option<PathBuf> {
    source.strip_prefix("file://").map(PathBuf::from)
}

async fn read(
    file: Option<tokio::fs::File>,
    path: PathBuf,
) -> Option<(Result<bytes::Bytes, Error>, Option<tokio::fs::File>)> {
    use tokio::io::AsyncReadExt as _;
    let mut file = file?;
    let mut buffer = bytes::BytesMut::with_capacity(1 << 20);
    match file.read_buf(&mut buffer).await {
        Ok(0) => None,
        Ok(_) => Some((Ok(buffer.freeze()), Some(file))),
        Err(source) => Some((Err(Error::Read { path, source }), None)),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
