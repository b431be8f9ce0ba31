//! A QEMU machine by emulation, watched through its serial line.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Emulation takes all cores: one machine at a time, or deadlines mean nothing.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[derive(Debug, Clone, Copy)]
pub enum Firmware {
    Bios,
    Uefi,
}

pub struct Guest {
    child: Child,
    console: Arc<Mutex<String>>,
    dir: tempfile::TempDir,
}

impl Guest {
    pub fn start(firmware: Firmware, arguments: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new("qemu-system-x86_64");
        // QEMU 7.2's emulation of cmpxchg16b corrupts the flags when an interrupt follows: Linux then panics in its
        // allocator, sooner or later. Without the feature it uses another way.
        command.args([
            "-accel",
            "tcg,thread=multi",
            "-cpu",
            "max,-cx16,-erms,-fsrm,-smap,-la57",
            "-machine",
            "q35",
            "-m",
            "1024",
            "-nodefaults",
        ]);
        command.args(["-display", "none", "-no-reboot", "-serial", "stdio"]);
        command.arg("-monitor").arg(format!(
            "unix:{},server,nowait",
            dir.path().join("monitor").display()
        ));
        if let Firmware::Uefi = firmware {
            let vars = dir.path().join("vars.fd");
            std::fs::copy(ovmf("OVMF_VARS_4M.fd"), &vars).unwrap();
            let code = ovmf("OVMF_CODE_4M.fd");
            command
                .arg("-drive")
                .arg(format!("if=pflash,format=raw,readonly=on,file={code}"));
            command
                .arg("-drive")
                .arg(format!("if=pflash,format=raw,file={}", vars.display()));
        }
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        linux::process::die_with_parent(&mut command);
        let mut child = command.spawn().unwrap_or_else(|error| {
            panic!("QEMU cannot run ({error}); install the Debian package qemu-system-x86")
        });
        let console = Arc::new(Mutex::new(String::new()));
        let mut serial = child.stdout.take().unwrap();
        let copy = Arc::clone(&console);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(len @ 1..) = std::io::Read::read(&mut serial, &mut buffer) {
                copy.lock()
                    .unwrap()
                    .push_str(&String::from_utf8_lossy(&buffer[..len]));
            }
        });
        Self {
            child,
            console,
            dir,
        }
    }

    /// The console's text once it holds `text`.
    pub fn wait_for(&mut self, text: &str, limit: Duration) -> String {
        let started = Instant::now();
        loop {
            let console = self.console.lock().unwrap().clone();
            if console.contains(text) {
                return console;
            }
            let ended = self.child.try_wait().unwrap();
            assert!(
                ended.is_none() && started.elapsed() < limit,
                "{text:?} did not appear in {:?} (QEMU: {ended:?}); the console:\n{console}",
                started.elapsed(),
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn wait_for_power_off(&mut self, limit: Duration) -> String {
        let started = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            let console = self.console.lock().unwrap().clone();
            assert!(
                started.elapsed() < limit,
                "still on after {limit:?}; the console:\n{console}"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        self.console.lock().unwrap().clone()
    }

    pub fn press_power_button(&self) {
        let mut monitor = UnixStream::connect(self.dir.path().join("monitor")).unwrap();
        monitor.write_all(b"system_powerdown\n").unwrap();
        // The monitor reads commands only as long as the connection is there.
        let mut answer = [0; 1];
        let _ = std::io::Read::read(&mut monitor, &mut answer);
        std::mem::forget(monitor);
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ovmf(name: &str) -> String {
    let path = format!("/usr/share/OVMF/{name}");
    assert!(
        Path::new(&path).exists(),
        "{path} is missing; install the Debian package ovmf"
    );
    path
}

/// A disk of its own on top of an image that must stay as it is.
pub fn overlay(base: &Path, disk: &Path, size: &str) {
    let status = Command::new("qemu-img")
        .args(["create", "-q", "-f", "qcow2", "-F", "raw", "-b"])
        .arg(base)
        .arg(disk)
        .arg(size)
        .status()
        .expect("qemu-img cannot run; install the Debian package qemu-utils");
    assert!(status.success());
}

pub fn blank(disk: &Path, bytes: u64) {
    std::fs::File::create(disk).unwrap().set_len(bytes).unwrap();
}
