//! An image on its way over HTTP, as a blocking reader that survives broken connections.
//!
//! ```text
//!   task: GET ─▶ chunks ─▶ (broken: GET from the byte after the last, same file) ─▶ bounded channel ─▶ Read
//! ```

use std::io::{self, Read};
use std::time::Duration;

use bytes::{Buf, Bytes};
use model::Secret;
use reqwest::header::{
    AUTHORIZATION, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap, IF_RANGE, LAST_MODIFIED, RANGE,
};
use reqwest::{Client, Response, StatusCode};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::http::shown;
use crate::parameters;

/// Something to download.
#[derive(Debug, Clone)]
pub struct Download {
    pub client: Client,
    pub url: String,
    /// A whole `Authorization` header.
    pub authorization: Option<Secret<String>>,
    pub patience: parameters::Download,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{url}: the server answers {status}")]
    Status { url: String, status: StatusCode },
    #[error("{url}: the server answers with a web page instead of an image")]
    WebPage { url: String },
    #[error("{url}: the file on the server changed while it was being fetched")]
    Changed { url: String },
    #[error("{url}: {tries} tries failed, the last one because {why}")]
    GaveUp {
        url: String,
        tries: u32,
        why: String,
    },
    #[error("{url}: larger than the {limit} bytes allowed here")]
    TooLarge { url: String, limit: usize },
}

/// A download that has begun.
#[derive(Debug)]
pub struct Stream {
    /// Bytes to come, if the server said.
    pub length: Option<u64>,
    chunks: mpsc::Receiver<Result<Bytes, Error>>,
    rest: Bytes,
}

/// Chunks under way between network and disk; each is a read's worth.
const QUEUE: usize = 32;

impl Download {
    /// Begins; to be called where blocking is allowed, within reach of the runtime.
    pub fn open(&self, runtime: &Handle) -> Result<Stream, Error> {
        let mut source = Source::new(self.clone());
        let first = runtime.block_on(source.connect())?;
        let length = source.length;
        let (sender, chunks) = mpsc::channel(QUEUE);
        runtime.spawn(source.run(first, sender));
        Ok(Stream {
            length,
            chunks,
            rest: Bytes::new(),
        })
    }

    /// All of something small.
    pub async fn whole(&self, limit: usize) -> Result<Vec<u8>, Error> {
        let mut source = Source::new(self.clone());
        let mut response = source.connect().await?;
        let mut all = vec![];
        loop {
            let more = source.chunk(&mut response).await;
            match more {
                Ok(Some(chunk)) if all.len() + chunk.len() > limit => {
                    let url = shown(&self.url);
                    return Err(Error::TooLarge { url, limit });
                }
                Ok(Some(chunk)) => all.extend_from_slice(&chunk),
                Ok(None) => return Ok(all),
                Err(why) => response = source.again(&why).await?,
            }
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            match self.chunks.blocking_recv() {
                Some(Ok(chunk)) => self.rest = chunk,
                Some(Err(error)) => return Err(io::Error::other(error)),
                None => return Ok(0),
            }
        }
        let len = buffer.len().min(self.rest.len());
        self.rest.copy_to_slice(&mut buffer[..len]);
        Ok(len)
    }
}

struct Source {
    download: Download,
    got: u64,
    length: Option<u64>,
    /// What tells one file from another under the same name.
    version: Option<String>,
    tries: u32,
    began: bool,
    /// Bytes of this response that came before.
    skip: u64,
}

impl Source {
    fn new(download: Download) -> Self {
        Self {
            download,
            got: 0,
            length: None,
            version: None,
            tries: 0,
            began: false,
            skip: 0,
        }
    }

    async fn run(mut self, mut response: Response, sender: mpsc::Sender<Result<Bytes, Error>>) {
        loop {
            let chunk = match self.chunk(&mut response).await {
                Ok(Some(chunk)) => Ok(chunk),
                Ok(None) => return,
                Err(why) => match self.again(&why).await {
                    Ok(next) => {
                        response = next;
                        continue;
                    }
                    Err(error) => Err(error),
                },
            };
            let last = chunk.is_err();
            // Nobody reads any more: the write failed.
            if sender.send(chunk).await.is_err() || last {
                return;
            }
        }
    }

