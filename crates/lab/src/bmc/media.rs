//! Fetches the image for the virtual drive: a whole copy, on disk, before the drive holds it.
//!
//! A real BMC streams blocks from the image server while the guest reads. A copy makes the guest independent of
//! that server, and an image that cannot be read is known before anything boots from it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use model::Secret;
use reqwest::{Client, StatusCode, Url};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::io::AsyncWriteExt as _;

/// How much a BMC is ready to fetch, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub size: u64,
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { size: 16 << 30, time: Duration::from_mins(30) }
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

/// Where an image is. Prints without the password that it may hold.
#[derive(Debug, Clone)]
pub struct Address {
    /// Without user and password.
    url: Url,
    login: Option<(String, Secret<String>)>,
}

#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    #[error("not an address")]
    Parse(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("scheme {0:?} is not supported, http and https are")]
    Scheme(String),
}

impl Address {
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let mut url = Url::parse(text).map_err(|e| AddressError::Parse(Box::new(e)))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(AddressError::Scheme(url.scheme().to_string()));
        }
        let login = (!url.username().is_empty())
            .then(|| (url.username().to_string(), Secret::new(url.password().unwrap_or_default().to_string())));
        // Both succeed for http and https, which always have a host.
        _ = url.set_username("");
        _ = url.set_password(None);
        Ok(Self { url, login })
    }

    pub fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// The last part of the path.
    pub fn file_name(&self) -> &str {
        self.url.path().rsplit('/').next().unwrap_or_default()
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.url.as_str())
    }
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
    NoRoom { url: String, needed: u64, free: u64, dir: PathBuf },
    #[error("{url} broke off after {at} bytes")]
    BrokeOff { url: String, at: u64, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("{url} took longer than {} s", limit.as_secs())]
    TooSlow { url: String, limit: Duration },
    #[error("write {}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
}

/// An error with its causes in one line.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// Fetches into one directory.
#[derive(Debug)]
pub struct Fetcher {
    dir: PathBuf,
    limits: Limits,
    strict: Client,
    lax: Client,
    next: AtomicU64,
}

impl Fetcher {
    pub fn new(dir: PathBuf, limits: Limits, trusted: RootCertStore) -> Self {
        let (strict, lax) = (client(strict_tls(trusted)), client(lax_tls()));
        Self { dir, limits, strict, lax, next: AtomicU64::new(1) }
    }

    /// The client for addresses that the BMC was told, with the usual disregard for their certificates.
    pub(super) fn client(&self) -> &Client {
        &self.lax
    }

    /// A whole copy in a new file, or nothing.
    pub async fn fetch(&self, wanted: &Wanted<'_>) -> Result<PathBuf, FetchError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut file = Unfinished(Some(self.dir.join(format!("image-{number}"))));
        let path = file.path().to_path_buf();
        let url = || wanted.address.to_string();
        match tokio::time::timeout(self.limits.time, self.copy(wanted, &path)).await {
            Ok(done) => done?,
            Err(_) => return Err(FetchError::TooSlow { url: url(), limit: self.limits.time }),
        }
        file.0 = None;
        Ok(path)
    }

    /// Reads an image to its end and keeps nothing: enough for a firmware update.
    pub async fn probe(&self, address: &Address) -> Result<(), FetchError> {
        let wanted = Wanted { address, user: None, password: None, verify_certificate: false, corrupt: false };
        let path = self.fetch(&wanted).await?;
        self.discard(&path).await;
        Ok(())
    }

    /// Removes a copy. One that is gone already is no trouble.
    pub async fn discard(&self, path: &Path) {
        if path.starts_with(&self.dir) {
            _ = tokio::fs::remove_file(path).await;
        }
    }

