use serde_json::json;

use super::*;

fn sources() -> Sources {
    let way = Way::default();
    Sources {
        client: way.client().unwrap(),
        way,
        patience: parameters::Download::default(),
        md5: false,
    }
}

fn info() -> Value {
    json!({
        "id": "os.raw", "urls": ["http://192.0.2.1/os.raw"], "disk_format": "raw", "stream_raw_images": true,
        "os_hash_algo": "sha256", "os_hash_value": "ab".repeat(32), "checksum": null, "node_uuid": "n",
        "proxies": {}, "no_proxy": null, "image_server_auth_strategy": "http_basic",
        "image_server_user": "u", "image_server_password": "p",
    })
}

#[tokio::test]
async fn an_image_as_ironic_describes_it_is_understood() {
    let drive = json!({"meta_data": {"name": "n1"}, "user_data": "{}"});
    let image = sources().image(&info(), Some(&drive)).await.unwrap();
    assert_eq!(image.name, "os.raw");
    assert_eq!(image.options.format, Some(Format::Raw));
    let checksum = image.options.checksum.unwrap().to_string();
    assert_eq!(checksum, format!("sha256:{}", "ab".repeat(32)));
    assert_eq!(image.download.authorization.unwrap().expose(), "Basic dTpw");
    let volume = image.config_drive.unwrap();
    assert_eq!(disk::signature::label(&volume).as_deref(), Some("config-2"));
}

#[tokio::test]
async fn what_cannot_be_written_is_refused_by_the_name_of_its_field() {
    let change = |key: &str, value: Value| {
        let mut info = info();
        info[key] = value;
        info
    };
    for (info, said) in [
        (change("urls", json!([])), "urls has 0 entries"),
        (change("urls", json!("http://x")), "image_info"),
        (change("urls", json!(["https://x/y"])), "ipa-insecure"),
        (change("urls", json!(["file:///y"])), "neither http"),
        (change("disk_format", json!("vmdk")), "disk_format \"vmdk\""),
        (change("image_type", json!("partition")), "whole-disk"),
        (change("proxies", json!({"http": "http://p"})), "proxies"),
        (change("os_hash_value", json!("zz")), "checksum"),
        (change("os_hash_value", json!("")), "no checksum"),
        (
            change("image_server_auth_strategy", json!("kerberos")),
            "kerberos",
        ),
        (
            change("image_request_authorization", json!("***")),
            "base64",
        ),
        (
            change("configdrive", json!("not base64 of anything")),
            "config drive",
        ),
    ] {
        let failure = sources().image(&info, None).await.unwrap_err();
        assert!(failure.details.contains(said), "{}", failure.details);
    }
}
