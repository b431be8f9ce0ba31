//! The directories of an image, in both name spaces.

use std::collections::{BTreeMap, BTreeSet};

use super::record::{Endian, Record, rock_ridge, rock_ridge_root};
use super::{Error, File, SECTOR, Space, names, pad_to_sector};

/// ECMA-119, 6.8.2.1: eight levels, the root being the first.
pub const DEPTH: usize = 7;

pub struct Tree {
    /// The root is the first.
    dirs: Vec<Dir>,
    files: Vec<Place>,
    /// Indices of `dirs` in path-table order, for each name space.
    order: [Vec<usize>; 2],
}

struct Dir {
    parent: usize,
    entries: Vec<Entry>,
    /// The name this directory has in its parent, in both name spaces.
    identifier: [Vec<u8>; 2],
    place: [Place; 2],
}

struct Entry {
    name: String,
    identifier: [Vec<u8>; 2],
    node: Node,
}

#[derive(Clone, Copy)]
enum Node {
    Dir(usize),
    File(usize),
}

#[derive(Clone, Copy, Default)]
struct Place {
    sector: u32,
    len: u32,
}

/// What the paths say before anything is numbered.
enum Branch {
    Dir(BTreeMap<String, Branch>),
    File(usize),
}

impl Tree {
    pub fn build<T>(files: &[File<T>], joliet: bool) -> Result<Self, Error> {
        let mut root = BTreeMap::new();
        let mut places = Vec::new();
        for (index, file) in files.iter().enumerate() {
            insert(&mut root, index, &file.path, joliet)?;
            let len = u32::try_from(file.content.len()).map_err(|_| Error::TooLarge {
                path: file.path.clone(),
                len: file.content.len(),
            })?;
            places.push(Place { sector: 0, len });
        }
        let mut tree = Self {
            dirs: Vec::new(),
            files: places,
            order: [Vec::new(), Vec::new()],
        };
        tree.grow(0, [vec![0], vec![0]], root);
        tree.order = [Space::Primary, Space::Joliet].map(|space| tree.path_order(space));
        if tree.dirs.len() > usize::from(u16::MAX) {
            return Err(Error::TooManyDirectories(tree.dirs.len()));
        }
        Ok(tree)
    }

    fn grow(
        &mut self,
        parent: usize,
        identifier: [Vec<u8>; 2],
        branches: BTreeMap<String, Branch>,
    ) -> usize {
        let here = self.dirs.len();
        self.dirs.push(Dir {
            parent,
            entries: Vec::new(),
            identifier,
            place: [Place::default(); 2],
        });
        let mut taken = BTreeSet::new();
        for (name, branch) in branches {
            let is_dir = matches!(branch, Branch::Dir(_));
            let identifier = [
                names::level_one(&name, is_dir, &mut taken),
                names::joliet(&name),
            ];
            let node = match branch {
                Branch::File(index) => Node::File(index),
                Branch::Dir(below) => Node::Dir(self.grow(here, identifier.clone(), below)),
            };
            self.dirs[here].entries.push(Entry {
                name,
                identifier,
                node,
            });
        }
        here
    }

    /// By depth, then by the parent's place in the table, then by name (ECMA-119, 6.9.1).
    fn path_order(&self, space: Space) -> Vec<usize> {
        let mut order = vec![0];
        let mut next = 0;
        while next < order.len() {
            let here = order[next];
            order.extend(self.sorted(here, space).into_iter().filter_map(
                |entry| match entry.node {
                    Node::Dir(index) => Some(index),
                    Node::File(_) => None,
                },
            ));
            next += 1;
        }
        order
    }

    fn sorted(&self, dir: usize, space: Space) -> Vec<&Entry> {
        let mut entries: Vec<_> = self.dirs[dir].entries.iter().collect();
        entries.sort_by_key(|entry| &entry.identifier[space.index()]);
        entries
    }

    pub fn path_table_len(&self, space: Space) -> u64 {
        self.dirs
            .iter()
            .map(|dir| 8 + dir.identifier[space.index()].len().next_multiple_of(2) as u64)
            .sum()
    }

