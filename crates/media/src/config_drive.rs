//! Config drives, as OpenStack defines them: a small ISO labelled `config-2` that Ignition and cloud-init read.

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::iso::{self, Boot, File, Image};
use crate::layout::{Content, Layout};

/// What a config drive tells the operating system at its first boot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfigDrive {
    /// JSON; `{}` when left out.
    pub meta_data: Option<Vec<u8>>,
    /// An Ignition config, a cloud-init script.
    pub user_data: Option<Vec<u8>>,
    /// JSON.
    pub network_data: Option<Vec<u8>>,
    /// JSON.
    pub vendor_data: Option<Vec<u8>>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the config drive is {0} MiB or more; at most {MAX_MIB} MiB fit")]
    TooLarge(u64),
    #[error("the config drive is neither base64 of a gzipped ISO nor an ISO")]
    NotAConfigDrive,
    #[error("the config drive cannot be unpacked")]
    Unpack(#[source] std::io::Error),
    #[error("the config drive cannot be laid out")]
    Layout(#[from] iso::Error),
}

/// The partition that is made for it on the disk.
pub const MAX_MIB: u64 = 64;
pub const LABEL: &str = "config-2";
/// The versions that readers look under.
const VERSIONS: [&str; 2] = ["latest", "2012-08-10"];

impl ConfigDrive {
    /// `modified` is in seconds since 1970.
    pub fn layout(&self, modified: u64) -> Result<Layout<std::convert::Infallible>, Error> {
        let named = [
            (
                "meta_data.json",
                Some(self.meta_data.clone().unwrap_or_else(|| b"{}".to_vec())),
            ),
            ("user_data", self.user_data.clone()),
            ("network_data.json", self.network_data.clone()),
            ("vendor_data2.json", self.vendor_data.clone()),
        ];
        let present: Vec<_> = named
            .into_iter()
            .filter_map(|(name, bytes)| Some((name, bytes?)))
            .collect();
        let files = VERSIONS.iter().flat_map(|version| {
            present.iter().map(move |(name, bytes)| File {
                path: format!("openstack/{version}/{name}"),
                content: Content::Bytes(bytes.clone()),
            })
        });
        let image = Image {
            label: LABEL.into(),
            publisher: String::new(),
            files: files.collect(),
            joliet: true,
            boot: Boot::default(),
            modified,
        };
        let layout = image.layout()?;
        if layout.len() > MAX_MIB << 20 {
            return Err(Error::TooLarge(layout.len() >> 20));
        }
        Ok(layout)
    }
}

/// Unpacks a config drive as clients send it: base64 of a gzipped ISO, or the gzip or the ISO itself.
pub fn unpack(given: &[u8]) -> Result<Vec<u8>, Error> {
    if let Some(iso) = whole(given)? {
        return Ok(iso);
    }
    let text: Vec<u8> = given
        .iter()
        .copied()
        .filter(|byte| !byte.is_ascii_whitespace())
        .collect();
    let bytes = STANDARD.decode(text).map_err(|_| Error::NotAConfigDrive)?;
    whole(&bytes)?.ok_or(Error::NotAConfigDrive)
}

/// The ISO in these bytes, if they are one, gzipped or not.
fn whole(bytes: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let most = (MAX_MIB << 20) + 1;
        let mut iso = vec![];
        flate2::read::MultiGzDecoder::new(bytes)
            .take(most)
            .read_to_end(&mut iso)
            .map_err(Error::Unpack)?;
        return Ok(Some(checked(iso)?));
    }
    if is_iso(bytes) {
        Ok(Some(checked(bytes.to_vec())?))
    } else {
        Ok(None)
    }
}

fn checked(iso: Vec<u8>) -> Result<Vec<u8>, Error> {
    if iso.len() as u64 > MAX_MIB << 20 {
        return Err(Error::TooLarge(iso.len() as u64 >> 20));
    }
    if !is_iso(&iso) {
        return Err(Error::NotAConfigDrive);
    }
    Ok(iso)
}

fn is_iso(bytes: &[u8]) -> bool {
    bytes.get(0x8001..0x8006) == Some(b"CD001")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    fn iso() -> Vec<u8> {
        let drive = ConfigDrive {
            user_data: Some(b"{\"ignition\":{}}".to_vec()),
            ..ConfigDrive::default()
        };
        let mut iso = vec![];
        drive
            .layout(0)
            .unwrap()
            .write_to(&mut iso, |never| -> std::io::Result<&[u8]> {
                match *never {}
            })
            .unwrap();
        iso
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn every_form_that_clients_send_gives_the_same_iso() {
        let text = STANDARD.encode(gzip(&iso()));
        let folded = text.as_bytes().chunks(76).collect::<Vec<_>>().join(&b'\n');
        for given in [text.into_bytes(), folded, gzip(&iso()), iso()] {
            assert!(unpack(&given).unwrap() == iso());
        }
    }

    #[test]
    fn both_versions_hold_the_files_and_meta_data_is_always_there() {
        let iso = iso();
        assert_eq!(
            iso.windows(15)
                .filter(|bytes| *bytes == b"{\"ignition\":{}}")
                .count(),
            2
        );
        assert_eq!(&iso[0x8028..0x8030], b"config-2");
    }

    #[test]
    fn what_is_too_large_or_something_else_is_refused() {
        assert!(
            matches!(unpack(&gzip(&vec![0; 65 << 20])), Err(Error::TooLarge(_))),
            "a bomb"
        );
        assert!(matches!(
            unpack(b"<html>not found</html>"),
            Err(Error::NotAConfigDrive)
        ));
        assert!(matches!(
            unpack(&gzip(b"hello")),
            Err(Error::NotAConfigDrive)
        ));
        let large = ConfigDrive {
            user_data: Some(vec![0; 40 << 20]),
            ..ConfigDrive::default()
        };
        assert!(matches!(large.layout(0), Err(Error::TooLarge(80))));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_config_drive_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            _ = unpack(&bytes);
        }
    }
}
