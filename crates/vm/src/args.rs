//! The QEMU command line for a [`Spec`]. Pure: it looks at nothing but its arguments.
//!
//! Devices, drives and network ends are written as JSON, where paths may hold commas; the older options
//! want commas doubled.

use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::Accel;
use crate::spec::{Bus, CdromBus, Disk, Firmware, FwCfgValue, Nic, NicEnd, Spec};

/// Descriptors that QEMU will find open.
#[derive(Debug, Default)]
pub(crate) struct Fds {
    pub qmp: RawFd,
    /// Nic id to its tap.
    pub taps: BTreeMap<String, RawFd>,
}

/// The arguments after the program name, for a spec that has been checked.
pub(crate) fn render(spec: &Spec, fds: &Fds) -> Vec<String> {
    let mut args = Args(Vec::new());
    args.flag("-nodefaults").flag("-no-user-config").flag("-S");
    args.option("-display", "none");
    args.option("-name", format!("guest={}", escape(&spec.name)));
    args.option("-rtc", "base=utc");
    args.option("-m", format!("{}M", spec.memory_mib));
    args.option("-smp", spec.cpus.to_string());
    accel(&mut args, &spec.accel);
    firmware(&mut args, spec);
    control(&mut args, spec, fds);
    smbios(&mut args, spec);
    args.option(
        "-object",
        json!({"qom-type": "rng-random", "id": "rng", "filename": "/dev/urandom"}),
    );
    args.option("-device", json!({"driver": "virtio-rng-pci", "rng": "rng"}));
    storage(&mut args, spec);
    for nic in &spec.nics {
        network(&mut args, spec, nic, fds);
    }
    boot(&mut args, spec);
    args.0
}

struct Args(Vec<String>);

impl Args {
    fn flag(&mut self, flag: &str) -> &mut Self {
        self.0.push(flag.to_owned());
        self
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "call sites read better without borrows"
    )]
    fn option(&mut self, name: &str, value: impl ToString) {
        self.0.extend([name.to_owned(), value.to_string()]);
    }
}

/// An emulated processor, without what it is better off not showing to guests:
///
/// - cx16: now and then cmpxchg16b tears a free list of the guest kernel's slab allocator, and the guest panics.
/// - erms, fsrm: "quick" strings are moved byte by byte; the kernel would clear and copy every page like that.
/// - smap: opening user memory and closing it again ends a block of translated code, each time.
/// - la57: one more level of page tables to walk.
const EMULATED: &str = "max,-cx16,-erms,-fsrm,-smap,-la57";

fn accel(args: &mut Args, accel: &Accel) {
    match accel {
        Accel::Kvm => {
            args.option("-accel", "kvm");
            args.option("-cpu", "host");
        }
        Accel::Tcg { .. } => {
            args.option("-accel", "tcg,thread=multi");
            args.option("-cpu", EMULATED);
        }
    }
}

fn firmware(args: &mut Args, spec: &Spec) {
    match &spec.firmware {
        Firmware::Bios { text_on_serial } => {
            args.option("-machine", "q35");
            if *text_on_serial {
                args.option(
                    "-fw_cfg",
                    format!("name=etc/sercon-port,file={}", path(&spec.sercon())),
                );
            }
        }
        Firmware::Uefi { code, secure, .. } => {
            let smm = if *secure { ",smm=on" } else { "" };
            args.option(
                "-machine",
                format!("q35{smm},pflash0=flash-code,pflash1=flash-vars"),
            );
            if *secure {
                args.option("-global", "driver=cfi.pflash01,property=secure,value=on");
            }
            // A suspended guest would wait for a key nobody can press.
            args.option("-global", "ICH9-LPC.disable_s3=1");
            let file = |path: &Path| json!({"driver": "file", "filename": path});
            args.option(
                "-blockdev",
                json!({"driver": "raw", "node-name": "flash-code", "read-only": true, "file": file(code)}),
            );
            args.option(
                "-blockdev",
                json!({"driver": "raw", "node-name": "flash-vars", "file": file(&spec.nvram())}),
            );
        }
    }
}

