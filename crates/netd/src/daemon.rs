//! netd as a service: starts, answers, reloads, and ends in order.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use crate::admin::{self, Request};
use crate::{Config, Error, Netd, Options, notify};

/// How often the file is looked at. Reading it is cheaper than asking the kernel to watch every directory
/// that a link to it may lead through.
const LOOK_AT_FILE: Duration = Duration::from_secs(1);

/// Serves until `stop` ends, then gives everything up in order. `path` is where the configuration was
/// loaded from, and is from now on.
pub async fn run(
    config: Config,
    path: PathBuf,
    options: Options,
    stop: impl Future<Output = ()>,
) -> Result<(), Error> {
    let mut hang_up = signal(SignalKind::hangup()).map_err(|source| Error::Signal { source })?;
    let (requests, mut asked) = mpsc::channel(16);
    let mut admin = Admin::new(requests);
    admin.move_to(&config).await?;
    let mut file = File::new(path);
    let mut netd = Netd::spawn(config, options).await?;
    let mut reload_problem = None;
    notify::tell("READY=1");
    tokio::pin!(stop);
    let mut look = tokio::time::interval(LOOK_AT_FILE);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let reload = tokio::select! {
            () = &mut stop => break,
            _ = hang_up.recv() => true,
            _ = look.tick() => {
                netd.tend();
                file.has_changed()
            }
            request = asked.recv() => {
                if let Some(request) = request {
                    answer(&netd, reload_problem.clone(), request).await;
                }
                false
            }
        };
        if reload {
            file.has_changed();
            reload_problem = reload_from(&file.path, &mut netd, &mut admin).await;
        }
    }
    notify::tell("STOPPING=1");
    netd.stop().await
}

async fn answer(netd: &Netd, reload_problem: Option<String>, request: Request) {
    match request {
        Request::Status(answer) => {
            let mut status = netd.status();
            status.reload_problem = reload_problem;
            let _ = answer.send(status);
        }
        Request::Resign {
            vip,
            hold_off,
            answer,
        } => {
            let done = netd.resign(&vip, hold_off).await;
            let _ = answer.send(done.map_err(|error| error.to_string()));
        }
    }
}

/// The problem, if the old configuration stays.
async fn reload_from(path: &Path, netd: &mut Netd, admin: &mut Admin) -> Option<String> {
    let loaded = match Config::load(path) {
        Ok(config) => config,
        Err(error) => {
            let problem = error.to_string();
            tracing::warn!(problem, "the new configuration is not used");
            return Some(problem);
        }
    };
    let done = async {
        admin.move_to(&loaded).await?;
        netd.reload(loaded).await
    };
    match done.await {
        Ok(()) => {
            tracing::info!(config = %path.display(), "reloaded");
            None
        }
        Err(error) => {
            let problem = error.to_string();
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the new configuration is not used"
            );
            Some(problem)
        }
    }
}

/// The file and what was in it.
struct File {
    path: PathBuf,
    text: Option<Vec<u8>>,
}

impl File {
    fn new(path: PathBuf) -> Self {
        let text = std::fs::read(&path).ok();
        Self { path, text }
    }

    /// A file that cannot be read has not changed: it may be on its way.
    fn has_changed(&mut self) -> bool {
        let Ok(text) = std::fs::read(&self.path) else {
            return false;
        };
        let changed = self.text.as_ref() != Some(&text);
        self.text = Some(text);
        changed
    }
}

/// The admin server, wherever it is at the moment.
struct Admin {
    requests: mpsc::Sender<Request>,
    at: Option<std::net::SocketAddr>,
    task: Option<JoinHandle<()>>,
}

impl Admin {
    fn new(requests: mpsc::Sender<Request>) -> Self {
        Self {
            requests,
            at: None,
            task: None,
        }
    }

    async fn move_to(&mut self, config: &Config) -> Result<(), Error> {
        if self.at == config.admin {
            return Ok(());
        }
        let task = match config.admin {
            None => None,
            Some(address) => {
                let served = admin::serve(address, self.requests.clone()).await;
                Some(served.map_err(|source| Error::Admin { source })?)
            }
        };
        self.at = config.admin;
        if let Some(old) = std::mem::replace(&mut self.task, task) {
            old.abort();
        }
        Ok(())
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}
