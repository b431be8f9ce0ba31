//! Writes an image as the agent does: `write_image URL SHA256 DISK`.

use std::path::Path;

use agent::disk::{Checksum, Options, Source, Target, write_image};
use agent::fetch::Download;
use agent::http::Way;
use anyhow::{Context, Result};

fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let mut word = |what: &str| words.next().with_context(|| format!("say {what}"));
    let (url, checksum, disk) = (word("a URL")?, word("a checksum")?, word("a disk")?);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    let download = Download {
        client: Way::default().client()?,
        url,
        authorization: None,
        patience: agent::parameters::Download::default(),
    };
    let mut stream = download.open(runtime.handle())?;
    let mut target = Target::open(Path::new(&disk))?;
    let options = Options {
        length: stream.length,
        checksum: Some(Checksum::parse(&checksum)?),
        compression: None,
        format: None,
    };
    write_image(
        Source::Stream(&mut stream),
        &mut target,
        &options,
        None,
        &mut |_| (),
    )?;
    Ok(())
}
