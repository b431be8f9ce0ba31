//! kubectl: what people type, on both stores.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::site::{PATIENCE, Site, on_both_stores};

fn hosts_and_sets() -> String {
    let all = crd::all();
    let wanted: Vec<_> = all
        .into_iter()
        .filter(|crd| {
            matches!(
                crd.spec.names.kind.as_str(),
                "BareMetalHost" | "MachineSet" | "Machine"
            )
        })
        .collect();
    crd::yaml(&wanted)
}

/// The definitions, by the way a person would bring them.
async fn define(site: &Site) {
    site.kubectl_with("apply --server-side -f -", &hosts_and_sets())
        .await;
    site.kubectl("wait --for=condition=Established --timeout=30s crd/baremetalhosts.metal3.io crd/machinesets.machine.openshift.io")
        .await;
}

fn host(name: &str, last: u8, online: bool) -> String {
    format!(
        "apiVersion: metal3.io/v1alpha1
kind: BareMetalHost
metadata:
  name: {name}
spec:
  online: {online}
  bootMACAddress: 52:54:00:00:00:{last:02x}
  bmc:
    address: ipmi://192.0.2.{last}
    credentialsName: bmc
"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_become_resources_that_get_and_explain_know() {
    on_both_stores(async |site| {
        assert!(
            site.kubectl("version -o json")
                .await
                .contains("\"serverVersion\"")
        );
        define(site).await;
        let resources = site.kubectl("api-resources").await;
        for word in [
            "baremetalhosts",
            "bmh,bmhost",
            "secrets",
            "leases",
            "customresourcedefinitions",
            "clusterrolebindings",
        ] {
            assert!(resources.contains(word), "{word} is not in:\n{resources}");
        }
        assert!(
            site.kubectl("api-versions")
                .await
                .contains("metal3.io/v1alpha1")
        );
        let explained = site.kubectl("explain bmh.spec.bmc").await;
        assert!(
            explained.contains("address") && explained.contains("credentialsName"),
            "{explained}"
        );
        assert!(site.kubectl("explain secret.data").await.contains("data"));

        site.kubectl_with("apply -f -", &host("w0", 1, true)).await;
        let table = site.kubectl("get bmh").await;
        let heading: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
        assert_eq!(
            heading,
            ["NAME", "STATE", "CONSUMER", "ONLINE", "ERROR", "AGE"],
            "{table}"
        );
        assert!(table.lines().nth(1).unwrap().starts_with("w0"), "{table}");
        assert!(
            site.kubectl("get bmh,secrets -A -o wide")
                .await
                .contains("w0")
        );
        assert!(
            site.kubectl("get bmh w0 -o yaml")
                .await
                .contains("bootMACAddress: ")
        );
        let described = site.kubectl("describe bmh w0").await;
        assert!(
            described.contains("Online") && described.contains("Events:"),
            "{described}"
        );
        assert_eq!(
            site.kubectl("get bmh -o name").await.trim(),
            "baremetalhost.metal3.io/w0"
        );
        assert!(site.kubectl("get namespaces").await.contains("Active"));
        site.kubectl("delete bmh w0").await;
        site.kubectl("delete crd baremetalhosts.metal3.io --timeout=60s")
            .await;
        let gone = site.eventually("get bmh", |said| !said.fine).await;
        // Which of the two it says depends on what it has in its cache.
        let words = [
            "the server doesn't have a resource type",
            "the server could not find the requested resource",
        ];
        assert!(
            words.iter().any(|words| gone.err.contains(words)),
            "{}",
            gone.err
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn apply_edit_patch_label_and_scale_change_objects() {
    on_both_stores(async |site| {
        define(site).await;
        let said = site.kubectl_with("apply -f -", &host("w0", 1, true)).await;
        assert!(said.contains("created"), "{said}");
        let said = site.kubectl_with("apply -f -", &host("w0", 1, true)).await;
        assert!(said.contains("unchanged"), "{said}");
        let said = site.kubectl_with("apply -f -", &host("w0", 1, false)).await;
        assert!(said.contains("configured"), "{said}");
        assert_eq!(site.get("bmh w0").await["spec"]["online"], false);
        let difference = site.said("diff -f -", &host("w0", 1, true)).await;
        assert!(difference.out.contains("+  online: true"), "{difference:?}");

        site.kubectl("label bmh w0 rack=r1").await;
        site.kubectl("annotate bmh w0 note=hello").await;
        assert!(
            site.kubectl("get bmh -l rack=r1 -o name")
                .await
                .contains("w0")
        );
        assert_eq!(site.kubectl("get bmh -l rack!=r1 -o name").await, "");
        site.kubectl("label bmh w0 rack-").await;
        site.kubectl(r#"patch bmh w0 --type=merge -p {"spec":{"online":true}}"#)
            .await;
        site.kubectl(
            r#"patch bmh w0 --type=json -p [{"op":"add","path":"/spec/description","value":"x"}]"#,
        )
        .await;
        assert_eq!(site.get("bmh w0").await["spec"]["description"], "x");

        let editor = site.file(
            "editor.sh",
            "#!/bin/sh\nsed -i 's/online: true/online: false/' \"$1\"\n",
        );
        std::fs::set_permissions(&editor, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        let mut command = site.command("admin");
        command
            .args(["edit", "bmh", "w0"])
            .env("KUBE_EDITOR", &editor);
        let said = super::site::run(command, "edit", "").await;
        assert!(said.fine && said.out.contains("edited"), "{said:?}");
        assert_eq!(site.get("bmh w0").await["spec"]["online"], false);

        let shown = site.kubectl("get bmh w0 -o yaml").await;
        let said = site
            .kubectl_with(
                "replace -f -",
                &shown.replace("online: false", "online: true"),
            )
            .await;
        assert!(said.contains("replaced"), "{said}");
        let said = site.kubectl_fails("replace -f -", &shown).await;
        assert!(said.contains("the object has been modified"), "{said}");

        site.kubectl("create configmap settings --from-literal=mode=fast")
            .await;
        site.kubectl(r#"patch configmap settings -p {"data":{"mode":"slow"}}"#)
            .await;
        assert_eq!(site.get("configmap settings").await["data"]["mode"], "slow");
        site.kubectl(
            "create secret generic bmc --from-literal=username=root --from-literal=password=calvin",
        )
        .await;
        assert_eq!(site.get("secret bmc").await["data"]["password"], "Y2Fsdmlu");

        let set = "apiVersion: machine.openshift.io/v1beta1
kind: MachineSet
metadata: {name: workers}
spec:
  replicas: 1
  selector: {matchLabels: {set: workers}}
  template: {metadata: {labels: {set: workers}}, spec: {}}
";
        site.kubectl_with("apply -f -", set).await;
        site.kubectl("scale machineset workers --replicas=3").await;
        assert_eq!(site.get("machineset workers").await["spec"]["replicas"], 3);
        let stale = site
            .kubectl_fails(
                "scale machineset workers --current-replicas=1 --replicas=5",
                "",
            )
            .await;
        assert!(stale.contains("xpected replicas to be 1, was 3"), "{stale}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_are_named_with_their_field() {
    on_both_stores(async |site| {
        define(site).await;
        let misspelt = host("w0", 1, true).replace("online:", "onlien:");
        let said = site.kubectl_fails("apply -f -", &misspelt).await;
        assert!(said.contains("onlien"), "{said}");
        let said = site
            .kubectl_fails(
                "apply --validate=false -f -",
                &host("w0", 1, true).replace("ipmi://", "ipmo://"),
            )
            .await;
        assert!(
            said.contains("spec.bmc.address") && said.contains("scheme"),
            "{said}"
        );
        site.kubectl_with("apply -f -", &host("w0", 1, true)).await;
        let said = site
            .kubectl_fails("create -f -", &host("w1", 1, true))
            .await;
        assert!(said.contains("already the BMC of host metal/w0"), "{said}");
        let said = site
            .kubectl_fails("create -f -", &host("w0", 2, true))
            .await;
        assert!(said.contains("AlreadyExists"), "{said}");
        let said = site.kubectl_fails("get bmh nobody", "").await;
        assert_eq!(
            said.trim(),
            "Error from server (NotFound): baremetalhosts.metal3.io \"nobody\" not found"
        );
        let said = site
            .kubectl_fails("create configmap x -n nowhere", "")
            .await;
        assert!(said.contains("namespaces \"nowhere\" not found"), "{said}");
        let said = site
            .kubectl_with("apply --dry-run=server -f -", &host("w5", 5, true))
            .await;
        assert!(said.contains("created (server dry run)"), "{said}");
        assert!(!site.said("get bmh w5", "").await.fine);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn server_side_apply_tells_whose_field_it_is() {
    on_both_stores(async |site| {
        let map = |value: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: shared}}\ndata: {{mode: {value}}}\n");
        site.kubectl_with("apply --server-side --field-manager=alice -f -", &map("a")).await;
        let said = site.kubectl_fails("apply --server-side --field-manager=bob -f -", &map("b")).await;
        assert!(said.contains("conflict with \"alice\"") && said.contains(".data.mode"), "{said}");
        site.kubectl_with("apply --server-side --field-manager=bob --force-conflicts -f -", &map("b")).await;
        let shown = site.kubectl("get --raw /api/v1/namespaces/metal/configmaps/shared").await;
        let managers: Value = serde_json::from_str(&shown).unwrap();
        let owners: Vec<&str> = managers["metadata"]["managedFields"].as_array().unwrap().iter().filter_map(|entry| entry["manager"].as_str()).collect();
        assert_eq!(owners, ["bob"], "alice owned only what bob took");
        // What client-side apply kept, server-side apply takes over without a conflict.
        site.kubectl_with("apply -f -", &map("c").replace("shared", "old")).await;
        site.kubectl_with("apply --server-side -f -", &map("d").replace("shared", "old")).await;
        assert_eq!(site.get("configmap old").await["data"]["mode"], "d");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn finalizers_owners_and_namespaces_go_in_order() {
    on_both_stores(async |site| {
        site.kubectl("create configmap held").await;
        site.kubectl(r#"patch configmap held --type=merge -p {"metadata":{"finalizers":["test.plinth/hold"]}}"#).await;
        site.kubectl("delete configmap held --wait=false").await;
        assert!(site.get("configmap held").await["metadata"]["deletionTimestamp"].is_string());
        site.kubectl(r#"patch configmap held --type=merge -p {"metadata":{"finalizers":null}}"#).await;
        assert!(!site.said("get configmap held", "").await.fine, "its last finalizer held it");

        for (cascade, survives) in [("background", false), ("foreground", false), ("orphan", true)] {
            site.kubectl(&format!("create configmap owner-{cascade}")).await;
            let owner = site.get(&format!("configmap owner-{cascade}")).await;
            let child = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": format!("child-{cascade}"), "ownerReferences": [{
                    "apiVersion": "v1", "kind": "ConfigMap", "name": format!("owner-{cascade}"), "uid": owner["metadata"]["uid"],
                    "blockOwnerDeletion": true,
                }] },
            });
            site.kubectl_with("create -f -", &child.to_string()).await;
            site.kubectl(&format!("delete configmap owner-{cascade} --cascade={cascade} --timeout=50s")).await;
            let line = format!("get configmap child-{cascade} -o json");
            let said = site
                .eventually(&line, |said| said.fine == survives && !(survives && said.out.contains("ownerReferences")))
                .await;
            assert_eq!(said.fine, survives, "{cascade}");
        }

        site.kubectl("create namespace temporary").await;
        site.kubectl("create configmap inside -n temporary").await;
        site.kubectl("delete namespace temporary --timeout=50s").await;
        assert!(!site.said("get namespace temporary", "").await.fine);
        site.kubectl("create namespace temporary").await;
        assert!(!site.said("get configmap inside -n temporary", "").await.fine, "nothing came back with the name");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_lists_come_in_pages_and_watches_go_on() {
    on_both_stores(async |site| {
        let many = |number| format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m{number:02}, labels: {{set: many}}}}\n");
        let maps: String = (0..25).map(many).collect();
        site.kubectl_with("create -f -", &maps).await;
        let listed = site.kubectl("get configmaps -l set=many --chunk-size=10 --no-headers").await;
        assert_eq!(listed.lines().count(), 25, "{listed}");

        let mut child = site
            .command("admin")
            .args(["get", "configmap", "-l", "set=new", "--watch", "-o", "name"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        site.kubectl("create configmap fresh").await;
        site.kubectl("label configmap fresh set=new").await;
        let line = tokio::time::timeout(PATIENCE, lines.next_line()).await.expect("an event in time").unwrap();
        assert_eq!(line.as_deref(), Some("configmap/fresh"));
        child.kill().await.unwrap();

        site.kubectl("delete configmaps -l set=many --wait=false").await;
        assert_eq!(site.kubectl("get configmaps -l set=many -o name").await, "");
        if !site.kubectl_has(23).await {
            return;
        }
        let waiting = site.command("admin").args(["wait", "--for=jsonpath={.data.done}=yes", "configmap/fresh", "--timeout=50s"]).spawn().unwrap();
        site.kubectl(r#"patch configmap fresh -p {"data":{"done":"yes"}}"#).await;
        assert!(waiting.wait_with_output().await.unwrap().status.success());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_decide_who_may() {
    on_both_stores(async |site| {
        let jane = async |line: &str| {
            let mut command = site.command("jane");
            command.args(line.split_whitespace());
            super::site::run(command, line, "").await
        };
        let said = jane("get secrets").await;
        assert!(said.err.contains("secrets is forbidden: User \"jane\" cannot list resource \"secrets\" in API group \"\" in the namespace \"metal\""), "{said:?}");
        assert_eq!(jane("auth can-i list secrets").await.out.trim(), "no");
        site.kubectl("create role reader --verb=get,list,watch --resource=secrets,configmaps").await;
        site.kubectl("create rolebinding readers --role=reader --user=jane").await;
        site.eventually("auth can-i list secrets --as=jane", |said| said.out.trim() == "yes").await;
        assert!(jane("get secrets").await.fine);
        assert!(!jane("get secrets -n default").await.fine);
        assert!(!jane("create configmap x").await.fine);
        assert!(jane("auth can-i --list").await.out.contains("secrets"));
        if site.kubectl_has(27).await {
            assert!(site.kubectl("auth whoami").await.contains("admin"));
        }
        // Nobody gives away more than they have.
        site.kubectl("create role binder --verb=create,get,list --resource=roles.rbac.authorization.k8s.io,rolebindings.rbac.authorization.k8s.io").await;
        site.kubectl("create rolebinding binders --role=binder --user=jane").await;
        site.eventually("auth can-i create roles --as=jane", |said| said.out.trim() == "yes").await;
        let said = jane("create role more --verb=delete --resource=secrets").await;
        assert!(said.err.contains("attempting to grant RBAC permissions not currently held"), "{said:?}");

        if !site.kubectl_has(24).await {
            return;
        }
        site.kubectl("create serviceaccount bot").await;
        site.kubectl("create rolebinding bots --role=reader --serviceaccount=metal:bot").await;
        let token = site.kubectl("create token bot").await;
        std::fs::write(site.kubeconfig("bot"), site.render_kubeconfig(token.trim())).unwrap();
        site.eventually("auth can-i list configmaps --as=system:serviceaccount:metal:bot", |said| said.out.trim() == "yes").await;
        let mut command = site.command("bot");
        command.args(["get", "configmaps"]);
        let said = super::site::run(command, "get configmaps", "").await;
        assert!(said.fine, "{said:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approved_certificate_lets_its_owner_in() {
    on_both_stores(async |site| {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, "zoe");
        params.distinguished_name.push(rcgen::DnType::OrganizationName, "readers");
        let request = params.serialize_request(&key).unwrap().pem().unwrap();
        let object = json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": { "name": "zoe" },
            "spec": {
                "request": STANDARD.encode(request), "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"],
            },
        });
        site.kubectl_with("create -f -", &object.to_string()).await;
        assert!(site.kubectl("get csr").await.contains("Pending"));
        site.kubectl("certificate approve zoe").await;
        let line = "get csr zoe -o jsonpath={.status.certificate}";
        let certificate = site.eventually(line, |said| !said.out.is_empty()).await.out;
        assert!(site.kubectl("get csr").await.contains("Approved,Issued"));
        let mut config: Value = serde_json::from_str(&site.render_kubeconfig("")).unwrap();
        config["users"][0]["user"] =
            json!({ "client-certificate-data": certificate, "client-key-data": STANDARD.encode(key.serialize_pem()) });
        std::fs::write(site.kubeconfig("zoe"), config.to_string()).unwrap();
        site.kubectl("create clusterrolebinding readers --clusterrole=view --group=readers").await;
        site.eventually("auth can-i list configmaps --as=zoe --as-group=readers", |said| said.out.trim() == "yes").await;
        let mut command = site.command("zoe");
        command.args(["get", "configmaps"]);
        let said = super::site::run(command, "get configmaps", "").await;
        assert!(said.fine, "{said:?}");
        let mut command = site.command("zoe");
        command.args(["create", "configmap", "x"]);
        let said = super::site::run(command, "create configmap", "").await;
        assert!(said.err.contains("User \"zoe\" cannot create resource \"configmaps\""), "{said:?}");
    })
    .await;
}
