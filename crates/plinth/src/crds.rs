//! `plinth crds`: the CustomResourceDefinitions of every kind that Plinth follows.

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::json;

/// Any Kubernetes API takes them: `plinth crds | kubectl apply --server-side -f -`.
#[derive(Args)]
pub struct Crds {
    /// How they are written
    #[arg(short, long, value_enum, default_value_t = Output::Yaml)]
    output: Output,
    /// Only these kinds, such as BareMetalHost; all of them unless named
    kinds: Vec<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    /// One document per definition
    Yaml,
    /// One List
    Json,
    /// Only their names
    Name,
}

pub fn run(command: &Crds) -> Result<()> {
    let chosen = choose(&command.kinds)?;
    match command.output {
        Output::Yaml => print!("{}", crd::yaml(&chosen)),
        Output::Json => {
            let list = json!({"apiVersion": "v1", "kind": "List", "items": chosen});
            println!("{}", serde_json::to_string_pretty(&list)?);
        }
        Output::Name => {
            for name in chosen.iter().filter_map(|crd| crd.metadata.name.as_ref()) {
                println!("{name}");
            }
        }
    }
    Ok(())
}

fn choose(kinds: &[String]) -> Result<Vec<crd::CustomResourceDefinition>> {
    let mut all = crd::all();
    let known: Vec<String> = all.iter().map(|crd| crd.spec.names.kind.clone()).collect();
    if let Some(unknown) = kinds
        .iter()
        .find(|kind| !known.iter().any(|name| name.eq_ignore_ascii_case(kind)))
    {
        anyhow::bail!("{unknown:?} is none of {}", known.join(", "));
    }
    if !kinds.is_empty() {
        all.retain(|crd| {
            kinds
                .iter()
                .any(|kind| kind.eq_ignore_ascii_case(&crd.spec.names.kind))
        });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_found_whatever_its_letters() {
        let found = choose(&["baremetalhost".to_owned()]).expect("it is known");
        assert_eq!(found.len(), 1);
        let error = choose(&["Pod".to_owned()]).expect_err("it is not ours");
        assert!(error.to_string().contains("MachineSet"), "{error}");
    }
}
