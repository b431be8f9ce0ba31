//! Builds the OS image: `cargo run -p image --example os`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = image::os::Options::default();
    let built = image::os::build(&options, |progress| {
        eprintln!("{:>6.1}s {}", progress.elapsed.as_secs_f32(), progress.step);
    })?;
    eprintln!("{}", built.dir.display());
    for file in &built.manifest.files {
        eprintln!("{:>12} {}", file.size, file.name);
    }
    Ok(())
}
