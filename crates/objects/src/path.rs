//! Where in an object: `spec.hosts[1].bmc`, `metadata.labels[app.kubernetes.io/name]`.

use std::fmt;

/// A place in an object, as a chain up the stack: walking down allocates nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Path<'a> {
    Root,
    Field(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
    /// An entry of a map, in brackets.
    Key(&'a Path<'a>, &'a str),
}

impl<'a> Path<'a> {
    pub(crate) fn field(&'a self, name: &'a str) -> Path<'a> {
        Path::Field(self, name)
    }

    pub(crate) fn index(&'a self, index: usize) -> Path<'a> {
        Path::Index(self, index)
    }

    pub(crate) fn key(&'a self, key: &'a str) -> Path<'a> {
        Path::Key(self, key)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Field(Path::Root, name) => f.write_str(name),
            Path::Field(parent, name) => write!(f, "{parent}.{name}"),
            Path::Index(parent, index) => write!(f, "{parent}[{index}]"),
            Path::Key(parent, key) => write!(f, "{parent}[{key}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_as_kubernetes_writes_it() {
        let root = Path::Root;
        let spec = root.field("spec");
        let hosts = spec.field("hosts");
        let one = hosts.index(1);
        assert_eq!(one.field("bmc").to_string(), "spec.hosts[1].bmc");
        let metadata = root.field("metadata");
        let labels = metadata.field("labels");
        assert_eq!(labels.key("a/b").to_string(), "metadata.labels[a/b]");
        assert_eq!(root.to_string(), "");
    }
}
