//! A host on a desk: one anonymous network namespace and one runtime that lives in it.
//!
//! The runtime has a single thread, because a thread is what a namespace belongs to; every task and
//! every socket made on it is inside. Dropping the host ends its tasks, and its links go with it.

use std::future::Future;
use std::pin::Pin;
use std::process::Command;
use std::sync::mpsc as blocking;
use std::thread;

use nix::sched::{CloneFlags, unshare};
use tokio::sync::mpsc;

use super::{Error, Namespace};
use crate::netlink::Netlink;
use crate::{link, netlink};

type Job = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()>>> + Send>;

/// A network namespace with its own runtime, mainly for tests.
#[derive(Debug)]
pub struct Host {
    namespace: Namespace,
    jobs: Option<mpsc::UnboundedSender<Job>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Host {
    /// A host called `name` in messages, with `lo` up.
    pub fn new(name: &str) -> Result<Self, Error> {
        let (ready, started) = blocking::channel();
        let (jobs, queue) = mpsc::unbounded_channel();
        let label = name.to_owned();
        let thread = thread::Builder::new()
            .name(format!("host-{name}"))
            .spawn(move || live(&label, &ready, queue))
            .map_err(|source| Error::Thread {
                name: name.to_owned(),
                source,
            })?;
        let namespace = started
            .recv()
            .expect("the host's thread answers before it ends")?;
        Ok(Self {
            namespace,
            jobs: Some(jobs),
            thread: Some(thread),
        })
    }

    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Runs `work` on the host and waits for its result. Tasks it spawns go on until the host is dropped.
    ///
    /// # Panics
    /// If `work` panics. Call it from outside any runtime: it blocks.
    pub fn run<T, F>(&self, work: impl FnOnce() -> F + Send + 'static) -> T
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        let (answer, result) = blocking::channel();
        let job: Job = Box::new(move || {
            let work = work();
            Box::pin(async move {
                let _ = answer.send(work.await);
            })
        });
        let accepted = self
            .jobs
            .as_ref()
            .is_some_and(|jobs| jobs.send(job).is_ok());
        assert!(accepted, "host {} has ended", self.namespace.name());
        result
            .recv()
            .unwrap_or_else(|_| panic!("the work on host {} panicked", self.namespace.name()))
    }

    /// A program that will run on this host.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        self.namespace.place(&mut command);
        command
    }

    /// Joins two hosts with a cable: a link `name` here, `peer_name` there, both up.
    pub fn cable(&self, name: &str, peer: &Host, peer_name: &str) -> Result<(), netlink::Error> {
        let (name, peer_name) = (name.to_owned(), peer_name.to_owned());
        let (there, far) = (peer.namespace.clone(), peer_name.clone());
        self.run(move || async move {
            let netlink = Netlink::connect()?;
            // The far end is born under a name that cannot clash with one of ours.
            let end = link::scratch_name();
            netlink.create_veth(&name, &end).await?;
            netlink.move_link(&end, &there, Some(&far)).await?;
            netlink.set_up(&name).await
        })?;
        peer.run(move || async move { Netlink::connect()?.set_up(&peer_name).await })
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn live(
    name: &str,
    ready: &blocking::Sender<Result<Namespace, Error>>,
    mut queue: mpsc::UnboundedReceiver<Job>,
) {
    let born = unshare(CloneFlags::CLONE_NEWNET)
        .map_err(|errno| Error::Create {
            name: name.to_owned(),
            source: errno.into(),
        })
        .and_then(|()| Namespace::of_this_thread(name));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let (namespace, runtime) = match (born, runtime) {
        (Ok(namespace), Ok(runtime)) => (namespace, runtime),
        (Err(error), _) => return drop(ready.send(Err(error))),
        (_, Err(source)) => {
            return drop(ready.send(Err(Error::Thread {
                name: name.to_owned(),
                source,
            })));
        }
    };
    let tasks = tokio::task::LocalSet::new();
    tasks.block_on(&runtime, async {
        if let Ok(netlink) = Netlink::connect()
            && let Err(error) = netlink.set_up("lo").await
        {
            tracing::warn!(host = name, %error, "loopback stays down");
        }
        let _ = ready.send(Ok(namespace));
        while let Some(job) = queue.recv().await {
            tokio::task::spawn_local(job());
        }
    });
}
