//! Every field of `install-config.yaml`: its shape, what it means, and what holds when it is not written.
//!
//! The table drives three things: unknown and mistyped fields are found by it, `plinth explain` prints it, and the
//! written form is read through it.

use std::fmt::Write;

/// What a value must look like.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    Text,
    /// Text that is never printed.
    Secret,
    Integer,
    Boolean,
    /// Passed on as written.
    Any,
    List(&'static Shape),
    Object(&'static [Field]),
    /// An object, or only the text of its first field.
    Short(&'static [Field]),
}

#[derive(Debug)]
pub struct Field {
    pub name: &'static str,
    pub shape: Shape,
    /// What it means; its default at the end where there is one.
    pub about: &'static str,
}

const fn field(name: &'static str, shape: Shape, about: &'static str) -> Field {
    Field { name, shape, about }
}

use Shape::{Any, Boolean, Integer, List, Object, Secret, Short, Text};

const TEXTS: Shape = List(&Text);

#[rustfmt::skip]
pub const ROOT: &[Field] = &[
    field("apiVersion", Text, "The version of this file: v1 (v1beta3 and v1beta4 are read too). Required."),
    field("baseDomain", Text, "The site's domain; the cluster's is <metadata.name>.<baseDomain>. Required."),
    field("metadata", Object(METADATA), "The cluster's name."),
    field("platform", Object(PLATFORM), "Where the cluster runs: baremetal."),
    field("networking", Object(NETWORKING), "Networks of machines, pods and services."),
    field("controlPlane", Object(POOL), "The control plane's machines."),
    field("compute", List(&Object(POOL)), "The workers."),
    field("arbiter", Object(POOL), "Small nodes that only vote, beside a control plane of two. Default: none."),
    field("pullSecret", Secret, "Registry credentials, a JSON object with auths. Required unless payload is written."),
    field("sshKey", Text, "Public keys, one per line, for the user core on every node."),
    field("payload", Short(PAYLOAD), "What the control plane runs: builtin or kubernetes. Default: builtin."),
    field("additionalTrustBundle", Text, "More certificate authorities, PEM."),
    field("additionalTrustBundlePolicy", Text, "When the bundle is used: Proxyonly or Always. Default: Proxyonly."),
    field("proxy", Object(PROXY), "How nodes reach the world."),
    field("publish", Text, "How the cluster's endpoints are published; only External on bare metal. Default: External."),
    field("fips", Boolean, "Only validated cryptography on nodes. Default: false."),
    field("cpuPartitioningMode", Text, "None or AllNodes. Default: None."),
    field("credentialsMode", Text, "Has no meaning on bare metal and must be absent."),
    field("featureSet", Text, "Default, TechPreviewNoUpgrade, DevPreviewNoUpgrade or CustomNoUpgrade. Default: Default."),
    field("featureGates", TEXTS, "Name=true or Name=false, with featureSet CustomNoUpgrade."),
    field("capabilities", Object(CAPABILITIES), "Optional components."),
    field("imageDigestSources", List(&Object(MIRROR)), "Mirrors of registries."),
    field("imageContentSources", List(&Object(MIRROR)), "Deprecated name of imageDigestSources."),
    field("osImageStream", Text, "rhel-9, rhel-10 or centos-10. Default: rhel-9."),
    field("bootstrapInPlace", Object(&[field("installationDisk", Text, "A disk.")]), "Not supported on bare metal with BMCs."),
];

const METADATA: &[Field] = &[
    field(
        "name",
        Text,
        "The cluster's name: a DNS label of at most 54 characters. Required.",
    ),
    field("creationTimestamp", Any, "Accepted and ignored."),
];

#[rustfmt::skip]
const NETWORKING: &[Field] = &[
    field("networkType", Text, "The pod network: OVNKubernetes. Default: OVNKubernetes."),
    field("type", Text, "Deprecated name of networkType."),
    field("machineNetwork", List(&Object(&[field("cidr", Text, "A network of machines.")])), "Networks that nodes and VIPs are in. Default: 10.0.0.0/16."),
    field("machineCIDR", Text, "Deprecated form of machineNetwork."),
    field("clusterNetwork", List(&Object(CLUSTER_NETWORK)), "Networks of pods. Default: 10.128.0.0/14, hostPrefix 23."),
    field("clusterNetworks", List(&Object(CLUSTER_NETWORK)), "Deprecated name of clusterNetwork."),
    field("serviceNetwork", TEXTS, "Networks of services, one per family. Default: 172.30.0.0/16."),
    field("serviceCIDR", Text, "Deprecated form of serviceNetwork."),
    field("clusterNetworkMTU", Integer, "Not on bare metal."),
    field("ovnKubernetesConfig", Object(OVN), "Internal networks of OVNKubernetes."),
];

const CLUSTER_NETWORK: &[Field] = &[
    field("cidr", Text, "The network."),
    field(
        "hostPrefix",
        Integer,
        "Prefix length of each node's part. Default: 23, for IPv6 64.",
    ),
    field(
        "hostSubnetLength",
        Integer,
        "Deprecated: address bits of each node's part.",
    ),
];

const OVN: &[Field] = &[field(
    "ipv4",
    Object(&[field("internalJoinSubnet", Text, "Default: 100.64.0.0/16.")]),
    "IPv4 networks inside OVN.",
)];

#[rustfmt::skip]
const POOL: &[Field] = &[
    field("name", Text, "master for the control plane, worker for compute, arbiter for arbiters."),
    field("replicas", Integer, "How many machines. Default: 3 (arbiter: 0)."),
    field("architecture", Text, "amd64, arm64, s390x or ppc64le. Default: amd64."),
    field("hyperthreading", Text, "Enabled or Disabled. Default: Enabled."),
    field("platform", Object(&[field("baremetal", Object(&[]), "Has no fields.")]), "Has no fields on bare metal."),
    field("fencing", Object(&[field("credentials", List(&Object(FENCING)), "Two of them.")]), "BMCs by which two control plane nodes fence each other."),
];

#[rustfmt::skip]
const FENCING: &[Field] = &[
    field("hostName", Text, "The host, by name."),
    field("hostname", Text, "The host, by name."),
    field("bootMACAddress", Text, "The host, by MAC."),
    field("address", Text, "Its BMC; Redfish only."),
    field("username", Text, "User at the BMC."),
    field("password", Secret, "Password at the BMC."),
    field("certificateVerification", Text, "Enabled or Disabled. Default: Enabled."),
];

#[rustfmt::skip]
const PAYLOAD: &[Field] = &[
    field("type", Text, "builtin (etcd and plinth apiserver, no downloads) or kubernetes (upstream server binaries)."),
    field("version", Text, "Of Kubernetes, such as v1.36.1. Required for kubernetes."),
    field("source", Text, "URL or path of kubernetes-server-linux-<arch>.tar.gz. Required for kubernetes."),
    field("sha256", Text, "Checksum of the source, 64 hexadecimal digits."),
];

#[rustfmt::skip]
const PROXY: &[Field] = &[
    field("httpProxy", Secret, "For http:// URLs; an http:// URL itself."),
    field("httpsProxy", Secret, "For https:// URLs; an http:// or https:// URL itself."),
    field("noProxy", Text, "Names, addresses and networks reached directly, separated by commas; or *."),
];

#[rustfmt::skip]
const CAPABILITIES: &[Field] = &[
    field("baselineCapabilitySet", Text, "None, v4.11 and later, or vCurrent. Default: vCurrent."),
    field("additionalEnabledCapabilities", TEXTS, "More than the baseline."),
];

#[rustfmt::skip]
const MIRROR: &[Field] = &[
    field("source", Text, "The repository that is mirrored."),
    field("mirrors", TEXTS, "Where it is mirrored."),
    field("sourcePolicy", Text, "AllowContactingSource or NeverContactSource."),
];

#[rustfmt::skip]
const PLATFORM: &[Field] = &[
    field("baremetal", Object(BAREMETAL), "Servers with BMCs."),
];

#[rustfmt::skip]
const BAREMETAL: &[Field] = &[
    field("apiVIPs", TEXTS, "Virtual addresses of the API, one per family. Default: what DNS says for api.<domain>."),
    field("apiVIP", Text, "Deprecated form of apiVIPs."),
    field("ingressVIPs", TEXTS, "Virtual addresses of the ingress, one per family. Default: what DNS says for test.apps.<domain>."),
    field("ingressVIP", Text, "Deprecated form of ingressVIPs."),
    field("hosts", List(&Object(HOST)), "The servers. Required."),
    field("provisioningNetwork", Text, "Managed (we run DHCP), Unmanaged (the site does), Disabled (virtual media only). Default: Managed."),
    field("provisioningNetworkCIDR", Text, "The provisioning network. Default: 172.22.0.0/24; with Disabled the machine network of clusterProvisioningIP."),
    field("provisioningNetworkInterface", Text, "Its interface on the control plane. Default: found by boot MAC."),
    field("provisioningNetworkGateway", Text, "Its router; Managed only. Default: none."),
    field("provisioningDHCPRange", Text, "start,end; Managed only. Default: the tenth to the last but one address."),
    field("provisioningDHCPExternal", Boolean, "Deprecated: true means Unmanaged."),
    field("provisioningBridge", Text, "Bridge on the provisioning host. Default: provisioning."),
    field("provisioningMACAddress", Text, "MAC of the bootstrap VM's provisioning NIC. Default: derived from the cluster's name."),
    field("bootstrapProvisioningIP", Text, "Address of the bootstrap VM. Default: the second of the provisioning network."),
    field("clusterProvisioningIP", Text, "Address of the services in the cluster. Default: the third of the provisioning network."),
    field("provisioningHostIP", Text, "Deprecated name of clusterProvisioningIP."),
    field("externalBridge", Text, "Bridge on the provisioning host to the machine network. Default: baremetal."),
    field("externalMACAddress", Text, "MAC of the bootstrap VM's external NIC. Default: derived from the cluster's name."),
    field("bootstrapExternalStaticIP", Text, "Static address of the bootstrap VM; with gateway and DNS, or none of them."),
    field("bootstrapExternalStaticGateway", Text, "Its gateway."),
    field("bootstrapExternalStaticDNS", Text, "Its DNS server."),
    field("bootstrapOSImage", Text, "URL of the bootstrap VM's OS image, ending in ?sha256=<64 digits>. Default: the cluster's."),
    field("clusterOSImage", Text, "URL of the nodes' OS image, ending in ?sha256=<64 digits>. Default: the image that `plinth image os` builds."),
    field("libvirtURI", Text, "Read for compatibility; the bootstrap VM is run by QEMU directly. Default: qemu:///system."),
    field("additionalNTPServers", TEXTS, "Time servers, by name or address."),
    field("loadBalancer", Object(&[field("type", Text, "OpenShiftManagedDefault or UserManaged.")]), "Who balances. Default: OpenShiftManagedDefault."),
    field("dnsRecordsType", Text, "Internal or External. Default: Internal."),
    field("bmcVerifyCA", Text, "Certificate authorities of the BMCs, PEM."),
    field("kexec", Boolean, "Hosts booted by network start their new system in the agent's place, without minutes of firmware. Default: false."),
    field("controlPlaneHardwareSpeed", Text, "Standard, or Slower: everything that waits for an answer within the control plane is more patient and asks less often. Default: Standard."),
    field("bgpVIPConfig", Object(BGP), "Not supported: VIPs move by VRRP."),
    field("defaultMachinePlatform", Object(&[]), "Has no fields."),
];

#[rustfmt::skip]
const BGP: &[Field] = &[
    field("localASN", Integer, "Not supported."),
    field("peers", Any, "Not supported."),
    field("communities", Any, "Not supported."),
];

#[rustfmt::skip]
const HOST: &[Field] = &[
    field("name", Text, "Name of the BareMetalHost. Required."),
    field("role", Text, "master, arbiter, worker, or nothing: fills what is missing, in this order."),
    field("bmc", Object(BMC), "The server's BMC. Required."),
    field("bootMACAddress", Text, "MAC of the NIC it boots from, or is known by. Required."),
    field("hardwareProfile", Text, "default, unknown, libvirt, dell, dell-raid, openstack or empty: gives hints where there are none. Default: default (/dev/sda)."),
    field("rootDeviceHints", Object(HINTS), "Which disk the OS goes to; all hints together."),
    field("bootMode", Text, "UEFI, UEFISecureBoot or legacy. Default: UEFI."),
    field("networkConfig", Any, "Host networking in nmstate form."),
    field("bgpPeers", Any, "Not supported: VIPs move by VRRP."),
];

#[rustfmt::skip]
const BMC: &[Field] = &[
    field("address", Text, "scheme://host[:port][/path], such as redfish-virtualmedia://192.0.2.10/redfish/v1/Systems/1. Required."),
    field("username", Text, "User at the BMC. Required."),
    field("password", Secret, "Password at the BMC. Required."),
    field("disableCertificateVerification", Boolean, "Accept a self-signed certificate. Default: false."),
];

#[rustfmt::skip]
const HINTS: &[Field] = &[
    field("deviceName", Text, "/dev/<name> or /dev/disk/by-path/<x>, exactly."),
    field("hctl", Text, "SCSI address, exactly, such as 0:0:0:0."),
    field("model", Text, "Part of the model."),
    field("vendor", Text, "Part of the vendor."),
    field("serialNumber", Text, "Serial number, exactly."),
    field("minSizeGigabytes", Integer, "Smallest size."),
    field("wwn", Text, "World wide name, exactly."),
    field("wwnWithExtension", Text, "World wide name with the vendor's part, exactly."),
    field("wwnVendorExtension", Text, "The vendor's part of the world wide name, exactly."),
    field("rotational", Boolean, "true for spinning disks."),
];

/// The field at a path such as `platform.baremetal.hosts.bmc`, or which word of it is not known.
pub fn find(path: &str) -> Result<Found, String> {
    let mut found = Found {
        about: "The file that describes a cluster.",
        shape: Object(ROOT),
    };
    for word in path.split('.').filter(|word| !word.is_empty()) {
        let word = word.split('[').next().unwrap_or(word);
        let fields = fields(found.shape);
        let Some(field) = fields.iter().find(|field| field.name == word) else {
            let near = crate::problem::did_you_mean(word, fields.iter().map(|field| field.name));
            let hint = near.map_or_else(
                || {
                    let names: Vec<_> = fields.iter().map(|field| field.name).collect();
                    format!("there are {}", names.join(", "))
                },
                |near| format!("did you mean {near:?}?"),
            );
            return Err(format!("there is no field {word:?} in {path}; {hint}"));
        };
        found = Found {
            about: field.about,
            shape: field.shape,
        };
    }
    Ok(found)
}

#[derive(Debug, Clone, Copy)]
pub struct Found {
    pub about: &'static str,
    pub shape: Shape,
}

impl Found {
    /// What `plinth explain` prints.
    pub fn render(&self, path: &str) -> String {
        let name = if path.is_empty() {
            "install-config.yaml"
        } else {
            path
        };
        let mut text = format!("{name} <{}>\n  {}\n", kind(self.shape), self.about);
        let fields = fields(self.shape);
        if !fields.is_empty() {
            text.push_str("\nFields:\n");
            let width = fields
                .iter()
                .map(|field| field.name.len())
                .max()
                .unwrap_or(0);
            for field in fields {
                let kind = format!("<{}>", kind(field.shape));
                _ = writeln!(text, "  {:width$}  {kind:10}  {}", field.name, field.about);
            }
        }
        text
    }
}

fn fields(shape: Shape) -> &'static [Field] {
    match shape {
        Object(fields) | Short(fields) => fields,
        List(item) => fields(*item),
        Text | Secret | Integer | Boolean | Any => &[],
    }
}

fn kind(shape: Shape) -> String {
    match shape {
        Text => "text".into(),
        Secret => "secret".into(),
        Integer => "integer".into(),
        Boolean => "boolean".into(),
        Any => "any".into(),
        List(item) => format!("[]{}", kind(*item)),
        Object(_) | Short(_) => "object".into(),
    }
}
