//! The certificate of the virtual media's port: the site's, or one of our own making that is kept.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::config::boot::{Boot, MediaBy};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not make it")]
    Make(#[from] rcgen::Error),
    #[error("could not write {path}")]
    Write {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{path} is not a PEM file of what it should hold")]
    Pem {
        path: PathBuf,
        source: rustls::pki_types::pem::Error,
    },
    #[error("certificate and key do not make a TLS server")]
    Tls(#[source] rustls::Error),
}

/// Nothing for plain HTTP.
pub fn server(boot: &Boot, state: &Path) -> Result<Option<Arc<ServerConfig>>, Error> {
    let (certificate, key) = match &boot.media.by {
        MediaBy::Http => return Ok(None),
        MediaBy::Tls(tls) => (tls.certificate.clone(), tls.key.clone()),
        MediaBy::OwnTls => {
            let path = own(boot, state)?;
            (path.clone(), path)
        }
    };
    let bad = |path: &PathBuf| {
        let path = path.clone();
        move |source| Error::Pem { path, source }
    };
    let chain: Vec<_> = CertificateDer::pem_file_iter(&certificate)
        .and_then(Iterator::collect)
        .map_err(bad(&certificate))?;
    let secret = PrivateKeyDer::from_pem_file(&key).map_err(bad(&key))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            builder
                .with_no_client_auth()
                .with_single_cert(chain, secret)
        })
        .map_err(Error::Tls)?;
    Ok(Some(Arc::new(config)))
}

/// One file for each address, so that BMCs that were told to trust it go on to.
fn own(boot: &Boot, state: &Path) -> Result<PathBuf, Error> {
    let host = boot.media.url.as_deref().and_then(host);
    let name = host.clone().unwrap_or_else(|| boot.address.to_string());
    let path = state.join(format!("media-{}.pem", name.replace([':', '/'], "-")));
    if path.is_file() {
        return Ok(path);
    }
    let names = [boot.address.to_string()].into_iter().chain(host);
    let made = rcgen::generate_simple_self_signed(names.collect::<Vec<_>>())?;
    let text = format!("{}{}", made.cert.pem(), made.signing_key.serialize_pem());
    let write = |path: &Path| {
        std::fs::create_dir_all(state)?;
        let beside = path.with_extension("new");
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&beside, path)
    };
    write(&path).map_err(|source| Error::Write {
        path: path.clone(),
        source,
    })?;
    Ok(path)
}

/// The host of a URL, without brackets and port.
fn host(url: &str) -> Option<String> {
    let rest = url.split_once("://")?.1.split('/').next()?;
    if let Some(inside) = rest.strip_prefix('[') {
        return inside.split(']').next().map(str::to_owned);
    }
    rest.split(':')
        .next()
        .filter(|host| !host.is_empty())
        .map(str::to_owned)
}
