//! What a volume says of itself in fixed places.

/// The label of an ISO 9660 or FAT volume that begins with these bytes; 64 KiB are enough.
pub fn label(head: &[u8]) -> Option<String> {
    let field = if slice(head, 0x8001, 5) == Some(b"CD001") {
        slice(head, 0x8028, 32)?
    } else if slice(head, 82, 5) == Some(b"FAT32") {
        slice(head, 71, 11)?
    } else if slice(head, 54, 3) == Some(b"FAT") {
        slice(head, 43, 11)?
    } else {
        return None;
    };
    Some(
        String::from_utf8_lossy(field)
            .trim_end_matches([' ', '\0'])
            .to_owned(),
    )
}

/// How many first bytes [`shared`] wants to see.
pub const SHARED_HEAD: usize = (2 << 20) + 512;

/// The file system of several machines at once that begins with these bytes, if one does.
pub fn shared(head: &[u8]) -> Option<&'static str> {
    // GFS2: superblock at 64 KiB, big endian magic and type 1. VMFS: volume at 1 MiB, file system at 2 MiB.
    let gfs2 = [0x01, 0x16, 0x19, 0x70, 0, 0, 0, 1];
    if slice(head, 64 << 10, 8) == Some(&gfs2) {
        Some("GFS2")
    } else if slice(head, 1 << 20, 4) == Some(&0xc001_d00d_u32.to_le_bytes())
        || slice(head, 2 << 20, 4) == Some(&0x2fab_f15e_u32.to_le_bytes())
    {
        Some("VMFS")
    } else {
        None
    }
}

/// GPFS is known by its partition type: 37AFFC90-EF7D-4E96-91C3-2D7AE055B174.
pub const GPFS: uuid::Uuid = uuid::Uuid::from_u128(0x37af_fc90_ef7d_4e96_91c3_2d7a_e055_b174);

fn slice(bytes: &[u8], at: usize, len: usize) -> Option<&[u8]> {
    bytes.get(at..at + len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(parts: &[(usize, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; SHARED_HEAD];
        for (at, part) in parts {
            bytes[*at..at + part.len()].copy_from_slice(part);
        }
        bytes
    }

    #[test]
    fn labels_are_read_where_each_file_system_keeps_them() {
        let iso = with(&[
            (0x8001, b"CD001"),
            (0x8028, b"config-2                        "),
        ]);
        let fat32 = with(&[(82, b"FAT32   "), (71, b"CONFIG-2   ")]);
        let fat16 = with(&[(54, b"FAT16   "), (43, b"CONFIG-2   ")]);
        assert_eq!(label(&iso).as_deref(), Some("config-2"));
        assert_eq!(label(&fat32).as_deref(), Some("CONFIG-2"));
        assert_eq!(label(&fat16).as_deref(), Some("CONFIG-2"));
        assert_eq!(label(&with(&[])), None);
        assert_eq!(label(b"short"), None);
    }

    #[test]
    fn file_systems_of_several_machines_are_seen() {
        let gfs2 = with(&[(64 << 10, &[1, 0x16, 0x19, 0x70, 0, 0, 0, 1])]);
        let volume = with(&[(1 << 20, &[0x0d, 0xd0, 0x01, 0xc0])]);
        let system = with(&[(2 << 20, &[0x5e, 0xf1, 0xab, 0x2f])]);
        assert_eq!(shared(&gfs2), Some("GFS2"));
        assert_eq!(shared(&volume), Some("VMFS"));
        assert_eq!(shared(&system), Some("VMFS"));
        assert_eq!(shared(&with(&[])), None);
    }
}
