//! Manual pages, made from the same definitions as `--help`.

use std::path::Path;

use anyhow::{Context, Result};
use clap::CommandFactory;

pub fn write(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
    clap_mangen::generate_to(crate::Cli::command(), dir)
        .with_context(|| format!("write manual pages to {}", dir.display()))
}

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory};

    #[test]
    fn the_command_line_is_well_formed() {
        crate::Cli::command().debug_assert();
    }

    #[test]
    fn every_command_and_argument_says_what_it_is_for() {
        fn check(command: &Command, path: &str) {
            let path = format!("{path} {}", command.get_name());
            assert!(
                command.get_about().is_some() || command.is_hide_set(),
                "{path} has no description"
            );
            for argument in command.get_arguments().filter(|a| !a.is_hide_set()) {
                let described = argument.get_help().is_some() || argument.is_positional();
                assert!(
                    described,
                    "{path}: {} has no description",
                    argument.get_id()
                );
            }
            command.get_subcommands().for_each(|sub| check(sub, &path));
        }
        check(&crate::Cli::command(), "");
    }
}