    /// The next bytes, or the end; a connection that ends early is an error.
    async fn chunk(&mut self, response: &mut Response) -> Result<Option<Bytes>, String> {
        loop {
            let wait = tokio::time::timeout(self.download.patience.timeout, response.chunk());
            let chunk = match wait.await {
                Ok(Ok(chunk)) => chunk,
                Ok(Err(error)) => return Err(model::chain(&error.without_url())),
                Err(_) => {
                    let seconds = self.download.patience.timeout.as_secs();
                    return Err(format!("nothing arrived for {seconds} s"));
                }
            };
            let Some(mut chunk) = chunk else {
                return match self.length {
                    Some(length) if self.got < length || self.skip > 0 => {
                        Err(format!("it ended after {} of {length} bytes", self.got))
                    }
                    Some(_) | None => Ok(None),
                };
            };
            let old = self.skip.min(chunk.len() as u64);
            self.skip -= old;
            chunk.advance(old as usize);
            if !chunk.is_empty() {
                self.got += chunk.len() as u64;
                self.tries = 0;
                return Ok(Some(chunk));
            }
        }
    }

    async fn again(&mut self, why: &str) -> Result<Response, Error> {
        tracing::warn!(url = %shown(&self.download.url), at = self.got, why, "download broken");
        self.give_up_after(why)?;
        tokio::time::sleep(self.pause()).await;
        self.connect().await
    }

    /// The first retry comes soon: mostly one connection was lost, not the server.
    fn pause(&self) -> Duration {
        if self.tries <= 1 {
            self.download.patience.interval.min(Duration::from_secs(1))
        } else {
            self.download.patience.interval
        }
    }

    fn give_up_after(&mut self, why: &str) -> Result<(), Error> {
        self.tries += 1;
        if self.tries > self.download.patience.retries {
            return Err(Error::GaveUp {
                url: shown(&self.download.url),
                tries: self.tries,
                why: why.to_owned(),
            });
        }
        Ok(())
    }

    /// A response that goes on where we are.
    async fn connect(&mut self) -> Result<Response, Error> {
        loop {
            match self.request().await {
                Ok(Some(response)) => return Ok(response),
                Ok(None) => {}
                Err(error) => return Err(error),
            }
            tokio::time::sleep(self.pause()).await;
        }
    }

    /// One try; nothing if it may be tried again.
    async fn request(&mut self) -> Result<Option<Response>, Error> {
        let url = shown(&self.download.url);
        let mut request = self.download.client.get(&self.download.url);
        if let Some(authorization) = &self.download.authorization {
            request = request.header(AUTHORIZATION, authorization.expose());
        }
        if self.began && self.got > 0 {
            request = request.header(RANGE, format!("bytes={}-", self.got));
            if let Some(version) = &self.version {
                request = request.header(IF_RANGE, version);
            }
        }
        let wait = tokio::time::timeout(self.download.patience.timeout, request.send());
        let response = match wait.await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                let why = model::chain(&error.without_url());
                self.give_up_after(&why)?;
                return Ok(None);
            }
            Err(_) => {
                self.give_up_after("the server does not answer")?;
                return Ok(None);
            }
        };
        let status = response.status();
        if status.is_server_error()
            || status == StatusCode::TOO_MANY_REQUESTS
            || status == StatusCode::REQUEST_TIMEOUT
        {
            self.give_up_after(&format!("the server answers {status}"))?;
            return Ok(None);
        }
        if !status.is_success() {
            return Err(Error::Status { url, status });
        }
        self.check(response, status, url).map(Some)
    }

    fn check(
        &mut self,
        response: Response,
        status: StatusCode,
        url: String,
    ) -> Result<Response, Error> {
        let headers = response.headers();
        if text(headers, CONTENT_TYPE).is_some_and(|kind| kind.starts_with("text/html")) {
            return Err(Error::WebPage { url });
        }
        let version = text(headers, ETAG)
            .filter(|tag| !tag.starts_with("W/"))
            .or_else(|| text(headers, LAST_MODIFIED));
        let whole = if status == StatusCode::PARTIAL_CONTENT {
            text(headers, CONTENT_RANGE).and_then(|range| range_total(&range, self.got))
        } else {
            response.content_length()
        };
        if !self.began {
            self.began = true;
            self.length = whole;
            self.version = version;
            return Ok(response);
        }
        if whole != self.length || version != self.version {
            return Err(Error::Changed { url });
        }
        // A server without ranges begins anew; what we have is thrown away as it comes.
        self.skip = if status == StatusCode::PARTIAL_CONTENT {
            0
        } else {
            self.got
        };
        Ok(response)
    }
}

fn text(headers: &HeaderMap, name: reqwest::header::HeaderName) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}

/// The size of the whole in `bytes 100-999/1000`, if the range begins where it was asked to.
fn range_total(range: &str, from: u64) -> Option<u64> {
    let (first, rest) = range.strip_prefix("bytes ")?.split_once('-')?;
    let (_, total) = rest.split_once('/')?;
    (first.trim().parse() == Ok(from)).then(|| total.trim().parse().ok())?
}

#[cfg(test)]
#[path = "fetch_tests.rs"]
mod tests;
