//! What must be in place before QEMU is started: the run directory, the NVRAM, disks, and files it will read.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk;
use crate::spec::{Firmware, FwCfgValue, NicEnd, Spec};

/// Why a machine could not be made ready.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    #[error("could not make the run directory {}", path.display())]
    RunDir { path: PathBuf, source: io::Error },
    #[error("the run directory {} is in use by another machine", path.display())]
    InUse { path: PathBuf },
    #[error("the UEFI firmware {} is missing (Debian package ovmf)", path.display())]
    NoFirmware { path: PathBuf },
    #[error("could not copy the NVRAM template {}", path.display())]
    Nvram { path: PathBuf, source: io::Error },
    #[error("the {what} {} is missing", path.display())]
    Missing { what: &'static str, path: PathBuf },
    #[error("could not make disk {id}")]
    Disk { id: String, source: disk::Error },
    #[error("could not connect network card {id}")]
    Tap {
        id: String,
        source: linux::tap::Error,
    },
}

/// Held while the machine exists.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// Keeps others out of the run directory.
    pub lock: File,
    /// Nic id to the descriptor QEMU gets.
    pub taps: BTreeMap<String, Arc<OwnedFd>>,
}

pub(crate) async fn prepare(spec: &Spec) -> Result<Prepared, PrepareError> {
    let lock = lock_run_dir(&spec.run_dir)?;
    match &spec.firmware {
        Firmware::Bios { text_on_serial } => {
            if *text_on_serial {
                // The I/O address of the first serial port, little-endian.
                let path = spec.sercon();
                fs::write(&path, [0xf8, 0x03])
                    .map_err(|source| PrepareError::RunDir { path, source })?;
            }
        }
        Firmware::Uefi {
            code,
            vars_template,
            ..
        } => nvram(spec, code, vars_template)?,
    }
    for disk in &spec.disks {
        match disk.size_mib {
            _ if disk.path.exists() => {}
            Some(size) => disk::create(&disk.path, disk.format, size)
                .await
                .map_err(|source| PrepareError::Disk {
                    id: disk.id.clone(),
                    source,
                })?,
            None => {
                return Err(PrepareError::Missing {
                    what: "disk",
                    path: disk.path.clone(),
                });
            }
        }
    }
    files_exist(spec)?;
    Ok(Prepared {
        lock,
        taps: taps(spec)?,
    })
}