/// The monitor on an inherited socket, and the serial port on a socket, with a copy in a file if wanted.
fn control(args: &mut Args, spec: &Spec, fds: &Fds) {
    args.option("-chardev", format!("socket,id=qmp,fd={}", fds.qmp));
    args.option("-mon", "chardev=qmp,mode=control");
    let log = if spec.log_console {
        format!(",logfile={},logappend=on", path(&spec.console_log()))
    } else {
        String::new()
    };
    let socket = path(&spec.console_socket());
    let console = format!("socket,id=console,path={socket},server=on,wait=off{log}");
    args.option("-chardev", console);
    args.option("-serial", "chardev:console");
}

fn smbios(args: &mut Args, spec: &Spec) {
    let smbios = &spec.smbios;
    let fields = [
        ("manufacturer", &smbios.manufacturer),
        ("product", &smbios.product),
        ("serial", &smbios.serial),
        ("uuid", &smbios.uuid),
    ];
    let given: String = fields
        .iter()
        .filter_map(|(key, value)| Some(format!(",{key}={}", escape(value.as_ref()?))))
        .collect();
    if !given.is_empty() {
        args.option("-smbios", format!("type=1{given}"));
    }
    if !smbios.oem_strings.is_empty() {
        let strings: Vec<_> = smbios.oem_strings.iter().map(|text| escape(text)).collect();
        args.option(
            "-smbios",
            format!("type=11,value={}", strings.join(",value=")),
        );
    }
    if let Some(uuid) = &smbios.uuid {
        args.option("-uuid", uuid);
    }
    for file in &spec.fw_cfg {
        let value = match &file.value {
            FwCfgValue::File(from) => format!("file={}", path(from)),
            FwCfgValue::Text(text) => format!("string={}", escape(text)),
        };
        args.option("-fw_cfg", format!("name={},{value}", escape(&file.name)));
    }
}

fn storage(args: &mut Args, spec: &Spec) {
    let scsi = spec.disks.iter().any(|disk| disk.bus == Bus::Scsi)
        || spec.cdroms.iter().any(|cdrom| cdrom.bus == CdromBus::Scsi);
    if scsi {
        args.option(
            "-device",
            json!({"driver": "virtio-scsi-pci", "id": "scsi"}),
        );
    }
    let mut sata_ports = (0..).map(|port| format!("ide.{port}"));
    let mut sata = || sata_ports.next().expect("the counter does not end");
    for disk in &spec.disks {
        drive(args, disk);
        let mut device = match disk.bus {
            Bus::Virtio => json!({"driver": "virtio-blk-pci"}),
            Bus::Sata => json!({"driver": "ide-hd", "bus": sata()}),
            Bus::Nvme => json!({"driver": "nvme", "serial": disk.id}),
            Bus::Scsi => json!({"driver": "scsi-hd", "bus": "scsi.0"}),
        };
        device["drive"] = json!(drive_node(&disk.id));
        if let Some(serial) = &disk.serial {
            device["serial"] = json!(serial);
        }
        // The guest shall see the error. The NVMe device has no such choice and always reports.
        if disk.bus != Bus::Nvme {
            device["rerror"] = json!("report");
            device["werror"] = json!("report");
        }
        bootable(args, spec, &disk.id, device);
    }
    for cdrom in &spec.cdroms {
        let device = match cdrom.bus {
            CdromBus::Sata => json!({"driver": "ide-cd", "bus": sata()}),
            CdromBus::Scsi => json!({"driver": "scsi-cd", "bus": "scsi.0"}),
        };
        bootable(args, spec, &cdrom.id, device);
    }
    if !spec.usb_drives.is_empty() {
        args.option("-device", json!({"driver": "qemu-xhci", "id": "usb"}));
    }
    for drive in &spec.usb_drives {
        let node = drive_node(&drive.id);
        let file = json!({"driver": "file", "filename": drive.path});
        args.option(
            "-blockdev",
            json!({"driver": "raw", "node-name": node, "read-only": drive.read_only, "file": file}),
        );
        let device =
            json!({"driver": "usb-storage", "bus": "usb.0", "drive": node, "removable": true});
        bootable(args, spec, &drive.id, device);
    }
}