    /// ECMA-119, 9.4. Both orders are padded to whole sectors.
    pub fn path_table(&self, space: Space, endian: Endian) -> Vec<u8> {
        let order = &self.order[space.index()];
        let numbers: BTreeMap<_, _> = order.iter().zip(1u16..).collect();
        let mut out = Vec::new();
        for &index in order {
            let dir = &self.dirs[index];
            let identifier = &dir.identifier[space.index()];
            let (sector, parent) = (dir.place[space.index()].sector, numbers[&dir.parent]);
            out.extend([identifier.len() as u8, 0]);
            match endian {
                Endian::Little => {
                    out.extend(sector.to_le_bytes());
                    out.extend(parent.to_le_bytes());
                }
                Endian::Big => {
                    out.extend(sector.to_be_bytes());
                    out.extend(parent.to_be_bytes());
                }
            }
            out.extend(identifier);
            if identifier.len() % 2 == 1 {
                out.push(0);
            }
        }
        pad_to_sector(&mut out);
        out
    }

    /// Gives every directory its sectors, from `at` on; says where the next thing may start.
    pub fn place_directories(&mut self, space: Space, mut at: u64) -> u64 {
        for index in self.order[space.index()].clone() {
            let len = self.directory(index, space, 0).len() as u64;
            self.dirs[index].place[space.index()] = Place {
                sector: at as u32,
                len: len as u32,
            };
            at += len / SECTOR;
        }
        at
    }

    pub fn place_files(&mut self, starts: &[u32]) {
        for (place, start) in self.files.iter_mut().zip(starts) {
            place.sector = *start;
        }
    }

    pub fn directories(&self, space: Space, modified: u64) -> Vec<u8> {
        let order = &self.order[space.index()];
        order
            .iter()
            .flat_map(|&index| self.directory(index, space, modified))
            .collect()
    }

    /// The root's record as the volume descriptor repeats it: without Rock Ridge fields.
    pub fn root_record(&self, space: Space, modified: u64) -> Vec<u8> {
        let place = self.dirs[0].place[space.index()];
        Record {
            identifier: &[0],
            sector: place.sector,
            len: place.len,
            is_dir: true,
            modified,
            system_use: Vec::new(),
        }
        .encode()
    }

    /// A directory's content: itself, its parent, its entries; no record crosses a sector (ECMA-119, 6.8.1.1).
    fn directory(&self, index: usize, space: Space, modified: u64) -> Vec<u8> {
        let dir = &self.dirs[index];
        let record = |identifier: &[u8], place: Place, is_dir, system_use| {
            let system_use = match space {
                Space::Primary => system_use,
                Space::Joliet => Vec::new(),
            };
            Record {
                identifier,
                sector: place.sector,
                len: place.len,
                is_dir,
                modified,
                system_use,
            }
            .encode()
        };
        let here = dir.place[space.index()];
        let above = self.dirs[dir.parent].place[space.index()];
        let own_fields = if index == 0 {
            rock_ridge_root()
        } else {
            rock_ridge(None, true, 2)
        };
        let mut records = vec![
            record(&[0], here, true, own_fields),
            record(&[1], above, true, rock_ridge(None, true, 2)),
        ];
        for entry in self.sorted(index, space) {
            let (place, is_dir) = match entry.node {
                Node::Dir(index) => (self.dirs[index].place[space.index()], true),
                Node::File(index) => (self.files[index], false),
            };
            let fields = rock_ridge(Some(&entry.name), is_dir, if is_dir { 2 } else { 1 });
            records.push(record(
                &entry.identifier[space.index()],
                place,
                is_dir,
                fields,
            ));
        }
        let mut out = Vec::new();
        for record in records {
            let room = SECTOR as usize - out.len() % SECTOR as usize;
            if record.len() > room {
                pad_to_sector(&mut out);
            }
            out.extend(record);
        }
        pad_to_sector(&mut out);
        out
    }
}

fn insert(
    root: &mut BTreeMap<String, Branch>,
    index: usize,
    path: &str,
    joliet: bool,
) -> Result<(), Error> {
    let twice = || Error::Twice {
        path: path.to_owned(),
    };
    let parts: Vec<&str> = path.split('/').collect();
    let (name, dirs) = parts.split_last().expect("split gives at least one part");
    if dirs.len() > DEPTH {
        return Err(Error::TooDeep {
            path: path.to_owned(),
        });
    }
    let mut here = root;
    for dir in dirs {
        names::check(path, dir, joliet)?;
        let branch = here
            .entry((*dir).to_owned())
            .or_insert_with(|| Branch::Dir(BTreeMap::new()));
        here = match branch {
            Branch::Dir(below) => below,
            Branch::File(_) => return Err(twice()),
        };
    }
    names::check(path, name, joliet)?;
    match here.insert((*name).to_owned(), Branch::File(index)) {
        None => Ok(()),
        Some(_) => Err(twice()),
    }
}
