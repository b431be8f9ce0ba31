//! Brings the payload here from another server of the cluster, so that any of them can serve it.
//!
//! A file is taken only whole and with the checksum that the list promises; what was fetched in part is gone on with.

use std::io::SeekFrom;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::Secret;
use model::payload::{Entry, INDEX, Index, PROGRAM};
use sha2::{Digest, Sha256};
use tokio::fs::{self, File, OpenOptions};
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, AsyncWriteExt as _, BufWriter};
use tracing::{info, warn};

use crate::config::Replicate;
use crate::payload;

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("ask {url}")]
    Ask { url: String, source: reqwest::Error },
    #[error("{url} answers {status}")]
    Status { url: String, status: u16 },
    #[error(transparent)]
    List(#[from] model::payload::Error),
    #[error("write {path}")]
    Write {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{name} has the checksum {found}, and the list says {wanted}")]
    Checksum {
        name: String,
        found: String,
        wanted: String,
    },
    #[error("{name} is longer than the {size} bytes that the list says")]
    TooLong { name: String, size: u64 },
}

/// After a failure, twice as long each time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
const CONNECT: Duration = Duration::from_secs(5);
/// Between two pieces of a file.
const SILENCE: Duration = Duration::from_secs(30);

/// The payload comes in the end, whatever became of the sign for it.
const LATEST: Duration = Duration::from_mins(10);
const LOOK: Duration = Duration::from_secs(2);

/// Returns when the payload is here.
pub async fn run(from: &Replicate, dir: &Path) {
    let mut pause = FIRST_PAUSE;
    let mut said = None;
    if payload::read(dir).await.is_none() {
        wait_for_turn(from).await;
    }
    loop {
        if payload::read(dir).await.is_some() {
            return;
        }
        match fetch(from, dir).await {
            Ok(files) => {
                info!(files, "the payload is here");
                return;
            }
            Err(error) => {
                let why = model::chain(&error);
                if said.as_ref() != Some(&why) {
                    warn!(
                        why,
                        from = from.from,
                        "the payload is not here yet, and is tried for again"
                    );
                    said = Some(why);
                }
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

async fn wait_for_turn(from: &Replicate) {
    if let Some(sign) = &from.after {
        wait_for(sign).await;
    }
    if !from.delay.is_zero() {
        let seconds = from.delay.as_secs();
        info!(seconds, "others fetch the payload first");
        tokio::time::sleep(from.delay).await;
    }
}

async fn wait_for(sign: &Path) {
    let here = async || fs::try_exists(sign).await.unwrap_or(false);
    if here().await {
        return;
    }
    info!(after = %sign.display(), "the payload can wait");
    let coming = async {
        while !here().await {
            tokio::time::sleep(LOOK).await;
        }
    };
    if tokio::time::timeout(LATEST, coming).await.is_err() {
        let minutes = LATEST.as_secs() / 60;
        warn!(after = %sign.display(), minutes, "the payload waits no longer");
    }
}

async fn fetch(from: &Replicate, dir: &Path) -> Result<usize, Error> {
    let source = Source::new(from)?;
    let index = source.list().await?;
    for entry in &index.files {
        source.file(entry, dir).await?;
    }
    let text = serde_json::to_vec_pretty(&index).expect("a list is JSON");
    let (draft, path) = (dir.join(".index.new"), dir.join(INDEX));
    let written = async {
        let mut file = File::create(&draft).await?;
        file.write_all(&text).await?;
        file.sync_all().await?;
        fs::rename(&draft, &path).await
    };
    written
        .await
        .map_err(|source| Error::Write { path, source })?;
    Ok(index.files.len())
}

struct Source<'a> {
    from: &'a Replicate,
    http: reqwest::Client,
}

impl<'a> Source<'a> {
    fn new(from: &'a Replicate) -> Result<Self, Error> {
        let build = || {
            reqwest::Client::builder()
                .no_proxy()
                .connect_timeout(CONNECT)
                .read_timeout(SILENCE)
                .tls_certs_only(reqwest::Certificate::from_pem_bundle(&from.ca)?)
                .build()
        };
        let http = build().map_err(|source| Error::Ask {
            url: from.from.clone(),
            source,
        })?;
        Ok(Self { from, http })
    }

    async fn list(&self) -> Result<Index, Error> {
        let url = format!("{}/payload", self.from.from);
        let answer = self.ask(&url, Some(&self.from.secret), None).await?;
        let bytes = answer
            .bytes()
            .await
            .map_err(|source| Error::Ask { url, source })?;
        Ok(Index::parse(&bytes)?)
    }

    async fn ask(
        &self,
        url: &str,
        secret: Option<&Secret<String>>,
        start: Option<u64>,
    ) -> Result<reqwest::Response, Error> {
        let mut request = self.http.get(url);
        if let Some(secret) = secret {
            request = request.bearer_auth(secret.expose());
        }
        if let Some(start) = start {
            request = request.header("range", format!("bytes={start}-"));
        }
        let answer = request.send().await.map_err(|source| Error::Ask {
            url: url.to_owned(),
            source,
        })?;
        if !answer.status().is_success() {
            return Err(Error::Status {
                url: url.to_owned(),
                status: answer.status().as_u16(),
            });
        }
        Ok(answer)
    }

    /// In its place, or an error; a part that is there already is not asked for again.
    async fn file(&self, entry: &Entry, dir: &Path) -> Result<(), Error> {
        let path = dir.join(&entry.name);
        let at = |source| Error::Write {
            path: path.clone(),
            source,
        };
        if fs::metadata(&path)
            .await
            .is_ok_and(|there| there.len() == entry.size)
        {
            return Ok(());
        }
        let above = path.parent().unwrap_or(dir);
        fs::create_dir_all(above).await.map_err(at)?;
        if entry.name == PROGRAM && is_this_program(entry).await && link_own(&path).await {
            info!(file = entry.name, "taken from this node");
            return Ok(());
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let part = above.join(format!(".{name}.part"));
        let mut writing = Part::open(&part, entry.size).await.map_err(at)?;
        if writing.length < entry.size {
            self.rest(entry, &mut writing).await?;
        }
        writing.sync().await.map_err(at)?;
        let found = hex(&writing.digest.finalize());
        if found != entry.sha256 {
            // Whatever is wrong with it, it is not gone on with.
            _ = fs::remove_file(&part).await;
            return Err(Error::Checksum {
                name: entry.name.clone(),
                found,
                wanted: entry.sha256.clone(),
            });
        }
        fs::rename(&part, &path).await.map_err(at)?;
        info!(file = entry.name, bytes = entry.size, "fetched");
        Ok(())
    }

    async fn rest(&self, entry: &Entry, part: &mut Part) -> Result<(), Error> {
        if let Some(files) = &self.from.files {
            let url = format!("{files}/files/{}", entry.sha256);
            // A way that broke is taken again, as long as it leads anywhere.
            loop {
                let before = part.length;
                let Err(error) = self.rest_from(&url, None, entry, part).await else {
                    return Ok(());
                };
                if part.length <= before {
                    let why = model::chain(&error);
                    info!(file = entry.name, why, "not to be had without TLS");
                    break;
                }
            }
        }
        let url = format!("{}/files/{}", self.from.from, entry.sha256);
        self.rest_from(&url, Some(&self.from.secret), entry, part)
            .await
    }

    async fn rest_from(
        &self,
        url: &str,
        secret: Option<&Secret<String>>,
        entry: &Entry,
        part: &mut Part,
    ) -> Result<(), Error> {
        let start = (part.length > 0).then_some(part.length);
        let mut answer = self.ask(url, secret, start).await?;
        if start.is_some() && answer.status() != reqwest::StatusCode::PARTIAL_CONTENT {
            part.restart().await.map_err(|source| Error::Write {
                path: entry.name.clone().into(),
                source,
            })?;
        }
        while let Some(piece) = answer.chunk().await.map_err(|source| Error::Ask {
            url: url.to_owned(),
            source,
        })? {
            if part.length + piece.len() as u64 > entry.size {
                let (name, size) = (entry.name.clone(), entry.size);
                return Err(Error::TooLong { name, size });
            }
            part.write(&piece).await.map_err(|source| Error::Write {
                path: entry.name.clone().into(),
                source,
            })?;
        }
        Ok(())
    }
}

/// Every node of the cluster runs the payload's program: most likely it is this one.
async fn is_this_program(entry: &Entry) -> bool {
    let digest = async {
        let mut file = File::open(std::env::current_exe()?).await?;
        if file.metadata().await?.len() != entry.size {
            return Ok(None);
        }
        let mut digest = Sha256::new();
        read_into(&mut digest, &mut file).await?;
        Ok::<_, std::io::Error>(Some(hex(&digest.finalize())))
    };
    matches!(digest.await, Ok(Some(found)) if found == entry.sha256)
}

/// A second name for this program's file, or a copy of it.
async fn link_own(path: &Path) -> bool {
    let Ok(own) = std::env::current_exe() else {
        return false;
    };
    if fs::hard_link(&own, path).await.is_ok() {
        return true;
    }
    let draft = path.with_extension("part");
    let copied = fs::copy(&own, &draft).await;
    copied.is_ok() && fs::rename(&draft, path).await.is_ok()
}

/// A file on its way, with the checksum of what is there.
struct Part {
    /// Written in large pieces: each is a turn of another thread.
    file: BufWriter<File>,
    length: u64,
    digest: Sha256,
}

impl Part {
    async fn open(path: &Path, most: u64) -> std::io::Result<Self> {
        let mut options = OpenOptions::new();
        let mut file = options
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(path)
            .await?;
        let mut digest = Sha256::new();
        let mut length = 0;
        if file.metadata().await?.len() > most {
            file.set_len(0).await?;
        } else {
            length = read_into(&mut digest, &mut file).await?;
        }
        Ok(Self {
            file: BufWriter::with_capacity(1 << 20, file),
            length,
            digest,
        })
    }

    async fn restart(&mut self) -> std::io::Result<()> {
        self.file.seek(SeekFrom::Start(0)).await?;
        self.file.get_mut().set_len(0).await?;
        self.length = 0;
        self.digest = Sha256::new();
        Ok(())
    }

    async fn write(&mut self, piece: &[u8]) -> std::io::Result<()> {
        self.file.write_all(piece).await?;
        self.digest.update(piece);
        self.length += piece.len() as u64;
        Ok(())
    }

    async fn sync(&mut self) -> std::io::Result<()> {
        self.file.flush().await?;
        self.file.get_ref().sync_all().await
    }
}

/// From where the file is at to its end; how many bytes that are.
async fn read_into(digest: &mut Sha256, file: &mut File) -> std::io::Result<u64> {
    let mut buffer = vec![0; 256 << 10];
    let mut length = 0;
    loop {
        let read = file.read(&mut buffer).await?;
        if read == 0 {
            return Ok(length);
        }
        digest.update(&buffer[..read]);
        length += read as u64;
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use serde_json::json;
    use tokio::net::TcpListener;

    use super::*;
    use crate::Config;
    use crate::server::Server;

    fn sum(bytes: &[u8]) -> String {
        hex(&Sha256::digest(bytes))
    }

    /// A server that has a payload, and the one that wants it.
    struct Site {
        dir: tempfile::TempDir,
        image: Vec<u8>,
    }

    impl Site {
        fn new() -> Self {
            _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
            let dir = tempfile::tempdir().unwrap();
            let image: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
            let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
            let at = |name: &str| dir.path().join(name);
            std::fs::write(at("ca.pem"), made.cert.pem()).unwrap();
            std::fs::write(at("key.pem"), made.signing_key.serialize_pem()).unwrap();
            std::fs::create_dir_all(at("has/images")).unwrap();
            std::fs::create_dir_all(at("wants/images")).unwrap();
            std::fs::write(at("has/images/os.raw"), &image).unwrap();
            std::fs::write(at("has/plinth"), "program").unwrap();
            let site = Self { dir, image };
            site.list(&sum(&site.image));
            site
        }

        fn list(&self, image: &str) {
            let index = json!({"files": [
                {"name": "plinth", "sha256": sum(b"program"), "size": 7},
                {"name": "images/os.raw", "sha256": image, "size": self.image.len()},
            ]});
            std::fs::write(self.at("has/index.json"), index.to_string()).unwrap();
        }

        fn at(&self, name: &str) -> PathBuf {
            self.dir.path().join(name)
        }

        /// What the wanting one gets in one go.
        async fn fetch(&self, secret: &str) -> Result<usize, Error> {
            let path = |name: &str| self.at(name).display().to_string();
            let config = json!({
                "tls": {"certificate": path("ca.pem"), "key": path("key.pem")},
                "state": path("state"), "files": path("files"), "payload": path("has"),
                "pools": [{"name": "worker", "secret_sha256": sum(b"w"), "config": path("worker.ign")}],
                "readers": [{"name": "control-plane", "secret_sha256": sum(b"secret")}],
            });
            let config = Config::parse(&config.to_string(), Path::new("mcs.yaml")).unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let public = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
            let from = Replicate {
                from: format!("https://localhost:{}", port(&listener)),
                files: Some(format!("http://localhost:{}", port(&public))),
                ca: std::fs::read(self.at("ca.pem")).unwrap(),
                secret: model::Secret::new(secret.to_owned()),
                after: None,
                delay: Duration::ZERO,
            };
            let server = Server::open(config).unwrap();
            let wants = self.at("wants");
            tokio::select! {
                () = server.serve(listener, std::future::pending()) => unreachable!("it is not stopped"),
                () = server.serve_public(public) => unreachable!("it has no end"),
                fetched = fetch(&from, &wants) => fetched,
            }
        }
    }

    #[tokio::test]
    async fn a_payload_comes_whole_and_what_was_there_in_part_is_gone_on_with() {
        let site = Site::new();
        std::fs::write(site.at("wants/images/.os.raw.part"), &site.image[..300_000]).unwrap();
        assert_eq!(site.fetch("secret").await.unwrap(), 2);
        let image = std::fs::read(site.at("wants/images/os.raw")).unwrap();
        assert!(image == site.image);
        assert!(payload::read(&site.at("wants")).await.is_some());
        assert!(!site.at("wants/images/.os.raw.part").exists());
    }

    /// Says how long the rest is, and breaks off after some of it.
    async fn breaking(listener: TcpListener, image: Vec<u8>) {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = vec![0; 4096];
            let length = stream.read(&mut asked).await.unwrap();
            let asked = String::from_utf8_lossy(&asked[..length]).into_owned();
            let start = asked.split_once("range: bytes=").map_or(0, |(_, rest)| {
                rest.split('-').next().unwrap().parse().unwrap()
            });
            let (status, rest) = (if start > 0 { 206 } else { 200 }, &image[start..]);
            let head = format!(
                "HTTP/1.1 {status} x\r\ncontent-length: {}\r\n\r\n",
                rest.len()
            );
            stream.write_all(head.as_bytes()).await.unwrap();
            let piece = &rest[..rest.len().min(400_000)];
            stream.write_all(piece).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_way_that_breaks_is_taken_again_before_tls_is() {
        let site = Site::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let from = Replicate {
            from: "https://127.0.0.1:1".into(),
            files: Some(format!("http://{}", listener.local_addr().unwrap())),
            ca: std::fs::read(site.at("ca.pem")).unwrap(),
            secret: model::Secret::new("secret".to_owned()),
            after: None,
            delay: Duration::ZERO,
        };
        let entry = Entry {
            name: "images/os.raw".into(),
            sha256: sum(&site.image),
            size: site.image.len() as u64,
        };
        let wants = site.at("wants");
        let source = Source::new(&from).unwrap();
        tokio::select! {
            () = breaking(listener, site.image.clone()) => unreachable!("it has no end"),
            fetched = source.file(&entry, &wants) => fetched.unwrap(),
        }
        assert!(std::fs::read(site.at("wants/images/os.raw")).unwrap() == site.image);
    }

    #[tokio::test(start_paused = true)]
    async fn a_payload_waits_for_its_sign_but_not_for_ever() {
        let dir = tempfile::tempdir().unwrap();
        let sign = dir.path().join("identity.pem");
        let begin = tokio::time::Instant::now();
        let made = async {
            tokio::time::sleep(Duration::from_secs(30)).await;
            std::fs::write(&sign, "").unwrap();
        };
        tokio::join!(wait_for(&sign), made);
        assert!((30..35).contains(&begin.elapsed().as_secs()));
        let begin = tokio::time::Instant::now();
        wait_for(&sign).await;
        assert!(begin.elapsed().is_zero());
        wait_for(&dir.path().join("never")).await;
        assert_eq!(begin.elapsed().as_secs() / 60, 10);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_is_not_the_first_to_fetch_waits_longer() {
        let dir = tempfile::tempdir().unwrap();
        let sign = dir.path().join("identity.pem");
        std::fs::write(&sign, "").unwrap();
        let from = Replicate {
            from: "https://localhost:1".into(),
            files: None,
            ca: Vec::new(),
            secret: model::Secret::new("secret".to_owned()),
            after: Some(sign),
            delay: Duration::from_secs(40),
        };
        let begin = tokio::time::Instant::now();
        wait_for_turn(&from).await;
        assert_eq!(begin.elapsed().as_secs(), 40);
    }

    #[tokio::test]
    async fn a_file_that_is_not_what_the_list_says_is_not_kept() {
        let site = Site::new();
        std::fs::write(site.at("wants/images/.os.raw.part"), vec![0; 300_000]).unwrap();
        let error = site.fetch("secret").await.unwrap_err();
        assert!(matches!(error, Error::Checksum { .. }), "{error}");
        assert!(!site.at("wants/images/os.raw").exists() && !site.at("wants/index.json").exists());
        // Nothing of it is left, so the next try is a clean one.
        assert_eq!(site.fetch("secret").await.unwrap(), 2);
    }

    #[tokio::test]
    async fn without_tls_there_are_files_of_the_payload_and_nothing_else() {
        let site = Site::new();
        let path = |name: &str| site.at(name).display().to_string();
        std::fs::create_dir(site.at("files")).unwrap();
        let private = sum(b"private");
        std::fs::write(site.at("files").join(&private), "private").unwrap();
        let config = json!({
            "tls": {"certificate": path("ca.pem"), "key": path("key.pem")},
            "state": path("state"), "files": path("files"), "payload": path("has"),
            "pools": [{"name": "worker", "secret_sha256": sum(b"w"), "config": path("worker.ign")}],
        });
        let config = Config::parse(&config.to_string(), Path::new("mcs.yaml")).unwrap();
        let server = Server::open(config).unwrap();
        let public = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", public.local_addr().unwrap());
        let program = sum(b"program");
        let asked = async {
            let get = async |path: &str| {
                let answer = reqwest::get(format!("{base}{path}")).await.unwrap();
                (answer.status().as_u16(), answer.text().await.unwrap())
            };
            assert_eq!(
                get(&format!("/files/{program}")).await,
                (200, "program".into())
            );
            for other in [&format!("/files/{private}"), "/config/worker", "/payload"] {
                assert_eq!(get(other).await.0, 404, "{other}");
            }
            // Before the payload is here, whoever asks is to come again.
            std::fs::remove_file(site.at("has/index.json")).unwrap();
            assert_eq!(get(&format!("/files/{program}")).await.0, 503);
        };
        tokio::select! {
            () = server.serve_public(public) => unreachable!("it has no end"),
            () = asked => {}
        }
    }

    #[tokio::test]
    async fn a_stranger_gets_nothing() {
        let site = Site::new();
        let error = site.fetch("guess").await.unwrap_err();
        assert!(
            matches!(error, Error::Status { status: 401, .. }),
            "{error}"
        );
    }
}
