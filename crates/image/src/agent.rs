//! Building the static `plinth-agent` from this workspace, for developers and tests. An installed Plinth has it ready.

use std::path::{Path, PathBuf};

use crate::{Error, tool};

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Builds the agent in a target folder of its own (other flags than everything else) and says where it is.
pub fn build(workspace: &Path) -> Result<PathBuf, Error> {
    let target_dir = workspace.join("target/agent");
    std::fs::create_dir_all(&target_dir).map_err(Error::file("creating", &target_dir))?;
    tool::CARGO.run(
        "building plinth-agent",
        &target_dir.join("build.log"),
        |command| {
            command.current_dir(workspace);
            command.env("RUSTFLAGS", "-C target-feature=+crt-static");
            command.env("CARGO_TARGET_DIR", &target_dir);
            command.args([
                "build",
                "--profile",
                "ramdisk",
                "--target",
                TARGET,
                "-p",
                "agent",
            ]);
        },
    )?;
    Ok(target_dir.join(TARGET).join("ramdisk/plinth-agent"))
}
