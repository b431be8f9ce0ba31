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
        fn check(command: &Command, path: &str, silent: &mut Vec<String>) {
            let path = format!("{path} {}", command.get_name());
            if command.get_about().is_none() && !command.is_hide_set() {
                silent.push(path.clone());
            }
            for argument in command.get_arguments().filter(|a| !a.is_hide_set()) {
                if argument.get_help().is_none() && !argument.is_positional() {
                    silent.push(format!("{path}: {}", argument.get_id()));
                }
            }
            for command in command.get_subcommands() {
                check(command, &path, silent);
            }
        }
        let mut silent = Vec::new();
        check(&crate::Cli::command(), "", &mut silent);
        assert!(silent.is_empty(), "no description: {silent:#?}");
    }

    #[test]
    fn examples_are_shown_where_they_were_written() {
        for path in [
            "serve",
            "status",
            "status hosts",
            "host add",
            "wait-for",
            "gather",
            "console",
            "preflight",
            "lab up",
        ] {
            let mut command = crate::Cli::command();
            for name in path.split(' ') {
                let found = command.find_subcommand(name);
                command = found.expect("it is a command").clone();
            }
            let help = command.render_long_help().to_string();
            assert!(help.contains("Example"), "{path}: {help}");
        }
    }
}
