//! Ironic as a process of its own: started with the address, ended with it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use linux::process::{Id, Signal};
use serde_json::Value;
use tokio::process::{Child, Command};
use tracing::{error, info, warn};

use super::config::{Config, Place};
use super::election::Election;
use super::settings::Settings;

/// Between the end of one and the start of the next.
const AGAIN: Duration = Duration::from_secs(2);
/// To finish what it does; with the deadline of the lease it is less than the lease is good for.
const GRACE: Duration = Duration::from_secs(4);

/// Keeps it running until `until`, if it is ours to run.
pub async fn run(
    config: &Config,
    settings: &Settings,
    program: &Path,
    until: impl Future<Output = ()>,
) {
    let Place::Here(base) = &config.ironic.place else {
        return until.await;
    };
    tokio::pin!(until);
    loop {
        match start(base, config, settings, program).await {
            Ok(mut child) => {
                tokio::select! {
                    ended = child.wait() => warn!(?ended, "Ironic ended, and is started again"),
                    () = &mut until => return end(child).await,
                }
            }
            Err(why) => error!(why, "Ironic cannot be started"),
        }
        tokio::select! {
            () = tokio::time::sleep(AGAIN) => {}
            () = &mut until => return,
        }
    }
}

async fn start(
    base: &Path,
    config: &Config,
    settings: &Settings,
    program: &Path,
) -> Result<Child, String> {
    let path = write(base, config, settings).await?;
    let mut command = Command::new(program);
    command
        .args(["ironic", "--config"])
        .arg(&path)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let child = linux::process::spawn(command)
        .map_err(|error| format!("{}: {error}", program.display()))?;
    info!(pid = child.id(), config = %path.display(), "Ironic started");
    Ok(child)
}

/// Its configuration for these settings.
async fn write(base: &Path, config: &Config, settings: &Settings) -> Result<PathBuf, String> {
    let base = read(base).await?;
    let text =
        serde_saphyr::to_string(&settings.ironic(base)).map_err(|error| error.to_string())?;
    let path = config.state.join("ironic.yaml");
    let written = async {
        tokio::fs::create_dir_all(&config.state).await?;
        let draft = path.with_extension("yaml.new");
        tokio::fs::write(&draft, text).await?;
        tokio::fs::rename(&draft, &path).await
    };
    written
        .await
        .map_err(|error| format!("could not write {}: {error}", path.display()))?;
    Ok(path)
}

async fn read(path: &Path) -> Result<Value, String> {
    let text = tokio::fs::read_to_string(path)
        .await
        .map_err(|error| format!("could not read {}: {error}", path.display()))?;
    let options = serde_saphyr::options! { legacy_octal_numbers: true, with_snippet: false };
    serde_saphyr::from_str_with_options(&text, options)
        .map_err(|error| format!("{}: {}", path.display(), error.without_snippet()))
}

/// Where it is found.
pub async fn address(config: &Config) -> String {
    match &config.ironic.place {
        Place::Here(base) => listens(&read(base).await.unwrap_or_default()),
        Place::Elsewhere(url) => url.clone(),
    }
}

/// Where ours is found from this machine.
fn listens(config: &Value) -> String {
    let listen = config["listen"].as_str().unwrap_or_default();
    let port = listen.rsplit(':').next().and_then(|port| port.parse().ok());
    let port: u16 = port.unwrap_or(6385);
    let scheme = if config["tls"].is_null() {
        "http"
    } else {
        "https"
    };
    format!("{scheme}://127.0.0.1:{port}")
}

async fn end(mut child: Child) {
    let process = child.id().and_then(|pid| Id::of(pid).ok().flatten());
    if let Some(process) = process {
        // One that is gone already needs no telling.
        _ = process.signal(Signal::SIGTERM);
    }
    if tokio::time::timeout(GRACE, child.wait()).await.is_err() {
        warn!("Ironic does not end, and is killed");
        _ = child.kill().await;
    }
}

/// Tells on the lease whether hosts can be provisioned from here: until they can, and anew if that changes.
pub async fn tell_images(
    config: &Config,
    settings: &Settings,
    election: &Election,
    until: impl Future<Output = ()>,
) {
    let telling = async {
        let mut told = None;
        loop {
            let word = match missing(config, settings).await {
                Some(path) => format!("{} is not there yet", path.display()),
                None => "ready".to_owned(),
            };
            if told.as_ref() != Some(&word) && election.say_images(&word).await {
                info!(images = word, "images");
                told = Some(word);
            }
            tokio::time::sleep(Duration::from_secs(3)).await;
        }
    };
    tokio::select! {
        () = telling => {}
        () = until => {}
    }
}

/// The first file that hosts need and that is not there.
async fn missing(config: &Config, settings: &Settings) -> Option<PathBuf> {
    let mut needed: Vec<PathBuf> = Vec::new();
    if let Place::Here(base) = &config.ironic.place {
        let base = read(base).await.unwrap_or_default();
        let ramdisk = &settings.ironic(base)["boot"]["ramdisk"];
        let files = ["kernel", "initrd"].into_iter();
        needed.extend(
            files
                .filter_map(|key| ramdisk[key].as_str())
                .map(PathBuf::from),
        );
    }
    needed.extend(config.images.iter().cloned());
    first_missing(&needed).await.cloned()
}

pub async fn first_missing(paths: &[PathBuf]) -> Option<&PathBuf> {
    for path in paths {
        if !tokio::fs::try_exists(path).await.unwrap_or(false) {
            return Some(path);
        }
    }
    None
}

#[test]
fn ironic_is_found_where_it_listens() {
    use serde_json::json;
    for (config, expected) in [
        (json!({}), "http://127.0.0.1:6385"),
        (
            json!({"listen": "[::]:7000", "tls": {"key": "k"}}),
            "https://127.0.0.1:7000",
        ),
        (
            json!({"listen": "0.0.0.0:80", "tls": null}),
            "http://127.0.0.1:80",
        ),
    ] {
        assert_eq!(listens(&config), expected);
    }
}
