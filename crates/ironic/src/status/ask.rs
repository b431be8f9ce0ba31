//! Asking a service for its nodes: ours, or the original.

use std::path::PathBuf;
use std::time::Duration;

use model::Secret;
use reqwest::{Certificate, Client};
use serde::Deserialize;

use super::{FIELDS, Line, Shown};
use crate::config::Config;

/// Where the service is, and how to get in.
pub struct Service {
    pub url: String,
    /// A PEM file of who is believed; the system's authorities otherwise.
    pub authorities: Option<PathBuf>,
    pub login: Option<Login>,
}

pub struct Login {
    pub username: String,
    pub password: Secret<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not read the certificates in {path}")]
    Authorities {
        path: PathBuf,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("could not set up the HTTP client")]
    Client(#[source] reqwest::Error),
    #[error("could not ask {url}; does the service run, and there?")]
    Ask { url: String, source: reqwest::Error },
    #[error("{url} answers {status}: {text}")]
    Refused {
        url: String,
        status: u16,
        text: String,
    },
    #[error("{url} did not list its nodes as Ironic does")]
    Answer { url: String, source: reqwest::Error },
}

impl Service {
    /// The service that this configuration makes, asked from the same machine.
    pub fn of(config: &Config) -> Self {
        let mut address = config.listen;
        if address.ip().is_unspecified() {
            address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
        }
        let scheme = if config.tls.is_some() {
            "https"
        } else {
            "http"
        };
        Self {
            url: format!("{scheme}://{address}"),
            authorities: config.tls.as_ref().map(|tls| tls.certificate.clone()),
            login: None,
        }
    }
}

const CONNECT: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(30);
/// A service that never comes to the end of its list is not believed.
const MOST_PAGES: usize = 1000;

#[derive(Deserialize)]
struct Page {
    nodes: Vec<Shown>,
    next: Option<String>,
}

/// Every node, in the order of the API.
pub async fn ask(service: &Service) -> Result<Vec<Line>, Error> {
    let client = client(service)?;
    let base = service.url.trim_end_matches('/');
    let mut url = format!("{base}/v1/nodes?fields={FIELDS}");
    let mut lines = Vec::new();
    for _ in 0..MOST_PAGES {
        let page = page(&client, service, &url).await?;
        lines.extend(page.nodes.into_iter().map(Line::from));
        match page.next {
            Some(next) => url = next,
            None => break,
        }
    }
    Ok(lines)
}

fn client(service: &Service) -> Result<Client, Error> {
    let mut builder = Client::builder()
        .connect_timeout(CONNECT)
        .timeout(ANSWER)
        .no_proxy();
    if let Some(path) = &service.authorities {
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| Error::Authorities {
            path: path.clone(),
            source,
        };
        let pem = std::fs::read(path).map_err(|error| failed(error.into()))?;
        let trusted = Certificate::from_pem_bundle(&pem).map_err(|error| failed(error.into()))?;
        builder = builder.tls_certs_only(trusted);
    }
    builder.build().map_err(Error::Client)
}

async fn page(client: &Client, service: &Service, url: &str) -> Result<Page, Error> {
    let shown = || url.split('?').next().unwrap_or_default().to_owned();
    let mut request = client
        .get(url)
        .header("X-OpenStack-Ironic-API-Version", "latest");
    if let Some(login) = &service.login {
        request = request.basic_auth(&login.username, Some(login.password.expose()));
    }
    let asked = |source: reqwest::Error| Error::Ask {
        url: shown(),
        source: source.without_url(),
    };
    let answer = request.send().await.map_err(asked)?;
    let status = answer.status();
    if !status.is_success() {
        let text = answer.text().await.unwrap_or_default();
        return Err(Error::Refused {
            url: shown(),
            status: status.as_u16(),
            text: text.chars().take(300).collect(),
        });
    }
    answer.json().await.map_err(|source| Error::Answer {
        url: shown(),
        source: source.without_url(),
    })
}
