//! `plinth-agent`: the only program in the ramdisk. As PID 1 it makes the server usable, tells what it is and does
//! what Ironic says; with `--inventory` it prints the hardware of the machine it runs on.
//!
//! ```text
//! init ──> coldplug (drivers) ──> medium (CD) ──> network (links, DHCP) ──> inventory ──> agent::ipa over metal
//!                                                                     buttons, signals ──> off
//! ```

mod button;
mod coldplug;
mod console;
mod init;
mod inventory;
mod logs;
mod medium;
mod metal;
mod network;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    if std::process::id() == 1 {
        return init::run();
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [only] if only == "--inventory" => print_inventory(),
        [only] if only == "--version" => {
            console::line(concat!("plinth-agent ", env!("CARGO_PKG_VERSION")));
            ExitCode::SUCCESS
        }
        _ => {
            console::line(
                "usage: plinth-agent --inventory | --version\n\nAs process 1 it runs the ramdisk.",
            );
            ExitCode::from(2)
        }
    }
}

fn print_inventory() -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            console::line(&format!("plinth-agent: cannot start: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let addresses = runtime.block_on(network::addresses());
    let inventory = inventory::collect(Path::new("/"), &addresses);
    console::line(
        &serde_json::to_string_pretty(&inventory).expect("an inventory has only string keys"),
    );
    ExitCode::SUCCESS
}