/// The switch on top leads to the image, or to a second way to it on which everything fails.
///
/// ```text
///   device -- ID-drive --+------------- ID-image -- ID-file
///                        `-- ID-fault --'
/// ```
fn drive(args: &mut Args, disk: &Disk) {
    let id = &disk.id;
    let (file, image) = (format!("{id}-file"), image_node(id));
    let mut protocol =
        json!({"driver": "file", "node-name": file, "filename": disk.path, "discard": "unmap"});
    if !disk.flush {
        // Only on this node: the image's own metadata must still be written when the guest flushes.
        protocol["cache"] = json!({"no-flush": true});
    }
    args.option("-blockdev", protocol);
    args.option(
        "-blockdev",
        json!({"driver": disk.format.as_str(), "node-name": image, "file": file, "discard": "unmap"}),
    );
    let always = json!([{"event": "none", "errno": 5, "once": false, "immediately": false}]);
    args.option(
        "-blockdev",
        json!({"driver": "blkdebug", "node-name": fault_node(id), "image": image, "inject-error": always}),
    );
    args.option("-blockdev", switch(id, disk.faulty));
}

/// The node a disk's device reads; reopening it with the other setting turns faults on or off.
pub(crate) fn switch(id: &str, faulty: bool) -> Value {
    let below = if faulty {
        fault_node(id)
    } else {
        image_node(id)
    };
    json!({"driver": "raw", "node-name": drive_node(id), "file": below, "discard": "unmap"})
}

fn drive_node(id: &str) -> String {
    format!("{id}-drive")
}

fn image_node(id: &str) -> String {
    format!("{id}-image")
}

fn fault_node(id: &str) -> String {
    format!("{id}-fault")
}

fn network(args: &mut Args, spec: &Spec, nic: &Nic, fds: &Fds) {
    let end = format!("{}-end", nic.id);
    let netdev = match &nic.end {
        NicEnd::Tap { .. } | NicEnd::Fd(_) => {
            let fd = fds.taps.get(&nic.id).expect("every tap was opened before");
            json!({"type": "tap", "id": end, "fd": fd.to_string()})
        }
        NicEnd::Isolated => json!({"type": "user", "id": end, "restrict": true}),
    };
    args.option("-netdev", netdev);
    let rom = nic.rom.as_deref().unwrap_or(Path::new(""));
    // Virtio 1.0 alone: Debian's boot ROM names its device id, and SeaBIOS runs no ROM that names another.
    let device = json!({
        "driver": "virtio-net-pci", "netdev": end, "mac": nic.mac, "romfile": rom, "disable-legacy": "on",
    });
    bootable(args, spec, &nic.id, device);
}

/// QEMU gives 0 to a kernel that is started directly.
pub(crate) const FIRST_BOOT_INDEX: usize = 1;

fn bootable(args: &mut Args, spec: &Spec, id: &str, device: Value) {
    let Value::Object(mut device) = device else {
        unreachable!("devices are written as objects above")
    };
    device.insert("id".into(), json!(id));
    if let Some(place) = spec.boot_order.iter().position(|boot| boot == id) {
        device.insert("bootindex".into(), json!(FIRST_BOOT_INDEX + place));
    }
    args.option("-device", driver_first(device));
}

/// `driver` and `id` in front, for whoever reads the process list.
fn driver_first(device: Map<String, Value>) -> String {
    let (front, rest): (Vec<_>, Vec<_>) = device
        .into_iter()
        .partition(|(key, _)| key == "driver" || key == "id");
    let fields: Vec<String> = front
        .into_iter()
        .chain(rest)
        .map(|(key, value)| format!("{}:{value}", json!(key)))
        .collect();
    format!("{{{}}}", fields.join(","))
}

fn boot(args: &mut Args, spec: &Spec) {
    if let Some(kernel) = &spec.kernel {
        args.option("-kernel", kernel.kernel.display());
        if let Some(initrd) = &kernel.initrd {
            args.option("-initrd", initrd.display());
        }
        args.option("-append", &kernel.cmdline);
    }
}

fn path(path: &Path) -> String {
    escape(&path.display().to_string())
}