fn lock_run_dir(path: &Path) -> Result<File, PrepareError> {
    let failed = |source| PrepareError::RunDir {
        path: path.to_owned(),
        source,
    };
    fs::create_dir_all(path).map_err(failed)?;
    let lock = File::create(path.join("lock")).map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(PrepareError::InUse {
            path: path.to_owned(),
        }),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// Copied under another name and renamed, so that a copy cut short is never taken for an NVRAM.
fn nvram(spec: &Spec, code: &Path, template: &Path) -> Result<(), PrepareError> {
    for path in [code, template] {
        if !path.exists() {
            return Err(PrepareError::NoFirmware {
                path: path.to_owned(),
            });
        }
    }
    let nvram = spec.nvram();
    if nvram.exists() {
        return Ok(());
    }
    let partial = nvram.with_extension("partial");
    fs::copy(template, &partial)
        .and_then(|_| fs::rename(&partial, &nvram))
        .map_err(|source| PrepareError::Nvram {
            path: template.to_owned(),
            source,
        })
}

fn files_exist(spec: &Spec) -> Result<(), PrepareError> {
    let kernel = spec.kernel.iter().map(|kernel| ("kernel", &kernel.kernel));
    let initrd = spec
        .kernel
        .iter()
        .filter_map(|kernel| Some(("initrd", kernel.initrd.as_ref()?)));
    let usb = spec
        .usb_drives
        .iter()
        .map(|drive| ("USB drive image", &drive.path));
    let roms = spec
        .nics
        .iter()
        .filter_map(|nic| Some(("network boot ROM", nic.rom.as_ref()?)));
    let fw_cfg = spec.fw_cfg.iter().filter_map(|file| match &file.value {
        FwCfgValue::File(path) => Some(("firmware configuration file", path)),
        FwCfgValue::Text(_) => None,
    });
    for (what, path) in kernel.chain(initrd).chain(usb).chain(roms).chain(fw_cfg) {
        if !path.exists() {
            return Err(PrepareError::Missing {
                what,
                path: path.clone(),
            });
        }
    }
    Ok(())
}

fn taps(spec: &Spec) -> Result<BTreeMap<String, Arc<OwnedFd>>, PrepareError> {
    let mut taps = BTreeMap::new();
    for nic in &spec.nics {
        let fd = match &nic.end {
            NicEnd::Tap {
                name,
                namespace: Some(namespace),
            } => linux::tap::open_in(namespace, name, true).map(Arc::new),
            NicEnd::Tap {
                name,
                namespace: None,
            } => linux::tap::open(name, true).map(Arc::new),
            NicEnd::Fd(fd) => Ok(Arc::clone(fd)),
            NicEnd::Isolated => continue,
        };
        taps.insert(
            nic.id.clone(),
            fd.map_err(|source| PrepareError::Tap {
                id: nic.id.clone(),
                source,
            })?,
        );
    }
    Ok(taps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Accel, Bus, Disk, Format, Kernel};

    fn spec(dir: &tempfile::TempDir) -> Spec {
        Spec::new("m", dir.path().join("run"), Accel::Kvm)
    }

    #[tokio::test]
    async fn two_machines_cannot_share_a_run_directory() {
        let dir = tempfile::tempdir().unwrap();
        let first = prepare(&spec(&dir)).await.unwrap();
        assert!(matches!(
            prepare(&spec(&dir)).await,
            Err(PrepareError::InUse { .. })
        ));
        drop(first);
        prepare(&spec(&dir)).await.unwrap();
    }

    #[tokio::test]
    async fn nvram_is_copied_once_and_then_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (code, vars_template) = (dir.path().join("code"), dir.path().join("vars"));
        for path in [&code, &vars_template] {
            fs::write(path, "fresh").unwrap();
        }
        let spec = Spec {
            firmware: Firmware::Uefi {
                code,
                vars_template,
                secure: false,
            },
            ..spec(&dir)
        };
        prepare(&spec).await.unwrap();
        assert_eq!(fs::read(spec.nvram()).unwrap(), b"fresh");
        fs::write(spec.nvram(), "used").unwrap();
        prepare(&spec).await.unwrap();
        assert_eq!(fs::read(spec.nvram()).unwrap(), b"used");
    }

    #[tokio::test]
    async fn missing_firmware_names_the_package() {
        let dir = tempfile::tempdir().unwrap();
        let firmware = Firmware::Uefi {
            code: "/none/code".into(),
            vars_template: "/none/vars".into(),
            secure: false,
        };
        let error = prepare(&Spec {
            firmware,
            ..spec(&dir)
        })
        .await
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "the UEFI firmware /none/code is missing (Debian package ovmf)"
        );
    }

    #[tokio::test]
    async fn a_disk_is_made_if_its_size_is_known_and_kept_if_it_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let disk = |size_mib| Disk {
            id: "disk0".into(),
            path: dir.path().join("disk.raw"),
            format: Format::Raw,
            size_mib,
            bus: Bus::Virtio,
            serial: None,
            flush: true,
            faulty: false,
        };
        let with = |size_mib| Spec {
            disks: vec![disk(size_mib)],
            ..spec(&dir)
        };
        assert!(matches!(
            prepare(&with(None)).await,
            Err(PrepareError::Missing { what: "disk", .. })
        ));
        prepare(&with(Some(8))).await.unwrap();
        assert_eq!(fs::metadata(disk(None).path).unwrap().len(), 8 << 20);
        prepare(&with(Some(16))).await.unwrap();
        assert_eq!(fs::metadata(disk(None).path).unwrap().len(), 8 << 20);
    }

    #[tokio::test]
    async fn a_missing_file_is_named_with_its_use() {
        let dir = tempfile::tempdir().unwrap();
        let kernel = Kernel {
            kernel: "/none/vmlinuz".into(),
            initrd: None,
            cmdline: String::new(),
        };
        let error = prepare(&Spec {
            kernel: Some(kernel),
            ..spec(&dir)
        })
        .await
        .unwrap_err();
        assert_eq!(error.to_string(), "the kernel /none/vmlinuz is missing");
    }
}
