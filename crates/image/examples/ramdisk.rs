//! Builds the ramdisk: `cargo run -p image --example ramdisk -- AGENT [lab|metal]`.

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let options = image::ramdisk::Options {
        agent: PathBuf::from(
            arguments
                .next()
                .ok_or("give the path of the static plinth-agent")?,
        ),
        flavour: arguments.next().as_deref().unwrap_or("lab").parse()?,
        mirror: None,
        cache: None,
        refresh: false,
    };
    let built = image::ramdisk::build(&options, |progress| {
        eprintln!("{:>6.1}s {}", progress.elapsed.as_secs_f32(), progress.step);
    })?;
    eprintln!("{}", built.dir.display());
    for file in &built.manifest.files {
        eprintln!("{:>12} {}", file.size, file.name);
    }
    Ok(())
}