    async fn copy(&self, wanted: &Wanted<'_>, path: &Path) -> Result<(), FetchError> {
        let mut response = self.open(wanted).await?;
        let url = wanted.address.to_string();
        if let Some(size) = response.content_length() {
            self.check_room(&url, size)?;
        }
        let failed = |source| FetchError::Write { path: path.to_path_buf(), source };
        let mut file = tokio::fs::File::create_new(path).await.map_err(failed)?;
        let mut at = 0u64;
        loop {
            let next = tokio::time::timeout(SILENCE, response.chunk()).await;
            let broke_off = |source| FetchError::BrokeOff { url: url.clone(), at, source };
            let Some(chunk) = next.map_err(|e| broke_off(e.into()))?.map_err(|e| broke_off(e.into()))? else { break };
            if at + chunk.len() as u64 > self.limits.size {
                return Err(FetchError::TooLarge { url, limit: self.limits.size });
            }
            if wanted.corrupt {
                let mut chunk = chunk.to_vec();
                corrupt(&mut chunk, at);
                file.write_all(&chunk).await.map_err(failed)?;
            } else {
                file.write_all(&chunk).await.map_err(failed)?;
            }
            at += chunk.len() as u64;
        }
        file.flush().await.map_err(failed)
    }

    async fn open(&self, wanted: &Wanted<'_>) -> Result<reqwest::Response, FetchError> {
        let client = if wanted.verify_certificate { &self.strict } else { &self.lax };
        let mut request = client.get(wanted.address.url.clone());
        if let Some(user) = wanted.user {
            request = request.basic_auth(user, wanted.password.map(Secret::expose));
        } else if let Some((user, password)) = &wanted.address.login {
            request = request.basic_auth(user, Some(password.expose()));
        }
        let url = wanted.address.to_string();
        let response = match tokio::time::timeout(SILENCE, request.send()).await {
            Ok(answer) => answer.map_err(|e| FetchError::Connect { url: url.clone(), source: e.without_url() })?,
            Err(_) => return Err(FetchError::TooSlow { url, limit: SILENCE }),
        };
        if !response.status().is_success() {
            return Err(FetchError::Status { url, status: response.status() });
        }
        Ok(response)
    }

    fn check_room(&self, url: &str, size: u64) -> Result<(), FetchError> {
        if size > self.limits.size {
            return Err(FetchError::TooLarge { url: url.into(), limit: self.limits.size });
        }
        let failed = |e: nix::Error| FetchError::Write { path: self.dir.clone(), source: e.into() };
        let room = nix::sys::statvfs::statvfs(&self.dir).map_err(failed)?;
        let free = room.blocks_available() * room.fragment_size();
        if size.saturating_add(SPARE) > free {
            return Err(FetchError::NoRoom { url: url.into(), needed: size, free, dir: self.dir.clone() });
        }
        Ok(())
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
    for byte in chunk.iter_mut().skip(first as usize).step_by(EVERY as usize) {
        *byte ^= 0xff;
    }
}

fn client(tls: ClientConfig) -> Client {
    Client::builder()
        .tls_backend_preconfigured(tls)
        .connect_timeout(Duration::from_secs(10))
        .redirect(reqwest::redirect::Policy::limited(5))
        .no_proxy()
        .build()
        .expect("a client with a given TLS configuration has nothing left to fail on")
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn strict_tls(trusted: RootCertStore) -> ClientConfig {
    tls_builder().with_root_certificates(trusted).with_no_client_auth()
}

/// As BMCs do by default: any certificate will do.
fn lax_tls() -> ClientConfig {
    let verifier = Anyone(provider().signature_verification_algorithms);
    tls_builder().dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth()
}

fn tls_builder() -> rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier> {
    ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("aws-lc-rs speaks the default versions")
}

#[derive(Debug)]
struct Anyone(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_address_prints_without_its_password() {
        let address = Address::parse("http://me:hush@h:81/a/b.iso?x=1").unwrap();
        assert_eq!(address.to_string(), "http://h:81/a/b.iso?x=1");
        assert_eq!(address.file_name(), "b.iso");
        assert!(!format!("{address:?}").contains("hush"));
        assert_eq!(address.login.unwrap().0, "me");
    }

    #[test]
    fn other_schemes_and_nonsense_are_refused() {
        for text in ["nfs://h/a.iso", "file:///etc/passwd", "cifs://h/x"] {
            assert!(matches!(Address::parse(text), Err(AddressError::Scheme(_))), "{text}");
        }
        for text in ["", "a.iso", "http://", "http://[::1"] {
            assert!(matches!(Address::parse(text), Err(AddressError::Parse(_))), "{text}");
        }
    }

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
