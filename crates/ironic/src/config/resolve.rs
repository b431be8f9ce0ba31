//! From what was written to what will be used.

use std::path::PathBuf;

use lifecycle::node::Settings;

use super::written::{Auth, Written};
use super::{Config, Deploy, Tls};

pub fn resolve(written: Written) -> Result<Config, Vec<String>> {
    let mut problems = Vec::new();
    let listen = written.listen.parse().map_err(|_| {
        problems.push(format!(
            "listen: {:?} is not an address and port, such as [::]:6385",
            written.listen
        ));
    });
    if let Some(tls) = &written.tls {
        for (key, value) in [
            ("tls.certificate", Some(&tls.certificate)),
            ("tls.key", Some(&tls.key)),
            ("tls.ca", tls.ca.as_ref()),
        ] {
            if value.is_some_and(String::is_empty) {
                problems.push(format!("{key}: must be the path of a PEM file"));
            }
        }
    }
    let htpasswd = match written.auth {
        Auth::Word(word) if word == "none" => None,
        Auth::Word(word) => {
            problems.push(format!(
                "auth: {word:?} is not known; write none, or htpasswd: and a file"
            ));
            None
        }
        Auth::Basic(basic) => Some(PathBuf::from(basic.htpasswd)),
    };
    if let Some(endpoint) = &written.public_endpoint
        && !["http://", "https://"]
            .iter()
            .any(|scheme| endpoint.starts_with(scheme))
    {
        problems.push(format!(
            "public_endpoint: {endpoint:?} must begin with http:// or https://"
        ));
    }
    if written.state.is_empty() {
        problems.push("state: must be the path of a file".into());
    }
    let word = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
    };
    if written.host.is_empty() || !word(&written.host) {
        problems.push(format!(
            "host: {:?} must be a name of letters, digits, and -._",
            written.host
        ));
    }
    if !word(&written.conductor_group) {
        problems.push(format!(
            "conductor_group: {:?} must be a name of letters, digits, and -._",
            written.conductor_group
        ));
    }
    let mut positive = |key: &str, value: i64| {
        if value < 1 {
            problems.push(format!("{key}: must be at least 1"));
        }
        usize::try_from(value).unwrap_or(1)
    };
    let max_limit = positive("max_limit", written.max_limit);
    let max_concurrent_deploy = positive("max_concurrent_deploy", written.max_concurrent_deploy);
    let max_concurrent_clean = positive("max_concurrent_clean", written.max_concurrent_clean);
    problems.extend(
        written
            .fake
            .problems()
            .into_iter()
            .map(|key| format!("fake.{key}: must be seconds, from 0 to 86400")),
    );
    let bmc = written.bmc.problems();
    problems.extend(bmc.into_iter().map(|problem| format!("bmc.{problem}")));
    problems.extend(written.deploy.problems());
    let boot = written
        .boot
        .and_then(|boot| super::boot::resolve(boot, &mut problems));
    let Ok(listen) = listen else {
        return Err(problems);
    };
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(Config {
        listen,
        tls: written.tls.map(|tls| Tls {
            certificate: tls.certificate.into(),
            key: tls.key.into(),
            ca: tls.ca.map(Into::into),
        }),
        htpasswd,
        public_endpoint: written.public_endpoint,
        state: written.state.into(),
        host: written.host,
        conductor_group: written.conductor_group.to_lowercase(),
        max_limit,
        ramdisk_endpoints: written.ramdisk_endpoints,
        max_concurrent_deploy,
        max_concurrent_clean,
        timers: written.timers,
        power_sync: written.power_sync,
        defaults: Settings {
            automated_clean: written.automated_clean,
            fast_track: written.fast_track,
            kexec: written.kexec,
            ..Settings::default()
        },
        fake: written.fake,
        bmc: written.bmc,
        deploy: Deploy {
            // Our own images are found where our other boot files are.
            images_url: written.deploy.images_url.or_else(|| {
                let boot = boot.as_ref()?;
                Some(format!("http://{}:{}/images", boot.address, boot.http_port))
            }),
            ..written.deploy
        },
        boot,
    })
}
