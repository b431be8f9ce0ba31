//! Fields of the API's objects as tables: since which version, how read, how written.

use serde::Serialize;
use serde::ser::{SerializeMap as _, Serializer};
use serde_json::{Value, json};

use super::cell::Cell;
use super::fault::Fault;
use super::request::escape;
use super::version::Version;
use crate::record::Object;

/// What a value depends on besides its record.
pub struct Scope<'a> {
    pub base: &'a str,
    pub version: Version,
    /// The name of this service among conductors.
    pub host: &'a str,
}

type Read<T> = for<'a> fn(&'a T, &'a Scope<'a>) -> Cell<'a>;
/// Puts a value into a record, `null` for the field's default; or says what is wrong with it.
type Write<T> = fn(&mut T, Value) -> Result<(), String>;

pub struct Field<T: 'static> {
    pub name: &'static str,
    pub since: u16,
    pub read: Read<T>,
    pub write: Option<Write<T>>,
}

impl<T> Field<T> {
    pub const fn shown(name: &'static str, since: u16, read: Read<T>) -> Self {
        Self {
            name,
            since,
            read,
            write: None,
        }
    }

    pub const fn settable(name: &'static str, since: u16, read: Read<T>, write: Write<T>) -> Self {
        Self {
            name,
            since,
            read,
            write: Some(write),
        }
    }
}

/// An object of the API: its table of fields, and where it lives.
pub trait Resource: Sized + Send + Sync + 'static {
    /// The path element and the key of collections: `nodes`.
    const PLURAL: &'static str;
    /// For messages: `node`.
    const SINGULAR: &'static str;
    const FIELDS: &'static [Field<Self>];
    /// Shown in lists that ask for nothing else.
    const BRIEF: &'static [&'static str];
    /// Collections that belong to each object, and since when: `("ports", 1)`.
    const PARTS: &'static [(&'static str, u16)];

    /// What stands in its links.
    fn ident(&self) -> String;
}

pub type Fields<T> = Vec<&'static Field<T>>;

pub fn find<T: Resource>(name: &str) -> Option<&'static Field<T>> {
    T::FIELDS.iter().find(|field| field.name == name)
}

/// A field by its name, if there is one and the version has it.
pub fn pick<T: Resource>(name: &str, version: Version) -> Result<&'static Field<T>, Fault> {
    let field = find::<T>(name).ok_or_else(|| {
        let name: String = name.chars().take(64).collect();
        Fault::bad_request(format!("A {} has no field {name:?}.", T::SINGULAR))
    })?;
    version.needs(field.since, &format!("Field {name:?}"))?;
    Ok(field)
}

pub fn all<T: Resource>(version: Version) -> Fields<T> {
    T::FIELDS
        .iter()
        .filter(|field| field.since <= version.0)
        .collect()
}

pub fn brief<T: Resource>(version: Version) -> Fields<T> {
    all::<T>(version)
        .into_iter()
        .filter(|field| T::BRIEF.contains(&field.name))
        .collect()
}

/// The fields a request names; `links` come with any.
pub fn named<T: Resource>(names: &[String], version: Version) -> Result<Fields<T>, Fault> {
    version.needs(8, "Choosing fields")?;
    names
        .iter()
        .filter(|name| *name != "links")
        .map(|name| pick(name, version))
        .collect()
}

/// Writes an object's properties into a record.
pub fn write<T: Resource>(
    record: &mut T,
    name: &str,
    value: Value,
    version: Version,
) -> Result<(), Fault> {
    let field = pick::<T>(name, version)?;
    let Some(write) = field.write else {
        return Err(Fault::bad_request(format!(
            "{name} of a {} cannot be set this way.",
            T::SINGULAR
        )));
    };
    write(record, value).map_err(|problem| Fault::bad_request(format!("{name}: {problem}")))
}

/// Writes all properties of a body but those named.
pub fn write_all<T: Resource>(
    record: &mut T,
    body: &Object,
    but: &[&str],
    version: Version,
) -> Result<(), Fault> {
    for (name, value) in body
        .iter()
        .filter(|(name, _)| !but.contains(&name.as_str()))
    {
        write(record, name, value.clone(), version)?;
    }
    Ok(())
}

/// An object as a client sees it.
pub struct View<'a, T: Resource> {
    pub row: &'a T,
    pub fields: &'a [&'static Field<T>],
    pub scope: &'a Scope<'a>,
    /// Whether links to its parts are shown: when the whole object is.
    pub parts: bool,
}

impl<T: Resource> Serialize for View<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for field in self.fields {
            map.serialize_entry(field.name, &(field.read)(self.row, self.scope))?;
        }
        let here = format!("{}/{}", T::PLURAL, escape(&self.row.ident()));
        map.serialize_entry(
            "links",
            &Links {
                base: self.scope.base,
                path: &here,
            },
        )?;
        if self.parts {
            for (part, since) in T::PARTS {
                if self.scope.version.0 >= *since {
                    map.serialize_entry(
                        part,
                        &Links {
                            base: self.scope.base,
                            path: &format!("{here}/{part}"),
                        },
                    )?;
                }
            }
        }
        map.end()
    }
}

/// The whole object.
pub fn whole<T: Resource>(row: &T, scope: &Scope<'_>) -> Value {
    let fields = all::<T>(scope.version);
    serde_json::to_value(View {
        row,
        fields: &fields,
        scope,
        parts: true,
    })
    .expect("fields have only text for keys")
}

struct Links<'a> {
    base: &'a str,
    path: &'a str,
}

impl Serialize for Links<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Link<'a> {
            href: std::fmt::Arguments<'a>,
            rel: &'a str,
        }
        let Self { base, path } = self;
        [
            Link {
                href: format_args!("{base}/v1/{path}"),
                rel: "self",
            },
            Link {
                href: format_args!("{base}/{path}"),
                rel: "bookmark",
            },
        ]
        .serialize(serializer)
    }
}

/// The two links of anything that has a path.
pub fn links(base: &str, path: &str) -> Value {
    json!([{"href": format!("{base}/v1/{path}"), "rel": "self"}, {"href": format!("{base}/{path}"), "rel": "bookmark"}])
}
