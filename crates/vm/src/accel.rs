//! Whether KVM truly runs guests here.
//!
//! A device that opens proves nothing: inside some virtual machines guests start and then hang. So a
//! tiny guest is booted with the very options machines get, and KVM is believed only if it says hello.
//! That it did not is remembered for an hour, because finding out takes seconds.

use std::fmt;
use std::fs::OpenOptions;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use tokio::sync::OnceCell;

use crate::console::Log;
use crate::{Bus, Disk, Format, Machine, Spec, guest};

/// What runs the guest's instructions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Accel {
    Kvm,
    /// Software emulation, and why.
    Tcg {
        why: String,
    },
}

impl fmt::Display for Accel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kvm => f.write_str("KVM"),
            Self::Tcg { why } => write!(f, "emulation ({why})"),
        }
    }
}

/// With KVM the guest is there in a tenth of this.
const LIMIT: Duration = Duration::from_secs(5);

/// A guest that hung does so until the machine is set up otherwise; a busy machine may recover sooner.
const BELIEVED: Duration = Duration::from_hours(1);

/// Tries KVM once per process and remembers the answer.
pub async fn probe() -> &'static Accel {
    static ANSWER: OnceCell<Accel> = OnceCell::const_new();
    ANSWER
        .get_or_init(|| async {
            let accel = match try_kvm().await {
                Ok(()) => Accel::Kvm,
                Err(why) => Accel::Tcg {
                    why: why.lines().collect::<Vec<_>>().join("; "),
                },
            };
            tracing::info!(%accel, "accelerator");
            accel
        })
        .await
}

async fn try_kvm() -> Result<(), String> {
    if let Err(error) = OpenOptions::new().read(true).write(true).open("/dev/kvm") {
        return Err(format!("/dev/kvm cannot be opened: {error}"));
    }
    let hung = format!(
        "/dev/kvm is there, but a guest did not run within {} s",
        LIMIT.as_secs()
    );
    if hung_lately() {
        return Err(hung);
    }
    let dir =
        tempfile::tempdir().map_err(|error| format!("no directory for a probe guest: {error}"))?;
    let machine = Machine::start(probe_spec(dir.path(), Accel::Kvm)?).await;
    let machine =
        machine.map_err(|error| format!("QEMU does not start with KVM: {}", first_line(&error)))?;
    let hello = Log::open(&machine.console_log())
        .wait_for(guest::HELLO, LIMIT)
        .await;
    let _ = machine.kill().await;
    hello.map_err(|_| {
        remember_hung();
        hung
    })
}

/// A mark of this boot of the machine, where only we may write.
fn mark() -> Option<PathBuf> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let place = if nix::unistd::geteuid().is_root() {
        PathBuf::from("/run/plinth")
    } else {
        PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR")?).join("plinth")
    };
    Some(place.join(format!("kvm-hangs-{}", boot.trim())))
}

fn hung_lately() -> bool {
    let modified = mark().and_then(|mark| std::fs::metadata(mark).ok()?.modified().ok());
    let age = modified.and_then(|at| SystemTime::now().duration_since(at).ok());
    age.is_some_and(|age| age < BELIEVED)
}

/// Without a mark the next process finds out for itself.
fn remember_hung() {
    if let Some(mark) = mark() {
        let made = mark.parent().map(std::fs::create_dir_all);
        let _ = made.map(|_| std::fs::write(mark, ""));
    }
}

fn probe_spec(dir: &std::path::Path, accel: Accel) -> Result<Spec, String> {
    let path = dir.join("guest.raw");
    std::fs::write(&path, guest::image())
        .map_err(|error| format!("no disk for a probe guest: {error}"))?;
    let disk = Disk {
        id: "disk0".into(),
        path,
        format: Format::Raw,
        size_mib: None,
        bus: Bus::Virtio,
        serial: None,
        flush: true,
        faulty: false,
    };
    Ok(Spec {
        disks: vec![disk],
        boot_order: vec!["disk0".into()],
        ..Spec::new("probe", dir.join("run"), accel)
    })
}

/// The whole story is in the log; an operator wants one line of it.
fn first_line(error: &dyn std::error::Error) -> String {
    let text = model::chain(error);
    tracing::debug!(error = text, "probe guest");
    text.lines().next().unwrap_or_default().to_owned()
}
