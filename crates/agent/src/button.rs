//! The power button: BMCs press it for a graceful shutdown.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use tokio::sync::mpsc;

const EV_KEY: u16 = 1;
const KEY_POWER: u16 = 116;
/// Two 64-bit times, type, code, value (linux/input.h).
const EVENT: usize = 24;

/// Watches every power button the kernel shows; each has a thread, for reading them blocks.
pub fn watch(root: &Path) -> mpsc::Receiver<()> {
    let (sender, receiver) = mpsc::channel(1);
    for device in devices(root) {
        let sender = sender.clone();
        let watch = move || {
            let Ok(mut file) = File::open(&device) else {
                return;
            };
            let mut event = [0; EVENT];
            while file.read_exact(&mut event).is_ok() {
                if is_press(&event) && sender.blocking_send(()).is_err() {
                    return;
                }
            }
        };
        // Without the thread the button does nothing; the server still works.
        let _ = std::thread::Builder::new()
            .name("power-button".into())
            .spawn(watch);
    }
    receiver
}

/// Waits for a press; for ever, if there is no button.
pub async fn pressed(mut buttons: mpsc::Receiver<()>) {
    if buttons.recv().await.is_none() {
        std::future::pending::<()>().await;
    }
}

fn devices(root: &Path) -> Vec<std::path::PathBuf> {
    let Ok(inputs) = fs::read_dir(root.join("sys/class/input")) else {
        return Vec::new();
    };
    let mut found: Vec<_> = inputs
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("event"))
        .filter(|entry| {
            let name = fs::read_to_string(entry.path().join("device/name")).unwrap_or_default();
            name.trim() == "Power Button"
        })
        .map(|entry| root.join("dev/input").join(entry.file_name()))
        .collect();
    found.sort();
    found
}

fn is_press(event: &[u8; EVENT]) -> bool {
    let field = |at| u16::from_ne_bytes([event[at], event[at + 1]]);
    field(16) == EV_KEY && field(18) == KEY_POWER && field(20) == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_press_of_the_power_key_counts() {
        let event = |kind: u16, code: u16, value: u16| {
            let mut event = [0; EVENT];
            event[16..18].copy_from_slice(&kind.to_ne_bytes());
            event[18..20].copy_from_slice(&code.to_ne_bytes());
            event[20..22].copy_from_slice(&value.to_ne_bytes());
            event
        };
        assert!(is_press(&event(1, 116, 1)));
        for other in [event(1, 116, 0), event(1, 30, 1), event(0, 116, 1)] {
            assert!(!is_press(&other));
        }
    }

    #[test]
    fn buttons_are_found_by_their_name() {
        let root = tempfile::tempdir().unwrap();
        for (event, name) in [
            ("event0", "AT keyboard\n"),
            ("event3", "Power Button\n"),
            ("mouse0", "Power Button\n"),
        ] {
            let dir = root
                .path()
                .join("sys/class/input")
                .join(event)
                .join("device");
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("name"), name).unwrap();
        }
        assert_eq!(devices(root.path()), [root.path().join("dev/input/event3")]);
    }
}
