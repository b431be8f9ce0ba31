//! A node of the service under test, by its API.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::service::Service;

/// BMCs on loopback answer at once; nothing is waited for longer than needed.
pub const QUICK: &str = "\
bmc: {connect: 1, answer: 5, tries: 2, pause: 0.1, poll: 0.1, idle: 0.5, first_silence: 0.2, longest_silence: 2}
timers: {power_change: 20, power_sync: 3600, retry_pause: 0.2, step_poll: 0.2}
automated_clean: false
";

pub struct Node<'a> {
    service: &'a Service,
    pub uuid: String,
}

impl<'a> Node<'a> {
    pub async fn enrol(service: &'a Service, body: Value) -> Self {
        let (status, made) = call(service, "POST", "/v1/nodes", body).await;
        assert_eq!(status, 201, "{made}");
        Self {
            service,
            uuid: made["uuid"].as_str().unwrap().to_owned(),
        }
    }

    /// Enrolled and found to be there.
    pub async fn managed(service: &'a Service, body: Value) -> Self {
        let node = Self::enrol(service, body).await;
        node.verb("manage").await;
        node.reaches("manageable").await;
        node
    }

    pub async fn call(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let path = format!("/v1/nodes/{}{path}", self.uuid);
        call(self.service, method, &path, body).await
    }

    pub async fn get(&self, path: &str) -> Value {
        let (status, answer) = self.call("GET", path, Value::Null).await;
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    pub async fn verb(&self, verb: &str) {
        self.provision(json!({"target": verb})).await;
    }

    pub async fn provision(&self, body: Value) {
        let (status, answer) = self.call("PUT", "/states/provision", body).await;
        assert_eq!(status, 202, "{answer}");
    }

    pub async fn power(&self, target: &str) -> Value {
        let body = json!({"target": target});
        let (status, answer) = self.call("PUT", "/states/power", body).await;
        assert_eq!(status, 202, "{answer}");
        self.rests().await
    }

    pub async fn reaches(&self, state: &str) -> Value {
        self.until(|node| {
            let failed = node["provision_state"]
                .as_str()
                .unwrap()
                .ends_with("failed")
                || (node["provision_state"] == "enroll" && node["last_error"].is_string());
            assert!(
                !failed || node["provision_state"] == state,
                "{}",
                node["last_error"]
            );
            node["provision_state"] == state && node["reservation"].is_null()
        })
        .await
    }

    /// Nobody works on it any more.
    pub async fn rests(&self) -> Value {
        self.until(|node| node["reservation"].is_null()).await
    }

    pub async fn until(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + Duration::from_mins(1);
        loop {
            let node = self.get("").await;
            if wanted(&node) {
                return node;
            }
            assert!(Instant::now() < deadline, "last seen: {node:#}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

pub async fn call(service: &Service, method: &str, path: &str, body: Value) -> (u16, Value) {
    _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let request = reqwest::Client::new()
        .request(method.parse().unwrap(), format!("{}{path}", service.url()))
        .header("x-openstack-ironic-api-version", "1.110")
        .timeout(Duration::from_mins(1));
    let request = if body.is_null() {
        request
    } else {
        request.json(&body)
    };
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    let text = answer.text().await.unwrap();
    let parsed = serde_json::from_str(&text).unwrap_or_default();
    (status, parsed)
}
