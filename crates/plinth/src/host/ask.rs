//! Asking a person at a terminal for what is missing.

use std::io::Write as _;

use anyhow::{Context, Result, bail};

use super::entry::check;
use super::written::{Field, Written};

/// So often an answer may be wrong.
const TRIES: usize = 5;

/// Asks for what a host needs and lacks, until each answer is good.
pub fn missing(row: &mut Written) -> Result<()> {
    for (field, question, optional) in [
        (Field::Name, "Name of the host", false),
        (
            Field::Bmc,
            "Address of its BMC, such as redfish-virtualmedia://192.0.2.10/redfish/v1/Systems/1",
            false,
        ),
        (Field::Username, "User at the BMC", false),
        (Field::Password, "Password", false),
        (
            Field::Mac,
            "MAC address of the NIC that boots (empty where it boots from virtual media)",
            true,
        ),
    ] {
        if row.lacks(field) {
            let answer = good(field, question, optional)?;
            row.or(field, &answer);
        }
    }
    Ok(())
}

/// One password for all hosts of a file that have none.
pub fn passwords(rows: &mut [Written]) -> Result<()> {
    let without: Vec<&mut Written> = rows
        .iter_mut()
        .filter(|row| row.lacks(Field::Password))
        .collect();
    if without.is_empty() {
        return Ok(());
    }
    let question = format!("Password of the {} hosts without one", without.len());
    let answer = good(Field::Password, &question, false)?;
    for row in without {
        row.set(Field::Password, &answer);
    }
    Ok(())
}

fn good(field: Field, question: &str, optional: bool) -> Result<String> {
    for _ in 0..TRIES {
        let answer = match field {
            Field::Password => hidden(question)?,
            Field::Name
            | Field::Bmc
            | Field::Username
            | Field::Mac
            | Field::BootMode
            | Field::RootDevice
            | Field::Online
            | Field::VerifyTls
            | Field::Labels
            | Field::Description => shown(question)?,
        };
        if optional && answer.is_empty() {
            return Ok(answer);
        }
        match check(field, &answer) {
            Ok(()) => return Ok(answer),
            Err(why) => eprintln!("  {why}"),
        }
    }
    bail!("{}: {TRIES} answers were wrong", field.name())
}

fn shown(question: &str) -> Result<String> {
    eprint!("{question}: ");
    std::io::stderr().flush().context("ask")?;
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    if read.context("read the answer")? == 0 {
        bail!("there was no answer");
    }
    Ok(answer.trim().to_owned())
}

/// Typed twice: nobody saw it.
fn hidden(question: &str) -> Result<String> {
    let read = |question: &str| {
        linux::terminal::read_hidden(&format!("{question}: ")).context("read the password")
    };
    let first = read(question)?;
    if first == read("The same again")? {
        return Ok(first);
    }
    eprintln!("  they are not the same");
    Ok(String::new())
}
