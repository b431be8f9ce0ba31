//! etcd over TLS with certificates: status of its members, and a member that learns, votes and leaves.

use clients::etcd::{Client, Config};

use crate::cluster::{Members, PATIENCE, eventually};

#[tokio::test]
async fn a_member_learns_is_promoted_and_removed() {
    let directory = tempfile::tempdir().unwrap();
    let mut members = Members::start(directory.path(), 1);
    let config = Config {
        tls: Some(members.tls()),
        ..Config::new(vec![members.endpoint(0)])
    };
    let client = Client::new(&config).unwrap();
    eventually("one member", || async {
        client
            .members()
            .await
            .is_ok_and(|members| members.len() == 1)
    })
    .await;
    let statuses = client.statuses().await;
    let (_, status) = &statuses[0];
    assert!(status.as_ref().unwrap().leader > 0);

    let learner = client.add_learner(vec![members.peer(1)]).await.unwrap();
    assert!(learner.is_learner && learner.id > 0);
    members.join(1);
    // Refused while it is behind.
    tokio::time::timeout(PATIENCE, async {
        while client.promote(learner.id).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    })
    .await
    .expect("the learner catches up");
    let known = client.members().await.unwrap();
    assert!(known.iter().all(|member| !member.is_learner));
    assert_eq!(known.len(), 2);
    eventually("the new member is no longer one", || async {
        client
            .remove(learner.id)
            .await
            .is_ok_and(|left| left.len() == 1)
    })
    .await;
}
