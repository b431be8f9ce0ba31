//! Doing what the decider of Machines says: one call each.

use std::collections::BTreeMap;

use crd::{BareMetalHost, Machine};
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use lifecycle::host::{CustomDeploy, Image, ObjectRef, SecretRef};
use lifecycle::machine::{Action, FINALIZER, HostChange, Status, Taint};
use serde_json::{Value, json};
use tracing::info;

use crate::context::{Context, MANAGER};
use crate::convert::converted;
use crate::error::{Error, code};

pub struct Pass<'a> {
    pub context: &'a Context,
    /// As last read or written.
    pub object: Machine,
}

impl Pass<'_> {
    pub async fn act(&mut self, action: &Action) -> Result<(), Error> {
        match action {
            Action::AddFinalizer => {
                let mut finalizers = self.object.finalizers().to_vec();
                finalizers.push(FINALIZER.to_owned());
                self.finalizers(&finalizers).await
            }
            Action::RemoveFinalizer => {
                let rest: Vec<String> = self
                    .object
                    .finalizers()
                    .iter()
                    .filter(|finalizer| *finalizer != FINALIZER)
                    .cloned()
                    .collect();
                self.finalizers(&rest).await
            }
            Action::Annotate { key, value } => {
                self.change(json!({"metadata": {"annotations": {*key: value}}}))
                    .await
            }
            Action::SetProviderId(id) => self.change(json!({"spec": {"providerID": id}})).await,
            Action::Save(status) => self.save(status).await,
            Action::ChangeHost {
                namespace,
                name,
                resource_version,
                change,
            } => {
                self.change_host(namespace, name, resource_version, change)
                    .await
            }
            Action::SetNodeProviderId { node, provider_id } => {
                let patch = json!({"spec": {"providerID": provider_id}});
                self.change_node(node, patch).await
            }
            Action::MarkNode {
                node,
                labels,
                annotations,
                taints,
            } => self.mark(node, labels, annotations, taints).await,
            Action::DeleteNode { node } => self.delete_node(node).await,
        }
    }

    fn machines(&self) -> Api<Machine> {
        self.context
            .in_namespace(&self.object.namespace().unwrap_or_default())
    }

    async fn change(&mut self, patch: Value) -> Result<(), Error> {
        let name = self.object.name_any();
        self.object = self
            .machines()
            .patch(&name, &PatchParams::apply(MANAGER), &Patch::Merge(patch))
            .await
            .map_err(Error::kube("change the Machine", &name))?;
        Ok(())
    }

    async fn finalizers(&mut self, finalizers: &[String]) -> Result<(), Error> {
        let version = self.object.resource_version();
        self.change(json!({"metadata": {"resourceVersion": version, "finalizers": finalizers}}))
            .await
    }

    /// Our part of the status; what others wrote there stays.
    async fn save(&mut self, status: &Status) -> Result<(), Error> {
        let name = self.object.name_any();
        let before = self.object.status.clone().unwrap_or_default();
        let ours: Value = converted("Machine", &name, status)?;
        let mut whole: Value = converted("Machine", &name, before)?;
        for key in [
            "phase",
            "nodeRef",
            "lastUpdated",
            "errorReason",
            "errorMessage",
            "addresses",
            "conditions",
        ] {
            match (ours.get(key), whole.as_object_mut()) {
                (Some(value), Some(whole)) => {
                    whole.insert(key.to_owned(), value.clone());
                }
                (None, Some(whole)) => {
                    whole.remove(key);
                }
                (_, None) => {}
            }
        }
        let from = self.object.status.as_ref().and_then(|s| s.phase.clone());
        let mut object = self.object.clone();
        object.status = Some(converted("Machine", &name, whole)?);
        object.metadata.managed_fields = None;
        self.object = self
            .machines()
            .replace_status(&name, &crate::context::by_us(), &object)
            .await
            .map_err(Error::kube("write the status of the Machine", &name))?;
        let to = self.object.status.as_ref().and_then(|s| s.phase.clone());
        if from != to {
            info!(machine = name, ?from, ?to, "machine phase");
        }
        Ok(())
    }

    /// Fails with a conflict if the host changed since it was chosen.
    async fn change_host(
        &self,
        namespace: &str,
        name: &str,
        version: &str,
        change: &HostChange,
    ) -> Result<(), Error> {
        let hosts: Api<BareMetalHost> = self.context.in_namespace(namespace);
        let patch = json!({
            "metadata": {"resourceVersion": version},
            "spec": {
                "consumerRef": change.consumer_ref.as_ref().map(consumer),
                "image": change.image.as_ref().map(image),
                "customDeploy": change.custom_deploy.as_ref().map(deploy),
                "userData": change.user_data.as_ref().map(secret),
                "online": change.online,
            },
        });
        hosts
            .patch(name, &PatchParams::apply(MANAGER), &Patch::Merge(patch))
            .await
            .map_err(Error::kube("change the host", name))?;
        info!(
            machine = self.object.name_any(),
            host = name,
            claimed = change.consumer_ref.is_some(),
            online = change.online,
            "host changed"
        );
        Ok(())
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.context.client.clone())
    }

    async fn change_node(&self, name: &str, patch: Value) -> Result<(), Error> {
        self.nodes()
            .patch(name, &PatchParams::apply(MANAGER), &Patch::Merge(patch))
            .await
            .map(drop)
            .map_err(Error::kube("change the Node", name))
    }

    async fn mark(
        &self,
        name: &str,
        labels: &BTreeMap<String, String>,
        annotations: &BTreeMap<String, String>,
        taints: &[Taint],
    ) -> Result<(), Error> {
        let mut patch = json!({"metadata": {"labels": labels, "annotations": annotations}});
        if !taints.is_empty() {
            let found = self.nodes().get_opt(name).await;
            let Some(node) = found.map_err(Error::kube("read the Node", name))? else {
                return Ok(());
            };
            let there = node.spec.as_ref().and_then(|spec| spec.taints.clone());
            let mut all = json!(there.unwrap_or_default());
            if let Value::Array(all) = &mut all {
                all.extend(taints.iter().map(|taint| json!(taint)));
            }
            patch["metadata"]["resourceVersion"] = json!(node.resource_version());
            patch["spec"] = json!({"taints": all});
        }
        self.change_node(name, patch).await
    }

    async fn delete_node(&self, name: &str) -> Result<(), Error> {
        match self.nodes().delete(name, &DeleteParams::default()).await {
            Ok(_) => Ok(()),
            Err(error) if code(&error) == Some(404) => Ok(()),
            Err(error) => Err(Error::kube("delete the Node", name)(error)),
        }
    }
}

// A merge patch leaves what it does not name: so every field is named.

fn consumer(reference: &ObjectRef) -> Value {
    json!({
        "apiVersion": reference.api_version, "kind": reference.kind,
        "namespace": reference.namespace, "name": reference.name,
        "uid": text(&reference.uid), "fieldPath": null, "resourceVersion": null,
    })
}

fn image(image: &Image) -> Value {
    json!({
        "url": image.url, "checksum": text(&image.checksum), "checksumType": text(&image.checksum_type),
        "format": text(&image.format), "ociAuthSecretName": text(&image.oci_auth_secret_name),
    })
}

fn deploy(deploy: &CustomDeploy) -> Value {
    json!({"method": deploy.method})
}

fn secret(secret: &SecretRef) -> Value {
    json!({"name": secret.name, "namespace": text(&secret.namespace)})
}

fn text(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}
