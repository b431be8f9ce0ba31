//! A host as it was written, by whom ever: text, field by field.

use std::collections::BTreeMap;

use super::csv;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    Name,
    Bmc,
    Username,
    Password,
    Mac,
    BootMode,
    RootDevice,
    Online,
    VerifyTls,
    Labels,
    Description,
}

impl Field {
    pub const ALL: [Self; 11] = [
        Self::Name,
        Self::Bmc,
        Self::Username,
        Self::Password,
        Self::Mac,
        Self::BootMode,
        Self::RootDevice,
        Self::Online,
        Self::VerifyTls,
        Self::Labels,
        Self::Description,
    ];

    /// Its column in a file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Bmc => "bmc",
            Self::Username => "username",
            Self::Password => "password",
            Self::Mac => "mac",
            Self::BootMode => "boot_mode",
            Self::RootDevice => "root_device",
            Self::Online => "online",
            Self::VerifyTls => "verify_tls",
            Self::Labels => "labels",
            Self::Description => "description",
        }
    }

    /// No host is without.
    pub fn is_needed(self) -> bool {
        match self {
            Self::Name | Self::Bmc | Self::Username | Self::Password => true,
            Self::Mac
            | Self::BootMode
            | Self::RootDevice
            | Self::Online
            | Self::VerifyTls
            | Self::Labels
            | Self::Description => false,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase().replace([' ', '-'], "_");
        Self::ALL.into_iter().find(|field| field.name() == text)
    }
}

/// Never shown whole: it may hold a password.
#[derive(Clone)]
pub struct Written {
    /// `line 3`; empty where there is only one host.
    pub place: String,
    fields: BTreeMap<Field, String>,
}

impl Written {
    pub fn new(place: String) -> Self {
        Self {
            place,
            fields: BTreeMap::new(),
        }
    }

    /// Empty where it is not said.
    pub fn get(&self, field: Field) -> &str {
        self.fields.get(&field).map_or("", String::as_str)
    }

    pub fn lacks(&self, field: Field) -> bool {
        self.get(field).is_empty()
    }

    /// Says it, where it was not said.
    pub fn or(&mut self, field: Field, value: &str) {
        if self.lacks(field) && !value.is_empty() {
            self.fields.insert(field, value.to_owned());
        }
    }

    pub fn set(&mut self, field: Field, value: &str) {
        self.fields.insert(field, value.to_owned());
    }

    /// A problem, with the place it is at.
    pub fn problem(&self, field: Field, why: &str) -> String {
        if self.place.is_empty() {
            format!("{}: {why}", field.name())
        } else {
            format!("{}: {}: {why}", self.place, field.name())
        }
    }
}

/// The hosts of a CSV file, or what is wrong with the file itself.
pub fn table(text: &str) -> Result<Vec<Written>, Vec<String>> {
    let records = csv::parse(text)
        .map_err(|line| vec![format!("line {line}: a quote is opened and never closed")])?;
    let Some((head, records)) = records.split_first() else {
        return Err(vec![
            "there is nothing in it; begin with the line name,bmc,username,password,mac".to_owned(),
        ]);
    };
    let mut problems = Vec::new();
    let mut columns = Vec::new();
    for (number, cell) in head.cells.iter().enumerate() {
        let field = Field::parse(cell);
        match field {
            None => problems.push(format!(
                "line {}: column {} is {cell:?}; there are {}",
                head.line,
                number + 1,
                Field::ALL.map(Field::name).join(", ")
            )),
            Some(field) if columns.contains(&Some(field)) => problems.push(format!(
                "line {}: the column {} is there twice",
                head.line,
                field.name()
            )),
            Some(_) => {}
        }
        columns.push(field);
    }
    if records.is_empty() && problems.is_empty() {
        problems.push("there are no hosts below the names of the columns".to_owned());
    }
    let mut rows = Vec::new();
    for record in records {
        if record.cells.len() != columns.len() {
            // Never what is in it: that may be a password.
            problems.push(format!(
                "line {}: {} values for {} columns; put a value with a comma into double quotes",
                record.line,
                record.cells.len(),
                columns.len()
            ));
            continue;
        }
        let mut row = Written::new(format!("line {}", record.line));
        for (field, value) in columns.iter().zip(&record.cells) {
            if let Some(field) = field {
                row.or(*field, value);
            }
        }
        rows.push(row);
    }
    if problems.is_empty() {
        Ok(rows)
    } else {
        Err(problems)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_by_the_names_of_its_columns() {
        let rows =
            table("MAC,Name,boot mode\n,w0,legacy\n52:54:00:00:00:01,w1,\n").expect("it is one");
        assert_eq!(rows[0].get(Field::Name), "w0");
        assert_eq!(rows[0].get(Field::BootMode), "legacy");
        assert!(rows[0].lacks(Field::Mac));
        assert_eq!(rows[1].place, "line 3");
    }

    #[test]
    fn what_is_wrong_with_a_table_is_told_at_once() {
        let Err(problems) = table("name,passwd,name\nw0,secret\nw1,a,b,c\n") else {
            panic!("it is refused")
        };
        assert_eq!(problems.len(), 4, "{problems:#?}");
        assert!(problems[0].contains("column 2 is \"passwd\""));
        assert!(problems[1].contains("twice"));
        assert!(problems[2].contains("line 2: 2 values for 3 columns"));
        assert!(problems.iter().all(|problem| !problem.contains("secret")));
        assert!(table("").is_err());
        assert!(table("name,bmc\n").is_err());
    }
}
