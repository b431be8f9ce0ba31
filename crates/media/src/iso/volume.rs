//! Volume descriptors (ECMA-119, 8; Joliet's is a supplementary descriptor with its own escape sequence).

use super::record::{both_u16, both_u32, long_date};
use super::{Error, PathTable, SECTOR, Space};

pub struct Descriptor<'a> {
    pub space: Space,
    pub label: &'a str,
    pub publisher: &'a str,
    pub sectors: u32,
    pub path_table: PathTable,
    pub root: Vec<u8>,
    pub modified: u64,
}

impl Descriptor<'_> {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = match self.space {
            Space::Primary => header(1),
            Space::Joliet => header(2),
        };
        out.push(0);
        out.extend(self.text("", 32));
        out.extend(self.text(self.label, 32));
        out.extend([0; 8]);
        out.extend(both_u32(self.sectors));
        // UCS-2 level 3.
        let escape: &[u8] = match self.space {
            Space::Primary => b"",
            Space::Joliet => b"%/E",
        };
        out.extend(escape);
        out.resize(out.len() + 32 - escape.len(), 0);
        out.extend(both_u16(1));
        out.extend(both_u16(1));
        out.extend(both_u16(SECTOR as u16));
        out.extend(both_u32(self.path_table.len));
        let PathTable { at, sectors, .. } = self.path_table;
        out.extend(at.to_le_bytes());
        out.extend([0; 4]);
        out.extend((at + sectors).to_be_bytes());
        out.extend([0; 4]);
        out.extend(&self.root);
        out.extend(self.text("", 128));
        out.extend(self.text(self.publisher, 128));
        out.extend(self.text("", 128 + 128));
        // Copyright, abstract and bibliography file: none.
        out.extend(self.text("", 37 * 3));
        out.extend(long_date(self.modified));
        out.extend(long_date(self.modified));
        let never = [[b'0'; 16].as_slice(), &[0]].concat();
        out.extend(&never);
        out.extend(&never);
        out.extend([1, 0]);
        out.resize(SECTOR as usize, 0);
        out
    }

    /// Filled up with blanks; Joliet's blanks and letters are two bytes (an odd last byte is zero).
    fn text(&self, text: &str, len: usize) -> Vec<u8> {
        match self.space {
            Space::Primary => {
                let mut out = text.as_bytes().to_vec();
                out.resize(len, b' ');
                out
            }
            Space::Joliet => {
                let blanks = std::iter::repeat(u16::from(b' '));
                let units = text.encode_utf16().chain(blanks).take(len / 2);
                let mut out: Vec<u8> = units.flat_map(u16::to_be_bytes).collect();
                out.resize(len, 0);
                out
            }
        }
    }
}

pub fn header(kind: u8) -> Vec<u8> {
    let mut out = vec![kind];
    out.extend(b"CD001");
    out.push(1);
    out
}

pub fn terminator() -> Vec<u8> {
    let mut out = header(255);
    out.resize(SECTOR as usize, 0);
    out
}

pub fn check_names(label: &str, publisher: &str, joliet: bool) -> Result<(), Error> {
    let printable = |text: &str| text.bytes().all(|b| (b' '..=b'~').contains(&b));
    let limit = if joliet { 16 } else { 32 };
    if label.is_empty() || label.len() > limit || !printable(label) {
        let label = label.to_owned();
        return Err(Error::Label { label, limit });
    }
    // Joliet's field holds half as many; what does not fit is cut off there only.
    if publisher.len() > 128 || !printable(publisher) {
        return Err(Error::Publisher(publisher.to_owned()));
    }
    Ok(())
}
