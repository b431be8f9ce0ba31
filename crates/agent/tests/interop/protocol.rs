//! The whole way: Python in Ironic's place, our agent, its API, an image over HTTP, a disk that is a file.

use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use agent::http::Way;
use agent::install::install;
use agent::ipa::{self, End, Erase, Failure, Image, Job, Machine, Settings};
use agent::parameters::Parameters;
use model::inventory::{Disk, Inventory};

use super::{GPT, Lab, MIB, assert_sound, config_iso, run};

/// A server whose only disk is a file.
struct Paper {
    disk: PathBuf,
}

impl Machine for Paper {
    fn inventory(&self) -> Result<Inventory, Failure> {
        let text = include_str!("inventory.json");
        Ok(serde_json::from_str(text).unwrap())
    }

    fn write_image(&self, disk: &Disk, image: &Image, job: &Job<'_>) -> Result<String, Failure> {
        assert_eq!(disk.name, "disk");
        Ok(install(&self.disk, image, job)?)
    }

    fn erase(&self, _: &Disk, _: Erase, _: &Job<'_>) -> Result<String, Failure> {
        Err(Failure::new("x", "not in this test"))
    }

    fn install_bootloader(&self, _: &Disk) -> Result<String, Failure> {
        Err(Failure::new("x", "not in this test"))
    }
}

#[test]
fn python_in_ironics_place_deploys_an_image_with_its_config_drive() {
    let lab = Lab::new(GPT);
    config_iso(&lab, "config-2");
    let sums = run("coreutils", "sha256sum", &[&lab.name("image.raw")]);
    std::fs::write(lab.path("SHA256SUMS"), sums).unwrap();
    drop(lab.disk(200 * MIB));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop/conductor.py");
    let mut python = Command::new("python3")
        .arg(script)
        .args([lab.dir.path().to_str().unwrap(), "SHA256SUMS"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 cannot run; install the Debian package python3");
    let mut said = BufReader::new(python.stdout.take().unwrap());
    let mut url = String::new();
    said.read_line(&mut url).unwrap();

    let (parameters, problems) =
        Parameters::parse(&format!("ipa-api-url={} ipa-listen-port=0", url.trim()));
    assert_eq!(problems, []);
    let settings = Settings {
        name: "paper".into(),
        parameters,
        way: Way {
            source: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            ..Way::default()
        },
        identity: None,
        set_clock: false,
        seed: 3,
    };
    let machine = Arc::new(Paper {
        disk: lab.path("disk"),
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let end = runtime.block_on(async {
        let agent = ipa::run(settings, machine);
        tokio::time::timeout(Duration::from_mins(2), agent).await
    });
    let mut result = String::new();
    if end.is_err() {
        python.kill().unwrap();
    }
    said.read_to_string(&mut result).unwrap();
    let code = python.wait().unwrap();
    assert!(code.success(), "{result}");
    assert_eq!(end.unwrap().unwrap(), End::PowerOff);
    let result: serde_json::Value = serde_json::from_str(&result).unwrap();
    assert_eq!(result["write"]["command_status"], "SUCCEEDED", "{result}");
    assert_eq!(result["last"], true);
    let disk = lab.path("disk");
    assert_sound(disk.to_str().unwrap());
    // Tables differ, for the disk is larger; what the partitions hold does not.
    let (written, image) = (
        std::fs::read(&disk).unwrap(),
        std::fs::read(lab.path("image.raw")).unwrap(),
    );
    assert!(written[MIB as usize..25 << 20] == image[MIB as usize..25 << 20]);
    let partitions = run("fdisk", "sfdisk", &["-d", disk.to_str().unwrap()]);
    assert!(partitions.contains("config-2"), "{partitions}");
}