fn escape(text: &str) -> String {
    text.replace(',', ",,")
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Mac;

    use crate::spec::{Cdrom, Format, FwCfg, Kernel, Smbios, UsbDrive};

    /// One option a line, as a person would write them down.
    fn text(spec: &Spec) -> String {
        spec.check().unwrap();
        let fds = Fds {
            qmp: 5,
            taps: [("nic0".to_owned(), 7)].into(),
        };
        let args = render(spec, &fds);
        args.join(" ").replace(" -", "\n-")
    }

    fn disk(id: &str, bus: Bus, format: Format) -> Disk {
        Disk {
            id: id.into(),
            path: format!("/disks/{id}").into(),
            format,
            size_mib: None,
            bus,
            serial: Some(format!("serial-{id}")),
            flush: true,
            faulty: false,
        }
    }

    fn nic(id: &str, end: NicEnd) -> Nic {
        Nic {
            id: id.into(),
            mac: Mac([0x52, 0x54, 0, 0, 0, 1]),
            end,
            rom: None,
        }
    }

    #[test]
    fn a_bare_bios_machine() {
        insta::assert_snapshot!(text(&Spec::new("bare", "/run/bare", Accel::Kvm)));
    }

    #[test]
    fn a_uefi_server_with_everything() {
        let spec = Spec {
            firmware: Firmware::ovmf(),
            memory_mib: 2048,
            cpus: 2,
            disks: vec![
                disk("disk0", Bus::Virtio, Format::Qcow2),
                disk("disk1", Bus::Sata, Format::Raw),
                Disk {
                    flush: false,
                    ..disk("disk2", Bus::Nvme, Format::Raw)
                },
                Disk {
                    faulty: true,
                    ..disk("disk3", Bus::Scsi, Format::Raw)
                },
            ],
            nics: vec![
                nic(
                    "nic0",
                    NicEnd::Tap {
                        name: "tap0".into(),
                        namespace: None,
                    },
                ),
                Nic {
                    rom: Some("/roms/pxe.rom".into()),
                    ..nic("nic1", NicEnd::Isolated)
                },
            ],
            cdroms: vec![
                Cdrom {
                    id: "cd0".into(),
                    bus: CdromBus::Sata,
                },
                Cdrom {
                    id: "cd1".into(),
                    bus: CdromBus::Scsi,
                },
            ],
            usb_drives: vec![UsbDrive {
                id: "usb0".into(),
                path: "/disks/stick".into(),
                read_only: true,
            }],
            boot_order: vec!["nic0".into(), "cd0".into(), "disk0".into()],
            smbios: Smbios {
                uuid: Some("11111111-2222-3333-4444-555555555555".into()),
                serial: Some("SN,1".into()),
                manufacturer: Some("Plinth".into()),
                product: None,
                oem_strings: vec!["ignition.platform.id=qemu".into()],
            },
            fw_cfg: vec![
                FwCfg {
                    name: "opt/com.coreos/config".into(),
                    value: FwCfgValue::File("/a,b.ign".into()),
                },
                FwCfg {
                    name: "opt/org.plinth/word".into(),
                    value: FwCfgValue::Text("x,y".into()),
                },
            ],
            ..Spec::new(
                "server",
                "/run/with,comma",
                Accel::Tcg {
                    why: "no KVM".into(),
                },
            )
        };
        insta::assert_snapshot!(text(&spec));
    }

    #[test]
    fn a_kernel_started_directly() {
        let kernel = Kernel {
            kernel: "/boot/vmlinuz".into(),
            initrd: Some("/boot/initrd".into()),
            cmdline: "console=ttyS0 a=1,2".into(),
        };
        let firmware = Firmware::Bios {
            text_on_serial: true,
        };
        insta::assert_snapshot!(text(&Spec {
            kernel: Some(kernel),
            firmware,
            ..Spec::new("k", "/run/k", Accel::Kvm)
        }));
    }

    #[test]
    fn a_secure_boot_machine() {
        insta::assert_snapshot!(text(&Spec {
            firmware: Firmware::ovmf_secure(),
            ..Spec::new("s", "/run/s", Accel::Kvm)
        }));
    }
}
