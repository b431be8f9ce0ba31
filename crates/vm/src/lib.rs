//! A QEMU machine one can define, power, attach media to and watch.
//!
//! ```text
//!   Spec ──check──▶ prepare ──▶ args (pure) ──▶ qemu process ◀── supervisor task: waits, kills
//!                   files, taps                    │  ▲
//!                                                  ▼  │ qmp task: commands out, events in
//!   Machine: reset, power button, media, links, boot order ──▶ Event, State
//! ```
//!
//! One task owns one [`Machine`]. A machine that is switched off is simply not there: keep the
//! [`Spec`], whose disks and NVRAM stay on disk, and start it again. Dropping a machine pulls its plug,
//! and QEMU never outlives this process.

pub mod accel;
mod args;
pub mod console;
pub mod disk;
mod event;
pub mod guest;
mod machine;
mod prepare;
pub mod qmp;
mod spec;

pub use accel::Accel;
pub use event::{Cause, Event, Exit, State};
pub use machine::{Error, Machine};
pub use prepare::PrepareError;
pub use spec::{
    Bus, Cdrom, CdromBus, Disk, Firmware, Format, FwCfg, FwCfgValue, Kernel, Nic, NicEnd, Smbios,
    Spec, SpecError, UsbDrive,
};
