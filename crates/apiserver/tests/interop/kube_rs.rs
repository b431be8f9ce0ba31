//! Controllers written with kube: the way our operator, and others, follow objects.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::controller::Action;
use kube::runtime::events::{Event, EventType, Recorder};
use kube::runtime::finalizer::{Event as Finalizer, finalizer};
use kube::runtime::{Controller, WatchStreamExt as _, watcher};
use kube::{Api, Client, Config, Resource as _, ResourceExt as _};
use serde_json::json;

use super::site::{PATIENCE, Site, on_both_stores};

async fn client(site: &Site) -> Client {
    let text = site.render_kubeconfig("admin-token");
    let kubeconfig = kube::config::Kubeconfig::from_yaml(&text).unwrap();
    let config =
        Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default())
            .await
            .unwrap();
    Client::try_from(config).unwrap()
}

fn map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_sees_every_change_by_list_and_by_stream() {
    on_both_stores(async |site| {
        let maps: Api<ConfigMap> = Api::namespaced(client(site).await, "metal");
        let pages = watcher::Config::default()
            .page_size(2)
            .labels("set=watched");
        let streamed = watcher::Config::default()
            .streaming_lists()
            .labels("set=watched");
        for (round, config) in [pages, streamed].into_iter().enumerate() {
            let name = |number: usize| format!("w{round}-{number}");
            let labelled = |number: usize| {
                let mut object = map(&name(number));
                object.labels_mut().insert("set".into(), "watched".into());
                object
            };
            for number in 0..5 {
                maps.create(&PostParams::default(), &labelled(number))
                    .await
                    .unwrap();
            }
            let mut seen = std::pin::pin!(watcher(maps.clone(), config).applied_objects());
            let mut next = async || {
                let next = tokio::time::timeout(PATIENCE, seen.next())
                    .await
                    .expect("an object in time");
                next.unwrap().unwrap().name_any()
            };
            for number in 0..5 {
                assert_eq!(next().await, name(number));
            }
            maps.create(&PostParams::default(), &labelled(5))
                .await
                .unwrap();
            assert_eq!(next().await, name(5));
            let patch = json!({ "data": { "k": "v" } });
            maps.patch(&name(3), &PatchParams::default(), &Patch::Merge(patch))
                .await
                .unwrap();
            assert_eq!(next().await, name(3));
            let chosen = ListParams::default().labels("set=watched");
            maps.delete_collection(&DeleteParams::default(), &chosen)
                .await
                .unwrap();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_with_a_finalizer_cleans_up_before_the_object_goes() {
    on_both_stores(async |site| {
        let client = client(site).await;
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "metal");
        let recorder = Recorder::new(client.clone(), "test-controller".into());
        let running = tokio::spawn(
            Controller::new(
                maps.clone(),
                watcher::Config::default().labels("set=controlled"),
            )
            .run(
                reconcile,
                |_, _, _| Action::requeue(Duration::from_millis(200)),
                Arc::new((client, recorder)),
            )
            .for_each(|_| std::future::ready(())),
        );
        let mut object = map("controlled");
        object
            .labels_mut()
            .insert("set".into(), "controlled".into());
        maps.create(&PostParams::default(), &object).await.unwrap();
        site.eventually(
            "get configmap controlled -o jsonpath={.data.seen}",
            |said| said.out == "yes",
        )
        .await;
        assert_eq!(
            maps.get("controlled").await.unwrap().finalizers(),
            ["test.plinth/cleanup"]
        );
        maps.delete("controlled", &DeleteParams::default())
            .await
            .unwrap();
        site.eventually("get configmap controlled", |said| !said.fine)
            .await;
        let events = site
            .kubectl("get events -o jsonpath={.items[*].reason}")
            .await;
        assert!(events.contains("Cleaned"), "{events}");
        running.abort();
    })
    .await;
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Kube(#[from] kube::Error),
    #[error("finalizer")]
    Finalizer(#[source] Box<kube::runtime::finalizer::Error<Error>>),
}

async fn reconcile(
    object: Arc<ConfigMap>,
    context: Arc<(Client, Recorder)>,
) -> Result<Action, Error> {
    let (client, recorder) = &*context;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "metal");
    let acted = finalizer(
        &maps,
        "test.plinth/cleanup",
        object,
        async |event| match event {
            Finalizer::Apply(object) => {
                let body =
                    json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "seen": "yes" } });
                let how = PatchParams::apply("test-controller").force();
                maps.patch(&object.name_any(), &how, &Patch::Apply(body))
                    .await?;
                Ok(Action::await_change())
            }
            Finalizer::Cleanup(object) => {
                let event = Event {
                    type_: EventType::Normal,
                    reason: "Cleaned".into(),
                    note: Some("all is tidy".into()),
                    action: "Cleanup".into(),
                    secondary: None,
                };
                recorder.publish(&event, &object.object_ref(&())).await?;
                Ok(Action::await_change())
            }
        },
    );
    acted
        .await
        .map_err(|error| Error::Finalizer(Box::new(error)))
}
