//! The wire format of protobuf: numbered fields, one after another.

/// The value of a field before its type is known.
#[derive(Debug, Clone, Copy)]
pub enum Raw<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Four or eight bytes; nothing here uses them.
    Fixed,
}

/// The fields of a message; `None` once, where the bytes make no sense, and then no more.
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub fn of(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn read(&mut self) -> Option<(u32, Raw<'a>)> {
        let tag = self.number()?;
        let field = u32::try_from(tag >> 3).ok()?;
        let raw = match tag & 7 {
            0 => Raw::Number(self.number()?),
            1 => self.take(8).map(|_| Raw::Fixed)?,
            2 => {
                let length = usize::try_from(self.number()?).ok()?;
                Raw::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Raw::Fixed)?,
            _ => return None,
        };
        Some((field, raw))
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.take(1)?.first()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Option<(u32, Raw<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.read();
        if field.is_none() {
            self.rest = &[];
        }
        Some(field)
    }
}
